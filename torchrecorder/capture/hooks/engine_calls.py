"""Engine calls: what the autograd engine called when an exception was raised."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from types import CodeType, FrameType
from typing import Any, NamedTuple

from torch import Tensor
from torch.autograd.function import BackwardCFunction

from torchrecorder.capture.internals.engine import ENGINE_CODE
from torchrecorder.capture.tensors.describe import shape_of

_CUSTOM_BACKWARD = getattr(BackwardCFunction.apply, "__code__", None)


class EngineCall(NamedTuple):
    """A function in Python that the engine called: a hook, or the backward of a custom function.

    Attributes:
        code: That of the function.
        tuples: How many tuples it was given: two are the gradients before and after a node.
        shapes: The sizes of the gradients that it was given.
    """

    code: CodeType
    tuples: int
    shapes: frozenset[tuple[int, ...]]

    @property
    def is_in_node(self) -> bool:
        """Whether a node was running, or had run: it is no hook of a gradient before it."""
        return self.code is _CUSTOM_BACKWARD or self.tuples > 1

    def is_among(self, hooks: Mapping[int, Any] | None) -> bool:
        """Whether this may be a call of one of *hooks*."""
        return any(_code_of(hook) in (None, self.code) for hook in (hooks or {}).values())


def failed_call(error: BaseException) -> EngineCall | None:
    """The function that the engine called, and that raised *error*; None if it raised itself."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code is not ENGINE_CODE:
        traceback = traceback.tb_next
    if traceback is None or traceback.tb_next is None:
        return None
    return _call_in(traceback.tb_next.tb_frame)


def _call_in(frame: FrameType) -> EngineCall:
    names, rest, _, held = inspect.getargvalues(frame)
    given = [held.get(name) for name in names] + [*held.get(rest or "", ())]
    tuples = [item for item in given if isinstance(item, tuple)]
    gradients = [item for item in (*given[:2], *sum(tuples, ())) if isinstance(item, Tensor)]
    return EngineCall(frame.f_code, len(tuples), frozenset(map(shape_of, gradients)))


def _code_of(hook: Any) -> CodeType | None:
    """The code of a function, method, partial function or object that is called."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    code = getattr(getattr(hook, "__func__", hook), "__code__", None)
    return code or getattr(getattr(type(hook), "__call__", None), "__code__", None)
