"""Ranges of bytes in one storage: who wrote each byte last, and which ranges are around others.

Both take time in proportion to what they find, also when a storage has thousands of views.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import ClassVar, NamedTuple

from torchrecorder.events import OpId

LOWEST = -(1 << 62)
"""No byte is below this one; those of memory before a storage that shares it are negative."""

_low, _high = itemgetter(0), itemgetter(1)


class Write(NamedTuple):
    """An op wrote the bytes from *low* up to *high* of a storage."""

    op: OpId
    low: int
    high: int


class LastWrites:
    """The number of the last write to each byte, for ranges that do not overlap, in order."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, int, int]] = []  # low, high, number of the write
        self._known = 0

    def extend(self, writes: Sequence[Write]) -> None:
        """Add those of all *writes* that are new."""
        for write in writes[self._known:]:
            if write.low < write.high:
                self._add(write.low, write.high, self._known)
            self._known += 1

    def _add(self, low: int, high: int, number: int) -> None:
        first, end = self._places(low, high)
        new = [(low, high, number)]
        if first < end and self._parts[first][0] < low:
            new.insert(0, (self._parts[first][0], low, self._parts[first][2]))
        if first < end and high < self._parts[end - 1][1]:
            new.append((high, *self._parts[end - 1][1:]))
        self._parts[first:end] = new

    def _places(self, low: int, high: int) -> tuple[int, int]:
        """The first of the parts that overlap with these bytes, and the first one behind them."""
        first = bisect_right(self._parts, low, key=_high)
        return first, bisect_left(self._parts, high, first, key=_low)

    def since(self, seen: int, low: int, high: int, most: int) -> tuple[list[int], bool] | None:
        """The numbers of the last writes to these bytes, from the number *seen* on, and whether
        they cover all bytes; None if that would look at more than *most* parts."""
        first, end = self._places(low, high)
        if end - first > most:
            return None
        found = [part for part in self._parts[first:end] if part[2] >= seen]
        covered = sum(min(part[1], high) - max(part[0], low) for part in found)
        return sorted({part[2] for part in found}), covered == high - low


class TensorRanges:
    """The bytes of tensors, by their ``id()``.

    Each range is in the smallest cell around it. The size of a cell is a power of 2, and two cells
    make a larger one. So the ranges around some bytes are in the few cells around these.
    """

    lock: ClassVar = threading.RLock()
    """Held while ranges are used: tensors that several threads share have one storage."""

    def __init__(self) -> None:
        self._ranges: dict[int, tuple[int, int, int]] = {}  # low, high, a number that counts up
        self._cells: dict[tuple[int, int], dict[int, None]] = {}
        self._starts: list[tuple[int, int]] = []  # sorted
        self._levels: set[int] = set()
        self._numbers = 0
        self._many = 1000

    def forget_dead(self, living: Callable[[int], object | None]) -> None:
        """If there are twice as many as last time, remove the keys that are not *living*."""
        if len(self._ranges) >= self._many:
            for key in [key for key in self._ranges if living(key) is None]:
                self.drop(key)
            self._many = 2 * len(self._ranges) + 1000

    def put(self, key: int, low: int, high: int) -> None:
        """Set the range of *key*, the latest now: its ``id()`` may be that of an older tensor, too.
        """
        self.drop(key)
        self._ranges[key] = low, high, self._numbers
        self._numbers += 1
        cell = _cell(low, high)
        self._levels.add(cell[0])
        self._cells.setdefault(cell, {})[key] = None
        insort(self._starts, (low, key))

    def drop(self, key: int) -> None:
        """Remove *key*, if it is there."""
        known = self._ranges.pop(key, None)
        if known is not None:
            cell = _cell(*known[:2])
            del self._cells[cell][key]
            if not self._cells[cell]:
                del self._cells[cell]
            del self._starts[bisect_left(self._starts, (known[0], key))]

    def around(self, low: int, high: int) -> list[int]:
        """The keys whose ranges contain these bytes; the smallest ranges first, and among equal
        ones the latest."""
        found = [
            (end - start, -number, key)
            for key, (start, end, number) in self._in_cells_around(low, high)
            if start <= low and high <= end
        ]
        return [key for _, _, key in sorted(found)]

    def overlapping(self, low: int, high: int) -> list[int]:
        """The keys whose ranges overlap with these bytes, in any order."""
        around = [
            key for key, (start, end, _) in self._in_cells_around(low, low)
            if start <= low < end and start < high
        ]
        first = bisect_left(self._starts, (low + 1,))
        return around + [key for _, key in self._starts[first:bisect_left(self._starts, (high,))]]

    def _in_cells_around(self, low: int, high: int) -> list[tuple[int, tuple[int, int, int]]]:
        smallest, _ = _cell(low, high)
        return [
            (key, self._ranges[key])
            for level in self._levels if level >= smallest
            for key in self._cells.get((level, low - LOWEST >> level), ())
        ]


def _cell(low: int, high: int) -> tuple[int, int]:
    """The smallest cell around these bytes and the next one: its size as a power, and its place."""
    low, high = low - LOWEST, high - LOWEST
    level = (low ^ high).bit_length()
    return level, low >> level
