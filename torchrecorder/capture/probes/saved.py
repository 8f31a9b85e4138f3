"""SavedTensors: the bytes that each grad node saves for backward.

Right after a node is found, its saved tensors are read through its ``_raw_saved_*`` attributes.
``saved_tensors_hooks`` would report the same, but with them PyTorch skips its check for tensors
modified in place, which would change the run. Tensors that hooks of the user packed (checkpointing,
offloading) are not saved by the node and not counted. A storage counts once, in full, at the first
node that saves it; the memory of parameters does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor, UntypedStorage
from torch.nn import Parameter

from torchrecorder.capture.autograd.node_facts import behind
from torchrecorder.capture.autograd.walk import AutogradWalk
from torchrecorder.capture.internals.access import (
    USUAL_TYPES,
    DisableTorchFunction,
    FakeTensor,
    peek_transformations,
    pytree,
    saved_attributes,
    saved_tensor_hooks,
    without_dispatch_modes,
)
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.describe import node_behind, tensors_in
from torchrecorder.events import BYTES_SAVED, GradId, Measured, OpId, Role, ScopeKind
from torchrecorder.graph.nodes import Scope

_NARROW = {
    torch.float64: torch.float16,
    torch.int64: torch.int8,
    torch.complex128: torch.complex64,
}
"""Dtypes of wrapped numbers, with the narrower dtypes of the same category."""


class SavedTensors:
    """Adds up the bytes that new grad nodes save."""

    def __init__(self, tape: Tape, autograd: AutogradWalk) -> None:
        self.tape = tape
        self.autograd = autograd
        self.values = autograd.values
        self._attributes: dict[type, tuple[str, ...]] = {}
        self._kept: dict[int, Any] = {}  # weak: addresses stay unused
        self._named = 0

    def node_recorded(self, grad: GradId, node: Any) -> None:
        """Count the memory that a new node saves and no other node saved before."""
        try:
            amount = 0
            for item in self._saved(node):
                amount += self._bytes(item)
        except Exception as error:
            self.tape.lose("saved", error)
            return
        if amount:
            self.tape.write(Measured(BYTES_SAVED, grad, amount))
        elif type(node).__name__ == IN_SLICES:
            ((before, _), *_) = node.next_functions
            self.tape.at_return = partial(self._returned, grad, before is not None)

    def _returned(self, grad: GradId, needed: bool, op: OpId, *call: Any) -> None:
        """A *call* returned that wrote a view, after which *grad* is a node that cannot be read;
        *needed* if what it wrote required grad before."""
        tape = self.tape
        with tape.losing("saved"):
            tape.at_return = None
            if self.autograd.owners.get(grad) == op:
                tape.pause()
                self._count_in_view(grad, needed, call)
                tape.resume()

    def _note_uncounted(self, func: Any) -> None:
        note = f"bytes that {getattr(func, '__name__', func)} saves for backward are not counted"
        if note not in self.tape.notes:
            self.tape.notes.append(note)

    def _count_in_view(self, grad: GradId, needed: bool, call: Any) -> None:
        def needed_gradient(tensor: Tensor) -> bool:
            return needed if self._leads_to(tensor, grad) else tensor.requires_grad

        found = saved_in_view(call, needed_gradient, self._saved)
        if found is None:
            self._note_uncounted(call[0])
            return
        amount = found.created + sum(map(self._bytes, found.given))
        if amount:
            self.tape.write(Measured(BYTES_SAVED, grad, amount))

    def _leads_to(self, tensor: Tensor, grad: GradId) -> bool:
        """Whether the node of *tensor*, or one that it leads to, is *grad*."""
        node = node_behind(tensor)
        nodes = () if node is None else (node, *(parent for parent, _ in node.next_functions))
        return any(item is not None and self.autograd.known_as(item) == grad for item in nodes)

    def entered(self, event: Scope, frame: FrameType) -> None:
        """A checkpointed call saves its arguments instead of tensors from inside."""
        if event.kind is not ScopeKind.CHECKPOINT or not torch.is_grad_enabled():
            return
        found = frame.f_locals
        if found.get("use_reentrant") is not False:
            return  # those are saved by a custom function, which has a node
        tensors = [item for item in found.get("args", ()) if isinstance(item, Tensor)]
        amount = sum(self._bytes(tensor) for tensor in tensors)
        if amount:
            self.tape.write(Measured(BYTES_SAVED, event.id, amount))

    def _saved(self, node: Any) -> list[Tensor]:
        """The saved tensors of *node*."""
        names = self._attributes.get(type(node))
        if names is None:
            names = saved_attributes(node)
            self._attributes[type(node)] = names
        found: list[Tensor] = []
        for name in names:
            saved = getattr(node, name)
            for entry in saved if isinstance(saved, (tuple, list)) else (saved,):
                if entry is not None and entry.unpack_hook is None:
                    found.append(entry.data)
        return [item for item in found if isinstance(item, Tensor) and not _is_number(item)]

    def _bytes(self, tensor: Tensor) -> int:
        """The memory behind *tensor*, if it has not been counted."""
        if tensor.layout is torch.sparse_coo:
            return self._bytes(tensor._indices()) + self._bytes(tensor._values())
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # a wrapper without memory of its own
            return 0
        if len(self.values.named) != self._named:
            self._learn_parameters()
        counted = self._keep(storage)
        if counted or _is_parameter(tensor) or _is_parameter(tensor._base):
            return 0
        return storage.nbytes()

    def _keep(self, storage: UntypedStorage) -> bool:
        """Mark *storage* as counted; returns whether it was already."""
        address = storage._cdata
        if address in self._kept:
            return True
        self._kept[address] = storage._weak_ref()
        return False

    def _learn_parameters(self) -> None:
        """Mark the memory of the model's parameters as counted."""
        named = self.values.named
        self._named = len(named)
        for reference, role, _ in list(named.values()):
            tensor = reference()
            if role is Role.PARAMETER and tensor is not None:
                try:
                    storage = tensor.untyped_storage()
                except (NotImplementedError, RuntimeError, ValueError):  # ValueError: it is lazy
                    continue
                self._keep(storage)

    def __del__(self) -> None:
        for reference in self._kept.values():
            UntypedStorage._free_weak_ref(reference)


def _is_parameter(tensor: Tensor | None) -> bool:
    """Whether *tensor* is a parameter, with a shortcut for plain tensors."""
    return tensor is not None and type(tensor) is not Tensor and isinstance(tensor, Parameter)


def _is_number(tensor: Tensor) -> bool:
    """Whether *tensor* is a wrapped Python number, as type promotion shows."""
    narrow = _NARROW.get(tensor.dtype)
    if narrow is None or tensor.dim():
        return False
    with without_dispatch_modes():
        return torch.result_type(tensor, torch.zeros((), dtype=narrow)) == narrow


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

    Autograd puts the node of such an operation inside a ``CopySlices`` node, where Python cannot
    reach it. So the function is called once more, on small tensors: their node shows which of them
    it saves.

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
    """The small tensors of the CPU that stand for the arguments of a call.

    Sizes above 2 become 2, so that equal sizes stay equal, and the size of what the function itself
    creates, such as a mask, follows from them.
    """

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
        found = [small.grad_fn for _, small in self.made.values()]
        return behind([node for node in found if node is not None])

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
