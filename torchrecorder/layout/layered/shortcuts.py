"""Shortcuts: edges that run straight from one column to the next.

An edge to another column runs up, above the columns, and down to its reader. If the reader is below
the level at which the edge leaves its column, and nothing is in the way, it crosses at that level
instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from torchrecorder.layout.layered.constants import ARROW_MARGIN
from torchrecorder.layout.layered.positions import Frame, PlacedScope, PlanePoint

CLEARANCE = 4.0
"""The distance of such an edge from everything beside it, in points."""


def with_shortcuts(scope: PlacedScope) -> PlacedScope:
    """*scope*, which is in columns, with all shortcuts. Edges that leave their column last come
    first, because the fewest edges cross them."""
    paths = list(scope.paths)
    climbs = {number: climb for number, path in enumerate(paths) if (climb := _climb(path.points))}
    for number in sorted(climbs, key=lambda number: (-climbs[number][0], number)):
        level, corner, down = climbs[number]
        points = paths[number].points
        (begin, _), (end, _) = points[corner], points[down]
        left, right = min(begin, end), max(begin, end)
        if not _holds(scope.frames, left, right, level) and not any(
            _crosses(path.points, left, right, level)
            for path in paths if path.trunk != paths[number].trunk
        ):
            way = (*points[:corner], (end, level), *points[down + 1 :])
            paths[number] = paths[number]._replace(points=way)
    return scope._replace(paths=tuple(paths))


def _climb(points: Sequence[PlanePoint]) -> tuple[float, int, int] | None:
    """The level from which an edge runs up, if it passes that level again on the way down, with the
    corner where it starts to run up and the one where it comes down. None otherwise."""
    for corner, ((_, level), (_, top)) in enumerate(zip(points, points[1:])):
        if top < level:
            break
    else:
        return None
    for down in range(corner + 2, len(points) - 1):
        (x, begin), (across, end) = points[down : down + 2]
        if x == across and begin < level < end - ARROW_MARGIN:
            return level, corner, down
    return None


def _holds(frames: Sequence[Frame], left: float, right: float, level: float) -> bool:
    """Whether a box is at a level between two positions."""
    return any(
        frame.along - CLEARANCE < level < frame.end + CLEARANCE
        and frame.across - CLEARANCE < right
        and left < frame.across + frame.width + CLEARANCE
        for frame in frames
    )


def _crosses(points: Sequence[PlanePoint], left: float, right: float, level: float) -> bool:
    """Whether an edge crosses a level between two positions, or runs along it there."""
    return any(
        min(ay, by) - CLEARANCE < level < max(ay, by) + CLEARANCE
        and min(ax, bx) - CLEARANCE < right
        and left < max(ax, bx) + CLEARANCE
        for (ax, ay), (bx, by) in zip(points, points[1:])
    )
