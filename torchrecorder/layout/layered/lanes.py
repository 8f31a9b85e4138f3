"""Lanes: long edges run side by side, beside all boxes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def lanes(spans: Sequence[tuple[int, int]]) -> list[int]:
    """The lane of each long edge: first fit, shorter edges first. Edges in one lane do not overlap.

    Args:
        spans: The first and last gap of each line, counted from 0. Lines that meet at one gap are
            there at once.
    """
    taken = _Taken(max((last for _, last in spans), default=0) + 1)
    lane = [0] * len(spans)
    for number in sorted(range(len(spans)), key=lambda index: spans[index][1] - spans[index][0]):
        lane[number] = taken.first_free(*spans[number])
    return lane


class _Taken:
    """The lanes of the edges that end in each gap, as bits of an integer, in a segment tree.

    If an edge overlaps a shorter one, it overlaps one of its ends. So the ends are sufficient if
    shorter edges come first. Comparing all pairs would be too slow: thousands of edges may run
    along thousands of gaps, as in the training steps of a model with many weights.
    """

    def __init__(self, gaps: int) -> None:
        self.leaves = 1 << (gaps - 1).bit_length()
        self.ends = [0] * (2 * self.leaves)

    def first_free(self, first: int, last: int) -> int:
        """Take the first lane that is free in all gaps from *first* to *last*."""
        taken = 0
        for node in self._inside(first, last):
            taken |= self.ends[node]
        free = ~taken & (taken + 1)  # the lowest bit that is not set
        for gap in (first, last):
            node = gap + self.leaves
            while node:
                self.ends[node] |= free
                node >>= 1
        return free.bit_length() - 1

    def _inside(self, first: int, last: int) -> Iterator[int]:
        """The smallest set of tree nodes that covers exactly these gaps."""
        left, right = first + self.leaves, last + self.leaves + 1
        while left < right:
            if left & 1:
                yield left
                left += 1
            if right & 1:
                right -= 1
                yield right
            left >>= 1
            right >>= 1
