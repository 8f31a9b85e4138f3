"""Compose: a template with some of its children open -> where everything in it is.

Everything is measured across the flow and along it, from the corner where the scope begins.
The page has the same code in ``layout.js``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from torchrecorder.layout.nested.gaps import BEFORE, EDGE, TRACK, Run, height, slots, tracks
from torchrecorder.layout.nested.nets import OUTSIDE, End
from torchrecorder.layout.nested.stretch import Stretch, Wish
from torchrecorder.layout.nested.template import Branch, Template, Trunk

PAD = 9.0
"""Points between the edge of an open scope and what is in it."""

Point = tuple[float, float]


class Frame(NamedTuple):
    """Where a child is.

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


class Path(NamedTuple):
    """A branch of a trunk: corners of its way, across and along."""

    trunk: int
    branch: int
    points: tuple[Point, ...]


class Composed(NamedTuple):
    """An open scope.

    Attributes:
        width: Its size across the flow.
        height: Its size along the flow.
        entries: Where tensors come in, across the flow.
        exits: Where they leave.
        frames: Where its children are.
        paths: The lines between them.
        inner: The composed scopes of the open children, by the child's number.
    """

    width: float
    height: float
    entries: tuple[float, ...]
    exits: tuple[float, ...]
    frames: tuple[Frame, ...]
    paths: tuple[Path, ...]
    inner: Mapping[int, Composed]


class Room(NamedTuple):
    """What is kept free for the text in the corner of a scope.

    Attributes:
        before: Along the flow, before the first row.
        beside: Across the flow, at the near side.
        least: Width across that the whole scope needs at least.
        length: Height along that the whole scope needs at least.
        clear: Across the flow, up to where no tensor comes in.
    """

    before: float = 0.0
    beside: float = 0.0
    least: float = 0.0
    length: float = 0.0
    clear: float = 0.0


def compose(template: Template, inner: Mapping[int, Composed], room: Room) -> Composed:
    """Put the open children *inner* of a scope, by number, into its template."""
    across = _Across(template, inner, room)
    moves = tuple(_moves(trunk, number, across) for number, trunk in enumerate(template.trunks))
    gaps = [tracks(each) for each in _runs(template, moves)]
    along = _Along(template, across.size, gaps, room)
    frames = tuple(
        Frame(across.side[child], along.begin(child), *across.size[child])
        for child in range(len(template.spots))
    )
    return Composed(
        max(across.at(template.width) + PAD, room.least),
        along.length,
        tuple(across.at(at) for at in template.entries),
        tuple(across.at(at) for at in template.exits),
        frames,
        tuple(
            Path(number, place, _points(branch, moves[number][place], frames, along, trunk))
            for number, trunk in enumerate(template.trunks)
            for place, branch in enumerate(trunk.branches)
        ),
        inner,
    )


class Move(NamedTuple):
    """A line goes sideways in a gap."""

    gap: int
    net: int
    begin: float
    end: float


def _anchor(scope: Composed) -> float:
    """The place of an open scope that stays where its closed box had its middle."""
    return scope.entries[0] if scope.entries else scope.width / 2


class _Across:
    """Where everything is across the flow."""

    def __init__(self, template: Template, inner: Mapping[int, Composed], room: Room) -> None:
        self.template, self.inner = template, inner
        self.stretch = Stretch(wish for child in inner for wish in self._wishes(child))
        first = min((self.stretch(at) for at in template.entries), default=room.clear)
        self.shift = max(PAD + room.beside, room.clear - first)
        self.size = [(spot.width, spot.height) for spot in template.spots]
        for child, each in inner.items():
            self.size[child] = (each.width, each.height)
        self.side = [
            self.at(spot.across) - (_anchor(inner[child]) if child in inner else spot.width / 2)
            for child, spot in enumerate(template.spots)
        ]
        self.leaving: dict[End, float] = {}
        self.arriving: dict[End, float] = {}
        self._meet()

    def at(self, across: float) -> float:
        """Where a place of the template comes to be."""
        return self.stretch(across) + self.shift

    def _wishes(self, child: int) -> tuple[Wish, Wish]:
        """What an open child asks for on both sides of its anchor."""
        spot, each = self.template.spots[child], self.inner[child]
        half, anchor = spot.width / 2, _anchor(each)
        return (
            Wish(spot.across - half, spot.across, anchor - half),
            Wish(spot.across, spot.across + half, each.width - anchor - half),
        )

    def _meet(self) -> None:
        """Find where lines leave and enter boxes."""
        out: dict[int, dict[End, float]] = {}
        into: dict[int, dict[End, float]] = {}
        for trunk in self.template.trunks:
            leaves = self._fixed(trunk.source, exits=True)
            if leaves is not None:
                self.leaving[trunk.source] = leaves
            else:
                out.setdefault(trunk.source.child, {})[trunk.source] = self._next(trunk)
            for branch in trunk.branches:
                enters = self._fixed(branch.sink, exits=False)
                if enters is not None:
                    self.arriving[branch.sink] = enters
                else:
                    before = self._before(trunk, branch)
                    into.setdefault(branch.sink.child, {})[branch.sink] = before
        for ends, found in ((out, self.leaving), (into, self.arriving)):
            for child, wanted in ends.items():
                middle, width = self.at(self.template.spots[child].across), self.size[child][0]
                found.update(zip(wanted, slots(list(wanted.values()), middle, width)))

    def _fixed(self, end: End, exits: bool) -> float | None:
        """Where a port is: at the edge of the scope, or of an open child."""
        if end.child == OUTSIDE:
            mine = self.template.entries if exits else self.template.exits
            return self.at(mine[end.port])
        if end.child not in self.inner:
            return None
        each = self.inner[end.child]
        return self.side[end.child] + (each.exits if exits else each.entries)[end.port]

    def _near(self, end: End, exits: bool) -> float:
        """About where an end is."""
        fixed = self._fixed(end, exits)
        return self.at(self.template.spots[end.child].across) if fixed is None else fixed

    def _next(self, trunk: Trunk) -> float:
        """Where a trunk goes first, in the mean."""
        found = [
            self.at(trunk.stems[branch.stems[0]].across)
            if branch.stems
            else self._near(branch.sink, exits=False)
            for branch in trunk.branches
        ]
        return sum(found) / len(found)

    def _before(self, trunk: Trunk, branch: Branch) -> float:
        """Where a branch comes from at last."""
        if branch.stems:
            return self.at(trunk.stems[branch.stems[-1]].across)
        return self._near(trunk.source, exits=True)


def _moves(trunk: Trunk, net: int, across: _Across) -> tuple[tuple[Move, ...], ...]:
    """For each branch what it does in the gaps on its way."""
    return tuple(tuple(_branch_moves(trunk, net, branch, across)) for branch in trunk.branches)


def _branch_moves(trunk: Trunk, net: int, branch: Branch, across: _Across) -> Iterator[Move]:
    at = across.leaving[trunk.source]
    for number in branch.stems:
        stem = trunk.stems[number]
        beside = across.at(stem.across)
        yield Move(stem.begin, net, at, beside)
        at = beside
    spots, sink = across.template.spots, branch.sink
    gap = across.template.rows if sink.child == OUTSIDE else spots[sink.child].row
    yield Move(gap, net, at, across.arriving[sink])


def _runs(
    template: Template, moves: Sequence[Sequence[Sequence[Move]]]
) -> list[dict[int, Run]]:
    """For each gap what each net does there, all its branches together."""
    found: list[dict[int, Run]] = [{} for _ in range(template.rows + 1)]
    for branches in moves:
        for move in (each for branch in branches for each in branch):
            left, right = min(move.begin, move.end), max(move.begin, move.end)
            run = found[move.gap].get(move.net)
            if run is not None:
                left, right = min(left, run.left), max(right, run.right)
            origin = move.begin if run is None else run.origin
            found[move.gap][move.net] = Run(origin, left, right)
    return found


class _Along:
    """Where everything is along the flow."""

    def __init__(
        self,
        template: Template,
        size: Sequence[tuple[float, float]],
        gaps: Sequence[Mapping[int, int]],
        room: Room,
    ) -> None:
        self.template, self.size, self.gaps = template, size, gaps
        tall = [0.0] * template.rows
        for spot, (_, height_) in zip(template.spots, size):
            tall[spot.row] = max(tall[spot.row], height_)
        at = room.before
        self.gap: list[float] = []
        self.middle: list[float] = []
        for row in range(template.rows + 1):
            self.gap.append(at)
            at += self._high(row)
            if row < template.rows:
                self.middle.append(at + tall[row] / 2)
                at += tall[row]
        self.length = max(at, room.length)

    def _high(self, gap: int) -> float:
        """How high a gap is; at the edge of a scope it may be that nothing runs through it."""
        if 0 < gap < self.template.rows:
            return height(self.gaps[gap])
        through = self.template.entries if gap == 0 else self.template.exits
        return height(self.gaps[gap], EDGE if through else PAD)

    def begin(self, child: int) -> float:
        """Where a child begins."""
        return self.middle[self.template.spots[child].row] - self.size[child][1] / 2

    def track(self, move: Move) -> float | None:
        """Where a line goes sideways; None if it goes straight on."""
        track = self.gaps[move.gap].get(move.net)
        return None if track is None else self.gap[move.gap] + BEFORE + TRACK * track


def _points(
    branch: Branch,
    moves: Sequence[Move],
    frames: Sequence[Frame],
    along: _Along,
    trunk: Trunk,
) -> tuple[Point, ...]:
    """The corners of a branch on its way from its source to its sink."""
    begin, end = 0.0, along.length
    if trunk.source.child != OUTSIDE:
        frame = frames[trunk.source.child]
        begin = frame.along + frame.height
    if branch.sink.child != OUTSIDE:
        end = frames[branch.sink.child].along
    points = [(moves[0].begin, begin)]
    for move in moves:
        track = along.track(move)
        if track is not None:
            points += [(move.begin, track), (move.end, track)]
    points.append((moves[-1].end, end))
    return tuple(points)
