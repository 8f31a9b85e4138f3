"""Callbacks for the beginning and end of calls of compiled functions.

The wrapper of a compiled function gets and sets the callback of the compiler when it begins, and
restores the previous one when it ends or raises. The two functions of PyTorch that it calls for
this are patched here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from torch.nn import Module
from torch.optim import optimizer

from torchrecorder.capture.internals.access import compiled_call, compiled_codes, get_frame
from torchrecorder.capture.internals.table import COMPILED_CALLS
from torchrecorder.capture.internals.trials import find
from torchrecorder.capture.state.shared_patch import replaced

_GET, _SET = "_callback_from_stance", "_maybe_set_eval_frame"


@contextlib.contextmanager
def compiled_calls_watched(
    begins: Callable[[FrameType], bool], ended: Callable[[FrameType], None]
) -> Iterator[None]:
    """A context in which calls of compiled functions, in any thread, are passed to callbacks.

    Args:
        begins: Called with the frame of a call; returns whether it runs compiled, in any stance.
        ended: Called with the frame of such a call when it is over.
    """
    codes = [code for code in compiled_codes() if {_GET, _SET} <= {*code.co_names}]
    if not COMPILED_CALLS.present or not codes:
        yield
        return
    home: Any = find("torch._dynamo.eval_frame")
    plain = getattr(home, _GET), getattr(home, _SET)
    get, put = _replacements(*plain, {id(code) for code in codes}, begins, ended)
    with replaced(home, _GET, get), replaced(home, _SET, put):
        yield


def _replacements(
    get_callback: Any, set_callback: Any, codes: set[int], begins: Any, ended: Any
) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """The replacements of the two functions."""
    running: dict[int, bool] = {}  # by frame of a call that runs compiled: whether it has begun

    def callback_from_stance(callback: Any) -> Any:
        frame = get_frame(1)
        if id(frame.f_code) in codes and callback not in (None, False) and begins(frame):
            running[id(frame)] = False
            return callback
        return get_callback(callback)

    def set_eval_frame(callback: Any) -> Any:
        frame = get_frame(1)
        if running.get(id(frame)) is not True:
            if id(frame) in running:
                running[id(frame)] = True
            return set_callback(callback)  # Python code after this would be compiled
        del running[id(frame)]
        before = set_callback(callback)
        if callback in (None, False):
            ended(frame)
        return before

    return callback_from_stance, set_eval_frame


def optimizer_hooks() -> list[Any]:
    """The global hooks of optimizer steps, which are guards of compiled steps."""
    found = (getattr(optimizer, f"_global_optimizer_{when}_hooks", {}) for when in ("pre", "post"))
    return [hook for hooks in found for hook in hooks.values()]


class RanEagerly:
    """Collects the names of compiled functions and modules that run eagerly, by backend."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, None]] = {}

    def add(self, frame: FrameType) -> None:
        """Add the compiled function that *frame* calls, in which an op runs."""
        function, backend = compiled_call(frame)
        if backend != "eager":  # whose results are the same
            self._names.setdefault(backend, {})[_name_of(function)] = None

    def notes(self) -> list[str]:
        """A note for each backend."""
        return [
            f"{', '.join(names)} ran eagerly while it was recorded, and not as compiled by "
            f"{backend or 'its backend'}: numbers may differ in their last bits"
            for backend, names in self._names.items()
        ]


def _name_of(function: Any) -> str:
    owner = getattr(function, "__self__", function)
    if isinstance(owner, Module):
        return type(owner).__name__
    return str(getattr(function, "__name__", type(function).__name__))
