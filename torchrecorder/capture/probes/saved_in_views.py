"""SavedInViews: what in-place operations on views save for backward.

Autograd puts the node of such an operation inside a ``CopySlices`` node, where Python cannot reach
it. So the function is called once more, on small tensors of the CPU in place of those that it was
given: their node shows which of them it saves. Sizes above 2 become 2, so that equal sizes stay
equal, and the size of what the function itself creates, such as a mask, follows from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchrecorder.capture.internals.access import (
    USUAL_TYPES,
    DisableTorchFunction,
    FakeTensor,
    peek_transformations,
    pytree,
    saved_tensor_hooks,
    without_dispatch_modes,
)
from torchrecorder.capture.tensors.describe import tensors_in

IN_SLICES = "CopySlices"
"""The class of the nodes around those of in-place operations on views."""


class Saves(NamedTuple):
    """What a call saved: some of the tensors that it was *given*, and bytes that it *created*."""

    given: list[Tensor]
    created: int


def saved_in_view(
    call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]],
    needed_gradient: Callable[[Tensor], bool],
    saved: Callable[[Any], list[Tensor]],
) -> Saves | None:
    """What a *call* (function, args, kwargs) saved that wrote a view; None if it takes no small
    tensors.

    Args:
        needed_gradient: Whether an argument required grad before the call.
        saved: The tensors that a node saves.
    """
    if saved_tensor_hooks() is not None or peek_transformations() is not None:
        return Saves([], 0)  # packed by the user, or the nodes of a transformation
    func, args, kwargs = call
    given = [type(tensor) for _, tensor in tensors_in((args, kwargs))]
    if not all(kind in USUAL_TYPES or issubclass(kind, FakeTensor) for kind in given):
        return None  # only a subclass knows its memory
    if func is Tensor.__setitem__ and not tensors_in(args[1]):
        return Saves([], 0)  # it copies, which needs nothing, and the numbers may not fit
    small = _SmallTensors(needed_gradient)
    with DisableTorchFunction(), without_dispatch_modes(), torch.random.fork_rng(devices=[]):
        try:
            args, kwargs = pytree.tree_map(small.instead_of, (args, kwargs))
            func(*args, **kwargs)
        except Exception:
            return None
        return small.sort([tensor for node in small.nodes() for tensor in saved(node)])


class _SmallTensors:
    """The small tensors that stand for the arguments of a call."""

    def __init__(self, needed_gradient: Callable[[Tensor], bool]) -> None:
        self.needed_gradient = needed_gradient
        self.made: dict[int, tuple[Tensor, Tensor]] = {}  # by id: an argument, the small one

    def instead_of(self, value: Any) -> Any:
        """The small tensor for an argument; *value* itself if it is no tensor."""
        if not isinstance(value, Tensor):
            return value
        if id(value) not in self.made:
            small = torch.zeros([min(size, 2) for size in value.shape], dtype=value.dtype)
            if self.needed_gradient(value):
                small = small.requires_grad_().clone()  # a leaf could not be written
            self.made[id(value)] = value, small
        return self.made[id(value)][1]

    def nodes(self) -> Iterator[Any]:
        """The nodes behind the small tensors."""
        waiting = [small.grad_fn for _, small in self.made.values()]
        found: set[Any] = set()
        while waiting:
            node = waiting.pop()
            if node is not None and node not in found:
                found.add(node)
                waiting += [parent for parent, _ in node.next_functions]
                yield node

    def sort(self, saved: list[Tensor]) -> Saves:
        """The arguments of which *saved* are the memory, and the bytes of all others."""
        memory = {small.untyped_storage()._cdata: real for real, small in self.made.values()}
        found = [(memory.get(tensor.untyped_storage()._cdata), tensor) for tensor in saved]
        created = sum(self._bytes(tensor) for real, tensor in found if real is None)
        return Saves([real for real, _ in found if real is not None], created)

    def _bytes(self, created: Tensor) -> int:
        """The bytes that a tensor created from small ones would have in full size."""
        written, small = next(iter(self.made.values()))
        sizes = list(created.shape)
        for place in range(1, min(len(sizes), small.dim()) + 1):
            if sizes[-place] == small.shape[-place]:
                sizes[-place] = written.shape[-place]
        return prod(sizes) * created.element_size()
