"""Entries: facts about each living tensor, its aliases, and the gradients of backward passes."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, Protocol

from torch import Tensor
from torch.nn import Parameter

from torchrecorder.capture.internals.access import PLAIN_TENSOR_TYPES
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.byte_ranges import TensorRanges
from torchrecorder.capture.tensors.describe import innermost, is_tensor, layout_of
from torchrecorder.capture.tensors.storage import Storage
from torchrecorder.events import (
    GRAD_SUFFIX, GradEdge, OpId, ParameterPart, Role, ScopeId, ValueId, names_gradient,
)
from torchrecorder.graph.nodes import Value

MAX_NEARBY = 16
"""The maximum number of tensors around a subclass that are compared with it."""


class OtherThreadResult(NamedTuple):
    """A tensor that a module of the recorded model returned in another thread."""

    name: str
    given: list[tuple[str, weakref.ref[Tensor]]]
    result: weakref.ref[Tensor]

    def living(self) -> list[tuple[str, Tensor]]:
        """The arguments and weights of the module that still exist."""
        return [(name, tensor) for name, ref in self.given if (tensor := ref()) is not None]


class Detached(NamedTuple):
    """A detached tensor without a value: that of its source, after *seen* writes to the storage."""

    result: weakref.ref[Tensor]
    value: ValueId
    seen: int


class DetachedTensors:
    """The detached tensors that no recorded op has read."""

    def __init__(self) -> None:
        self._known: dict[int, Detached] = {}

    def add(self, tensor: Tensor, value: ValueId, seen: int) -> None:
        """Add *tensor*, an alias of *value* after *seen* writes to its storage."""
        self._known[id(tensor)] = Detached(weakref.ref(tensor), value, seen)

    def of(self, tensor: Tensor) -> Detached | None:
        """The facts about *tensor*; None if it is not one of them."""
        known = self._known.get(id(tensor))
        return known if known is not None and known.result() is tensor else None

    def clear(self) -> None:
        """Remove all."""
        self._known.clear()


class Entry(weakref.ref[Tensor]):
    """Facts about one tensor, in a weak reference to it."""

    __slots__ = (
        "key", "value", "version", "seen", "storage", "requires_grad", "role", "names", "producer",
        "scope", "original",
    )

    key: int  # its ``id()``
    value: ValueId
    version: int  # its ``_version`` at the last read or write
    seen: int  # the number of writes to its storage that its value includes
    storage: Storage
    requires_grad: bool
    role: Role
    names: tuple[str, ...]
    producer: OpId | None
    scope: ScopeId | None
    original: Tensor | None  # for an alias, the user's tensor, which the alias keeps alive

    def copy(self, tensor: Tensor, forget: Callable[[Entry], None]) -> Entry:
        """A copy of the entry for another *tensor*, which does not require grad."""
        entry = Entry(tensor, forget)
        for name in Entry.__slots__:
            setattr(entry, name, getattr(self, name))
        entry.key, entry.requires_grad, entry.original = id(tensor), False, None
        entry.set_storage(self.storage)
        return entry

    def set_storage(self, storage: Storage) -> None:
        """Set the storage of the tensor, also after a write: it may now have other bytes of it."""
        self.storage = storage
        storage.tensors[self.key] = None


class TensorNames:
    """Finds the role and name of a tensor of unknown origin; implemented by `AttributeNames`."""

    def of(self, tensor: Tensor) -> tuple[Role, str] | None:
        """The role and name of *tensor* anywhere in the program; None if it is not found."""

    def in_objects(self, tensor: Tensor) -> tuple[str, ...]:
        """The name of *tensor* in an object that a running module has; else an empty tuple."""
        return ()

    def of_running(self, tensor: Tensor) -> tuple[Role, str] | None:
        """The role and name of *tensor* as an attribute of a running module; else None."""


class HiddenSource(Protocol):
    """Records hidden ops; see `HiddenOps`, which implements it."""

    def record(self, tensor: Tensor) -> ValueId: ...
    def update(self, tensor: Tensor, entry: Entry) -> ValueId: ...


class GradSource(Protocol):
    """Finds the autograd node of a tensor; see `AutogradWalk`, which implements it."""

    made: dict[GradEdge, ValueId]

    @property
    def hidden(self) -> HiddenSource: ...
    def import_nodes(self, node: Any, other: Any) -> None: ...
    def begin(self) -> None: ...
    def find_numbering(self) -> None: ...
    def expect_unrecorded(self, made: Iterable[Tensor]) -> None: ...
    def custom_backward(self) -> str | None: ...
    def is_in_pass(self) -> bool: ...
    def is_older(self, node: Any) -> bool: ...
    def knows(self, tensor: Tensor) -> bool: ...
    def edge_of(self, tensor: Tensor, producer: OpId) -> GradEdge | None: ...
    def map_alias(self, alias: Tensor, tensor: Tensor) -> None: ...


def containing_tensor(
    entries: Mapping[int, Entry], tensor: Tensor, storage: Storage
) -> tuple[Tensor | None, bool]:
    """The smallest known tensor in *storage* that contains the bytes of *tensor*, and whether the
    run may have made or written others that overlap with them.

    Among equal ones, the latest; but the base of a view from before the run, or a view of a base
    from before it, if no op has written it. A subclass, such as ``x.as_subclass(Image)``, is of the
    tensor with its shape and strides. Tensors that no longer exist may have overlapped.
    """
    low, high = storage.reach(tensor)
    with TensorRanges.lock:
        ranges, living = _ranges(entries, storage)
        around = (living(key) for key in ranges.around(low, high) if key != id(tensor))
        nearby = [*islice((other for other in around if other is not None), MAX_NEARBY)]
        if type(tensor) not in PLAIN_TENSOR_TYPES:
            twins = [other for other in nearby if _is_twin(tensor, other)]
            if twins:
                return twins[0], False
        nearest = nearby[0] if nearby else None
        overlapping = [
            entries[key] for key in ranges.overlapping(low, high)
            if key != id(tensor) and living(key) is not None
        ]
    if not storage.writes and any(entry.producer is None for entry in overlapping):
        base, views = tensor._base, (other for other in nearby if other._base is tensor)
        related = (other for other in (base, *views) if id(other) in entries)
        early = (other for other in related if entries[id(other)].producer is None)
        return next(early, nearest), False  # all of this memory is from before the run
    return nearest, storage.has_dead_tensors or bool(overlapping)


def _is_twin(tensor: Tensor, other: Tensor) -> bool:
    """Whether two tensors in one storage are the same view of it, of different classes."""
    first = layout_of(tensor)
    return first is not None and first == layout_of(other) and type(tensor) is not type(other)


def parameter_parts(
    entries: Mapping[int, Entry], tensor: Tensor, storage: Storage, *, flat: bool
) -> Iterator[tuple[int, ParameterPart]]:
    """The relations of the parameter *tensor* to parameters around it and to those in its memory,
    each with the ``id()`` of the part. Whether it holds one of the same size, too: *flat*."""
    low, high = storage.reach(tensor)
    if low == high:
        return
    new = entries[id(tensor)]
    with TensorRanges.lock:
        ranges, living = _ranges(entries, storage)
        for key in ranges.overlapping(low, high):
            other, known = living(key), entries.get(key)
            if not isinstance(other, Parameter) or known is None or other is tensor:
                continue
            first, last = storage.reach(other)
            holds = low <= first < last <= high and tensor.is_contiguous()
            within = first <= low and high <= last and other.is_contiguous()
            if within and not (holds and flat):
                yield id(tensor), ParameterPart(new.value, known.value)
            elif holds:
                yield key, ParameterPart(known.value, new.value)


def _ranges(
    entries: Mapping[int, Entry], storage: Storage
) -> tuple[TensorRanges, Callable[[int], Tensor | None]]:
    """The ranges of the known tensors in *storage*, and a function that returns one by its
    ``id()``; None if it no longer exists."""
    def living(key: int) -> Tensor | None:
        entry = entries.get(key)
        return entry() if entry is not None and entry.storage is storage else None

    ranges = storage.ranges = storage.ranges or TensorRanges()
    for key in list(storage.tensors):
        other = living(key)
        if other is not None:
            ranges.put(key, *storage.reach(other))
        storage.tensors.pop(key, None)
    ranges.forget_dead(living)
    return ranges, living


def forget_callback(
    entries: dict[int, Entry], aliases: set[int], record_error: Callable[[str, BaseException], None]
) -> Callable[[Any], None]:
    """A weak reference callback that removes the entry of a dead tensor from both tables."""

    def forget(entry: Entry) -> None:
        try:
            entries.pop(entry.key, None)
            entry.storage.tensors.pop(entry.key, None)
            entry.storage.has_dead_tensors = True
            if aliases:
                aliases.discard(entry.key)
                entry.original = None  # the entry of a view may be kept
        except Exception as error:
            record_error("values", error)

    return forget


class BackwardGradients:
    """The gradients that backward passes computed: ``grad`` of leaves, and what hooks keep."""

    def __init__(self) -> None:
        self.last: OpId | None = None  # the last backward pass
        # for each leaf, the last pass that accumulated into its ``grad``
        self.left: dict[ValueId, OpId] = {}
        self.assigned: set[ValueId] = set()  # the leaves whose ``grad`` the program has set
        self._passes: dict[OpId, tuple[int, int]] = {}
        self._kept: dict[int, tuple[weakref.ref[Tensor], OpId]] = {}

    def of(self, leaf: ValueId) -> OpId | None:
        """The pass that wrote ``grad`` of *leaf*."""
        return self.left.get(leaf, self.last)

    def named(self, names: tuple[str, ...]) -> OpId | None:
        """The pass that wrote the gradient with these *names*; None if it is older."""
        if self.last is None or not names_gradient(names):
            return None
        return self.of(ValueId(names[0].removesuffix(GRAD_SUFFIX)))

    def begin(self, op: OpId, values: int) -> None:
        """The pass *op* begins, when the run has this number of *values*."""
        self._passes[op] = values, sys.maxsize

    def end(self, op: OpId, values: int) -> None:
        """The pass *op* ends, at this number of *values*; drop gradients that no longer exist."""
        self._passes[op] = self._passes[op][0], values
        self._kept = {key: known for key, known in self._kept.items() if known[0]() is not None}

    def is_from_hook(self, value: ValueId, maker: OpId) -> bool:
        """Whether an op of a hook computed *value* during the pass *maker*."""
        first, end = self._passes.get(maker, (0, 0))
        return first <= int(value[1:]) < end

    def made_by_hook(self, entry: Entry, run: OpId) -> bool:
        """Whether a hook in the pass *run* made the tensor of *entry*."""
        return entry.producer not in (None, run) and self.is_from_hook(entry.value, run)

    def track(self, gradient: Tensor, maker: OpId) -> None:
        """Store that the pass *maker* computed *gradient*, which a hook may keep."""
        self._kept[id(gradient)] = weakref.ref(gradient), maker

    def maker_of(self, tensor: Tensor) -> OpId | None:
        """The pass that computed *tensor* as a gradient; None if it is unknown."""
        known = self._kept.get(id(tensor))
        return known[1] if known is not None and known[0]() is tensor else None

    def clear(self) -> None:
        """Remove all weak references."""
        self._kept.clear()


class EarlyReads:
    """The first values of tensors that an op reads before their module is called.

    ``model.to(device)``, an initialization, a copy or a penalty on weights reads parameters. When
    the model is called later, the values get the names that they have there. A tensor of no module
    is named by the first line of code that reads it under a name.
    """

    def __init__(self, tape: Tape, entries: Mapping[int, Entry]) -> None:
        self.tape = tape
        self.entries = entries
        self.unnamed: dict[int, Role] = {}  # tensors without a name, by id
        self._first: dict[int, tuple[Entry, ValueId, int]] = {}
        self._parameters: dict[str, Entry] = {}  # the first with this name in a line

    def add(self, entry: Entry, place: int) -> None:
        """Add *entry*; its value is among the events from index *place* on."""
        self._first[entry.key] = entry, entry.value, place
        if not entry.names:
            self.unnamed[entry.key] = entry.role

    def name(self, tensor: Tensor, role: Role, names: tuple[str, ...]) -> ValueId | None:
        """Set role and names of the first value of *tensor*, and return the value; None if no op
        has read it."""
        key = id(innermost(tensor))
        self.unnamed.pop(key, None)
        known = self._first.get(key)
        if known is None or known[0] is not self.entries.get(key):
            return None
        entry, first, place = known
        rows = (self.tape.events[at] for at in range(place, len(self.tape.events)))
        row = next(row for row in rows if type(row) is Value and row.id == first)
        trainable = row.requires_grad and role is Role.PARAMETER
        self.tape.write(row.replace(role=role, names=names, trainable=trainable))
        if entry.value == first:
            entry.role, entry.names = role, names
        return first

    def train(self, tensor: Tensor) -> None:
        """Make a parameter of *tensor*, which an optimizer updates, if it is of no module."""
        known = self._first.get(id(innermost(tensor)))
        if known is not None and not isinstance(tensor, Parameter):
            self.name(tensor, Role.PARAMETER, known[0].names)

    def name_by_line(self, tensor: Tensor, name: str) -> None:
        """Name *tensor* as a line of code does, unless the line names several parameters so: in a
        loop over weights, the name of the variable identifies none of them."""
        key = id(tensor)
        role, entry = self.unnamed[key], self._first[key][0]
        if entry is not self.entries.get(key):  # the tensor no longer exists
            del self.unnamed[key]
            return
        other = self._parameters.setdefault(name, entry) if role is Role.PARAMETER else entry
        if other is entry:
            self.name(tensor, role, (name,))
            return
        del self.unnamed[key]
        first = other()
        if first is not None and other.names == (name,):
            self.name(first, role, ())

    def name_inputs(
        self, tensors: list[tuple[str, Tensor]], called: list[tuple[str, Any]] | None
    ) -> None:
        """Name the arguments of an outermost call as the program does: *called*, by name.

        The parameters of ``forward`` name the others; all, if the recorder itself calls the model.
        """
        for name, value in called or ():
            tensor = innermost(value) if is_tensor(value) else value
            if id(tensor) in self.unnamed:
                self.name_by_line(tensor, name)
        for tensor in [innermost(tensor) for _, tensor in tensors]:
            self.unnamed.pop(id(tensor), None)
            entry = self.entries.get(id(tensor)) if called is None else None
            if entry is not None and entry.role is Role.CONSTANT:
                self.name(tensor, entry.role, ())

    def clear(self) -> None:
        """Remove all tensors."""
        self._first.clear()
        self._parameters.clear()
