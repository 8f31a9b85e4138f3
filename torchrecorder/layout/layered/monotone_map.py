"""Stretch: a monotone map of an axis that makes room inside given intervals."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple


class Wish(NamedTuple):
    """An interval of the axis, and how much longer it is to become."""

    begin: float
    end: float
    growth: float


class Stretch:
    """Moves points apart so that each interval gets at least its growth.

    The axis is cut at the ends of all intervals. Shorter intervals are served first, and
    what one has got counts for those around it; what is missing is spread over the pieces
    of an interval by their length. No two points come closer to each other.
    """

    def __init__(self, wishes: Iterable[Wish]) -> None:
        asked = sorted(
            {wish for wish in wishes if wish.growth > 0 and wish.end > wish.begin},
            key=lambda wish: (wish.end - wish.begin, wish.begin, wish.growth),
        )
        self.cuts = sorted({at for wish in asked for at in (wish.begin, wish.end)})
        seat = {at: number for number, at in enumerate(self.cuts)}
        growth = [0.0] * (len(self.cuts) - 1)
        for wish in asked:
            pieces = range(seat[wish.begin], seat[wish.end])
            missing = wish.growth - sum(growth[piece] for piece in pieces)
            if missing > 0:
                share = missing / (wish.end - wish.begin)
                for piece in pieces:
                    growth[piece] += share * (self.cuts[piece + 1] - self.cuts[piece])
        self.moved = [0.0]
        for more in growth:
            self.moved.append(self.moved[-1] + more)

    def __call__(self, at: float) -> float:
        """Where *at* comes to be."""
        if not self.cuts or at <= self.cuts[0]:
            return at
        if at >= self.cuts[-1]:
            return at + self.moved[-1]
        piece = bisect_right(self.cuts, at) - 1
        begin, end = self.cuts[piece], self.cuts[piece + 1]
        share = (at - begin) / (end - begin)
        return at + self.moved[piece] + share * (self.moved[piece + 1] - self.moved[piece])
