"""Storages: the memory that tensors share with each other and with arrays, and writes to it."""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

from torch import Tensor, UntypedStorage

from torchrecorder.capture.internals.access import SEES_STORAGES_END
from torchrecorder.capture.internals.processes import is_pending
from torchrecorder.capture.tensors.describe import (
    UNVERSIONED, memory_owner, reach_of, version_of,
)
from torchrecorder.events import NO_STORAGE, OpId, ValueId, made

ANYTIME = 1 << 62
"""Larger than every version of a tensor."""

Waiting = tuple["weakref.ref[Tensor]", Callable[[Tensor], None]]
"""A tensor that a collective writes, and the callback for its end."""


class Write(NamedTuple):
    """An op wrote the bytes from *low* up to *high* of a storage."""

    op: OpId
    low: int
    high: int


class Other(NamedTuple):
    """A storage whose memory begins *shift* bytes after that of the known one, as a weak
    reference."""

    weak: Any
    shift: int


class Storage:
    """Memory that tensors share, and the writes to it.

    A weak reference, freed by `Storages`, keeps the address from being reused. It outlives the
    known tensors, because unseen tensors may share the memory. The result of a collective is
    written in another thread: up to the version *received*, the collective was the writer.
    """

    __slots__ = (
        "weak", "held", "number", "writes", "last", "tensors", "faded", "received", "waiting",
        "others",
    )  # fmt: skip

    def __init__(self, memory: UntypedStorage | None, number: int) -> None:
        without_data = not SEES_STORAGES_END and memory is not None and memory.device.type == "meta"
        self.held = memory if without_data else None  # there, freeing a weak one harms the heap
        self.weak: Any = memory._weak_ref() if memory is not None and not without_data else 0
        self.number = number
        self.writes: list[Write] | tuple[()] = ()
        self.last: ValueId | None = None
        self.tensors: dict[int, None] = {}  # ids of known tensors that are or were in it, in order
        self.faded = False  # a known tensor in it no longer exists
        self.received = UNVERSIONED
        self.waiting: list[Waiting] | None = None  # callbacks for the end of a collective
        self.others: dict[int, Other] | None = None  # by address, others with the same memory

    def free(self) -> None:
        """Allow the address to be reused."""
        for weak in self._weak_references() if self.weak else ():
            UntypedStorage._free_weak_ref(weak)
        self.weak, self.held, self.others = 0, None, None

    def has_ended(self) -> bool:
        """Whether the memory is freed."""
        return bool(self.weak) and all(map(UntypedStorage._expired, self._weak_references()))

    def _weak_references(self) -> list[Any]:
        return [self.weak, *(other.weak for other in (self.others or {}).values())]

    def join(self, address: int, other: Other) -> None:
        """The storage at this *address* has the same memory, or a part of it."""
        self.others = self.others or {}
        self.others[address] = other

    def has_lost(self, address: int) -> bool:
        """Whether the other storage at this *address* is freed."""
        other = self.others.get(address) if self.others else None
        return other is not None and bool(UntypedStorage._expired(other.weak))

    def forget(self, address: int) -> None:
        """Allow this *address* to be reused: that of another storage, or of this one."""
        other = self.others.pop(address, None) if self.others else None
        if other is None:
            self.free()
        else:
            UntypedStorage._free_weak_ref(other.weak)

    def reach(self, tensor: Tensor) -> tuple[int, int]:
        """The range of bytes that *tensor* covers here."""
        low, high = reach_of(tensor)
        if self.others:
            other = self.others.get(memory_owner(tensor).untyped_storage()._cdata)
            shift = other.shift if other is not None else 0
            return low + shift, high + shift
        return low, high

    def expect(self) -> None:
        """A collective begins to write here, at unknown times."""
        self.received = ANYTIME
        self.waiting = self.waiting or []

    def arrive(self, version: int) -> list[Waiting]:
        """The collective is done; returns the waiting tensors and callbacks."""
        waiting, self.waiting = self.waiting, None
        self.received = version if self.received == ANYTIME else max(self.received, version)
        return waiting or []

    def write(self, op: OpId, low: int, high: int) -> None:
        """Record that *op* wrote some bytes."""
        if not self.writes:
            self.writes = []
        self.writes.append(made(Write, (op, low, high)))

    def since(self, seen: int, low: int, high: int) -> tuple[list[Write], bool]:
        """The writes after the first *seen* ones that these bytes are from, and whether all are.

        The op of a write read the earlier contents of what it wrote, so that earlier writes there
        are reached through it.
        """
        found: list[Write] = []
        rest = [(low, high)]
        for place in range(len(self.writes) - 1, seen - 1, -1):
            write = self.writes[place]
            left = [*_without(rest, write)]
            if left != rest:
                found.append(write)
                rest = left
                if not rest:
                    break
        return found[::-1], not rest


def _without(ranges: list[tuple[int, int]], write: Write) -> Iterator[tuple[int, int]]:
    """Ranges of bytes without those of a write."""
    for low, high in ranges:
        if low < write.low:
            yield low, min(high, write.low)
        if write.high < high:
            yield max(low, write.high), high


class Lent(NamedTuple):
    """The addresses from *low* up to *high*, which belong to a storage."""

    low: int
    high: int
    storage: Storage


class LentMemory:
    """Memory that tensors share with arrays of NumPy, or with others through DLPack, by address.

    A tensor that is made of such memory has a storage of its own at the same address.
    """

    def __init__(self) -> None:
        self._known: list[Lent] = []  # sorted

    def add(self, lent: Lent) -> None:
        """Add memory that overlaps with no other."""
        self._known.insert(bisect_right(self._known, lent.low, key=itemgetter(0)), lent)

    def around(self, low: int, high: int) -> Lent | None:
        """The living memory at some of these addresses."""
        place = bisect_right(self._known, low, key=itemgetter(0))
        for known in self._known[max(place - 1, 0) : place + 1]:
            if known.low < high and low < known.high:
                if known.storage.weak and not known.storage.has_ended():
                    return known
                self._known.remove(known)
        return None

    def clear(self) -> None:
        """Forget all of it."""
        self._known.clear()


class Storages:
    """All known storages, by address."""

    def __init__(self) -> None:
        self._known: dict[int, Storage] = {}
        self._lock = threading.Lock()
        self._many = 1000
        self._numbers = 0
        self.expecting = False
        self._lent = LentMemory()

    def of(self, tensor: Tensor) -> Storage:
        """The storage of *tensor*; a new one if it has none."""
        try:
            memory = memory_owner(tensor).untyped_storage()
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

    def exchange(self, given: list[tuple[str, Tensor]], result: Any) -> bool:
        """A function passes the memory of the *given* tensors to an array of NumPy or through
        DLPack, or makes its *result* from there. Whether this has the memory of a known tensor."""
        for _, tensor in given:
            storage = self.of(tensor)
            if storage.number != NO_STORAGE:
                self._meet(storage, memory_owner(tensor).untyped_storage())
        if given or not isinstance(result, Tensor):
            return False
        storage = self.of(result)
        return self.around(result, storage) is not storage

    def around(self, tensor: Tensor, storage: Storage) -> Storage:
        """The storage with the memory of *tensor*, if it is known under another address than
        *storage*, or else this one."""
        if storage.number == NO_STORAGE:
            return storage
        memory = memory_owner(tensor).untyped_storage()
        return storage if memory.resizable() else self._meet(storage, memory)

    def _meet(self, storage: Storage, memory: UntypedStorage) -> Storage:
        """The storage that has *memory*: a known one, or *storage* from now on."""
        if memory.device.type == "meta" or not memory.nbytes():
            return storage
        low = memory.data_ptr()
        known = self._lent.around(low, low + memory.nbytes())
        if known is None:
            self._lent.add(Lent(low, low + memory.nbytes(), storage))
            return storage
        if known.storage is not storage:
            known.storage.join(memory._cdata, Other(memory._weak_ref(), low - known.low))
            self._known[memory._cdata] = known.storage
            storage.free()
        return known.storage

    def when_released(self, tensor: Tensor, tell: Callable[[], None]) -> Any:
        """Call *tell* when the memory of *tensor* is released, if the result is kept until then."""
        memory = memory_owner(tensor).untyped_storage()
        if SEES_STORAGES_END:
            return weakref.ref(memory, lambda _: tell())
        address = memory._cdata
        self._known[address].free()

        def released(_: Any) -> None:
            self._known.pop(address, None)
            tell()

        return weakref.ref(memory, released)

    def when_arrived(self, tensor: Tensor, look: Callable[[Tensor], None]) -> None:
        """Call *look* on *tensor*: now, or when the program has waited for its collective.

        Never, if the wait is not seen: reading the tensor would wait.
        """
        if not self.expecting and not is_pending(tensor):
            return look(tensor)
        storage = self.of(tensor)
        if storage.waiting is not None:
            storage.waiting.append((weakref.ref(tensor), look))
        elif storage.received != UNVERSIONED or not is_pending(tensor):
            look(tensor)

    def expect(self, tensor: Tensor) -> None:
        """A collective begins to write *tensor*."""
        self.expecting = True
        self.of(tensor).expect()

    def arrive(self, tensor: Tensor) -> None:
        """The program has waited for the collective that wrote *tensor*."""
        for ref, look in self.of(tensor).arrive(version_of(memory_owner(tensor))):
            seen = ref()
            if seen is not None:
                look(seen)

    def _forget_freed(self) -> None:
        """Remove the entries of freed memory."""
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
        """Remove all storages, whose addresses may be reused from now on."""
        for storage in self._known.values():
            storage.free()
        self._known.clear()
        self._lent.clear()

    def __del__(self) -> None:
        self.clear()
