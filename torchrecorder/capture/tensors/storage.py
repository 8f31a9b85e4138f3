"""Storages: the memory that tensors share, and the writes to it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from torch import Tensor, UntypedStorage

from torchrecorder.capture.internals.access import SEES_STORAGES_END
from torchrecorder.capture.internals.processes import is_pending
from torchrecorder.capture.tensors.describe import UNVERSIONED, memory_owner, version_of
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


class Storage:
    """Memory that tensors share, and the writes to it.

    A weak reference, freed by `Storages`, keeps the address from being reused. It outlives the
    known tensors, because unseen tensors may share the memory. The result of a collective is
    written in another thread: up to the version *received*, the collective was the writer.
    """

    __slots__ = (
        "weak", "held", "number", "writes", "last", "tensors", "faded", "received", "waiting"
    )  # fmt: skip

    def __init__(self, memory: UntypedStorage | None, number: int) -> None:
        without_data = not SEES_STORAGES_END and memory is not None and memory.device.type == "meta"
        self.held = memory if without_data else None  # there, freeing a weak one harms the heap
        self.weak = memory._weak_ref() if memory is not None and not without_data else 0
        self.number = number
        self.writes: list[Write] | tuple[()] = ()
        self.last: ValueId | None = None
        self.tensors: dict[int, None] = {}  # ids of known tensors that are or were in it, in order
        self.faded = False  # a known tensor in it no longer exists
        self.received = UNVERSIONED
        self.waiting: list[Waiting] | None = None  # callbacks for the end of a collective

    def free(self) -> None:
        """Allow the address to be reused."""
        if self.weak:
            UntypedStorage._free_weak_ref(self.weak)
        self.weak, self.held = 0, None

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


class Storages:
    """All known storages, by address."""

    def __init__(self) -> None:
        self._known: dict[int, Storage] = {}
        self._lock = threading.Lock()
        self._many = 1000
        self._numbers = 0
        self.expecting = False

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
            for address, storage in list(self._known.items()):
                if storage.weak and UntypedStorage._expired(storage.weak):
                    del self._known[address]
                    storage.free()
            self._many = 2 * len(self._known) + 1000

    def clear(self) -> None:
        """Remove all storages, whose addresses may be reused from now on."""
        for storage in self._known.values():
            storage.free()
        self._known.clear()

    def __del__(self) -> None:
        self.clear()
