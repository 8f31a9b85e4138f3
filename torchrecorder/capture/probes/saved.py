"""SavedTensors: the bytes that each autograd node saves for backward.

When a node is found, its saved tensors are read through its ``_raw_saved_*`` attributes.
``saved_tensors_hooks`` would report the same, but under them PyTorch does not check whether saved
tensors were modified in place, which would change the run. If hooks of the user pack a saved
tensor, what they return counts; see `kept_by_others`. A storage counts once, in full, at the first
node that saves it; the memory of parameters and buffers does not count.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor, UntypedStorage
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import Parameter

from torchrecorder.capture.autograd.node_facts import name_of, op_name
from torchrecorder.capture.autograd.walk import AutogradWalk
from torchrecorder.capture.internals.access import (
    PLAIN_TENSOR_TYPES, DisableTorchFunction, FakeTensor, TorchDispatchMode, peek_transformations,
    pytree, saved_attributes, saved_tensor_hooks, without_dispatch_modes,
)
from torchrecorder.capture.probes.kept_by_others import (
    attributes_of, hooks_pack, kept_by_context, packed_tensors,
)
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.describe import grad_fn_of, tensors_in
from torchrecorder.events import BYTES_SAVED, STORED, GradId, Measured, OpId, ScopeId, ScopeKind
from torchrecorder.graph.nodes import Scope

_NARROW = {
    torch.float64: torch.float16,
    torch.int64: torch.int8,
    torch.complex128: torch.complex64,
}
"""The dtypes of wrapped numbers, each with a narrower dtype of its category."""


class SavedTensors:
    """Counts the bytes that new autograd nodes save."""

    def __init__(self, tape: Tape, autograd: AutogradWalk) -> None:
        self.tape = tape
        self.autograd = autograd
        self.values = autograd.values
        self._attributes: dict[type, tuple[str, ...]] = {}
        self._kept: dict[int, Any] = {}  # weak references, so that addresses are not reused
        self._named = 0
        self._unreadable: list[Unreadable] = []
        self._unfinished: list[tuple[GradId, weakref.ref[Any]]] = []  # of custom functions

    def node_recorded(self, grad: GradId, node: Any) -> None:
        """Count the memory that the new *node* saves, and that no other node has saved."""
        try:
            if self._unfinished:
                self._count_finished()
            self._count(grad, node)
        except Exception as error:
            self.tape.record_error("saved", error)

    def _count(self, grad: GradId, node: Any) -> None:
        found = self._saved(node)
        self._add(grad, found)
        if any(_is_unsized(item) for item in found):
            self._note_unsized(op_name(name_of(node)))
        if isinstance(node, BackwardCFunction):
            self._add(grad, attributes_of(node))
            self._unfinished.append((grad, weakref.ref(node)))
        elif type(node).__name__ not in UNREADABLE or node.name() == IDENTITY:
            return
        elif saved_tensor_hooks() is not None:
            if hooks_pack():
                self._note_uncounted(name_of(node))
        else:
            self._unreadable.append(Unreadable(grad, name_of(node), _wrote_tracked(node)))
            self.tape.at_return = self._returned

    def _add(self, grad: GradId, saved: list[Tensor], more: int = 0) -> None:
        amount = sum(map(self._bytes, saved)) + more
        if amount:
            self.tape.write(Measured(BYTES_SAVED, grad, amount))

    def _count_finished(self) -> None:
        """Read the nodes of custom functions again: they save their tensors last, and may be found
        earlier if a mode of the user calls operators from Python."""
        waiting, self._unfinished = self._unfinished, []
        for grad, reference in waiting:
            node = reference()
            if node is not None:
                with contextlib.suppress(RuntimeError):  # a backward pass has freed them
                    self._add(grad, [*self._saved(node), *attributes_of(node)])

    def _returned(self, op: OpId, result: Any, *call: Any) -> None:
        """Count the nodes of the *call* that returned and that do not expose what they save."""
        tape = self.tape
        tape.at_return = None
        with tape.survives_errors("saved"):
            tape.pause()
            waiting, self._unreadable = self._unreadable, []
            made = [item for item in waiting if self.autograd.owners.get(item.grad) == op]
            for item in waiting:
                if item not in made or not item.by_known_call:
                    self._note_uncounted(item.name)
            if made and made[-1].by_known_call:
                func, *given = call
                if isinstance(func, functools.partial):  # `run_on_originals`; none is called again
                    func = func.args[-1]
                self._count_again(made[-1], (func, *given), result)
            tape.resume()

    def finish(self) -> None:
        """At the end of the run, add notes about the nodes that were not counted."""
        self._count_finished()
        for item in self._unreadable:
            self._note_uncounted(item.name)

    def _note_unsized(self, name: str) -> None:
        self._note(f"the workspace that {name} saves for backward has no size with fake tensors")

    def _note_uncounted(self, what: str) -> None:
        self._note(f"bytes that {what} saves for backward are not counted")

    def _note_elsewhere(self, what: str) -> None:
        self._note(f"bytes that {what} for backward are not counted")

    def _note(self, note: str) -> None:
        if note not in self.tape.notes:
            self.tape.notes.append(note)

    def _count_again(self, node: Unreadable, call: Any, result: Any) -> None:
        def needed_gradient(tensor: Tensor) -> bool:
            return node.needed if self._leads_to(tensor, node.grad) else tensor.requires_grad

        found = saved_in_call(call, result, needed_gradient)
        if found is None:
            self._note_uncounted(getattr(call[0], "__name__", str(call[0])))
        else:
            self._add(node.grad, found.given, found.created)

    def _leads_to(self, tensor: Tensor, grad: GradId) -> bool:
        """Whether ``grad_fn`` of *tensor*, or one of its next nodes, is *grad*."""
        node = grad_fn_of(tensor)
        nodes = () if node is None else (node, *(parent for parent, _ in node.next_functions))
        return any(item is not None and self.autograd.known_as(item) == grad for item in nodes)

    def entered(self, event: Scope, frame: FrameType) -> None:
        """Count the arguments that a checkpointed call saves instead of the tensors inside."""
        if event.kind is not ScopeKind.CHECKPOINT or not torch.is_grad_enabled():
            return
        found = frame.f_locals
        if found.get("use_reentrant") is not False:
            return  # the custom function has a node that saves them
        context = _variables(found).get("forward_context")
        if isinstance(context, TorchDispatchMode):
            self.tape.stack[-1].ends = functools.partial(self._left, event.id, context)
        amount = sum(map(self._bytes, self._inputs(found)))
        if amount:
            self.tape.write(Measured(BYTES_SAVED, event.id, amount))

    def _inputs(self, checkpoint: Mapping[str, Any]) -> list[Tensor]:
        """The arguments that a *checkpoint* with these local variables has saved.

        Without those that hooks of the user have packed; none inside another checkpoint, which
        recomputes them too.
        """
        own: Any = _variables(checkpoint).get("new_frame")
        arguments = checkpoint.get("args", ())
        if hasattr(own, "saved_args"):
            saved = [item for item in own.saved_args if hasattr(item, "unpack_hook")]
            return self._read(saved, [item for _, item in tensors_in(arguments)])
        if isinstance(getattr(own, "input_saver", None), Tensor):  # in older versions
            return self._saved(grad_fn_of(own.input_saver))
        around = [item.event.kind for item in self.tape.stack[:-1]]
        arguments = () if ScopeKind.CHECKPOINT in around else arguments
        return [item for item in arguments if isinstance(item, Tensor)]

    def _saved(self, node: Any) -> list[Tensor]:
        """The tensors that *node* has saved."""
        names = self._attributes.get(type(node))
        if names is None:
            names = saved_attributes(node)
            self._attributes[type(node)] = names
        found: list[Tensor] = []
        for name in names:
            saved = getattr(node, name)
            found += self._read(saved if isinstance(saved, (tuple, list)) else (saved,), node)
        return found

    def _read(self, saved: Sequence[Any], source: Any) -> list[Tensor]:
        """What was *saved* of *source*, a node or arguments, or what hooks of the user keep for it.
        """
        found = [entry.data for entry in saved if entry is not None and entry.unpack_hook is None]
        if len(found) < len(saved):
            found += packed_tensors(saved, source, self._note_elsewhere)
        return [item for item in found if isinstance(item, Tensor) and not _is_number(item)]

    def _left(self, checkpoint: ScopeId, context: TorchDispatchMode) -> None:
        """A *checkpoint* ended, in which this *context* may have kept results."""
        with self.tape.survives_errors("saved"):
            kept = kept_by_context(context, self._note_elsewhere)
            amount = sum(map(self._bytes, kept))
            if amount:
                self.tape.write(Measured(BYTES_SAVED, checkpoint, amount))

    def _bytes(self, tensor: Tensor) -> int:
        """The bytes of the storage of *tensor*; 0 if it was counted, or belongs to a parameter."""
        if tensor.layout is torch.sparse_coo:
            return self._bytes(tensor._indices()) + self._bytes(tensor._values())
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # a wrapper without memory of its own
            return 0
        if len(self.values.named) != self._named:
            self._learn_stored()
        counted = self._keep(storage)
        if counted or _is_parameter(tensor) or _is_parameter(tensor._base):
            return 0
        return storage.nbytes()

    def _keep(self, storage: UntypedStorage) -> bool:
        """Mark *storage* as counted; returns whether it was before."""
        address = storage._cdata
        if address in self._kept:
            return True
        self._kept[address] = storage._weak_ref()
        return False

    def _learn_stored(self) -> None:
        """Mark the storages of new parameters and buffers of the model as counted."""
        named = self.values.named
        new = len(named) - self._named
        self._named += new
        for reference, role, _ in list(itertools.islice(reversed(named.values()), new)):
            tensor = reference()
            if role in STORED and tensor is not None:
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


def _variables(checkpoint: Mapping[str, Any]) -> Mapping[str, Any]:
    """The local variables of the generator of a *checkpoint* with these own ones."""
    state = getattr(checkpoint.get("gen"), "gi_frame", None)
    return {} if state is None else state.f_locals


def _is_unsized(tensor: Tensor) -> bool:
    """Whether *tensor* is the fake tensor of a workspace, whose size only the kernel knows."""
    return isinstance(tensor, FakeTensor) and tensor.dtype is torch.uint8 and not tensor.numel()


def _is_number(tensor: Tensor) -> bool:
    """Whether *tensor* is a wrapped Python number, which type promotion shows."""
    narrow = _NARROW.get(tensor.dtype)
    if narrow is None or tensor.dim():
        return False
    with without_dispatch_modes():
        return torch.result_type(tensor, torch.zeros((), dtype=narrow)) == narrow


IN_SLICES = "CopySlices"
"""The class of nodes of in-place operations on views; the node of the operation is inside."""

UNREADABLE = frozenset((IN_SLICES, "CppFunction"))
"""The classes of nodes that do not expose what they save. ``CppFunction`` is the class of all nodes
without one of their own: of functions on tensor lists, scripts and C++ extensions."""


IDENTITY = "torch::autograd::Identity"
"""``name()`` of nodes of forward-mode differentiation, which save nothing."""


class Unreadable(NamedTuple):
    """A node that does not expose what it saves; *needed*: what it wrote required grad before."""

    grad: GradId
    name: str
    needed: bool

    @property
    def by_known_call(self) -> bool:
        """Whether a function of PyTorch created it, which may be called again."""
        return self.name == IN_SLICES or self.name.startswith("Foreach")


def _wrote_tracked(node: Any) -> bool:
    """Whether *node* is that of a write to a view whose base required grad before."""
    return type(node).__name__ == IN_SLICES and node.next_functions[0][0] is not None


class Saves(NamedTuple):
    """What a call saved for backward: arguments and results (*given*), and the bytes of other
    tensors, which it *created*."""

    given: list[Tensor]
    created: int


def saved_in_call(
    call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]],
    result: Any,
    needed_gradient: Callable[[Tensor], bool],
) -> Saves | None:
    """What a *call* (function, args, kwargs) with this *result* saved; None if that is unknown.

    Python cannot read the node of a function on tensor lists, nor that of an in-place operation on
    a view, which is inside a ``CopySlices`` node. So the function is called again, on small tensors
    and with ``saved_tensors_hooks``.

    Args:
        needed_gradient: Returns whether an argument required grad before the call.
    """
    if peek_transformations() is not None:
        return Saves([], 0)  # nodes of a transformation do not count
    func, args, kwargs = call
    given = [type(tensor) for _, tensor in tensors_in((args, kwargs))]
    if not all(kind in PLAIN_TENSOR_TYPES or issubclass(kind, FakeTensor) for kind in given):
        return None  # the memory of a subclass is unknown
    if func is Tensor.__setitem__ and not tensors_in(args[1]):
        return Saves([], 0)  # a copy saves nothing; its sizes may not fit
    small, saved = _SmallTensors(needed_gradient), list[Tensor]()
    hooks = saved_tensors_hooks(lambda tensor: saved.append(tensor), lambda packed: packed)
    with (
        DisableTorchFunction(), without_dispatch_modes(), torch.random.fork_rng(devices=[]),
        contextlib.ExitStack() as done,
    ):
        done.callback(saved.clear)  # else a reference cycle through the hooks
        try:
            args, kwargs = pytree.tree_map(small.instead_of, (args, kwargs))
            with hooks:
                returned = func(*args, **kwargs)
        except Exception:
            return None
        pairs = zip(tensors_in(result), tensors_in(returned))
        return small.sort(saved, [(real, each) for (_, real), (_, each) in pairs])


class _SmallTensors:
    """Small CPU tensors that replace the arguments of a call.

    Sizes above 2 become 2. So equal sizes stay equal, and the full sizes of tensors that the
    function creates, such as a mask, follow from them.
    """

    def __init__(self, needed_gradient: Callable[[Tensor], bool]) -> None:
        self.needed_gradient = needed_gradient
        self.made: dict[int, tuple[Tensor, Tensor]] = {}  # by id: argument, small tensor

    def instead_of(self, value: Any) -> Any:
        """The small tensor that replaces *value*; other objects are returned unchanged."""
        if not isinstance(value, Tensor):
            return value
        if id(value) not in self.made:
            small = torch.zeros([min(size, 2) for size in value.shape], dtype=value.dtype)
            if self.needed_gradient(value):
                small = small.requires_grad_().clone()  # a leaf cannot be written in place
            self.made[id(value)] = value, small
        return self.made[id(value)][1]

    def sort(self, saved: list[Tensor], results: list[tuple[Tensor, Tensor]]) -> Saves:
        """The arguments and *results* whose memory is *saved*, and the bytes of all other saved
        tensors."""
        pairs = [*results, *self.made.values()]
        memory = {small.untyped_storage()._cdata: real for real, small in pairs}
        found = [(memory.get(tensor.untyped_storage()._cdata), tensor) for tensor in saved]
        created = sum(self._bytes(tensor) for real, tensor in found if real is None)
        return Saves([real for real, _ in found if real is not None], created)

    def _bytes(self, created: Tensor) -> int:
        """The bytes of a created tensor with the full sizes of the arguments."""
        written, small = next(iter(self.made.values()))
        sizes = list(created.shape)
        for place in range(1, min(len(sizes), small.dim()) + 1):
            if sizes[-place] == small.shape[-place]:
                sizes[-place] = written.shape[-place]
        return prod(sizes) * created.element_size()
