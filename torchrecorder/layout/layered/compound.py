"""Compound: positions in a template with some of its children open.

Positions are measured across the flow and along it, from the corner where the scope begins. The
page has the same code in ``layout.js``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from torchrecorder.layout.layered.constants import BORDER_MARGIN, PAD, TRACK_MARGIN
from torchrecorder.layout.layered.coordinate_assignment import CrossCoordinates
from torchrecorder.layout.layered.ports import OUTSIDE
from torchrecorder.layout.layered.positions import (
    BranchPath, Frame, HeaderSpace, PlacedScope, PlanePoint,
)
from torchrecorder.layout.layered.template import Branch, Template, Trunk
from torchrecorder.layout.layered.tracks import NetExtent, height, pitch, tracks


def compose(
    template: Template, inner: Mapping[int, PlacedScope], space: HeaderSpace
) -> PlacedScope:
    """Put the open children *inner*, by their number, into the template of their scope."""
    across = CrossCoordinates(template, inner, space)
    moves = tuple(
        tuple(tuple(_branch_moves(trunk, net, branch, across)) for branch in trunk.branches)
        for net, trunk in enumerate(template.trunks)
    )
    gaps = [tracks(run) for run in _runs(template, moves)]
    along = _FlowCoordinates(across, gaps, space)
    frames = tuple(
        Frame(across.side[child], along.begin(child), *across.size[child])
        for child in range(len(template.children))
    )
    return PlacedScope(
        across.width,
        along.length,
        tuple(across.entries),
        tuple(across.exits),
        frames,
        tuple(
            BranchPath(number, place, _points(branch, moves[number][place], frames, along, trunk))
            for number, trunk in enumerate(template.trunks)
            for place, branch in enumerate(trunk.branches)
        ),
        inner,
    )


class CrossSegment(NamedTuple):
    """A segment of an edge across the flow, in a gap."""

    gap: int
    net: int
    begin: float
    end: float


def _branch_moves(
    trunk: Trunk, net: int, branch: Branch, across: CrossCoordinates
) -> Iterator[CrossSegment]:
    """The segments of a branch across the flow."""
    at = across.leaving[trunk.source]
    for number in branch.stems:
        beside = across.stems[net][number]
        yield CrossSegment(trunk.stems[number].begin, net, at, beside)
        at = beside
    children, sink = across.template.children, branch.sink
    gap = across.template.rows if sink.child == OUTSIDE else children[sink.child].row
    yield CrossSegment(gap, net, at, across.arriving[sink])


def _runs(
    template: Template, moves: Sequence[Sequence[Sequence[CrossSegment]]]
) -> list[dict[int, NetExtent]]:
    """For each gap, the extent of each net across the flow, over all its branches."""
    found: list[dict[int, NetExtent]] = [{} for _ in range(template.rows + 1)]
    for branches in moves:
        for move in (item for branch in branches for item in branch):
            left, right = min(move.begin, move.end), max(move.begin, move.end)
            run = found[move.gap].get(move.net)
            if run is not None:
                left, right = min(left, run.left), max(right, run.right)
            origin = move.begin if run is None else run.origin
            found[move.gap][move.net] = NetExtent(origin, left, right)
    return found


class _FlowCoordinates:
    """Positions along the flow."""

    def __init__(
        self, across: CrossCoordinates, gaps: Sequence[Mapping[int, int]], space: HeaderSpace
    ) -> None:
        template, size = across.template, across.size
        self.template, self.size, self.gaps = template, size, gaps
        self.pitch = [pitch(max(gap.values(), default=-1) + 1) for gap in gaps]
        tall, long = [0.0] * template.rows, []
        for child, closed in enumerate(template.children):
            if size[child][1] > closed.height and closed.last > closed.row:
                long.append((closed.last, closed.row, size[child][1]))
            else:
                tall[closed.row] = max(tall[closed.row], size[child][1])
        at = space.before
        self.gap: list[float] = []
        self.row: list[float] = []
        for row in range(template.rows + 1):
            ends = [self.row[first] + high for last, first, high in long if last == row - 1]
            at = max(at, *ends) if ends else at
            self.gap.append(at)
            at += self._high(row)
            self.row.append(at)
            if row < template.rows:
                at += tall[row]
        self.tall = tall
        self.length = max(at, space.length)
        self.inner = across.inner
        self.closed = [0.0] * template.rows
        for child, closed in enumerate(template.children):
            if child not in self.inner:
                self.closed[closed.row] = max(self.closed[closed.row], closed.height)
        self.reading = {
            branch.sink.child for trunk in template.trunks for branch in trunk.branches
        }

    def _high(self, gap: int) -> float:
        """The height of a gap, which may be empty at the edge of a scope."""
        if 0 < gap < self.template.rows:
            return height(self.gaps[gap])
        through = self.template.entries if gap == 0 else self.template.exits
        return height(self.gaps[gap], BORDER_MARGIN if through else PAD)

    def begin(self, child: int) -> float:
        """The near side of a child along the flow.

        A child is at the start of its layer; one without inputs is at its end. Closed children are
        centered on a common line.
        """
        row, high = self.template.children[child].row, self.size[child][1]
        band = high if child in self.inner else self.closed[row]
        free = 0.0 if child in self.reading else max(self.tall[row] - band, 0.0)
        return self.row[row] + free + (band - high) / 2

    def track(self, move: CrossSegment) -> float | None:
        """The track of a segment across the flow; None if the edge goes straight on."""
        track = self.gaps[move.gap].get(move.net)
        if track is None:
            return None
        return self.gap[move.gap] + TRACK_MARGIN + self.pitch[move.gap] * track


def _points(
    branch: Branch,
    moves: Sequence[CrossSegment],
    frames: Sequence[Frame],
    along: _FlowCoordinates,
    trunk: Trunk,
) -> tuple[PlanePoint, ...]:
    """The corners of a branch from its source to its sink."""
    begin, end = 0.0, along.length
    if trunk.source.child != OUTSIDE:
        frame = frames[trunk.source.child]
        begin = frame.end
    if branch.sink.child != OUTSIDE:
        end = frames[branch.sink.child].along
    points = [(moves[0].begin, begin)]
    for move in moves:
        track = along.track(move)
        if track is not None:
            points += [(move.begin, track), (move.end, track)]
    points.append((moves[-1].end, end))
    return tuple(points)
