"""Storages: memory that tensors share with each other and with NumPy arrays, and writes to it."""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from torch import Tensor, UntypedStorage
from torch.nn import Parameter

from torchrecorder.capture.internals.access import PLAIN_TENSOR_TYPES, SEES_STORAGES_END
from torchrecorder.capture.internals.processes import is_pending
from torchrecorder.capture.tensors.byte_ranges import LastWrites, TensorRanges, Write
from torchrecorder.capture.tensors.describe import (
    UNVERSIONED, byte_range, is_tensor, layout_of, memory_owner, shape_of, version_of,
)
from torchrecorder.events import NO_STORAGE, OpId, ValueId, new_tuple
from torchrecorder.graph.nodes import Op, Value

ALL_VERSIONS = 1 << 62
"""Larger than every version of a tensor."""

FEW = 16
"""This number of writes is looked at one by one."""

Waiting = tuple["weakref.ref[Tensor]", Callable[[Tensor], None]]
"""A tensor that a running collective writes, and the callback that reads it afterwards."""


class SameMemory(NamedTuple):
    """Another storage of the same memory, as a weak reference; it begins *shift* bytes later."""

    weak: Any
    shift: int


class Storage:
    """A storage of PyTorch, and the in-place writes to it.

    A weak reference, which `Storages` frees, prevents that the address is reused. It is kept longer
    than the known tensors, because unrecorded tensors may share the memory. A collective writes its
    result in another thread; it is the writer of all versions up to *received*.
    """

    weak: Any = 0
    # memory without data, for which freeing a weak reference corrupts the heap
    held: UntypedStorage | None = None
    writes: list[Write] | tuple[()] = ()
    last_writes: LastWrites | None = None  # made when it saves time
    last: ValueId | None = None
    view: Any = None  # the entry of the latest view
    ranges: TensorRanges | None = None  # made when a tensor around another is searched
    has_dead_tensors = False
    received = UNVERSIONED
    waiting: list[Waiting] | None = None  # reads after the running collective
    others: dict[int, SameMemory] | None = None  # by address

    def __init__(self, memory: UntypedStorage | None, number: int) -> None:
        if memory is not None:
            if SEES_STORAGES_END or memory.device.type != "meta":
                self.weak = memory._weak_ref()
            else:
                self.held = memory
        self.number = number
        self.tensors: dict[int, None] = {}  # ids of known tensors that are not in the ranges

    def free(self) -> None:
        """Free the weak references, so that the address may be reused."""
        if self.weak:
            if self.others:
                for other in self.others.values():
                    UntypedStorage._free_weak_ref(other.weak)
            UntypedStorage._free_weak_ref(self.weak)
        self.weak, self.held, self.others, self.view = 0, None, None, None

    def has_ended(self) -> bool:
        """Whether PyTorch has freed the memory."""
        if not self.weak or not UntypedStorage._expired(self.weak):
            return False
        others = self.others.values() if self.others else ()
        return all(UntypedStorage._expired(other.weak) for other in others)

    def join(self, address: int, other: SameMemory) -> None:
        """Add the storage at *address*, which has the same memory or a part of it."""
        self.others = self.others or {}
        self.others[address] = other

    def has_lost(self, address: int) -> bool:
        """Whether PyTorch has freed the other storage at *address*."""
        other = self.others.get(address) if self.others else None
        return other is not None and bool(UntypedStorage._expired(other.weak))

    def forget(self, address: int) -> None:
        """Free the weak reference to *address*: that of another storage, or of this one."""
        other = self.others.pop(address, None) if self.others else None
        if other is None:
            self.free()
        else:
            UntypedStorage._free_weak_ref(other.weak)

    def dead_view(
        self, tensor: Tensor, around: Tensor | None, events: Sequence[object]
    ) -> ValueId | None:
        """The value of the latest view if *tensor* is made of it: the view no longer exists, as in
        ``Parameter(x.T)``, and has the shape of *tensor*.

        The known tensor *around* it has another shape or other strides; or *tensor* is a parameter,
        as ``Parameter(x.data)``, and no op in *events* has read the view.
        """
        entry = self.view
        if entry is None or entry() is not None or entry.seen != len(self.writes):
            return None
        same = around is not None and layout_of(around) == layout_of(tensor)
        if same and not isinstance(tensor, Parameter):
            return None
        value, is_read = _made(entry.value, events)
        if value is None or value.shape != shape_of(tensor) or same and is_read:
            return None
        return value.id

    def reach(self, tensor: Tensor) -> tuple[int, int]:
        """The range of bytes that *tensor* occupies in this storage."""
        low, high = byte_range(tensor)
        if self.others:
            other = self.others.get(memory_owner(tensor).untyped_storage()._cdata)
            shift = other.shift if other is not None else 0
            return low + shift, high + shift
        return low, high

    def expect_collective(self) -> None:
        """A collective begins to write this storage, at an unknown time."""
        self.received = ALL_VERSIONS
        self.waiting = self.waiting or []

    def collective_done(self, version: int) -> list[Waiting]:
        """The collective is done, at this *version*; returns the waiting callbacks."""
        waiting, self.waiting = self.waiting, None
        self.received = version if self.received == ALL_VERSIONS else max(self.received, version)
        return waiting or []

    def write(self, op: OpId, low: int, high: int) -> None:
        """Record that *op* wrote the bytes from *low* to *high*."""
        if not self.writes:
            self.writes = []
        self.writes.append(new_tuple(Write, (op, low, high)))

    def since(self, seen: int, low: int, high: int) -> tuple[list[Write], bool]:
        """The last writes to these bytes after the first *seen* writes, and whether they cover all.

        Earlier writes to the same bytes are left out: the op of the last write has read their
        results.
        """
        many = len(self.writes) - seen
        if many > FEW:
            self.last_writes = self.last_writes or LastWrites()
            self.last_writes.extend(self.writes)
            known = self.last_writes.since(seen, low, high, many)
            if known is not None:
                return [self.writes[number] for number in known[0]], known[1]
        found: list[Write] = []
        rest = [(low, high)]
        for place in range(len(self.writes) - 1, seen - 1, -1):
            write = self.writes[place]
            if write.low == write.high:
                continue
            left = [*_without(rest, write)]
            if left != rest:
                found.append(write)
                rest = left
                if not rest:
                    break
        return found[::-1], not rest


def _made(value: ValueId, events: Sequence[object]) -> tuple[Value | None, bool]:
    """The event of *value*, and whether an op has read it since."""
    is_read = False
    for event in reversed(events):
        if type(event) is Op:
            is_read = is_read or any(slot.value == value for slot in event.inputs)
        elif type(event) is Value and event.id == value:
            return event, is_read
    return None, is_read


def _without(ranges: list[tuple[int, int]], write: Write) -> Iterator[tuple[int, int]]:
    """*ranges* without the bytes of *write*."""
    for low, high in ranges:
        if low < write.low:
            yield low, min(high, write.low)
        if write.high < high:
            yield max(low, write.high), high


class ExternalRange(NamedTuple):
    """The memory addresses from *low* up to *high*, which belong to *storage*; this begins at the
    address *base*."""

    low: int
    high: int
    storage: Storage
    base: int


class ExternalMemory:
    """Memory that tensors share with NumPy arrays, or with other libraries through DLPack.

    A tensor created from such memory has another storage with the same addresses.
    """

    def __init__(self) -> None:
        self._known: list[ExternalRange] = []  # sorted

    def add(self, lent: ExternalRange) -> None:
        """Add a range that overlaps with no other."""
        self._known.insert(bisect_right(self._known, lent.low, key=itemgetter(0)), lent)

    def extend(self, known: ExternalRange, low: int, high: int) -> None:
        """Add those of the addresses from *low* to *high* that are in no range to the storage of
        *known*."""
        while low < high:
            other = self.overlapping(low, high)
            begin, end = (high, high) if other is None else (other.low, other.high)
            if low < begin:
                self.add(known._replace(low=low, high=begin))
            low = end

    def overlapping(self, low: int, high: int) -> ExternalRange | None:
        """The first range that overlaps with these addresses and is not freed, or None."""
        place = bisect_right(self._known, low, key=itemgetter(1))
        while place < len(self._known) and self._known[place].low < high:
            known = self._known[place]
            if known.storage.weak and not known.storage.has_ended():
                return known
            del self._known[place]
        return None

    def clear(self) -> None:
        """Remove all ranges."""
        self._known.clear()


class Storages:
    """The known storages, by address."""

    def __init__(self) -> None:
        self._known: dict[int, Storage] = {}
        self._lock = threading.Lock()
        self._many = 1000
        self._numbers = 0
        self.expecting = False
        self._external = ExternalMemory()

    def of(self, tensor: Tensor) -> Storage:
        """The storage of *tensor*, which is added if it is unknown."""
        try:
            owner = tensor if type(tensor) in PLAIN_TENSOR_TYPES else memory_owner(tensor)
            memory = owner.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse, or a wrapper without memory
            return Storage(None, NO_STORAGE)
        address = memory._cdata
        storage = self._known.get(address)
        if storage is None:
            if len(self._known) >= self._many:
                self._forget_freed()
            storage = self._known[address] = Storage(memory, self._numbers)
            self._numbers += 1
        return storage

    def share_memory(self, given: list[tuple[str, Tensor]], result: Any) -> bool:
        """Record that a function shares the memory of the *given* tensors with NumPy or DLPack, or
        has created *result* from such memory. Returns whether *result* shares that of a tensor."""
        for _, tensor in given:
            storage = self.of(tensor)
            if storage.number != NO_STORAGE:
                self._unify(storage, memory_owner(tensor).untyped_storage())
        if not is_tensor(result):
            return False
        storage = self.of(result)
        return self.of_memory(result, storage) is not storage

    def of_memory(self, tensor: Tensor, storage: Storage) -> Storage:
        """The known storage with the memory of *tensor*; *storage*, its own, if there is no other.
        """
        if storage.number == NO_STORAGE:
            return storage
        memory = memory_owner(tensor).untyped_storage()
        return storage if memory.resizable() else self._unify(storage, memory)

    def _unify(self, storage: Storage, memory: UntypedStorage) -> Storage:
        """The known storage with the addresses of *memory*; if there is none, *storage*."""
        if memory.device.type == "meta" or not memory.nbytes():
            return storage
        low, high = memory.data_ptr(), memory.data_ptr() + memory.nbytes()
        known = self._external.overlapping(low, high)
        if known is None:
            self._external.add(ExternalRange(low, high, storage, low))
            return storage
        if known.storage is not storage:
            known.storage.join(memory._cdata, SameMemory(memory._weak_ref(), low - known.base))
            self._external.extend(known, low, high)
            self._known[memory._cdata] = known.storage
            storage.free()
        return known.storage

    def when_released(self, tensor: Tensor, callback: Callable[[], None]) -> Any:
        """Call *callback* when *tensor*'s memory is freed, if the result is kept until then."""
        memory = memory_owner(tensor).untyped_storage()
        if SEES_STORAGES_END:
            return weakref.ref(memory, lambda _: callback())
        address = memory._cdata
        self._known[address].free()

        def released(_: Any) -> None:
            self._known.pop(address, None)
            callback()

        return weakref.ref(memory, released)

    def when_arrived(self, tensor: Tensor, look: Callable[[Tensor], None]) -> None:
        """Call *look* with *tensor*: now, or after the program has waited for its collective.

        If that wait is not seen, never, because reading the tensor would wait.
        """
        if not self.expecting and not is_pending(tensor):
            return look(tensor)
        storage = self.of(tensor)
        if storage.waiting is not None:
            storage.waiting.append((weakref.ref(tensor), look))
        elif storage.received != UNVERSIONED or not is_pending(tensor):
            look(tensor)

    def expect_collective(self, tensor: Tensor) -> None:
        """A collective begins to write *tensor*."""
        self.expecting = True
        self.of(tensor).expect_collective()

    def collective_done(self, tensor: Tensor) -> None:
        """The collective that wrote *tensor* is done: call the waiting callbacks."""
        for ref, look in self.of(tensor).collective_done(version_of(memory_owner(tensor))):
            seen = ref()
            if seen is not None:
                look(seen)

    def _forget_freed(self) -> None:
        """Remove the storages that PyTorch has freed."""
        with self._lock:  # several threads may share this
            ended = [
                (address, storage) for address, storage in self._known.items()
                if storage.has_ended() or storage.has_lost(address)
            ]
            for address, storage in ended:
                del self._known[address]
                storage.forget(address)
            self._many = 2 * len(self._known) + 1000

    def clear(self) -> None:
        """Remove all storages, and free the weak references to them."""
        for storage in self._known.values():
            storage.free()
        self._known.clear()
        self._external.clear()

    def __del__(self) -> None:
        self.clear()
