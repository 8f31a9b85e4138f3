"""U-shape: a scope as a U, down on the left, up on the right, with horizontal skip connections.

The scope is cut at its bottom. The part before the cut is unchanged; the part after it is placed
beside it, upside down. Both sides are stretched until the ends of each skip connection are at the
same height.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, chain

from torchrecorder.layout.layered.constants import PAD, TRACK_MARGIN, TRACK_PITCH
from torchrecorder.layout.layered.ports import OUTSIDE
from torchrecorder.layout.layered.positions import (
    TOLERANCE, BranchPath, Frame, FramesAlong, HeaderSpace, PlacedScope, PlanePoint,
)
from torchrecorder.layout.layered.side_by_side import CutEdge, UShape
from torchrecorder.layout.layered.u_strays import LaneSpan, lane_order, side_places

MIN_SIDE_DISTANCE = 44.0
"""The minimum distance between the two sides, in points."""

SIDE_MARGIN = 12.0
"""The distance between a side and the edges beside it, in points."""

CORNER_MARGIN = 8.0
"""The minimum distance of an edge that enters the side of a box from its corners, in points."""


def u_shape(
    scope: PlacedScope, shape: UShape, space: HeaderSpace, *, risen: bool, mirror: bool
) -> PlacedScope | None:
    """*scope* as a U; None if an edge would run through a box.

    *risen*: edges leave the scope at the top, where the right side ends, and not at the bottom.
    *mirror*: left and right are exchanged on the right side.
    """
    return _UShapeLayout(scope, shape, space, risen, mirror).composed()


def comes_from_right(scope: PlacedScope, shape: UShape) -> bool:
    """Whether skip connections enter most children to the right of their other inputs."""
    votes = 0
    ends = sorted((y, x) for x, y in (path.points[-1] for path in scope.paths))
    for pair in shape.skips:
        sink = pair[0].sink
        frame = scope.frames[sink]
        skips = [scope.paths[line.path].points[-1][0] for line in pair]
        near = ends[bisect_left(ends, (frame.along - TOLERANCE,)):
                    bisect_left(ends, (frame.along + TOLERANCE,))]
        others = [x for _, x in near if 0 < x - frame.across < frame.width and x not in skips]
        if sink in scope.inner and others:
            votes += 1 if min(skips) > max(others) else -1
    return votes > 0


def right_side(scope: PlacedScope, shape: UShape) -> list[int]:
    """The children after the cut."""
    return [
        child for child, frame in enumerate(scope.frames) if frame.along > shape.bottom - TOLERANCE
    ]


class _UShapeSide:
    """Positions along the flow on one side, with space inserted at some levels."""

    def __init__(self) -> None:
        self.tracks: dict[float, int] = {}
        self.more: dict[float, float] = {}
        self._sums: tuple[list[float], list[float]] | None = None

    def track(self, level: float) -> int:
        """A new track at a level."""
        self._sums = None
        self.tracks[level] = self.tracks.get(level, 0) + 1
        return self.tracks[level] - 1

    def stretch(self, level: float, more: float) -> None:
        """Insert space at a level, beside its tracks."""
        self._sums = None
        self.more[level] = more

    def grown(self, level: float) -> float:
        """The space inserted at a level."""
        count = self.tracks.get(level, 0)
        return self.more.get(level, 0.0) + (
            TRACK_MARGIN + TRACK_PITCH * (count - 1) if count else 0.0
        )

    def at(self, y: float) -> float:
        """The new position of *y*."""
        if self._sums is None:
            levels = sorted({*self.tracks, *self.more})
            self._sums = levels, [0.0, *accumulate(map(self.grown, levels))]
        levels, sums = self._sums
        return y + sums[bisect_left(levels, y)]


class _UShapeLayout:
    """Computes the positions of a scope as a U."""

    def __init__(
        self, scope: PlacedScope, shape: UShape, space: HeaderSpace, risen: bool, mirror: bool
    ) -> None:
        self.scope, self.space, self.risen = scope, space, risen
        self.sign = -1 if mirror else 1
        self.shape = shape._replace(skips=tuple(map(self._in_order, shape.skips)))
        self.right, self.along = set(right_side(scope, shape)), FramesAlong(scope.frames)
        self.across = {line.path for line in (*chain(*shape.skips), *shape.others)}
        self.others = dict.fromkeys(shape.others)
        self.strays = {line: None for line in self.others if line.leaves != line.arrives}
        self.beside = self._at_sides(False), self._at_sides(True)
        self.left_side, self.right_side = _UShapeSide(), _UShapeSide()
        self.away: dict[int, int] = {}
        self.into: dict[int, int] = {}
        self._find_tracks()
        self._level()
        self.lanes = self._ordered_lanes()
        self._sideways()

    # Tracks

    def _in_order(self, pair: tuple[CutEdge, ...]) -> tuple[CutEdge, ...]:
        """The skip connections of a level, in the order in which they run from top to bottom."""
        paths = self.scope.paths
        return tuple(sorted(pair, key=lambda line: self.sign * paths[line.path].points[-1][0]))

    def _at_sides(self, right: bool) -> dict[int, float]:
        """The edges that leave, or on the *right* enter, a box at its side, where that is free.

        Their positions are measured from the middle of the side, where skip connections are. The
        others are above or below those, in the order of the levels at their other ends.
        """
        found: dict[int, float] = {}
        at_child: dict[int, list[CutEdge]] = {}
        for line in (*chain(*self.shape.skips), *self.strays):
            at_child.setdefault(line.sink if right else line.source, []).append(line)
        for child, lines in at_child.items():
            if child == OUTSIDE or child in self.scope.inner or self._beside(child, right):
                continue
            pair = [line for line in lines if line not in self.strays]
            for some, middle in ((lines, pair or lines), (lines, lines), (pair, pair)):
                places = side_places(some, middle, self.strays, right)
                most = max(map(abs, places.values()), default=0.0)
                if most + CORNER_MARGIN <= self.scope.frames[child].height / 2:
                    found.update(places)
                    break
        return found

    def _beside(self, child: int, right: bool) -> bool:
        """Whether another box is between a child and the other side of the U."""
        frames = self.scope.frames
        here = frames[child]
        return any(
            (frames[other].across > here.across) != (right and self.sign > 0)
            for other in self.along.between(here.along, here.end)
            if (other in self.right) == right and other != child
        )

    def _find_tracks(self) -> None:
        """Assign tracks to the edges that leave or enter a box at its end: at each level, the
        rightmost edge turns first."""
        left, right, bottom = self.left_side, self.right_side, self.shape.bottom
        leaving: dict[int, int] = {}
        self.below = _UShapeSide()
        for line in self._from_right(False):
            if line.path not in self.beside[False]:
                other = line in self.others
                side = self.below if other and line.leaves == bottom else left
                key = line.trunk if other else ~line.path
                if key not in leaving:
                    leaving[key] = side.track(line.leaves)
                self.away[line.path] = leaving[key]
        for line in self._from_right(True):
            if line.path not in self.beside[True] and line.leaves != line.arrives:
                self.into[line.path] = right.track(line.arrives)

    def _from_right(self, right: bool) -> list[CutEdge]:
        """The edges that cross the cut, by their position on one side, from right to left; the skip
        connections of a level stay together."""
        groups = [*map(list, self.shape.skips), *([line] for line in self.shape.others)]
        end = -1 if right else 0
        sign = self.sign if right else 1
        at = [sign * self.scope.paths[group[-1].path].points[end][0] for group in groups]
        order = sorted(range(len(groups)), key=lambda place: -at[place])
        return [
            line for place in order
            for line in (reversed(groups[place]) if right else groups[place])
        ]

    # Along the flow

    def _level(self) -> None:
        """Stretch both sides until both ends of each level are at the same height."""
        ends = [(self._leaves(pair[0]), self._arrives(pair[0])) for pair in self.shape.skips]
        left, right, bottom = self.left_side, self.right_side, self.shape.bottom
        first = min(self.scope.frames[child].along for child in self.right)
        first = bottom if bottom in right.tracks else first
        ends.append((left.at(bottom), right.at(first)))
        for pair, (one, other), (after, before) in zip(self.shape.skips, ends, ends[1:]):
            more = (other - before) - (after - one)
            line = pair[0]
            if more > 0:
                left.stretch(line.leaves, more)
            else:
                right.stretch(line.arrives, -more)
        self.top = self.space.before + (
            0.0 if self.risen else TRACK_MARGIN + TRACK_PITCH * len(self._exits)
        )
        outer = self.shape.skips[0][0]
        here, there = self._leaves(outer), self._arrives(outer)
        self.down = max(0.0, self.top + right.at(self.scope.height) - there - here)
        self.turn = here + self.down + there
        self.low = left.at(bottom) + self.down
        self.height = self.low + self.below.grown(bottom) + PAD

    def _leaves(self, line: CutEdge) -> float:
        """The position at which an edge leaves the left side."""
        if line.path not in self.beside[False]:
            return self._track(self.left_side, line.leaves, self.away[line.path])
        source = self.scope.frames[line.source]
        middle = self.left_side.at(source.along) + source.height / 2
        return middle + self.beside[False][line.path]

    def _arrives(self, line: CutEdge) -> float:
        """The position at which an edge enters the right side, before that is turned over."""
        if line.path not in self.beside[True]:
            return self._track(self.right_side, line.arrives, self.into[line.path], True)
        sink = self.scope.frames[line.sink]
        middle = self.right_side.at(sink.along) + sink.height / 2
        return middle - self.beside[True][line.path]

    def _track(self, side: _UShapeSide, level: float, track: int, last: bool = False) -> float:
        """The position of a track; the *last* ones are at the end of the inserted space."""
        begin = side.at(level) + (side.more.get(level, 0.0) if last else 0.0)
        return begin + TRACK_MARGIN + TRACK_PITCH * track

    def _on_left(self, y: float) -> float:
        return self.left_side.at(y) + (self.down if y > self.space.before else 0.0)

    def _on_right(self, y: float) -> float:
        return self.turn - self.right_side.at(y)

    # Across the flow

    def _over(self, x: float) -> float:
        """The new position across the flow of *x* on the right side."""
        return self.there + self.sign * x

    def _ordered_lanes(self) -> list[int]:
        """The trunks that have a lane between the sides, from left to right."""
        spans: dict[int, LaneSpan] = {}
        for line in self.strays:
            begin = self._leaves(line) + (self.down if line.leaves > self.space.before else 0.0)
            span = spans.setdefault(line.trunk, LaneSpan(begin, []))
            span.ends.append(self.turn - self._arrives(line))
        order = lane_order(list(spans.values()))
        return [trunk for _, trunk in sorted(zip(order, spans))]

    def _sideways(self) -> None:
        """Find the positions of both sides, and of the lanes between them, across the flow."""
        space = self.space
        left, right = self._extent(False), self._extent(True)
        self.here = space.offset(left[0], self.scope.entries)
        begin = left[1] + self.here
        between = max(MIN_SIDE_DISTANCE, 2 * SIDE_MARGIN + TRACK_PITCH * (len(self.lanes) - 1))
        self.lane = begin + SIDE_MARGIN
        self.there = begin + between - right[0]
        self.outer = right[1] + self.there
        self.width = self.outer + PAD
        if self._exits and not self.risen:
            self.width += SIDE_MARGIN + TRACK_PITCH * (len(self._exits) - 1)

    def _extent(self, right: bool) -> tuple[float, float]:
        """The minimum and maximum position across the flow, of boxes and edges of one side."""
        found = [] if right else list(self.scope.entries)
        for child, frame in enumerate(self.scope.frames):
            if (child in self.right) == right:
                found += [frame.across, frame.across + frame.width]
        for number, path in enumerate(self.scope.paths):
            if number not in self.across and self._is_right(path) == right:
                found += [x for x, _ in path.points]
        if right:
            found = [self.sign * at for at in found]
        return min(found), max(found)

    def _is_right(self, path: BranchPath) -> bool:
        return path.points[0][1] > self.shape.bottom

    @cached_property
    def _exits(self) -> list[float]:
        """The positions at which edges leave the scope, across the flow."""
        high = self.scope.height - TOLERANCE
        ends = [path.points[-1] for path in self.scope.paths]
        return sorted({round(x, 2) for x, y in ends if y >= high})

    # Together

    def composed(self) -> PlacedScope | None:
        """The scope as a U; None if an edge would run through a box."""
        scope = self.scope
        frames = tuple(self._frame(*item) for item in enumerate(scope.frames))
        lines = {line.path: line for line in (*chain(*self.shape.skips), *self.shape.others)}
        along, found = FramesAlong(frames), []
        for number, path in enumerate(scope.paths):
            if number in lines:
                points = self._crossing(lines[number], frames)
            else:
                points = self._kept(path)
            if number in lines and along.are_hit(points):
                return None
            found.append(path._replace(points=tuple(points)))
        exits = self._leaving
        return scope._replace(
            width=max(self.width, self.space.least),
            height=max(self.height, self.space.length),
            entries=tuple(at + self.here for at in scope.entries),
            exits=tuple(exits.get(round(at, 2), self._over(at)) for at in scope.exits),
            frames=frames,
            paths=tuple(found),
        )

    def _frame(self, child: int, frame: Frame) -> Frame:
        if child in self.right:
            far = frame.across if self.sign > 0 else frame.across + frame.width
            return frame._replace(
                across=self._over(far),
                along=self._on_right(frame.along) - frame.height,
            )
        return frame._replace(across=frame.across + self.here, along=self._on_left(frame.along))

    def _crossing(self, line: CutEdge, frames: Sequence[Frame]) -> list[PlanePoint]:
        """The corners of an edge to the right side: level, through the bottom, or over a lane."""
        points = self.scope.paths[line.path].points
        begin, end = points[0][0] + self.here, self._over(points[-1][0])
        away = self._leaves(line) + (self.down if line.leaves > self.space.before else 0.0)
        if line.leaves == line.arrives:
            there = self._on_right(points[-1][1])
            return [(begin, self._on_left(points[0][1])), (begin, away), (end, away), (end, there)]
        found = [(begin, 0.0), (begin, away)]
        if line.source != OUTSIDE:
            source = frames[line.source]
            found[0] = (begin, source.end)
            if line.path in self.beside[False]:
                found = [(source.across + source.width, away)]
        into = away
        if line in self.strays:
            lane = self.lane + TRACK_PITCH * self.lanes.index(line.trunk)
            into = self.turn - self._arrives(line)
            found += [(lane, away), (lane, into)]
        sink = frames[line.sink]
        if line.path in self.beside[True]:
            return [*found, (sink.across, into)]
        return [*found, (end, into), (end, sink.end)]

    def _kept(self, path: BranchPath) -> list[PlanePoint]:
        """A path on one side."""
        if not self._is_right(path):
            return [
                (x + self.here, 0.0 if y <= TOLERANCE else self._on_left(y)) for x, y in path.points
            ]
        high = self.scope.height - TOLERANCE
        found = [(self._over(x), self._on_right(y)) for x, y in path.points]
        if path.points[-1][1] < high:
            return found
        x = found[-1][0]
        if self.risen:
            return [*found[:-1], (x, 0.0)]
        at = round(path.points[-1][0], 2)
        order = self._exits.index(at)
        level = self.space.before + TRACK_MARGIN + TRACK_PITCH * order
        lane = self._leaving[at]
        return [*found[:-1], (x, level), (lane, level), (lane, self.height)]

    @cached_property
    def _leaving(self) -> dict[float, float]:
        """The new position of each exit of the scope, across the flow."""
        exits = self._exits
        if self.risen:
            return {at: self._over(at) for at in exits}
        last = self.outer + SIDE_MARGIN + TRACK_PITCH * (len(exits) - 1)
        return {at: last - TRACK_PITCH * order for order, at in enumerate(exits)}
