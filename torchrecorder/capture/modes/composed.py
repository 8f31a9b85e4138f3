"""Composed: functions that PyTorch implements in Python, such as ``multi_head_attention_forward``.

Such a function first checks whether a function mode is active, and then passes the whole call to
the mode. Here its body runs without this check, so that the mode is called for each torch function
in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FrameType, FunctionType
from typing import Any

from torchrecorder.capture.internals.access import (
    TorchFunctionMode, composed_functions, count_function_modes, leave_function_mode,
    peek_transformations, push_function_mode,
)
from torchrecorder.capture.modes.call_site import Caller
from torchrecorder.capture.tensors.tensor_table import TensorTable

COMPOSED = composed_functions()
"""The composed functions, each with the code of the ``forward`` that calls it."""

_COMPARED = 3
"""The number of arguments that a body compares by ``is``: query, key and value."""


def body_of(
    func: Any, frame: FrameType, args: Sequence[Any], values: TensorTable
) -> Callable[..., Any] | None:
    """The body of the composed function *func*; None if its call is one op.

    It is one op if its module does not call it, and if running the body could change the run: under
    other modes, in ``torch.func`` transformations, and if the arguments have several aliases of one
    tensor.
    """
    caller = frame.f_back.f_back if frame.f_back is not None else None
    inside = caller is not None and caller.f_code is COMPOSED[func]
    others = count_function_modes() > 0 or peek_transformations() is not None
    if not inside or others:
        return None
    return _without_mode_check(func) if _have_one_alias(args[:_COMPARED], values) else None


def run_body(
    mode: TorchFunctionMode, body: Callable[..., Any], caller: Caller, args: Any, kwargs: Any
) -> Any:
    """Let *caller* run *body* with *mode* active."""
    push_function_mode(mode)
    try:
        return caller(body, args, kwargs)
    finally:
        leave_function_mode(mode)


def _without_mode_check(func: Any) -> Callable[..., Any]:
    """A copy of *func* in which ``has_torch_function`` returns False."""
    names = {**func.__globals__, "has_torch_function": lambda tensors: False}
    made = FunctionType(func.__code__, names, func.__name__, func.__defaults__, func.__closure__)
    made.__kwdefaults__ = func.__kwdefaults__
    return made


def _have_one_alias(tensors: Sequence[Any], values: TensorTable) -> bool:
    """Whether *tensors* contain no two aliases of one tensor."""
    own = {id(values.source(tensor)) for tensor in tensors}
    return len(own) == len(set(map(id, tensors)))
