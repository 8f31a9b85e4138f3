"""Find tensors in arguments, describe one tensor, know which value each tensor is.

PyTorch gives a tensor no name. We know it by identity, in a table of weak references
that forgets a tensor as soon as the user does. Writing in place makes a new value:
every storage remembers who wrote it and where, so that a reader of the base, of a view
or of any other alias finds the writes that reach the bytes it reads. ``_version`` tells
of the writes that no instrument saw. Inference tensors have no version.
"""

from __future__ import annotations

import dataclasses
import math
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, UntypedStorage
from torch._C import _functorch as functorch
from torch.nn import Parameter

from torchrecorder.events import (
    GradEdge,
    OpCalled,
    OpId,
    OpKind,
    Role,
    ScopeId,
    Slot,
    ValueId,
    ValueSeen,
)

if TYPE_CHECKING:
    from torchrecorder.capture.autograd import AutogradWalk
    from torchrecorder.capture.tape import Tape

_UNVERSIONED = -1
_ANYWHERE = 1 << 62
_NO_PARTS = (int, float, str, type(None))


class Write(NamedTuple):
    """An op wrote the elements from *low* up to *high* of a storage."""

    op: OpId
    low: int
    high: int


class Foreign(NamedTuple):
    """A result that a module of ours returned in another thread."""

    name: str
    given: list[tuple[str, weakref.ref[Tensor]]]
    result: weakref.ref[Tensor]


class Storage:
    """Memory that tensors share, and who wrote it.

    A weak reference keeps the address from being given to other memory. It outlives the
    tensors that we know: what was made out of sight over the same memory may come later.
    """

    __slots__ = ("weak", "number", "writes", "last")

    def __init__(self, weak: Any, number: int) -> None:
        self.weak = weak
        self.number = number
        self.writes: list[Write] = []
        self.last: ValueId | None = None

    def __del__(self) -> None:
        if self.weak:
            UntypedStorage._free_weak_ref(self.weak)


class _TensorRef(weakref.ref[Tensor]):
    __slots__ = ("key",)
    key: int


class Entry:
    """What the table knows of one tensor."""

    __slots__ = (
        "ref",
        "value",
        "version",
        "seen",
        "storage",
        "requires_grad",
        "role",
        "names",
        "producer",
        "scope",
        "original",
    )

    ref: _TensorRef
    value: ValueId
    version: int
    seen: int
    storage: Storage
    requires_grad: bool
    role: Role
    names: tuple[str, ...]
    producer: OpId | None
    scope: ScopeId | None
    original: Tensor | None  # of an alias of ours; lives as long as the alias, as it would without


def tensors_in(found: Any, name: str = "") -> list[tuple[str, Tensor]]:
    """Every tensor in nested tuples, lists, mappings and dataclasses, with its place.

    Containers of other classes are left alone: reading them could run code of the user's.
    """
    if isinstance(found, Tensor):
        return [(name, found)]
    tensors: list[tuple[str, Tensor]] = []
    stack = [(name, found)]
    seen: set[int] = set()
    while stack:
        name, found = stack.pop()
        if isinstance(found, Tensor):
            tensors.append((name, found))
        elif id(found) not in seen:
            parts = _parts(found, name)
            if parts:
                seen.add(id(found))
                stack.extend(reversed(parts))
    return tensors


def _parts(found: Any, name: str) -> list[tuple[str, Any]]:
    if isinstance(found, _NO_PARTS):
        return []
    prefix = f"{name}." if name else ""
    if isinstance(found, tuple) and hasattr(found, "_fields"):
        return [(prefix + field, each) for field, each in zip(found._fields, found)]
    if isinstance(found, (tuple, list)):
        return [(f"{prefix}{number}", each) for number, each in enumerate(found)]
    if isinstance(found, dict):
        return [(f"{prefix}{key}", found[key]) for key in list(found)]
    if dataclasses.is_dataclass(found) and not isinstance(found, type):
        fields = dataclasses.fields(found)
        return [(prefix + each.name, getattr(found, each.name, None)) for each in fields]
    return []


def innermost(tensor: Tensor) -> Tensor:
    """The tensor under the wrappers that ``torch.func`` puts around it."""
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor


class Values:
    """Which value each living tensor is."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.entries: dict[int, Entry] = {}
        self.named: dict[int, tuple[weakref.ref[Tensor], Role, tuple[str, ...]]] = {}
        self.search_names: Callable[[Tensor], tuple[Role, str] | None] = lambda tensor: None
        self.autograd: AutogradWalk
        self.gradients_from: OpId | None = None
        self.passed: OpCalled | None = None
        self.aliased = False  # an alias of ours has been handed on
        self.foreign: dict[int, Foreign] = {}
        self._storages: dict[int, Storage] = {}
        self._many = 1000
        self._numbers = 0
        self._dtypes: dict[torch.dtype, tuple[str, int]] = {}
        self._devices: dict[torch.device, str] = {}

    # Reading ------------------------------------------------------------------------

    def read(self, tensor: Tensor) -> ValueId:
        """The value that *tensor* is now."""
        entry = self.entries.get(id(tensor))
        if entry is None:
            return self._adopt(tensor)
        if entry.seen != len(entry.storage.writes):
            return self._read_written(tensor, entry)
        if entry.version != _UNVERSIONED and tensor._version != entry.version:
            return self._read_changed(tensor, entry)
        if entry.requires_grad != tensor.requires_grad:
            return self._read_regraded(tensor, entry)
        return entry.value

    def read_gradient(self, gradient: Tensor, of: ValueId) -> None:
        """The user looks at ``x.grad``: what the last backward left there."""
        if id(gradient) not in self.entries:
            role = Role.CONSTANT if self.gradients_from is None else Role.INNER
            self.note(gradient, self.gradients_from, role, (f"{of}.grad",))

    def peek(self, tensor: Tensor) -> ValueId | None:
        """The value that *tensor* was when it was last met."""
        entry = self.entries.get(id(tensor))
        return entry.value if entry is not None else None

    def _adopt(self, tensor: Tensor) -> ValueId:
        """A tensor that no instrument has met: from before the run, or from a hidden place."""
        known = self.named.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return self.note(tensor, None, known[1], known[2])
        if functorch.is_functorch_wrapped_tensor(tensor):
            return self.read(innermost(tensor))
        foreign = self.foreign.pop(id(tensor), None)
        if foreign is not None and foreign.result() is tensor:
            return self._adopt_foreign(tensor, foreign)
        if tensor.grad_fn is not None:
            return self.autograd.uncover(tensor)
        found = self.search_names(tensor)
        if found is not None:
            return self.note(tensor, None, found[0], (found[1],))
        last = self._storage(tensor).last
        if last is not None:
            return self._adopt_alias(tensor, last)
        if isinstance(tensor, Parameter):
            return self.note(tensor, None, Role.PARAMETER)
        return self.note(tensor, None, Role.CONSTANT)

    def _adopt_alias(self, tensor: Tensor, last: ValueId) -> ValueId:
        """A tensor made out of sight over memory that we know, as ``Parameter(x)`` does."""
        op = self.tape.next_op()
        value = self.note(tensor, op)
        self._write_pass(op, "alias", (Slot("0", last),), value)
        return value

    def _adopt_foreign(self, tensor: Tensor, foreign: Foreign) -> ValueId:
        """A tensor that a module returned in another thread."""
        given = [(name, ref()) for name, ref in foreign.given]
        slots = self.slots_of([(name, each) for name, each in given if each is not None])
        op = self.tape.next_op()
        value = self.note(tensor, op)
        self.write_hidden(op, foreign.name, slots, (value,))
        return value

    def slots_of(self, tensors: list[tuple[str, Tensor]]) -> tuple[Slot, ...]:
        """Named tensors as the values that they are now."""
        return tuple([Slot(name, self.read(tensor)) for name, tensor in tensors])

    def _read_written(self, tensor: Tensor, entry: Entry) -> ValueId:
        """Another alias of this memory was written since *tensor* was last met."""
        low, high = _extent(tensor)
        missed = [
            write
            for write in entry.storage.writes[entry.seen :]
            if write.low < high and low < write.high
        ]
        if not missed:
            entry.seen = len(entry.storage.writes)
            entry.version = _version(tensor)
            return entry.value
        if len(missed) == 1:
            return self._renote(tensor, entry, missed[0].op)
        return self._join(tensor, entry, missed)

    def _join(self, tensor: Tensor, entry: Entry, missed: list[Write]) -> ValueId:
        """Several writes reach *tensor*: a pass op brings them together."""
        op = self.tape.next_op()
        slots = [Slot("0", entry.value)]
        entry.role = Role.INNER
        for number, write in enumerate(missed):
            slots.append(Slot(str(number + 1), self._state(tensor, entry, write.op)))
        value = self._renote(tensor, entry, op)
        self._write_pass(op, "join", tuple(slots), value)
        return value

    def _read_changed(self, tensor: Tensor, entry: Entry) -> ValueId:
        """Somebody wrote *tensor* where no instrument looks."""
        if self.gradients_from is not None and entry.names and entry.names[0].endswith(".grad"):
            return self._renote(tensor, entry, self.gradients_from)
        if entry.scope in self.tape.functions:  # marked dirty: its op has been seen
            entry.version = _version(tensor)
            return self._read_regraded(tensor, entry)
        if tensor.grad_fn is not None and not self.autograd.knows(tensor):
            return self.autograd.uncover(tensor)
        op = self.tape.next_op()
        before = entry.value
        value = self._renote(tensor, entry, op)
        self.write_hidden(op, "write in place", (Slot("0", before),), (value,))
        return value

    def _read_regraded(self, tensor: Tensor, entry: Entry) -> ValueId:
        """Autograd began, or ceased, to track *tensor* after it was met."""
        entry.requires_grad = tensor.requires_grad
        if tensor.grad_fn is not None:
            self.autograd.regrade(tensor, entry)
        return entry.value

    # Noting -------------------------------------------------------------------------

    def note(
        self,
        tensor: Tensor,
        producer: OpId | None,
        role: Role = Role.INNER,
        names: tuple[str, ...] = (),
        grad: GradEdge | None = None,
        value: ValueId | None = None,
    ) -> ValueId:
        """Enter *tensor* as a new value, or as *value* if that was told of before."""
        key = id(tensor)
        entry = self.entries.get(key)
        if entry is None:
            entry = Entry()
            ref = _TensorRef(tensor, self._forget)
            ref.key = key
            entry.ref = ref
            entry.original = None
            entry.storage = self._storage(tensor)
            self.entries[key] = entry
        entry.names = names
        return self._renote(tensor, entry, producer, role, grad, value)

    def _renote(
        self,
        tensor: Tensor,
        entry: Entry,
        producer: OpId | None,
        role: Role = Role.INNER,
        grad: GradEdge | None = None,
        value: ValueId | None = None,
    ) -> ValueId:
        entry.version = _UNVERSIONED if tensor.is_inference() else tensor._version
        entry.requires_grad = tensor.requires_grad
        entry.seen = len(entry.storage.writes)
        entry.role = role
        entry.producer = producer
        stack = self.tape.stack
        entry.scope = stack[-1].event.scope if stack else None
        if grad is None and producer is not None and entry.requires_grad:
            source = tensor if entry.original is None else entry.original
            grad = self.autograd.edge_of(source, producer)
        entry.value = entry.storage.last = self._state(tensor, entry, producer, grad, value)
        if grad is not None:
            self.autograd.made.setdefault(grad, entry.value)
        return entry.value

    def restate(self, tensor: Tensor, entry: Entry, grad: GradEdge) -> None:
        """State the value of *tensor* once more, now that autograd tracks it."""
        self._state(tensor, entry, entry.producer, grad, entry.value)

    def wrote(self, tensor: Tensor, entry: Entry, op: OpId) -> ValueId:
        """*op* wrote *tensor* in place: it is a new value, and so are its aliases."""
        storage = entry.storage = self._storage(tensor)
        low, high = _extent(tensor)
        storage.writes.append(Write(op, low, high))
        return self._renote(tensor, entry, op)

    def _state(
        self,
        tensor: Tensor,
        entry: Entry,
        producer: OpId | None,
        grad: GradEdge | None = None,
        value: ValueId | None = None,
    ) -> ValueId:
        """Write what *tensor* is now."""
        plain = type(tensor) is Tensor and tensor.layout is torch.strided and not tensor.is_nested
        shape = tuple(tensor.shape) if plain else _shape(tensor)
        dtype = self._dtypes.get(tensor.dtype) or self._dtype(tensor.dtype)
        value = value or self.tape.next_value()
        self.tape.write(
            ValueSeen(
                value,
                shape,
                dtype[0],
                self._devices.get(tensor.device) or self._device(tensor.device),
                entry.role,
                entry.names,
                producer,
                entry.requires_grad,
                grad,
                abs(math.prod(shape)) * dtype[1],
                "Tensor" if plain else _kind(tensor),
                entry.role is Role.PARAMETER and entry.requires_grad,
                entry.storage.number,
            )
        )
        return value

    def write_hidden(
        self, op: OpId, name: str, inputs: tuple[Slot, ...], outputs: tuple[ValueId, ...]
    ) -> None:
        """State an op that no instrument saw."""
        self._write_op(op, OpKind.HIDDEN, name, inputs, outputs)

    def _write_pass(self, op: OpId, name: str, inputs: tuple[Slot, ...], output: ValueId) -> None:
        self._write_op(op, OpKind.PASS, name, inputs, (output,))

    def pass_on(self, tensor: Tensor, alias: Tensor) -> ValueId:
        """A scope hands on *tensor* untouched; *alias* stands for it from here on."""
        before = self.read(tensor)
        told = self.passed
        same = told is not None and (told.scope, told.inputs[0].value) == (self.tape.scope, before)
        op = told.op if told is not None and same else self.tape.next_op()
        source = self.source(tensor)
        self.autograd.stand_for(alias, source)
        value = self.note(alias, op)
        self.entries[id(alias)].original = source
        self.aliased = True
        if told is not None and same:
            self.tape.write(told._replace(outputs=(value,)))
        else:
            self._write_pass(op, "pass", (Slot("0", before),), value)
        return value

    def original(self, tensor: Tensor) -> Tensor | None:
        """The user's tensor that *tensor* stands for; None if it is no alias of ours."""
        entry = self.entries.get(id(tensor))
        return None if entry is None else entry.original

    def source(self, tensor: Tensor) -> Tensor:
        """The user's tensor: *tensor* itself, or the one it stands for."""
        original = self.original(tensor)
        return tensor if original is None else original

    def _write_op(
        self,
        op: OpId,
        kind: OpKind,
        name: str,
        inputs: tuple[Slot, ...],
        outputs: tuple[ValueId, ...],
    ) -> None:
        index = self.tape.next_index()
        scope = self.tape.scope
        self.tape.write(
            OpCalled(op, scope, index, kind, name, "", inputs, outputs, (), (), None, None)
        )

    def clear(self) -> None:
        """Drop every weak reference now.

        Left to the garbage collector, dozens of them would hang on each parameter. Should
        it run while such a parameter is freed, CPython (3.11 at least) walks a list of
        references that are no longer there, and the process dies.
        """
        self.entries.clear()
        self.named.clear()
        self.foreign.clear()

    # Memory -------------------------------------------------------------------------

    def _storage(self, tensor: Tensor) -> Storage:
        try:
            memory = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse, or a wrapper without memory
            return Storage(0, _UNVERSIONED)
        address = memory._cdata
        storage = self._storages.get(address)
        if storage is None:
            if len(self._storages) >= self._many:
                self._forget_freed()
            self._numbers += 1
            storage = Storage(memory._weak_ref(), self._numbers - 1)
            self._storages[address] = storage
        return storage

    def _forget_freed(self) -> None:
        """Drop what is known of memory that nobody uses any more."""
        expired = UntypedStorage._expired
        living = {key: each for key, each in self._storages.items() if not expired(each.weak)}
        self._storages = living
        self._many = 2 * len(living) + 1000

    def _forget(self, ref: weakref.ref[Tensor]) -> None:
        assert isinstance(ref, _TensorRef)
        self.entries.pop(ref.key, None)

    def _dtype(self, dtype: torch.dtype) -> tuple[str, int]:
        found = self._dtypes.get(dtype)
        if found is None:
            found = self._dtypes[dtype] = (str(dtype).removeprefix("torch."), dtype.itemsize)
        return found

    def _device(self, device: torch.device) -> str:
        found = self._devices.get(device)
        if found is None:
            found = self._devices[device] = str(device)
        return found


def _shape(tensor: Tensor) -> tuple[int, ...]:
    """Sizes; -1 for one that is ragged or symbolic."""
    try:
        shape = tuple(tensor.shape)
    except RuntimeError:  # a nested tensor of the strided layout
        return tuple(-1 for _ in range(tensor.dim()))
    for size in shape:
        if type(size) is not int:
            return tuple(each if type(each) is int else -1 for each in shape)
    return shape


def _version(tensor: Tensor) -> int:
    return _UNVERSIONED if tensor.is_inference() else tensor._version


def _kind(tensor: Tensor) -> str:
    cls = type(tensor)
    if tensor.layout is not torch.strided:
        return str(tensor.layout).removeprefix("torch.")
    return cls.__name__


def _extent(tensor: Tensor) -> tuple[int, int]:
    """First and one-past-last element of the storage that *tensor* can reach."""
    if tensor._base is None:
        return 0, _ANYWHERE
    try:
        low = tensor.storage_offset()
        reach = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
        return int(low), int(low + reach) + 1
    except (RuntimeError, NotImplementedError):  # sparse and nested tensors
        return 0, _ANYWHERE
