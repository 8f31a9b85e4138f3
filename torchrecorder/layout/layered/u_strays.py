"""U-shape strays: where the other edges between the sides of a U leave, run and enter.

They share the space between the sides with the skip connections. So their order at the side of a
box is that of the levels at their other ends, and their lanes are in the order with the fewest
crossings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from torchrecorder.layout.layered.constants import TRACK_PITCH
from torchrecorder.layout.layered.side_by_side import CutEdge

OVERLAP_COST = 1000
"""The cost of two tensors on one line between two lanes; that of a crossing is 1."""


def side_places(
    lines: Sequence[CutEdge], middle: Sequence[CutEdge], strays: Collection[CutEdge], right: bool
) -> dict[int, float]:
    """The positions of edges at a side of a box, measured from that of its *middle* ones. *strays*
    of one trunk leave together."""
    seat = {line.path: line.path for line in lines}
    if not right:
        seat.update((line.path, ~line.trunk) for line in lines if line in strays)
    levels: dict[int, tuple[float, int]] = {}
    for line in lines:
        level = (line.leaves, line.source) if right else (-line.arrives, line.sink)
        levels[seat[line.path]] = min(levels.get(seat[line.path], level), level)
    order = sorted(levels, key=levels.__getitem__)
    places = {path: order.index(each) for path, each in seat.items()}
    center = [places[line.path] for line in middle]
    return {
        path: TRACK_PITCH * (place - (min(center) + max(center)) / 2)
        for path, place in places.items()
    }


class LaneSpan(NamedTuple):
    """The positions along the flow at which a trunk enters its lane from the left side, and at
    which its edges leave the lane for the right side."""

    begin: float
    ends: list[float]

    def passes(self, places: Iterable[float]) -> int:
        """The number of edges, at positions along the flow, that the lane crosses."""
        low, high = min(self.begin, *self.ends), max(self.begin, *self.ends)
        return sum(low < at < high for at in places)


def lane_order(spans: Sequence[LaneSpan]) -> list[int]:
    """The place of each lane from left to right: each is inserted where the fewest edges cross, at
    the last such place."""
    order: list[int] = []
    for number, span in enumerate(spans):
        others = (spans[other] for other in reversed(order))
        more = (_cost(span, other) - _cost(other, span) for other in others)
        costs = [*accumulate(more, initial=0)]  # compared with the last place
        order.insert(len(order) - costs.index(min(costs)), number)
    return sorted(range(len(order)), key=order.__getitem__)


def _cost(left: LaneSpan, right: LaneSpan) -> int:
    """The cost of two lanes in this order."""
    overlaps = sum(abs(end - right.begin) < TRACK_PITCH / 2 for end in left.ends)
    return left.passes([right.begin]) + right.passes(left.ends) + OVERLAP_COST * overlaps
