"""Wrap: a long open scope -> the same in columns, as text on a page.

The scope is cut between rows. What follows a cut stands beside what is before it, and lines
that go on run around: below their column, up between the two, and into the next from above.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from torchrecorder.layout.layered.positions import Composed, Frame, Path, Point
from torchrecorder.layout.layered.constants import BEFORE, PAD, TRACK

BESIDE = 12.0
"""Points between a column and the lines beside it."""

CROSSED = 12.0
"""Points of length that a column may rather have more than one more line that goes on."""

SAME = 0.01

Piece = tuple[int, list[Point]]
"""What a line does in one column."""


def wrapped(scope: Composed, columns: int, top: float) -> Composed | None:
    """*scope* in some columns, which begin at *top*; None if it cannot be cut so often."""
    cuts = _cuts(scope, columns)
    return None if len(cuts) < columns - 1 else _Columns(scope, cuts, top).composed()


def _cuts(scope: Composed, columns: int) -> list[float]:
    """Where to cut for columns of about one length, with few lines that go on."""
    ends = sorted({frame.along + frame.height for frame in scope.frames})
    free = [
        end + 1.0
        for end in ends[:-1]
        if not any(each.along < end + 1.0 < each.along + each.height for each in scope.frames)
    ]
    cuts = [0.0]
    for left in range(columns, 1, -1):
        wish = cuts[-1] + (scope.height - cuts[-1]) / left
        later = [each for each in free if each > cuts[-1]]
        if not later:
            break
        cuts.append(min(later, key=lambda cut: abs(cut - wish) + CROSSED * _crossing(scope, cut)))
    return cuts[1:]


def _crossing(scope: Composed, cut: float) -> int:
    """How many lines go on after a cut."""
    return len({
        (path.trunk, round(ax, 2))
        for path in scope.paths
        for (ax, ay), (_, by) in zip(path.points, path.points[1:])
        if min(ay, by) <= cut < max(ay, by)
    })


class _Columns:
    def __init__(self, scope: Composed, cuts: Sequence[float], top: float) -> None:
        self.scope, self.cuts, self.top = scope, cuts, top
        self.pieces = [list(self._split(path.points)) for path in scope.paths]
        self.track = [self._tracks(cut) for cut in range(len(cuts))]
        self.across, self.along, self.channel = [0.0], [0.0], [0.0]
        reach = [self._reach(column) for column in range(len(cuts) + 1)]
        right = reach[0][1]
        for column, (low, high) in enumerate(reach[1:], 1):
            count = len(self.track[column - 1])
            self.channel.append(right + BESIDE)
            self.across.append(right + 2 * BESIDE + TRACK * max(count - 1, 0) - low)
            self.along.append(top + 2 * BEFORE + TRACK * max(count - 1, 0) - cuts[column - 1])
            right = high + self.across[-1]
        self.width = right + PAD
        below = [
            self._below(cut, len(track) - 1) + PAD for cut, track in enumerate(self.track)
        ]
        self.length = max(scope.height + self.along[-1], *below)

    def composed(self) -> Composed:
        scope = self.scope
        return scope._replace(
            width=max(self.width, scope.entries[-1] + PAD if scope.entries else 0.0),
            height=self.length,
            exits=tuple(at + self.across[-1] for at in scope.exits),
            frames=tuple(map(self._frame, scope.frames)),
            paths=tuple(
                Path(path.trunk, path.branch, tuple(self._points(path.trunk, pieces)))
                for path, pieces in zip(scope.paths, self.pieces)
            ),
        )

    def _split(self, points: Sequence[Point]) -> Iterator[Piece]:
        """A line in pieces that each stay in a column."""
        here = bisect_left(self.cuts, points[0][1])
        piece = [points[0]]
        for point in points[1:]:
            there = bisect_left(self.cuts, point[1])
            while here != there:
                step = 1 if there > here else -1
                at = (point[0], self.cuts[min(here, here + step)])
                yield here, [*piece, at]
                here, piece = here + step, [at]
            piece.append(point)
        yield here, piece

    def _tracks(self, cut: int) -> dict[tuple[int, float], int]:
        """The track of each line that goes on after a cut, the rightmost first."""
        found = {
            (path.trunk, round(one[-1][0], 2))
            for path, pieces in zip(self.scope.paths, self.pieces)
            for (here, one), (there, _) in zip(pieces, pieces[1:])
            if min(here, there) == cut
        }
        order = sorted(found, key=lambda line: (-line[1], line[0]))
        return {line: number for number, line in enumerate(order)}

    def _reach(self, column: int) -> tuple[float, float]:
        """From where to where boxes and lines of a column are, across."""
        found = [
            at
            for frame in self.scope.frames
            if self._column(frame) == column
            for at in (frame.across, frame.across + frame.width)
        ]
        found += [
            x for pieces in self.pieces for at, points in pieces if at == column for x, _ in points
        ]
        return min(found), max(found)

    def _column(self, frame: Frame) -> int:
        return bisect_left(self.cuts, frame.along + frame.height)

    def _frame(self, frame: Frame) -> Frame:
        column = self._column(frame)
        return frame._replace(
            across=frame.across + self.across[column], along=frame.along + self.along[column]
        )

    def _below(self, cut: int, track: int) -> float:
        return self.cuts[cut] + self.along[cut] + BEFORE + TRACK * track

    def _points(self, trunk: int, pieces: Sequence[Piece]) -> Iterator[Point]:
        """A line through all its columns."""
        for number, (column, points) in enumerate(pieces):
            for x, y in points:
                end = self.length if y > self.scope.height - SAME else y + self.along[column]
                yield x + self.across[column], end
            if number + 1 < len(pieces):
                yield from self._around(trunk, points[-1][0], column, pieces[number + 1][0])

    def _around(self, trunk: int, x: float, one: int, other: int) -> Iterator[Point]:
        """From the end of a column to the beginning of the next, or back."""
        cut, after = min(one, other), max(one, other)
        track = self.track[cut][trunk, round(x, 2)]
        below, above = self._below(cut, track), self.top + BEFORE + TRACK * track
        channel = self.channel[after] + TRACK * track
        way = [
            (x + self.across[cut], below), (channel, below),
            (channel, above), (x + self.across[after], above),
        ]
        yield from way if one < other else reversed(way)
