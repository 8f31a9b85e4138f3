"""Storages: which tensors share memory, and who wrote it last."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor, UntypedStorage

from torchrecorder.capture.internals.access import SEES_STORAGES_END
from torchrecorder.capture.internals.processes import is_awaited
from torchrecorder.capture.tensors.describe import UNVERSIONED, bearer, version_of
from torchrecorder.events import OpId, ValueId, made

NO_STORAGE = -1
"""The number of a storage that cannot be shared."""

ANYTIME = 1 << 62
"""Above every version of a tensor."""

Waiting = tuple["weakref.ref[Tensor]", Callable[[Tensor], None]]
"""A tensor that a collective writes, and what is to see it then."""


class Write(NamedTuple):
    """An op wrote the bytes from *low* up to *high* of a storage."""

    op: OpId
    low: int
    high: int


class Storage:
    """Memory that tensors share, and who wrote it.

    A weak reference, freed by `Storages`, keeps the address from being given to other memory.
    It outlives the tensors that we know: what was made out of sight over the same memory may
    come later. What a collective receives is written in a thread of its own: up to the version
    *received* it is that collective that wrote, whenever it did.
    """

    __slots__ = ("weak", "number", "writes", "last", "faded", "received", "waiting")

    def __init__(self, weak: Any, number: int) -> None:
        self.weak = weak
        self.number = number
        self.writes: list[Write] | tuple[()] = ()
        self.last: ValueId | None = None
        self.faded = False  # a tensor that we knew in it is no more
        self.received = UNVERSIONED
        self.waiting: list[Waiting] | None = None  # for the end of a collective

    def free(self) -> None:
        """Let the address be given to other memory."""
        if self.weak:
            UntypedStorage._free_weak_ref(self.weak)
            self.weak = 0

    def expect(self) -> None:
        """A collective begins to write here; nobody knows when, or how often."""
        self.received = ANYTIME
        self.waiting = self.waiting or []

    def arrive(self, version: int) -> list[Waiting]:
        """The collective has been waited for; gives what waited with it."""
        waiting, self.waiting = self.waiting, None
        self.received = version if self.received == ANYTIME else max(self.received, version)
        return waiting or []

    def write(self, op: OpId, low: int, high: int) -> None:
        """*op* wrote some bytes."""
        if not self.writes:
            self.writes = []
        self.writes.append(made(Write, (op, low, high)))

    def since(self, seen: int, low: int, high: int) -> list[Write]:
        """The writes after the first *seen* ones that reach these bytes.

        One that spans them all ends the search: it read what it wrote to, so that whatever
        was written before lies behind it.
        """
        found = []
        for place in range(len(self.writes) - 1, seen - 1, -1):
            write = self.writes[place]
            if write.low < high and low < write.high:
                found.append(write)
                if write.low <= low and high <= write.high:
                    break
        return found[::-1]


class Storages:
    """Every storage met so far, by the address of its memory."""

    def __init__(self) -> None:
        self._known: dict[int, Storage] = {}
        self._lock = threading.Lock()
        self._many = 1000
        self._numbers = 0
        self.expecting = False

    def of(self, tensor: Tensor) -> Storage:
        """The storage of *tensor*; a fresh one if it has none of its own."""
        try:
            memory = bearer(tensor).untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse, or a wrapper without memory
            return Storage(0, NO_STORAGE)
        address = memory._cdata
        storage = self._known.get(address)
        if storage is None:
            if len(self._known) >= self._many:
                self._forget_freed()
            storage = self._known[address] = Storage(memory._weak_ref(), self._numbers)
            self._numbers += 1
        return storage

    def when_released(self, tensor: Tensor, tell: Callable[[], None]) -> Any:
        """Call *tell* once the memory of *tensor* is released, while what this gives is kept."""
        memory = bearer(tensor).untyped_storage()
        if SEES_STORAGES_END:
            return weakref.ref(memory, lambda _: tell())
        address = memory._cdata
        self._known[address].free()

        def released(_: Any) -> None:
            self._known.pop(address, None)
            tell()

        return weakref.ref(memory, released)

    def when_arrived(self, tensor: Tensor, look: Callable[[Tensor], None]) -> None:
        """Let *look* see *tensor*: now, or once somebody has waited for the collective behind it.

        Never, if nobody tells of that: to look would be to wait.
        """
        if not self.expecting and not is_awaited(tensor):
            return look(tensor)
        storage = self.of(tensor)
        if storage.waiting is not None:
            storage.waiting.append((weakref.ref(tensor), look))
        elif storage.received != UNVERSIONED or not is_awaited(tensor):
            look(tensor)

    def expect(self, tensor: Tensor) -> None:
        """A collective begins to write *tensor*."""
        self.expecting = True
        self.of(tensor).expect()

    def arrive(self, tensor: Tensor) -> None:
        """Somebody has waited for the collective that wrote *tensor*."""
        for ref, look in self.of(tensor).arrive(version_of(bearer(tensor))):
            seen = ref()
            if seen is not None:
                look(seen)

    def _forget_freed(self) -> None:
        """Drop what is known of memory that nobody uses any more."""
        with self._lock:  # several threads may share this
            for address, storage in list(self._known.items()):
                if storage.weak and UntypedStorage._expired(storage.weak):
                    del self._known[address]
                    storage.free()
            self._many = 2 * len(self._known) + 1000

    def clear(self) -> None:
        """Forget every storage; their addresses may be given to other memory."""
        for storage in self._known.values():
            storage.free()
        self._known.clear()

    def __del__(self) -> None:
        self.clear()
