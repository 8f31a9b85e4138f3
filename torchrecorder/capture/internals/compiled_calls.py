"""Internals of calls of compiled functions: told when one begins, and when it is over.

The function that stands for a compiled one asks for the callback of the compiler when it begins,
sets it, and sets back the one from before when it is over, also if it raises. Both are asked for
by their names in one module of PyTorch's, where others stand in for them for a while.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from torch.optim import optimizer

from torchrecorder.capture.internals.access import compiled_codes, get_frame
from torchrecorder.capture.internals.table import COMPILED_CALLS
from torchrecorder.capture.internals.trials import find

_DECIDES, _SETS = "_callback_from_stance", "_maybe_set_eval_frame"


@contextlib.contextmanager
def compiled_calls_watched(
    begins: Callable[[FrameType], bool], ended: Callable[[FrameType], None]
) -> Iterator[None]:
    """Inside the block, calls of compiled functions are told of, in all threads.

    Args:
        begins: Given the frame of the call; says whether it runs as compiled, whatever the stance.
        ended: Given the frame of such a call that is over.
    """
    codes = [code for code in compiled_codes() if {_DECIDES, _SETS} <= {*code.co_names}]
    if not COMPILED_CALLS.present or not codes:
        yield
        return
    home: Any = find("torch._dynamo.eval_frame")
    plain = getattr(home, _DECIDES), getattr(home, _SETS)
    ours = _stand_ins(*plain, {id(code) for code in codes}, begins, ended)
    _replace(home, plain, ours)
    try:
        yield
    finally:
        _replace(home, ours, plain)


def _stand_ins(
    decide: Any, set_to: Any, codes: set[int], begins: Any, ended: Any
) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """What stands in for the two functions of PyTorch's."""
    running: dict[int, bool] = {}  # frames of calls that run as compiled; whether they have begun

    def decided(callback: Any) -> Any:
        frame = get_frame(1)
        if id(frame.f_code) in codes and callback not in (None, False) and begins(frame):
            running[id(frame)] = False
            return callback
        return decide(callback)

    def set_back(callback: Any) -> Any:
        frame = get_frame(1)
        if running.get(id(frame)) is not True:
            if id(frame) in running:
                running[id(frame)] = True
            return set_to(callback)  # nothing of Python's may run after it: it would be compiled
        del running[id(frame)]
        before = set_to(callback)
        if callback in (None, False):
            ended(frame)
        return before

    return decided, set_back


def _replace(home: Any, before: tuple[Any, Any], after: tuple[Any, Any]) -> None:
    """Put *after* where *before* is; what others have put there stays."""
    for name, one, other in zip((_DECIDES, _SETS), before, after):
        if getattr(home, name) is one:
            setattr(home, name, other)


def optimizer_hooks() -> list[Any]:
    """The hooks that run around the steps of all optimizers: compiled steps depend on them."""
    found = (getattr(optimizer, f"_global_optimizer_{when}_hooks", {}) for when in ("pre", "post"))
    return [hook for hooks in found for hook in hooks.values()]
