"""Lanes: where long lines run side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def lanes(spans: Sequence[tuple[int, int]]) -> list[int]:
    """The lane of each long line: first fit, shorter lines first, no two at once in one.

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
    """The lanes that are taken in each gap, as the bits of an integer.

    A segment tree: thousands of lines may run along thousands of gaps, and each of them would have
    to be compared with each lane, as in the training steps of a model with many weights.
    """

    def __init__(self, gaps: int) -> None:
        self.leaves = 1 << (gaps - 1).bit_length()
        self.anywhere = [0] * (2 * self.leaves)  # taken in some gap below a node
        self.everywhere = [0] * (2 * self.leaves)  # taken in all of them at once

    def first_free(self, first: int, last: int) -> int:
        """Take the first lane that is free in all gaps from *first* to *last*."""
        above = [*self._above(first), *self._above(last)]
        inside = [*self._inside(first, last)]
        taken = 0
        for node in above:
            taken |= self.everywhere[node]
        for node in inside:
            taken |= self.anywhere[node]
        free = ~taken & (taken + 1)  # the lowest bit that is not set
        for node in above:
            self.anywhere[node] |= free
        for node in inside:
            self.anywhere[node] |= free
            self.everywhere[node] |= free
        return free.bit_length() - 1

    def _above(self, gap: int) -> Iterator[int]:
        """The node of a gap, and those above it."""
        node = gap + self.leaves
        while node:
            yield node
            node >>= 1

    def _inside(self, first: int, last: int) -> Iterator[int]:
        """The fewest nodes below which are exactly these gaps."""
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
