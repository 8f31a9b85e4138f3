"""Cuts: positions between layers at which a long scope can be cut, and crossings of edges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

from torchrecorder.layout.layered.positions import TOLERANCE, BranchPath, PlacedScope, PlanePoint

CROSSING_COST = 12.0
"""A column may be this much longer, in points, if one edge less crosses the cut."""


def row_ends(scope: PlacedScope) -> list[float]:
    """The ends of layers at which a cut goes through no box, and through no edge that runs back."""
    barriers = [(frame.along, frame.end) for frame in scope.frames]
    for path in scope.paths:
        for (_, here), (_, there) in zip(path.points, path.points[1:]):
            if there < here:
                barriers.append((there, here))
    found: list[float] = []
    for begin, end in sorted(barriers):
        if found and begin < found[-1]:
            found[-1] = max(found[-1], end)
        else:
            found.append(end)
    return found


def even_cuts(scope: PlacedScope, levels: Sequence[float], columns: int) -> list[float]:
    """Cuts that give columns of similar length, and that few edges cross.

    The first column begins at the first of *levels*, the others can begin at the later ones.
    """
    crossed = dict(zip(levels, crossing(scope, levels)))
    found = [levels[0]]
    for left in range(columns, 1, -1):
        wish = found[-1] + (scope.height - found[-1]) / left
        later = levels[bisect_right(levels, found[-1]) : -1]
        if not later:
            break
        found.append(min(later, key=lambda cut: abs(cut - wish) + CROSSING_COST * crossed[cut]))
    return found[1:]


def crossing(scope: PlacedScope, levels: Sequence[float]) -> Iterator[int]:
    """The number of trunks that cross each level."""
    change = [0] * (len(levels) + 1)
    for _, paths in by_trunk(scope):
        ends = [path.points[-1][1] for path in paths]
        inside = [end for end in ends if end < scope.height - TOLERANCE]
        begin = bisect_left(levels, paths[0].points[0][1])
        change[begin] += 1
        change[max(begin, bisect_left(levels, max(inside, default=0.0)))] -= 1
    return accumulate(change[:-1])


def by_trunk(scope: PlacedScope) -> Iterator[tuple[int, list[BranchPath]]]:
    """The paths of each trunk."""
    for trunk, paths in groupby(scope.paths, key=lambda path: path.trunk):
        yield trunk, list(paths)


def until(points: Sequence[PlanePoint], level: float) -> list[PlanePoint]:
    """The part of a path before *level*, where it runs along the flow."""
    found = [points[0]]
    for point in points[1:]:
        if point[1] > level:
            return found if found[-1][1] >= level else [*found, (point[0], level)]
        found.append(point)
    return found


def since(points: Sequence[PlanePoint], level: float) -> list[PlanePoint]:
    """The part of a path after *level*, where it runs along the flow."""
    back = [(x, -y) for x, y in reversed(points)]
    return [(x, -y) for x, y in reversed(until(back, -level))]


class _StraightSegment(NamedTuple):
    """A straight segment of an edge: its position, and its extent."""

    at: float
    low: float
    high: float
    trunk: int


def crossings(scope: PlacedScope) -> int:
    """The number of crossings between segments across the flow and segments of other trunks along
    it.

    Common segments of the edges of one trunk count once.
    """
    upright = sorted(set(_straight_segments(scope, 0)))
    places = [piece.at for piece in upright]
    found = set()
    for level in set(_straight_segments(scope, 1)):
        first, last = bisect_right(places, level.low), bisect_left(places, level.high)
        for other in upright[first:last]:
            if other.low < level.at < other.high and other.trunk != level.trunk:
                found.add((other.at, level.at, other.trunk, level.trunk))
    return len(found)


def _straight_segments(scope: PlacedScope, axis: int) -> Iterator[_StraightSegment]:
    """All segments that run along (0) or across (1) the flow."""
    for path in scope.paths:
        for one, other in zip(path.points, path.points[1:]):
            if abs(one[axis] - other[axis]) < TOLERANCE:
                low, high = sorted((one[1 - axis], other[1 - axis]))
                yield _StraightSegment(round(one[axis], 2), low, high, path.trunk)
