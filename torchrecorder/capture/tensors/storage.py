"""Storages: which tensors share memory, and who wrote it last."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from torch import Tensor, UntypedStorage

from torchrecorder.capture.tensors.describe import bearer
from torchrecorder.events import OpId, ValueId, made

NO_STORAGE = -1
"""The number of a storage that cannot be shared."""


class Write(NamedTuple):
    """An op wrote the bytes from *low* up to *high* of a storage."""

    op: OpId
    low: int
    high: int


class Storage:
    """Memory that tensors share, and who wrote it.

    A weak reference, freed by `Storages`, keeps the address from being given to other memory.
    It outlives the tensors that we know: what was made out of sight over the same memory may
    come later.
    """

    __slots__ = ("weak", "number", "writes", "last", "faded")

    def __init__(self, weak: Any, number: int) -> None:
        self.weak = weak
        self.number = number
        self.writes: list[Write] | tuple[()] = ()
        self.last: ValueId | None = None
        self.faded = False  # a tensor that we knew in it is no more

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

    def _forget_freed(self) -> None:
        """Drop what is known of memory that nobody uses any more."""
        with self._lock:  # several threads may share this
            for address, storage in list(self._known.items()):
                if UntypedStorage._expired(storage.weak):
                    del self._known[address]
                    UntypedStorage._free_weak_ref(storage.weak)
            self._many = 2 * len(self._known) + 1000

    def clear(self) -> None:
        """Forget every storage; their addresses may be given to other memory."""
        for storage in self._known.values():
            UntypedStorage._free_weak_ref(storage.weak)
        self._known.clear()

    def __del__(self) -> None:
        self.clear()
