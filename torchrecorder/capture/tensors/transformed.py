"""What is inside the tensors of a transformation: `vmap`, `grad` and others of ``torch.func``, and
the older batches of ``torch.autograd.grad(is_grads_batched=True)``.

Such a tensor is a wrapper that nobody can use when the transformation is over. The one inside has
one dimension more for each `vmap`, at any place; here these come first, outermost first, as they do
in the result of `vmap`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from torch import Tensor

from torchrecorder.capture.internals.access import (
    batch_dimension,
    is_old_batch,
    is_wrapped,
    outside_transformations,
    unwrapped,
    without_old_batch,
)
from torchrecorder.capture.tensors.describe import innermost

InsideT = TypeVar("InsideT")

_MAX_LEVELS = 64
"""The maximum number of nested batches in PyTorch."""


def is_transformed(tensor: Tensor) -> bool:
    """Whether *tensor* is a wrapper of a transformation."""
    return is_wrapped(tensor) or is_old_batch(tensor)


def on_inside(work: Callable[[Tensor], InsideT], tensor: Tensor) -> InsideT:
    """What *work* gives for *tensor*, or for the plain one inside of it."""
    if not is_transformed(tensor):
        return work(tensor)
    with outside_transformations():
        if is_old_batch(tensor):
            return work(_inside_old_batch(tensor))
        order = order_inside(tensor)
        tensor = innermost(tensor)
        return work(tensor if order is None else tensor.permute(order))


def order_inside(tensor: Tensor) -> tuple[int, ...] | None:
    """The dimensions of the tensor inside *tensor*, hidden ones first; None if none is hidden."""
    hidden = list[int]()
    while is_wrapped(tensor):
        place = batch_dimension(tensor)
        if place >= 0:
            hidden.append(place)
        tensor = unwrapped(tensor)
    if not hidden:
        return None
    left, first = list(range(tensor.dim())), list[int]()
    while hidden:
        first.append(left.pop(hidden.pop()))
    return (*first, *left)


def _inside_old_batch(tensor: Tensor) -> Tensor:
    """The tensor inside an older batch, which has a dimension for each of its levels.

    PyTorch does not tell the levels; without one of them, it only adds a dimension of the size that
    is asked for.
    """
    found = 0
    for level in range(1, _MAX_LEVELS):
        without, other = (without_old_batch(tensor, level, size, 0) for size in (1, 2))
        if not is_old_batch(without):
            return without.permute(*range(found, -1, -1), *range(found + 1, without.dim()))
        if without.shape == other.shape:
            tensor, found = without, found + 1
    raise RuntimeError("the levels of a batch of gradients are unknown")
