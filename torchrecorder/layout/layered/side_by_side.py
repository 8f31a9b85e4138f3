"""Where a scope is cut to stand side by side: between stacks that are joined only across, such as
encoder and decoder, and at the bottom of a U, whose levels are joined across in reverse order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from torchrecorder.layout.layered.cuts import SAME, crossing, row_ends
from torchrecorder.layout.layered.ports import OUTSIDE
from torchrecorder.layout.layered.positions import Composed, Room
from torchrecorder.layout.layered.template import Template

STACK = 250.0
"""Points that an open module is long, at least, to count as a stack."""

ALIKE = 0.4
"""How long one of two stacks is, at least, as a share of the other."""

LEVELS = 2
"""The fewest levels of a U above its bottom."""

STRAYS = 2
"""The most other tensors that cross the bottom, for each level."""

LONG = 120.0
"""Points that the longer side is long, at least."""

TRIED = 8
"""How many rows are tried as the bottom of a U."""


def beginnings(template: Template, scope: Composed, inputs: Collection[int]) -> list[float]:
    """Where stacks begin that are to stand beside the one before, along the flow.

    Such a stack reads the output of the one before, but also its own input, on which the other does
    not depend.

    Args:
        template: The template of a scope.
        scope: It with what is open in it.
        inputs: The children that are inputs of the run.
    """
    long = [child for child in scope.inner if scope.frames[child].height >= STACK]
    long.sort(key=lambda child: scope.frames[child].along)
    depends = _sources(template, inputs) if len(long) > 1 else {}
    found = []
    for one, other in zip(long, long[1:]):
        before, after = scope.frames[one], scope.frames[other]
        follows = after.along >= before.end
        alike = min(before.height, after.height) >= ALIKE * max(before.height, after.height)
        own = depends[other] - depends[one]
        if follows and alike and own and depends[one] & depends[other]:
            found.append(after.along)
    return found


def _sources(template: Template, inputs: Collection[int]) -> dict[int, set[tuple[str, int]]]:
    """For each child the entries of the scope and the inputs that it depends on."""
    reads: dict[int, list[tuple[int, int]]] = {}
    for trunk in template.trunks:
        for branch in trunk.branches:
            reads.setdefault(branch.sink.child, []).append(trunk.source)
    found: dict[int, set[tuple[str, int]]] = {}
    for child in sorted(range(len(template.spots)), key=lambda index: template.spots[index].row):
        found[child] = {("input", child)} if child in inputs else set()
        for source, port in reads.get(child, ()):
            found[child] |= {("entry", port)} if source == OUTSIDE else found.get(source, set())
    return found


class Across(NamedTuple):
    """A line from the one side of a fold to the other.

    Attributes:
        path: Its number among the paths of the scope.
        trunk: The number of its trunk.
        source: The child it leaves; `OUTSIDE` for an entry of the scope.
        sink: The child it enters.
        leaves: The level, along the flow, at which it can turn off: after its source.
        arrives: The level at which it can turn in: before its sink.
    """

    path: int
    trunk: int
    source: int
    sink: int
    leaves: float
    arrives: float


class Fold(NamedTuple):
    """A U in a scope.

    Attributes:
        bottom: The level, along the flow, at which it turns back.
        skips: The lines of each level of the U, the outermost first.
        others: The other lines that cross the bottom; one at least, which runs through it.
    """

    bottom: float
    skips: tuple[tuple[Across, ...], ...]
    others: tuple[Across, ...]

    @property
    def through(self) -> list[Across]:
        """The other lines that only run through the bottom, from just above it to just below."""
        return [line for line in self.others if line.leaves == line.arrives == self.bottom]

    @property
    def strays(self) -> int:
        """How many tensors cross the bottom that are neither of a level nor run through it."""
        return len({line.trunk for line in set(self.others).difference(self.through)})


def u_fold(
    template: Template, scope: Composed, modules: Collection[int], room: Room
) -> Fold | None:
    """The fold of a scope whose levels are joined across; None if it is none.

    The lines between two levels leave one child and enter one other. Each level lies inside the one
    before it: there is a module between them on both sides. Few other lines cross the bottom, and
    both sides are long.

    Args:
        template: The template of a scope.
        scope: It with what is open in it.
        modules: The children that are modules.
        room: What is kept free in the scope for the text in its corner.
    """
    levels = [room.before, *row_ends(scope)]
    bottoms = _bottoms(scope, levels)
    if not bottoms:
        return None
    flow = _Flow(template, scope, modules)
    found = (_fold(flow, list(_across(template, scope, levels, at)), at) for at in bottoms)
    folds = [fold for fold in found if fold is not None]
    return max(folds, key=_worth, default=None)


def _worth(fold: Fold) -> tuple[int, int, float]:
    """Many levels, few other lines, and a bottom in the middle."""
    inner = fold.skips[-1][0]
    rest = max(fold.bottom - inner.leaves, inner.arrives - fold.bottom)
    return len(fold.skips), -len(fold.others), -rest


def _bottoms(scope: Composed, levels: Sequence[float]) -> list[float]:
    """The levels with two long sides that the most lines cross, those in the middle first."""
    crossed = dict(zip(levels, crossing(scope, levels)))
    sides = {level: (level - levels[0], scope.height - level) for level in levels}
    long = [
        level
        for level, both in sides.items()
        if max(both) >= LONG and min(both) >= ALIKE * max(both)
    ]
    long.sort(key=lambda level: (-crossed[level], abs(sides[level][0] - sides[level][1])))
    return long[:TRIED]


def _fold(flow: _Flow, lines: Sequence[Across], bottom: float) -> Fold | None:
    """The fold at a level that these lines cross."""
    if any(line.sink == OUTSIDE for line in lines):
        return None
    skips = _skips((line for line in lines if line.source != OUTSIDE), flow)
    if len(skips) < LEVELS or skips[-1][0].leaves >= bottom:
        return None
    nested = {line.path for level in skips for line in level}
    fold = Fold(bottom, skips, tuple(line for line in lines if line.path not in nested))
    ends = (line.source for line in fold.through if line.source != OUTSIDE)
    runs = any(flow.reaches(skips[-1][0].source, end) for end in ends)
    return fold if runs and fold.strays <= STRAYS * len(skips) else None


def _across(
    template: Template, scope: Composed, levels: Sequence[float], bottom: float
) -> Iterator[Across]:
    """The lines that cross a level."""
    for number, path in enumerate(scope.paths):
        trunk = template.trunks[path.trunk]
        source, sink = trunk.source.child, trunk.branches[path.branch].sink.child
        leaves, arrives = levels[0], scope.height
        if source != OUTSIDE:
            leaves = levels[bisect_left(levels, scope.frames[source].end - SAME)]
        if sink != OUTSIDE:
            arrives = levels[bisect_right(levels, scope.frames[sink].along) - 1]
        if leaves <= bottom <= arrives:
            yield Across(number, path.trunk, source, sink, leaves, arrives)


class _Flow:
    """Which children of a scope depend on which, and where its modules are."""

    def __init__(
        self, template: Template, scope: Composed, modules: Collection[int]
    ) -> None:
        self.modules = [scope.frames[module].along for module in sorted(modules)]
        self.row = [spot.row for spot in template.spots]
        self.readers: dict[int, list[int]] = {}
        for trunk in template.trunks:
            heads = (branch.sink.child for branch in trunk.branches)
            self.readers.setdefault(trunk.source.child, []).extend(heads)

    def reaches(self, one: int, other: int) -> bool:
        """Whether *other* is *one*, or depends on it."""
        seen, waiting = {one}, [one]
        while waiting and other not in seen:
            for reader in self.readers.get(waiting.pop(), ()):
                if reader not in seen and reader != OUTSIDE and self.row[reader] <= self.row[other]:
                    seen.add(reader)
                    waiting.append(reader)
        return other in seen

    def encloses(self, outer: Across, inner: Across) -> bool:
        """Whether one level lies inside another: on the same way down, and on that back up, each
        time with a module between them."""
        if outer.leaves >= inner.leaves or inner.arrives >= outer.arrives:
            return False
        if not any(outer.leaves - SAME <= begin < inner.leaves for begin in self.modules):
            return False
        if not any(inner.arrives - SAME <= begin < outer.arrives for begin in self.modules):
            return False
        return self.reaches(outer.source, inner.source) and self.reaches(inner.sink, outer.sink)


def _skips(lines: Iterable[Across], flow: _Flow) -> tuple[tuple[Across, ...], ...]:
    """The lines that pair up children in reverse order, by pairs, the outermost first."""
    ordered = sorted(lines, key=lambda line: (-line.leaves, line.source, line.arrives, line.sink))
    found: list[tuple[Across, ...]] = []
    for _, each in groupby(ordered, key=lambda line: (line.source, line.sink)):
        pair = tuple(each)
        first = pair[0]
        if first.leaves < first.arrives and (not found or flow.encloses(first, found[-1][0])):
            found.append(pair)
    return tuple(reversed(found))
