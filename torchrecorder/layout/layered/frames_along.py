"""Frames along the flow: the boxes at a position are found without a look at all others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from torchrecorder.layout.layered.cuts import TOLERANCE
from torchrecorder.layout.layered.positions import Frame, PlanePoint


class FramesAlong:
    """The boxes of a scope, sorted by their positions along the flow."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        self._frames = frames
        self._order = sorted(range(len(frames)), key=lambda child: frames[child].along)
        self._begins = [frames[child].along for child in self._order]
        self._ends = [*accumulate((frames[child].end for child in self._order), max)]

    def between(self, begin: float, end: float) -> Iterator[int]:
        """The boxes that end after *begin* and begin before *end*."""
        first, last = bisect_right(self._ends, begin), bisect_left(self._begins, end)
        return (child for child in self._order[first:last] if self._frames[child].end > begin)

    def are_hit(self, points: Sequence[PlanePoint]) -> bool:
        """Whether an edge runs through a box."""
        for (ax, ay), (bx, by) in zip(points, points[1:]):
            for child in self.between(min(ay, by) + TOLERANCE, max(ay, by) - TOLERANCE):
                frame = self._frames[child]
                low, high = frame.across + TOLERANCE, frame.across + frame.width - TOLERANCE
                if max(ax, bx) > low and min(ax, bx) < high:
                    return True
        return False
