"""Positions: the positions of an open scope and of everything in it.

Positions are measured across the flow and along it, from the corner where the scope begins.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from torchrecorder.layout.layered.constants import PAD

TOLERANCE = 0.01
"""Positions with a smaller difference are equal."""

PlanePoint = tuple[float, float]


class Frame(NamedTuple):
    """The position and size of a child.

    Attributes:
        across: Its near side, across the flow.
        along: Its near side, along the flow.
        width: Its size across the flow.
        height: Its size along the flow.
    """

    across: float
    along: float
    width: float
    height: float

    @property
    def end(self) -> float:
        """Its far side, along the flow."""
        return self.along + self.height


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


class BranchPath(NamedTuple):
    """The corners of a branch of a trunk, each across and along the flow."""

    trunk: int
    branch: int
    points: tuple[PlanePoint, ...]


class PlacedScope(NamedTuple):
    """An open scope.

    Attributes:
        width: Its size across the flow.
        height: Its size along the flow.
        entries: The positions across the flow at which tensors enter.
        exits: The positions at which tensors leave.
        frames: The positions of its children.
        paths: The edges between them.
        inner: The composed scopes of the open children, by the child's number.
        up: Whether its flow runs against that around it.
        in_one: Whether its title is in one line although that could be broken in two.
    """

    width: float
    height: float
    entries: tuple[float, ...]
    exits: tuple[float, ...]
    frames: tuple[Frame, ...]
    paths: tuple[BranchPath, ...]
    inner: Mapping[int, PlacedScope]
    up: bool = False
    in_one: bool = False

    @property
    def anchor(self) -> float:
        """The position across the flow that is aligned with the middle of the closed box."""
        return self.entries[0] if self.entries else self.width / 2


class HeaderSpace(NamedTuple):
    """The space that is kept free for the header, the text in the corner of an open scope.

    Attributes:
        before: Along the flow, before the first row.
        beside: Across the flow, at the near side.
        least: The minimum width of the scope across the flow.
        length: The minimum height of the scope along the flow.
        clear: The width across the flow in which no tensor may enter.
    """

    before: float = 0.0
    beside: float = 0.0
    least: float = 0.0
    length: float = 0.0
    clear: float = 0.0

    def offset(self, begin: float, entries: Sequence[float]) -> float:
        """The shift across the flow that moves everything, entries included, out of the header.

        Args:
            begin: The smallest position of boxes and edges.
            entries: The positions at which tensors enter.
        """
        first = min(entries, default=begin + self.clear)
        return max(PAD + self.beside - begin, self.clear - first)
