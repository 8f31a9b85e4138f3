"""TensorTable: maps each living tensor to its current value.

A tensor is identified by ``id()``, in a table of weak references that does not keep it alive. An
in-place write creates a new value. Every storage has a list of its writes, so that the value of the
base, of a view or of any other alias depends on the writes to its bytes. ``_version`` shows writes
that no instrument saw. Inference tensors have no version counter.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from math import prod

import torch
from torch import Tensor
from torch.nn import Parameter

from torchrecorder.capture.internals.access import PLAIN_TENSOR_TYPES, is_wrapped
from torchrecorder.capture.internals.processes import is_dtensor
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.byte_ranges import Write
from torchrecorder.capture.tensors.describe import (
    UNVERSIONED, VERSION_PENDING, class_or_layout, device_name, dtype_facts, grad_fn_of, innermost,
    other_parts, shape_of, version_of,
)
from torchrecorder.capture.tensors.entries import (
    BackwardGradients, DetachedTensors, EarlyReads, Entry, GradSource, OtherThreadResult,
    TensorNames, containing_tensor, forget_callback, parameter_parts,
)
from torchrecorder.capture.tensors.sizes import bytes_of, elements_of
from torchrecorder.capture.tensors.storage import Storage, Storages
from torchrecorder.events import GRAD_SUFFIX, GradEdge, OpId, OpKind, Role, Slot, ValueId, new_tuple
from torchrecorder.graph.nodes import Op, Value

_STRIDED, _PARAMETER = torch.strided, Role.PARAMETER


class TensorTable:
    """The value of each living tensor."""

    def __init__(self, tape: Tape, main: TensorTable | None = None) -> None:
        self.tape = tape
        known = {} if main is None else vars(main)  # tables shared with other threads
        self.entries: dict[int, Entry] = known.get("entries", {})
        self.aliases: set[int] = known.get("aliases", set())  # the id() of living aliases
        self._forget = forget_callback(self.entries, self.aliases, tape.record_error)
        self.named: dict[int, tuple[weakref.ref[Tensor], Role, tuple[str, ...]]]
        self.named = known.get("named", {})
        self.early_reads: EarlyReads = known.get("early_reads") or EarlyReads(tape, self.entries)
        self.names = TensorNames()
        self.autograd: GradSource
        self.gradients = BackwardGradients()
        self.passed: Op | None = None
        self.of_other_threads: dict[int, OtherThreadResult] = {}
        self.parts: set[int] = known.get("parts", set())  # the id() of parameters within others
        self.detached = DetachedTensors()
        self.storages: Storages = known.get("storages") or Storages()
        self.on_dtensor: Callable[[ValueId, Tensor], None] = lambda value, tensor: None

    # Reading ------------------------------------------------------------------------

    def read(self, tensor: Tensor) -> ValueId:
        """The current value of *tensor*, which is added if it is unknown."""
        entry = self.entries.get(id(tensor))
        if entry is None:
            return self._add_unknown(tensor)
        if entry.seen != len(entry.storage.writes):
            return self._read_written(tensor, entry)
        if entry.version != UNVERSIONED and tensor._version != entry.version:
            return self._read_changed(tensor, entry)
        if entry.requires_grad != tensor.requires_grad:
            return self._read_requires_grad(tensor, entry)
        return entry.value

    def read_gradient(self, gradient: Tensor, of: ValueId) -> None:
        """Add *gradient*, the ``grad`` of the leaf with the value *of*, if it is unknown."""
        if id(gradient) in self.entries:
            return
        maker, names = self.gradients.of(of), (f"{of}{GRAD_SUFFIX}",)
        last = self.storages.of(gradient).last
        if last is not None and maker is not None and self.gradients.is_from_hook(last, maker):
            self._add_alias(gradient, last, names)
        else:
            self.add_value(gradient, maker, Role.INNER if maker else Role.CONSTANT, names)

    def peek(self, tensor: Tensor) -> ValueId | None:
        """The last known value of *tensor*, without a look at later writes; None if unknown."""
        entry = self.entries.get(id(tensor))
        return entry.value if entry is not None else None

    def _add_unknown(self, tensor: Tensor) -> ValueId:
        """Add a tensor that existed before the run, or that unrecorded code created."""
        known = self.name_of(tensor)
        if known is not None:
            return self.add_value(tensor, None, *known)
        if is_wrapped(tensor):
            return self.read(innermost(tensor))
        result = self.of_other_threads.pop(id(tensor), None)
        if result is not None and result.result() is tensor:
            return self._add_hidden(tensor, result.name, self.slots_of(result.living()))
        node = grad_fn_of(tensor)
        if node is not None and not self.autograd.is_older(node):
            return self.autograd.hidden.record(tensor)
        before = self._held_before(tensor, storage := self.storages.of(tensor))
        if before is not None:
            return self._add_unseen_alias(tensor, before)
        if node is not None:
            return self.autograd.hidden.record(tensor)
        maker = self.gradients.maker_of(tensor)
        if maker is not None:
            return self.add_value(tensor, maker)
        found = self.names.of(tensor)
        if found is not None and not (isinstance(tensor, Parameter) and storage.last):
            return self._add_early(tensor, found[0], found[1:])
        if isinstance(tensor, Parameter):  # of no module, or around those of modules
            return self._add_early(tensor, _PARAMETER, found[1:] if found is not None else ())
        unseen = self.autograd.custom_backward()
        if unseen is not None:
            return self._add_hidden(tensor, unseen, (), recompute=True)
        return self._add_early(tensor, Role.CONSTANT)

    def _add_early(self, tensor: Tensor, role: Role, names: tuple[str, ...] = ()) -> ValueId:
        """Add a tensor from before the run; a module that is called later may name it."""
        place, value = len(self.tape.events), self.add_value(tensor, None, role, names)
        self.early_reads.add(self.entries[id(tensor)], place)
        return value

    def add_held(self, tensor: Tensor, role: Role, name: str) -> ValueId:
        """Add an unknown parameter or buffer, which its module calls *name*."""
        known = self.name_of(tensor)
        if known is not None:
            return self.add_value(tensor, None, role, known[1])
        if is_wrapped(tensor):
            inside = innermost(tensor)
            return self.peek(inside) or self.add_held(inside, role, name)
        return self.alias_of_known(tensor) or self.add_value(tensor, None, role, (name,))

    def name_of(self, tensor: Tensor) -> tuple[Role, tuple[str, ...]] | None:
        """The role and names of *tensor* as a parameter or buffer; None if it is neither."""
        known = self.named.get(id(tensor))
        return known[1:] if known is not None and known[0]() is tensor else None

    def alias_of_known(self, tensor: Tensor) -> ValueId | None:
        """Add *tensor* as an alias of a known tensor; None if it shares memory with none."""
        before = self._held_before(tensor, self.storages.of(tensor))
        return None if before is None else self._add_alias(tensor, before)

    def _held_before(self, tensor: Tensor, storage: Storage) -> ValueId | None:
        """The value of a known tensor that shares memory with *tensor*, or None."""
        storage = storage if storage.last else self.storages.of_memory(tensor, storage)
        if storage.last is None:
            return None
        detached = self.detached.of(tensor)
        if detached is not None and detached.seen == len(storage.writes):
            return detached.value
        around, unclear = containing_tensor(self.entries, tensor, storage)
        value = storage.dead_view(tensor, around, self.tape.events)
        if value is not None or around is None:
            return value or (storage.last if unclear else None)
        return self.read(around)

    def _add_alias(
        self, tensor: Tensor, before: ValueId, names: tuple[str, ...] = (), role: Role = Role.INNER
    ) -> ValueId:
        """Add *tensor*, with an op ``alias`` that reads *before*, a value in the same memory; if it
        is a wrapper of several tensors, with a hidden op of its class that reads all."""
        slots = (Slot("0", before), *self.slots_of(other_parts(tensor)))
        op, again = self.tape.next_op(), self.autograd.is_in_pass()
        value, wraps = self.add_value(tensor, op, role, names), len(slots) > 1
        name, kind = (type(tensor).__name__, OpKind.HIDDEN) if wraps else ("alias", OpKind.PASS)
        self.tape.write_op(op, name, slots, (value,), kind, recompute=again)
        return value

    def _add_unseen_alias(self, tensor: Tensor, before: ValueId) -> ValueId:
        """Add an alias of *before* that unrecorded code created.

        ``Parameter(x)`` is a parameter, but in a running module the later value of one whose shards
        were gathered. One in an object, with all numbers from before the run, is a flat one.
        """
        gathered = self.names.of_running(tensor) if isinstance(tensor, Parameter) else (None,)
        if gathered is not None:
            return self._add_alias(tensor, before, gathered[1:])
        held = () if self.storages.of(tensor).writes else self.names.in_objects(tensor)
        if held:
            return self._add_early(tensor, _PARAMETER, held)
        place, value = len(self.tape.events), self._add_alias(tensor, before, role=_PARAMETER)
        self.early_reads.add(self.entries[id(tensor)], place)
        return value

    def _add_hidden(
        self, tensor: Tensor, name: str, slots: tuple[Slot, ...], *, recompute: bool = False
    ) -> ValueId:
        """Add *tensor*, with a hidden op *name* that computed it from *slots*."""
        op = self.tape.next_op()
        value = self.add_value(tensor, op)
        self.tape.write_op(op, name, slots, (value,), recompute=recompute)
        return value

    def slots_of(self, tensors: list[tuple[str, Tensor]]) -> tuple[Slot, ...]:
        """The current values of named tensors, as slots."""
        return tuple([new_tuple(Slot, (name, self.read(tensor))) for name, tensor in tensors])

    def _read_written(self, tensor: Tensor, entry: Entry) -> ValueId:
        """The value of *tensor* after writes to its aliases."""
        missed, are_all = entry.storage.since(entry.seen, *entry.storage.reach(tensor))
        if not missed:
            entry.seen, entry.version = len(entry.storage.writes), version_of(tensor)
            return entry.value
        if len(missed) == 1:
            return self._update(tensor, entry, missed[0].op)
        return self._join(tensor, entry, missed, are_all)

    def _join(self, tensor: Tensor, entry: Entry, missed: list[Write], are_all: bool) -> ValueId:
        """The value of *tensor* after several writes, with an op ``join`` that reads their results.

        It also reads the value before them, unless *are_all* of the bytes are overwritten.
        """
        op = self.tape.next_op()
        parts = [] if are_all else [entry.value]
        entry.role = Role.INNER
        parts += [self._write_value(tensor, entry, write.op) for write in missed]
        value = self._update(tensor, entry, op)
        slots = tuple(Slot(str(number), part) for number, part in enumerate(parts))
        self.tape.write_op(op, "join", slots, (value,), OpKind.PASS)
        return value

    def _read_changed(self, tensor: Tensor, entry: Entry) -> ValueId:
        """The value of *tensor* after unrecorded code has increased its version."""
        hidden = tensor._version < entry.version  # reset by code that hides its write from autograd
        if hidden or entry.version == VERSION_PENDING or tensor._version <= entry.storage.received:
            entry.version = version_of(tensor)
            return self.read(tensor)
        if (left_by := self.gradients.named(entry.names)) is not None:
            return self._update(tensor, entry, left_by)
        if entry.scope in self.tape.functions:  # ``mark_dirty``: its op is recorded
            entry.version = version_of(tensor)
            return self._read_requires_grad(tensor, entry)
        if not self.autograd.knows(tensor):
            return self.autograd.hidden.record(tensor)
        storage = self.storages.of(tensor)
        if storage is not entry.storage:  # ``set_`` and ``.data =`` replace it
            memory = self._held_before(tensor, storage)
            if memory is not None:
                entry.set_storage(storage)
                return self._add_alias(tensor, memory, entry.names)
        op, slots = self.tape.next_op(), (Slot("0", entry.value),)
        value, again = self._update(tensor, entry, op), self.autograd.is_in_pass()
        self.tape.write_op(op, "write in place", slots, (value,), recompute=again)
        return value

    def _read_requires_grad(self, tensor: Tensor, entry: Entry) -> ValueId:
        """The value of *tensor* after its ``requires_grad`` has changed."""
        tracked = grad_fn_of(tensor) is not None
        unseen = entry.producer is None and entry.scope in self.tape.functions
        if tracked and unseen and not self.autograd.knows(tensor):
            return self.autograd.hidden.record(tensor)  # created in C++, then given a grad_fn
        entry.requires_grad = tracked or entry.producer is None and tensor.requires_grad
        return self.autograd.hidden.update(tensor, entry) if tracked else entry.value

    # Recording -------------------------------------------------------------------------

    def add_value(
        self,
        tensor: Tensor,
        producer: OpId | None,
        role: Role = Role.INNER,
        names: tuple[str, ...] = (),
        grad: GradEdge | None = None,
        value: ValueId | None = None,
    ) -> ValueId:
        """Add a new value of *tensor*; its id is *value* if given. Returns the id."""
        entry = self.entries.get(key := id(tensor))
        if entry is None:
            entry = self.entries[key] = Entry(tensor, self._forget)
            entry.key, entry.original = key, None
            entry.set_storage(self.storages.of(tensor))
            entry.storage.view = entry if entry.storage.last is not None else None
        entry.names, before = names, entry.storage.last
        value = self._update(tensor, entry, producer, role, grad, value)
        if before is not None and isinstance(tensor, Parameter):
            flat = self.name_of(tensor) is None
            for part, relation in parameter_parts(self.entries, tensor, entry.storage, flat=flat):
                self.parts.add(part)
                self.tape.write(relation)
        return value

    def _update(
        self,
        tensor: Tensor,
        entry: Entry,
        producer: OpId | None,
        role: Role = Role.INNER,
        grad: GradEdge | None = None,
        value: ValueId | None = None,
    ) -> ValueId:
        """Set the entry of *tensor* to a new value, and write that."""
        entry.version = UNVERSIONED if tensor.is_inference() else tensor._version
        entry.requires_grad = tensor.requires_grad
        entry.seen = len(entry.storage.writes)
        entry.role, entry.producer = role, producer
        stack = self.tape.stack
        entry.scope = stack[-1].scope if stack else None
        if grad is None and producer is not None and entry.requires_grad:
            source = tensor if entry.original is None else entry.original
            grad = self.autograd.edge_of(source, producer)
        entry.value = entry.storage.last = self._write_value(tensor, entry, producer, grad, value)
        if grad is not None:
            self.autograd.made.setdefault(grad, entry.value)
        elif producer is not None:
            entry.requires_grad = False  # a custom function sets its grad_fn later
        return entry.value

    def equate(self, tensor: Tensor, other: Tensor) -> None:
        """Map *tensor* to the value of *other*, without an autograd node."""
        known = self.entries.get(id(other))
        if known is not None:
            self.entries[id(tensor)] = known.copy(tensor, self._forget)

    def expect_alias(self, tensor: Tensor, other: Tensor) -> None:
        """Store that *tensor* is an alias of *other*; it gets its value when it is read."""
        known = self.entries.get(id(other)) or self.detached.of(other)
        if known is not None:
            self.detached.add(tensor, known.value, known.seen)

    def record_again(self, tensor: Tensor, entry: Entry, grad: GradEdge | None) -> None:
        """Write the value of *tensor* again, after its names, shape or node have changed."""
        self._write_value(tensor, entry, entry.producer, grad, entry.value)

    def wrote(self, tensor: Tensor, entry: Entry, op: OpId) -> ValueId:
        """Record that *op* wrote *tensor* in place; returns its new value. Its aliases get theirs
        when they are read."""
        storage = self.storages.of(tensor)
        if storage is entry.storage:
            storage.write(op, *storage.reach(tensor))
        entry.set_storage(storage)  # another one after ``.data = x``
        return self._update(tensor, entry, op)

    def _write_value(
        self, tensor: Tensor, entry: Entry, producer: OpId | None, grad: GradEdge | None = None,
        value: ValueId | None = None,
    ) -> ValueId:
        """Write the event of a value, and return its id."""
        cls = type(tensor)
        dtype, size = dtype_facts(tensor.dtype)
        if cls in PLAIN_TENSOR_TYPES and tensor.layout is _STRIDED and not tensor.is_nested:
            shape = tuple(tensor.shape)
            shape = self.tape.shared.setdefault(shape, shape)
            number, kind = prod(shape) * size, cls.__name__
        else:
            shape, kind = shape_of(tensor), class_or_layout(tensor)
            number = bytes_of(tensor, elements_of(tensor, shape))
        value = value or self.tape.next_value()
        if cls not in PLAIN_TENSOR_TYPES and is_dtensor(tensor):
            self.on_dtensor(value, tensor)
        role, requires_grad = entry.role, entry.requires_grad
        self.tape.write(Value(
            value, shape, dtype, device_name(tensor.device), role, entry.names, producer,
            requires_grad, grad, number, kind, requires_grad and role is _PARAMETER,
            entry.storage.number,
        ))
        return value

    def add_identity(self, tensor: Tensor, alias: Tensor) -> ValueId:
        """Add *alias*, the result of an identity op: a module returns it instead of *tensor*."""
        passed, here = self.passed, (self.tape.scope, before := self.read(tensor))
        if passed is not None and (passed.scope, passed.inputs[0].value) != here:
            passed = None
        op = self.tape.next_op() if passed is None else passed.id
        source = self.source(tensor)
        self.autograd.map_alias(alias, source)
        value = self.add_value(alias, op)
        self.entries[id(alias)].original = source
        self.aliases.add(id(alias))
        if passed is not None:
            self.tape.write(passed.replace(outputs=(value,)))
        else:
            self.tape.write_op(op, "pass", (Slot("0", before),), (value,), OpKind.PASS)
        return value

    def original(self, tensor: Tensor) -> Tensor | None:
        """The user's tensor that *tensor* is an alias of; None if it is no alias."""
        return self.entries[id(tensor)].original if id(tensor) in self.aliases else None

    def source(self, tensor: Tensor) -> Tensor:
        """The original of an alias; *tensor* itself if it is no alias."""
        original = self.original(tensor)
        return tensor if original is None else original

    def clear(self) -> None:
        """Remove all weak references.

        Otherwise each parameter would have dozens of them until garbage collection. If that runs
        while a parameter is freed, CPython 3.11 walks a list of freed objects and crashes.
        """
        for table in (
            self.entries, self.aliases, self.named, self.of_other_threads, self.detached,
            self.storages, self.early_reads, self.gradients,
        ):
            table.clear()
