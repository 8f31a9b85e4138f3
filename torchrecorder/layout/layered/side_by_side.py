"""Side by side: the positions at which a scope is cut, so that its parts can be side by side.

Cuts are between stacks that only skip connections join, such as an encoder and a decoder, and at
the bottom of a U, whose levels are joined in reverse order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from torchrecorder.layout.layered.cuts import crossing, row_ends
from torchrecorder.layout.layered.ports import OUTSIDE
from torchrecorder.layout.layered.positions import TOLERANCE, HeaderSpace, PlacedScope
from torchrecorder.layout.layered.template import Template

MIN_STACK_LENGTH = 250.0
"""The minimum length of an open module that counts as a stack, in points."""

MIN_RATIO = 0.4
"""The minimum length of the shorter of two stacks, as a share of the longer one."""

MIN_U_LEVELS = 2
"""The minimum number of levels of a U above its bottom. Levels of inputs do not count: the later
steps of a loop read them too."""

MAX_STRAYS = 2
"""The maximum number of other tensors that cross the bottom, per level."""

MIN_LENGTH = 120.0
"""The minimum length of the longer side, in points."""

MAX_BOTTOMS = 8
"""The number of rows that are tried as the bottom of a U."""


def beginnings(template: Template, scope: PlacedScope, inputs: Collection[int]) -> list[float]:
    """The starts, along the flow, of stacks that are placed beside the previous stack.

    Such a stack reads the output of the previous one, but also its own input, on which the previous
    one does not depend: an entry of the scope, or one of its children *inputs*.
    """
    long = [child for child in scope.inner if scope.frames[child].height >= MIN_STACK_LENGTH]
    long.sort(key=lambda child: scope.frames[child].along)
    depends = _sources(template, inputs) if len(long) > 1 else {}
    found = []
    for one, other in zip(long, long[1:]):
        before, after = scope.frames[one], scope.frames[other]
        follows = after.along >= before.end
        alike = min(before.height, after.height) >= MIN_RATIO * max(before.height, after.height)
        own = depends[other] - depends[one]
        if follows and alike and own and depends[one] & depends[other]:
            found.append(after.along)
    return found


def _sources(template: Template, inputs: Collection[int]) -> dict[int, set[tuple[str, int]]]:
    """For each child, the entries of the scope and the inputs on which it depends."""
    reads: dict[int, list[tuple[int, int]]] = {}
    for trunk in template.trunks:
        for branch in trunk.branches:
            reads.setdefault(branch.sink.child, []).append(trunk.source)
    found: dict[int, set[tuple[str, int]]] = {}
    for child in sorted(
        range(len(template.children)), key=lambda index: template.children[index].row
    ):
        found[child] = {("input", child)} if child in inputs else set()
        for source, port in reads.get(child, ()):
            found[child] |= {("entry", port)} if source == OUTSIDE else found.get(source, set())
    return found


class CutEdge(NamedTuple):
    """An edge that crosses the cut, from the left side of a U to the right one.

    Attributes:
        path: Its number among the paths of the scope.
        trunk: The number of its trunk.
        source: The child it leaves; `OUTSIDE` for an entry of the scope.
        sink: The child it enters.
        leaves: The first level, along the flow, at which it can leave the left side: after its
            source.
        arrives: The last level at which it can enter the right side: before its sink.
    """

    path: int
    trunk: int
    source: int
    sink: int
    leaves: float
    arrives: float


class UShape(NamedTuple):
    """The levels of a scope that can be drawn as a U, like a U-Net.

    Attributes:
        bottom: The position along the flow at which the scope is cut.
        skips: The skip connections of each level of the U, the outermost first.
        others: The other edges that cross the cut; at least one, which runs through it.
    """

    bottom: float
    skips: tuple[tuple[CutEdge, ...], ...]
    others: tuple[CutEdge, ...]

    @property
    def through(self) -> list[CutEdge]:
        """Other edges that only run through the bottom, from just above it to just below."""
        return [line for line in self.others if line.leaves == line.arrives == self.bottom]

    @property
    def strays(self) -> int:
        """The number of tensors of the other edges, without those that run through the bottom."""
        return len({line.trunk for line in set(self.others).difference(self.through)})


def find_u_shape(
    template: Template,
    scope: PlacedScope,
    inputs: Collection[int],
    modules: Collection[int],
    space: HeaderSpace,
    lowest: Sequence[int] = (),
) -> UShape | None:
    """The U-shape of a scope; None if it cannot be drawn as a U.

    The skip connections of a level all join the same two children. Each level lies inside the
    previous one, with one of the *modules* between them on both sides; at least two do not come
    from *inputs*. Few other edges cross the bottom, and both sides are long. If one child is the
    *lowest*, the bottom is below it.
    """
    if scope.height < MIN_LENGTH:
        return None
    levels = [space.before, *row_ends(scope)]
    ends = [scope.frames[child].end - TOLERANCE for child in lowest]
    bottoms = [levels[bisect_left(levels, end)] for end in ends] or _bottoms(scope, levels)
    if not bottoms:
        return None
    depends = _ChildDependencies(template, scope, inputs, modules)
    found = (_u_shape(depends, list(_cut_edges(template, scope, levels, at)), at) for at in bottoms)
    shapes = [shape for shape in found if shape is not None]
    return max(shapes, key=_worth, default=None)


def _worth(shape: UShape) -> tuple[int, int, float]:
    """A sort key: it is largest for many levels, few other edges, and a bottom in the middle."""
    inner = shape.skips[-1][0]
    rest = max(shape.bottom - inner.leaves, inner.arrives - shape.bottom)
    return len(shape.skips), -len(shape.others), -rest


def _bottoms(scope: PlacedScope, levels: Sequence[float]) -> list[float]:
    """The positions with two long sides, those that most edges cross first."""
    crossed = dict(zip(levels, crossing(scope, levels)))
    sides = {level: (level - levels[0], scope.height - level) for level in levels}
    long = [
        level
        for level, both in sides.items()
        if max(both) >= MIN_LENGTH and min(both) >= MIN_RATIO * max(both)
    ]
    long.sort(key=lambda level: (-crossed[level], abs(sides[level][0] - sides[level][1])))
    return long[:MAX_BOTTOMS]


def _u_shape(depends: _ChildDependencies, lines: Sequence[CutEdge], bottom: float) -> UShape | None:
    """The U with its bottom at a position that these edges cross."""
    if any(line.sink == OUTSIDE for line in lines):
        return None
    skips = _skips((line for line in lines if line.source != OUTSIDE), depends)
    own = [level for level in skips if level[0].source not in depends.inputs]
    if len(own) < MIN_U_LEVELS or skips[-1][0].leaves >= bottom:
        return None
    nested = {line.path for level in skips for line in level}
    shape = UShape(bottom, skips, tuple(line for line in lines if line.path not in nested))
    ends = (line.source for line in shape.through if line.source != OUTSIDE)
    runs = any(depends.reaches(skips[-1][0].source, end) for end in ends)
    return shape if runs and shape.strays <= MAX_STRAYS * len(skips) else None


def _cut_edges(
    template: Template, scope: PlacedScope, levels: Sequence[float], bottom: float
) -> Iterator[CutEdge]:
    """The edges that cross a position along the flow."""
    for number, path in enumerate(scope.paths):
        trunk = template.trunks[path.trunk]
        source, sink = trunk.source.child, trunk.branches[path.branch].sink.child
        leaves, arrives = levels[0], scope.height
        if source != OUTSIDE:
            leaves = levels[bisect_left(levels, scope.frames[source].end - TOLERANCE)]
        if sink != OUTSIDE:
            arrives = levels[bisect_right(levels, scope.frames[sink].along) - 1]
        if leaves <= bottom <= arrives:
            yield CutEdge(number, path.trunk, source, sink, leaves, arrives)


class _ChildDependencies:
    """The dependencies between the children of a scope, and the positions of its modules."""

    def __init__(
        self,
        template: Template,
        scope: PlacedScope,
        inputs: Collection[int],
        modules: Collection[int],
    ) -> None:
        self.inputs = inputs
        self.modules = sorted(scope.frames[module].along for module in modules)
        self.row = [closed.row for closed in template.children]
        self.readers: dict[int, list[int]] = {}
        for trunk in template.trunks:
            heads = (branch.sink.child for branch in trunk.branches)
            self.readers.setdefault(trunk.source.child, []).extend(heads)

    def reaches(self, one: int, other: int) -> bool:
        """Whether *other* depends on *one*, or is the same child."""
        seen, waiting = {one}, [one]
        while waiting and other not in seen:
            for reader in self.readers.get(waiting.pop(), ()):
                if reader not in seen and reader != OUTSIDE and self.row[reader] <= self.row[other]:
                    seen.add(reader)
                    waiting.append(reader)
        return other in seen

    def encloses(self, outer: CutEdge, inner: CutEdge) -> bool:
        """Whether the level of *inner* is inside the level of *outer*: a path between them, with a
        module, on both sides."""
        if outer.leaves >= inner.leaves or inner.arrives >= outer.arrives:
            return False
        for begin, end in ((outer.leaves, inner.leaves), (inner.arrives, outer.arrives)):
            if bisect_left(self.modules, begin) == bisect_left(self.modules, end):
                return False
        return self.reaches(outer.source, inner.source) and self.reaches(inner.sink, outer.sink)


def _skips(
    lines: Iterable[CutEdge], depends: _ChildDependencies
) -> tuple[tuple[CutEdge, ...], ...]:
    """The edges that join children in reverse order, grouped by level, the outermost first."""
    ordered = sorted(lines, key=lambda line: (-line.leaves, line.source, line.arrives, line.sink))
    found: list[tuple[CutEdge, ...]] = []
    for _, each in groupby(ordered, key=lambda line: (line.source, line.sink)):
        pair = tuple(each)
        first = pair[0]
        if first.leaves < first.arrives and (not found or depends.encloses(first, found[-1][0])):
            found.append(pair)
    return tuple(reversed(found))
