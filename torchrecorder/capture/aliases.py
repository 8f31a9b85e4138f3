"""Leaf dummies: a fresh alias where a module hands on one of its own inputs.

``x + identity(x)`` adds one tensor to itself: by identity alone the two operands cannot
be told apart. There the module's result is replaced by an alias of the same memory, with
the same bits and the same gradient. What leaves the outermost module is the user's own
tensor again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchrecorder.capture.values import Values


def hand_on(values: Values, output: Any, passed: set[int]) -> Any | None:
    """*output* with fresh aliases for the inputs that the module left untouched.

    Args:
        values: Where aliases are entered.
        output: What the module returned.
        passed: Identities of those inputs.

    Returns:
        What to return instead; None to leave it as it is.
    """
    return _exchange(
        output, lambda each: _alias(values, each) if id(each) in passed else None
    )


def take_back(values: Values, output: Any) -> Any | None:
    """*output* with the user's own tensors in place of aliases of ours; None if it has none."""
    return _exchange(output, values.original)


def _exchange(output: Any, other: Callable[[Tensor], Tensor | None]) -> Any | None:
    """A tensor, or a tuple of some, with those exchanged for which there is another."""
    if isinstance(output, Tensor):
        return other(output)
    if not isinstance(output, tuple):
        return None
    exchanged = [other(each) if isinstance(each, Tensor) else None for each in output]
    if all(each is None for each in exchanged):
        return None
    parts = [old if new is None else new for old, new in zip(output, exchanged)]
    if type(output) is tuple:
        return tuple(parts)
    return output._make(parts) if hasattr(output, "_make") else None


def _alias(values: Values, tensor: Tensor) -> Tensor | None:
    """A second tensor with the same memory, version counter and gradient."""
    if type(tensor) is not Tensor:
        return None
    if tensor.requires_grad and torch.is_inference_mode_enabled():
        return None  # a view made there could not require grad
    with torch.enable_grad():
        alias = tensor.view_as(tensor)
    values.pass_on(tensor, alias)
    return alias
