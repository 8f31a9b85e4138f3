"""Equal branches: chains of equal structure beside each other, with a fork or a join in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from torchrecorder.layout.layered.items import Item
from torchrecorder.layout.layered.ports import OUTSIDE, Net, ScopeNets

Neighborhood = Mapping[int, Sequence[int]]
"""The boxes on the other ends of the edges of each box, on one side of it."""


class EqualBranches(NamedTuple):
    """An even number of equal branches. (Of an odd number, the middle one is straight anyway.)

    Attributes:
        ends: The join, the fork, or both. The entries of the scope are numbered after its children.
        members: The children in the branches.
    """

    ends: tuple[int, ...]
    members: tuple[int, ...]


def structures(items: Sequence[Item], scopes: Mapping[int, ScopeNets]) -> list[int]:
    """A number for each item: equal for items whose labels are equally high, and that contain items
    of equal structure with the same edges. Names, and so widths, may differ."""
    found, known = [0] * len(items), dict[object, int]()
    for number in reversed(range(len(items))):
        item, inside = items[number], scopes.get(number)
        content = inside and (tuple([found[each] for each in inside.children]), inside.key())
        key = item.height, item.first, content
        found[number] = known.setdefault(key, len(known))
    return found


def equal_branches(
    nets: Sequence[Net], row: Sequence[int], structure: Sequence[int]
) -> tuple[EqualBranches, ...]:
    """The equal branches in a scope, for the layer and the structure of each of its children."""
    return tuple(_Finder(nets, row, structure).found())


class _Finder:
    def __init__(self, nets: Sequence[Net], row: Sequence[int], structure: Sequence[int]) -> None:
        self.row, self.structure = row, structure
        self.sources: dict[int, list[int]] = {}
        self.readers: dict[int, list[int]] = {}
        self.side: set[int] = set()
        for net in nets:
            child, port = net.source
            source = len(row) + port if child == OUTSIDE else child
            if net.side:
                self.side.update((source, *(sink for sink, _ in net.sinks)))
            for sink, _ in net.sinks:
                self.readers.setdefault(source, []).append(sink)
                self.sources.setdefault(sink, []).append(source)

    def found(self) -> Iterator[EqualBranches]:
        """Those above each join, and those below each fork that do not join."""
        for join in self.sources:
            if join != OUTSIDE:
                yield from self._from(join, self.sources, self.readers)
        for fork in self.readers:
            for branches in self._from(fork, self.readers, self.sources):
                if len(branches.ends) == 1:
                    yield branches

    def _from(self, end: int, ahead: Neighborhood, back: Neighborhood) -> Iterator[EqualBranches]:
        """The branches that begin at an end, followed *ahead*, which is up or down."""
        beside, before, count = ahead[end], end, len(ahead[end])
        members: list[int] = []
        inner = False  # whether a member has edges on both sides
        while beside and not all(map(self._is_outside, beside)) and len({*beside}) > 1:
            if not self._are_equal(beside, before, ahead, back):
                return
            members += beside
            before, beside = beside[0], [each for child in beside for each in ahead.get(child, ())]
            inner = inner or bool(beside)
        common = {*beside} - {OUTSIDE}
        if count % 2 or not inner or any(len(back[at]) * len(common) != count for at in common):
            return
        if len(common) != 1:
            yield EqualBranches((end,), tuple(members))
        elif all(self._is_near(before, other) for other in common):
            yield EqualBranches((end, *common), tuple(members))

    def _is_outside(self, child: int) -> bool:
        return not 0 <= child < len(self.row)

    def _are_equal(
        self, beside: Sequence[int], before: int, ahead: Neighborhood, back: Neighborhood
    ) -> bool:
        """Whether children are equal, each with one edge to either side, in the layer next to
        another child."""
        if len({*beside}) < len(beside) or any(map(self._is_outside, beside)):
            return False
        facts = {
            (
                self.row[each],
                len(ahead.get(each, ())),
                len(back[each]),
                self.structure[each],
                each in self.side,
            )
            for each in beside
        }
        (_, following, edges, *_), *others = facts
        near = self._is_near(before, beside[0])
        return not others and near and following < 2 and edges == 1

    def _is_near(self, one: int, other: int) -> bool:
        """Whether two children are in adjacent layers; entries are before the first one."""
        above, below = sorted(-1 if self._is_outside(at) else self.row[at] for at in (one, other))
        return above + 1 == below
