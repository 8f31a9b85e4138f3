"""Multi-column: a long open scope in columns, like text on a page.

The scope is cut between layers, and each part is placed beside the previous one. If another column
reads a trunk, the trunk leaves its column below the last layer that reads it. It runs up beside
this column, and above the others to its reader. So it never runs along a whole column that does not
read it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import inf
from typing import NamedTuple

from torchrecorder.layout.layered.constants import PAD, TRACK_MARGIN, TRACK_PITCH
from torchrecorder.layout.layered.cuts import by_trunk, even_cuts, row_ends, since, until
from torchrecorder.layout.layered.positions import (
    TOLERANCE, BranchPath, Frame, HeaderSpace, PlacedScope, PlanePoint,
)

COLUMN_MARGIN = 12.0
"""The distance between a column and the edges beside it, in points."""

MIN_REDUCTION = 0.4
"""One more column must shorten the longest column at least by this share of a column."""

EXIT_GAP = 4.0
"""If a trunk leaves its column beside a longer box: its distance from everything else, in
points."""


def wrapped(scope: PlacedScope, columns: int, space: HeaderSpace) -> PlacedScope | None:
    """*scope* in *columns* columns; None if it has too few cuts, or the last one saves little.
    *space* is that of its header."""
    levels = [space.before, *row_ends(scope)]
    cuts, before = (even_cuts(scope, levels, count) for count in (columns, columns - 1))
    longest, without = (_longest([levels[0], *item, scope.height]) for item in (cuts, before))
    if len(cuts) < columns - 1 or longest > without * (1 - MIN_REDUCTION / columns):
        return None
    return _MultiColumn(scope, cuts, levels, space).composed()


def cut_before(
    scope: PlacedScope, places: Sequence[float], space: HeaderSpace
) -> PlacedScope | None:
    """*scope* with a new column before each of *places*; None if there is no cut for one of
    them."""
    levels = row_ends(scope)
    cuts = [levels[bisect_right(levels, place) - 1] for place in places if levels[0] <= place]
    if len(set(cuts)) < len(places):
        return None
    return _MultiColumn(scope, cuts, [space.before, *levels], space).composed()


def _longest(ends: Sequence[float]) -> float:
    return max(end - begin for begin, end in zip(ends, ends[1:]))


PathPart = tuple[int, list[PlanePoint]]
"""The number of a column, and the part of a path in it."""


class _ColumnExit(NamedTuple):
    """The place at which a trunk leaves its column.

    Attributes:
        trunk: Its number.
        column: The number of the column.
        across: Its position across the flow, in the scope.
        level: The end of a row at which all trunks can leave.
        aside: The position before that at which this one can leave, beside a longer box; None
            without one.
    """

    trunk: int
    column: int
    across: float
    level: float
    aside: float | None

    @property
    def at(self) -> float:
        """Its position along the flow."""
        return self.level if self.aside is None else self.aside


class _MultiColumn:
    """Computes the positions of a scope in columns.

    Trunks may leave at *levels*: the start of the first layer, and the ends of layers.
    """

    def __init__(
        self, scope: PlacedScope, cuts: Sequence[float], levels: Sequence[float], space: HeaderSpace
    ) -> None:
        self.scope, self.cuts, self.levels, self.space = scope, cuts, levels, space
        self.last: dict[int, int] = {}
        self.turns: dict[int, _ColumnExit] = {}
        for trunk, paths in by_trunk(scope):
            self._follow(trunk, paths)
        self.downward = sorted(self._downward())
        self.parts = [list(self._parts(path)) for path in scope.paths]
        self.track = self._tracks()
        self.channels = [self._channel(column) for column in range(len(cuts) + 1)]
        self._across()
        self._above()

    def _column(self, level: float) -> int:
        return bisect_left(self.cuts, level)

    def _leaves(self, path: BranchPath) -> bool:
        return path.points[-1][1] > self.scope.height - TOLERANCE

    def _end(self, path: BranchPath) -> int:
        """The column in which a path ends. For a path that leaves the scope, it is the last column
        of its trunk."""
        return self.last[path.trunk] if self._leaves(path) else self._column(path.points[-1][1])

    def _follow(self, trunk: int, paths: Sequence[BranchPath]) -> None:
        """Find the last column of a trunk, and where it leaves its own column if other columns read
        it."""
        start = paths[0].points[0][1]
        here = self._column(start)
        inside = [path.points[-1][1] for path in paths if not self._leaves(path)]
        self.last[trunk] = max([here, *map(self._column, inside)])
        away = [path for path in paths if self._end(path) > here]
        if not away:
            return
        before = (
            self.levels[max(bisect_right(self.levels, end) - 1, 0)]
            for end in inside
            if self._column(end) == here
        )
        needed = max([start, *before])
        level = self.levels[bisect_left(self.levels, needed)]
        aside = self._aside(needed, level, away[0].points)
        across = until(away[0].points, level if aside is None else aside)[-1][0]
        self.turns[trunk] = _ColumnExit(trunk, here, across, level, aside)

    def _aside(
        self, needed: float, level: float, points: Sequence[PlanePoint]
    ) -> float | None:
        """The position before *level* at which a trunk can leave its column beside a longer box."""
        at = needed + TRACK_MARGIN
        while at + TRACK_MARGIN < level:
            across, (x, y) = until(points, at)[-1][0], since(points, at)[1]
            if x == across and y > at and self._is_free(across, at):
                return at
            at += TRACK_PITCH
        return None

    def _is_free(self, across: float, at: float) -> bool:
        """Whether a trunk can run from *across* to the side of its column without crossings."""
        for frame in self.scope.frames:
            begin, end = frame.along - EXIT_GAP, frame.end + EXIT_GAP
            if begin < at < end and frame.across + frame.width > across - EXIT_GAP:
                return False
        for path in self.scope.paths:
            for (ax, ay), (bx, by) in zip(path.points, path.points[1:]):
                if ay == by and abs(ay - at) < EXIT_GAP and max(ax, bx) > across - EXIT_GAP:
                    return False
        return not any(
            turn.aside is not None and abs(turn.aside - at) < EXIT_GAP
            for turn in self.turns.values()
        )

    def _comes_in(self, turn: _ColumnExit) -> bool:
        """Whether a trunk leaves its column before the first layer, above all columns."""
        return turn.at <= self.levels[0]

    def _tracks(self) -> dict[int, int]:
        """The track of each trunk that leaves its column at the end of a layer."""
        found: dict[int, int] = {}
        used: dict[float, int] = {}
        turns = [turn for turn in self.turns.values() if turn.aside is None]
        for turn in sorted(turns, key=lambda turn: (-turn.across, turn.trunk)):
            found[turn.trunk] = used.get(turn.level, 0)
            used[turn.level] = found[turn.trunk] + 1
        self.grown = [
            level for level in sorted(used) if level > self.levels[0] and level not in self.cuts
        ]
        self.growth = [0.0, *accumulate(TRACK_PITCH * used[level] for level in self.grown)]
        return found

    def _channel(self, column: int) -> list[int]:
        """The trunks that run up beside a column; the first that leaves it is the nearest."""
        found = [
            turn
            for turn in self.turns.values()
            if turn.column == column and not self._comes_in(turn)
        ]
        found.sort(key=lambda turn: (turn.at, self.track.get(turn.trunk, 0)))
        return [turn.trunk for turn in found]

    def _across(self) -> None:
        """Put the columns beside each other, also below trunks that come in above them, unless
        these would `_meet` others."""
        self._put_beside(self._reach(below=True))
        if self._meet():
            self._put_beside(self._reach(below=False))

    def _put_beside(self, reach: Sequence[tuple[float, float]]) -> None:
        # The other columns may have needed more space on the left than the first one does.
        begin = min([reach[0][0], *self.scope.entries])
        self.across = [min(self.space.offset(begin, self.scope.entries), 0.0)]
        self.channel = [self._free_channel(0, reach[0][1] + self.across[0])]
        for column in range(1, len(self.cuts) + 1):
            low, high = reach[column]
            last = self.channel[-1] + self._width_of_channel(column - 1)
            self.across.append(last + COLUMN_MARGIN - low)
            self.channel.append(self._free_channel(column, high + self.across[-1]))
        self.width = max(self.channel[-1] - COLUMN_MARGIN + PAD, self.space.least)

    def _free_channel(self, column: int, end: float) -> float:
        """The begin of the channel beside a column with this *end*, where no trunk comes in."""
        begin, width = end + COLUMN_MARGIN, self._width_of_channel(column)
        for at in sorted(self._coming_in().values()) if self.channels[column] else ():
            if begin - COLUMN_MARGIN < at < begin + width + COLUMN_MARGIN:
                begin = at + COLUMN_MARGIN
        return begin

    def _width_of_channel(self, column: int) -> float:
        return TRACK_PITCH * max(len(self.channels[column]) - 1, 0)

    def _coming_in(self) -> dict[int, float]:
        """The positions across the flow of the trunks that come in above the columns."""
        turns = filter(self._comes_in, self.turns.values())
        return {turn.trunk: self._beside(turn) for turn in turns}

    def _meet(self) -> bool:
        """Whether a trunk comes in to the right of its own column, or where another one runs down
        from above the columns."""
        coming = self._coming_in()
        places = sorted(coming.values())
        for path, (_, *rest) in zip(self.scope.paths, self.parts):
            for column, points in rest if coming else ():
                down = points[0][0] + self.across[column]
                near = bisect_right(places, down - EXIT_GAP)
                if near < bisect_left(places, down + EXIT_GAP):
                    return True
                if coming.get(path.trunk, down) > down:
                    return True
        return False

    def _reach(self, *, below: bool) -> list[tuple[float, float]]:
        """The extent across the flow of the boxes and edges of each column; if columns may be
        *below* trunks that come in above them, without these."""
        above = {turn.trunk for turn in self.turns.values() if below and self._comes_in(turn)}
        found: list[list[float]] = [[] for _ in range(len(self.cuts) + 1)]
        for frame in self.scope.frames:
            here = found[self._column(frame.end)]
            here += (frame.across, frame.across + frame.width)
        for path, parts in zip(self.scope.paths, self.parts):
            for column, points in parts[1:] if path.trunk in above else parts:
                found[column] += (x for x, _ in points)
        return [(min(item), max(item)) for item in found]

    def _parts(self, path: BranchPath) -> Iterator[PathPart]:
        """The parts of a path in its first and in its last column."""
        turn, end = self.turns.get(path.trunk), self._end(path)
        here, points = self._column(path.points[0][1]), list(path.points)
        if end < len(self.cuts):
            points = until(points, self.cuts[end])
        if turn is None or here == end:
            yield here, points
        else:
            yield here, until(points, turn.at)
            yield end, self._straight(path.trunk, since(points, self.cuts[end - 1]))

    def _downward(self) -> Iterator[tuple[float, ...]]:
        """The segments that run along the flow: position, begin, end and trunk."""
        for path in self.scope.paths:
            for (ax, ay), (bx, by) in zip(path.points, path.points[1:]):
                if ax == bx and ay < by:
                    yield ax, ay, by, path.trunk

    def _straight(self, trunk: int, points: list[PlanePoint]) -> list[PlanePoint]:
        """The corners from the start of a column to a box: straight down if that is free."""
        (_, begin), (across, end) = points[0], points[-1]
        for frame in self.scope.frames:
            if begin < frame.end and frame.along < end - TOLERANCE:
                if frame.across - EXIT_GAP < across < frame.across + frame.width + EXIT_GAP:
                    return points
        first = bisect_right(self.downward, (across - EXIT_GAP, inf))
        last = bisect_left(self.downward, (across + EXIT_GAP,))
        for _, low, high, other in self.downward[first:last]:
            if other != trunk and max(low, begin) < min(high, end):
                return points
        return [(across, begin), (across, end)]

    def _above(self) -> None:
        """Assign tracks above the columns. Trunks from earlier columns are above trunks from later
        ones."""
        order = [turn for turn in self.turns.values() if self._comes_in(turn)]
        order.sort(key=lambda turn: (-turn.across, turn.trunk))
        order += [self.turns[trunk] for channel in self.channels for trunk in channel]
        ends: dict[int, float] = {}
        for path, (_, *rest) in zip(self.scope.paths, self.parts):
            for column, points in rest:
                at = points[0][0] + self.across[column]
                ends[path.trunk] = max(at, ends.get(path.trunk, at))
        height: dict[int, int] = {}
        placed: list[tuple[float, int]] = []
        for turn in reversed(order):  # from the right: only what begins before the end is above
            over = [at for begin, at in placed if begin <= ends[turn.trunk]]
            height[turn.trunk] = max(over, default=-1) + 1
            placed.append((self._beside(turn), height[turn.trunk]))
        most = max(height.values(), default=0)
        top = self.space.before + TRACK_MARGIN
        self.bar = {trunk: top + TRACK_PITCH * (most - at) for trunk, at in height.items()}
        first = top + TRACK_PITCH * most + TRACK_MARGIN
        self.along = [first - begin for begin in (self.space.before, *self.cuts)]
        below = [
            self._below(column, max(map(self.track.__getitem__, here), default=0)) + PAD
            for column, cut in enumerate(self.cuts)
            for here in [[item for item in self.track if self.turns[item].level == cut]]
        ]
        ending = self._moved(len(self.cuts), self.scope.height)
        self.length = max(ending, self.space.length, *below)

    def _below(self, column: int, track: int) -> float:
        """The position of a track below the end of a column."""
        return self._moved(column, self.cuts[column]) + TRACK_MARGIN + TRACK_PITCH * track

    def _beside(self, turn: _ColumnExit) -> float:
        """The position across the flow at which a trunk runs up to the tracks above the columns."""
        if self._comes_in(turn):
            return turn.across + self.across[0]
        return self.channel[turn.column] + TRACK_PITCH * self.channels[turn.column].index(
            turn.trunk
        )

    def _moved(self, column: int, level: float) -> float:
        """The new position along the flow of *level* in a column."""
        start = self.cuts[column - 1] if column else 0.0
        first = bisect_right(self.grown, start)
        last = max(first, bisect_left(self.grown, level))
        return level + self.along[column] + (self.growth[last] - self.growth[first])

    def composed(self) -> PlacedScope:
        """The scope in its columns."""
        scope, leaving = self.scope, {}
        paths = []
        for path, parts in zip(scope.paths, self.parts):
            points = self._points(path, parts)
            if self._leaves(path):
                leaving[round(path.points[-1][0], 2)] = points[-1][0]
            paths.append(path._replace(points=points))
        entries = tuple(at + self.across[0] for at in scope.entries)
        ports = [*entries, *leaving.values()]
        return scope._replace(
            entries=entries,
            width=max(self.width, *(at + PAD for at in ports)) if ports else self.width,
            height=self.length,
            exits=tuple(leaving[round(at, 2)] for at in scope.exits),
            frames=tuple(map(self._frame, scope.frames)),
            paths=tuple(paths),
        )

    def _frame(self, frame: Frame) -> Frame:
        column = self._column(frame.end)
        return frame._replace(
            across=frame.across + self.across[column], along=self._moved(column, frame.along)
        )

    def _points(self, path: BranchPath, parts: Sequence[PathPart]) -> tuple[PlanePoint, ...]:
        """A path through its columns."""
        (here, first), *rest = parts
        found = list(self._placed(here, first))
        if path.points[0][1] <= 0.0:
            found[0] = (found[0][0], 0.0)
        for column, points in rest:
            turn = self.turns[path.trunk]
            bar, beside = self.bar[path.trunk], self._beside(turn)
            if self._comes_in(turn):
                found = [found[0], (found[0][0], bar)]
            else:
                track = self._moved(here, turn.at)
                if turn.aside is None:
                    track += TRACK_MARGIN + TRACK_PITCH * self.track[path.trunk]
                found += [(found[-1][0], track), (beside, track), (beside, bar)]
            placed = list(self._placed(column, points))
            found += [(placed[0][0], bar), *placed]
        if self._leaves(path):
            found[-1:] = [found[-1], (found[-1][0], self.length)]
        return tuple(found)

    def _placed(self, column: int, points: Iterable[PlanePoint]) -> Iterator[PlanePoint]:
        for x, y in points:
            yield x + self.across[column], self._moved(column, y)
