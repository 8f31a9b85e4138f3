"""Open scopes turned over: left and right exchanged, and upside down."""

from __future__ import annotations

from torchrecorder.layout.layered.cuts import SAME
from torchrecorder.layout.layered.positions import Composed, Point, Room


def mirrored(scope: Composed) -> Composed:
    """*scope* with left and right exchanged."""
    wide = scope.width
    return scope._replace(
        entries=tuple(wide - at for at in scope.entries),
        exits=tuple(wide - at for at in scope.exits),
        frames=tuple(
            frame._replace(across=wide - frame.across - frame.width) for frame in scope.frames
        ),
        paths=tuple(
            path._replace(points=tuple((wide - x, y) for x, y in path.points))
            for path in scope.paths
        ),
    )


def upside_down(scope: Composed, room: Room) -> Composed:
    """*scope* with its flow running up; the text in its corner stays at the top."""
    high = scope.height

    def turned(point: Point) -> Point:
        x, y = point
        if y <= SAME:
            return x, high
        return (x, 0.0) if y >= high - SAME else (x, high - y + room.before)

    return scope._replace(
        frames=tuple(
            frame._replace(along=high - frame.along - frame.height + room.before)
            for frame in scope.frames
        ),
        paths=tuple(path._replace(points=tuple(map(turned, path.points))) for path in scope.paths),
        up=not scope.up,
    )
