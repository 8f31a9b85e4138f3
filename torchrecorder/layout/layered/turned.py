"""Turned: open scopes that are mirrored, upside down, or have their reader above them."""

from __future__ import annotations

from torchrecorder.layout.layered.constants import ARROW_MARGIN, PAD, SEPARATION
from torchrecorder.layout.layered.positions import TOLERANCE, HeaderSpace, PlacedScope, PlanePoint
from torchrecorder.layout.layered.template import Template


def mirrored(scope: PlacedScope) -> PlacedScope:
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


def upside_down(scope: PlacedScope, space: HeaderSpace) -> PlacedScope:
    """*scope* with its flow running up; its header stays at the top."""
    high = scope.height

    def turned(point: PlanePoint) -> PlanePoint:
        x, y = point
        if y <= TOLERANCE:
            return x, high
        return (x, 0.0) if y >= high - TOLERANCE else (x, high - y + space.before)

    return scope._replace(
        frames=tuple(
            frame._replace(along=high - frame.along - frame.height + space.before)
            for frame in scope.frames
        ),
        paths=tuple(path._replace(points=tuple(map(turned, path.points))) for path in scope.paths),
        up=not scope.up,
    )


def reader_above(template: Template, child: int) -> int | None:
    """The child that may be placed above another child: the only one after it, if the only tensor
    between them is its only input. Otherwise None."""
    row = template.children[child].row
    after = [place for place, closed in enumerate(template.children) if closed.row > row]
    if len(after) != 1 or row == 0:
        return None
    trunks = [(trunk.source.child, trunk.branches) for trunk in template.trunks]
    reads = [
        (source, branches)
        for source, branches in trunks
        if any(branch.sink.child == after[0] for branch in branches)
    ]
    gives = [(source, each) for source, each in trunks if source in (child, after[0])]
    alone = reads == gives and len(reads) == 1 and len(reads[0][1]) == 1
    return after[0] if alone and reads[0][0] == child else None


def risen(scope: PlacedScope, template: Template, child: int, reader: int) -> PlacedScope:
    """*scope* with a reader above the child that it reads, beside the boxes there."""
    here, frames, paths = scope.frames[child], list(scope.frames), list(scope.paths)
    trunks = [template.trunks[path.trunk].source.child for path in paths]
    number = trunks.index(child)
    above = [frame for frame in frames if frame.end <= here.along]
    row = max(frame.end for frame in above)
    x, port = paths[number].points[0][0], paths[number].points[-1][0] - frames[reader].across
    free = max(frame.across + frame.width for frame in above) + SEPARATION[True, True]
    there = frames[reader]._replace(
        across=max(x - port, free), along=row - frames[reader].height
    )
    frames[reader], level, to = there, here.along - ARROW_MARGIN / 2, there.across + port
    way = ((x, here.along), (x, level), (to, level), (to, row))
    paths[number] = paths[number]._replace(points=way)
    return scope._replace(
        width=max(scope.width, there.across + there.width + PAD),
        height=max(frame.end for frame in frames) + PAD,
        frames=tuple(frames),
        paths=tuple(paths),
    )
