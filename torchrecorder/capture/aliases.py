"""Leaf dummies: a fresh alias where a module hands on one of its own inputs.

``x + identity(x)`` adds one tensor to itself: by identity alone the two operands cannot
be told apart. There the module's result is replaced by an alias of the same memory, with
the same bits and the same gradient. What leaves the outermost module is the user's own
tensor again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchrecorder.capture.values import Values


def hand_on(
    values: Values, output: Any, passed: dict[int, Tensor], *, outermost: bool
) -> Any | None:
    """What to return instead of *output*; None to leave it as it is.

    Args:
        values: Where aliases are entered.
        output: What the module returned.
        passed: By identity, the inputs that the module left untouched.
        outermost: The result goes to the user: aliases of ours are taken back.
    """
    if isinstance(output, Tensor):
        return _exchange(values, output, passed, outermost)
    if not isinstance(output, tuple):
        return None
    exchanged = [
        _exchange(values, each, passed, outermost) if isinstance(each, Tensor) else None
        for each in output
    ]
    if all(each is None for each in exchanged):
        return None
    parts = [old if new is None else new for old, new in zip(output, exchanged)]
    if type(output) is tuple:
        return tuple(parts)
    return output._make(parts) if hasattr(output, "_make") else None


def _exchange(
    values: Values, tensor: Tensor, passed: dict[int, Tensor], outermost: bool
) -> Tensor | None:
    if outermost:
        return values.original(tensor)
    if id(tensor) not in passed or type(tensor) is not Tensor:
        return None
    return _alias(values, tensor)


def _alias(values: Values, tensor: Tensor) -> Tensor | None:
    """A second tensor with the same memory, version counter and gradient."""
    if tensor.requires_grad and torch.is_inference_mode_enabled():
        return None  # a view made there could not require grad
    with torch.enable_grad():
        alias = tensor.view_as(tensor)
    values.pass_on(tensor, alias)
    return alias
