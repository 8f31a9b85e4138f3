"""Edges: the arrows of a view with folded siblings.

All arrows of all siblings are kept, without duplicates. Arrows from one sibling to the next are
implied by the count. If siblings differ, such an arrow may have no drawn counterpart into or out of
the fold. It is then drawn parallel to those of other siblings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Protocol

from torchrecorder.views.fold.siblings import SiblingRows
from torchrecorder.views.view import Arrow

Ends = tuple[str, str, int]
"""Tail, head, and the number of the arrow among those between them."""

BoxInput = tuple[str, str]
"""A box inside a sibling, and one of its arguments."""


class FoldedItems(Protocol):
    """The members of `fold.FoldTree` that this module uses."""

    rows: SiblingRows
    groups: list[tuple[str, ...]]
    counterparts: dict[str, str]

    def representative(self, item: str) -> str:
        """The representative of *item* after all folds."""

    def instances(self, item: str) -> Sequence[str]:
        """The boxes that a box stands for, in the order of the siblings."""

    def around(self, item: str) -> Iterator[str]:
        """*item* and the clusters around it after all folds, innermost first."""

    def part(self, item: str) -> str | None:
        """The innermost of *item* and the items around it that only some repeats have."""


@dataclass
class _Gate:
    """The arrows that cross the border of a fold.

    Attributes:
        joins: Arrows between siblings, by their tail and the entry in the next sibling.
        entries: Arrows drawn from outside, by the entry.
        exits: Arrows drawn to the outside, by their tail.
    """

    joins: dict[tuple[str, BoxInput], Arrow] = field(default_factory=dict)
    entries: dict[BoxInput, Arrow] = field(default_factory=dict)
    exits: dict[str, list[Arrow]] = field(default_factory=dict)

    def missing(self) -> Iterator[Arrow]:
        """Arrows into and out of the fold that represent edges between two siblings only."""
        origin: dict[str, Arrow] = {}
        exits: dict[BoxInput, list[Arrow]] = {}
        for tail, entry in self.joins:
            if entry in self.entries:
                origin.setdefault(tail, self.entries[entry])
            if tail in self.exits:
                exits.setdefault(entry, self.exits[tail])
        for (tail, entry), arrow in self.joins.items():
            if entry not in self.entries and tail in origin:
                yield arrow.replace(tail=origin[tail].tail, value=origin[tail].value)
            for leaving in exits.get(entry, ()) if tail not in self.exits else ():
                yield arrow.replace(head=leaving.head, slot=leaving.slot)


def folded_arrows(
    tree: FoldedItems
) -> tuple[Iterable[Arrow], Mapping[str, tuple[Arrow, ...]]]:
    """The arrows of the view after joining the siblings of *tree*, and for the first sibling of
    each fold the arrows from sibling to sibling.

    If siblings may differ, arrows that all repeats have come first: the first of several arrows
    with one trunk determines its look.
    """
    found = _Arrows(tree)
    if not tree.rows.similar:
        return found.drawn.values(), found.carried()
    return sorted(found.with_marks(), key=attrgetter("some")), found.carried()


class _Arrows:
    """Separates the arrows that are drawn from those between joined siblings."""

    def __init__(self, tree: FoldedItems) -> None:
        self.tree = tree
        self.seat: dict[str, tuple[int, int]] = {}
        for number, group in enumerate(tree.groups):
            self.seat.update((item, (number, place)) for place, item in enumerate(group))
        self.drawn: dict[Ends, Arrow] = {}
        self.tails: dict[Ends, set[str]] = {}
        self.heads: dict[Ends, set[str]] = {}
        self.joined: dict[BoxInput, set[str]] = {}
        self.gates: dict[str, _Gate] = {}
        self._seats: dict[str | None, Mapping[int, int]] = {None: {}}
        self._around: dict[str | None, tuple[tuple[int, int], ...]] = {None: ()}
        clusters = tree.rows.view.clusters.values()
        for cluster in clusters:
            self._around[cluster.id] = self._with(cluster.id, cluster.parent)
        for cluster in clusters:  # a counterpart may be in a later one
            self._seats[cluster.id] = self._seats_of(cluster.id)
        self._sort()

    def carried(self) -> Mapping[str, tuple[Arrow, ...]]:
        """The arrows from each sibling to the next."""
        return {sibling: tuple(gate.joins.values()) for sibling, gate in self.gates.items()}

    def _sort(self) -> None:
        """Separate the arrows that are drawn from those between joined siblings."""
        copies: dict[tuple[str, str], int] = {}
        for arrow in self.tree.rows.view.arrows:
            moved, crossed = self._moved(arrow), self._crossed(arrow)
            if crossed is not None:
                self._cross(arrow, moved, crossed)
            elif moved.tail != moved.head:
                between = arrow.tail, arrow.head
                copy = copies[between] = copies.get(between, 0) + 1
                ends = (moved.tail, moved.head, copy)
                if arrow is moved:  # the first sibling's own goes first
                    self.drawn.pop(ends, None)
                self.drawn.setdefault(ends, moved)
                self.tails.setdefault(ends, set()).add(arrow.tail)
                self.heads.setdefault(ends, set()).add(arrow.head)

    def _crossed(self, arrow: Arrow) -> int | None:
        """The innermost group in which *arrow* leads from one sibling to another; else None."""
        tails, heads = self._seated(arrow.tail), self._seated(arrow.head)
        if tails is heads or tails == heads:
            return None
        return next((n for n, place in heads.items() if tails.get(n, place) != place), None)

    def _moved(self, arrow: Arrow) -> Arrow:
        """*arrow* between the representatives of its ends; unchanged if both remain."""
        tail, head = self.tree.representative(arrow.tail), self.tree.representative(arrow.head)
        if (tail, head) == (arrow.tail, arrow.head):
            return arrow
        return Arrow(tail, head, arrow.value, arrow.slot, arrow.some)

    def _cross(self, arrow: Arrow, moved: Arrow, group: int) -> None:
        """Register an arrow from one sibling of a group to another."""
        sibling = self.tree.representative(self.tree.groups[group][0])
        entry = moved.head, moved.slot
        self.gates.setdefault(sibling, _Gate()).joins.setdefault((moved.tail, entry), moved)
        self.joined.setdefault(entry, set()).add(arrow.head)

    def _seated(self, box: str) -> Mapping[int, int]:
        """The groups a box is in, innermost first, with the index of its sibling in each."""
        if box not in self._seats:
            self._seats[box] = self._seats_of(box)
        return self._seats[box]

    def _seats_of(self, item: str) -> Mapping[int, int]:
        """The same, not cached; an item that is no sibling of a group has the seats around it."""
        tree, parents = self.tree, self.tree.rows.items.parent
        chain = [item]
        while chain[-1] in tree.counterparts:
            chain.append(tree.counterparts[chain[-1]])
        if not tree.rows.similar and self.seat.keys().isdisjoint(chain):
            return self._seats[parents[item]]
        seats: dict[int, int] = {}
        for found in chain:
            for number, place in self._with(found, parents[found]):
                seats.setdefault(number, place)
        return seats

    def _with(self, item: str, parent: str | None) -> tuple[tuple[int, int], ...]:
        """The seats of an item and of those around it, its own first."""
        around = self._around[parent]
        return (self.seat[item], *around) if item in self.seat else around

    def with_marks(self) -> Iterator[Arrow]:
        """The arrows without duplicates, marked if only some of the repeats have them."""
        for arrow in self.drawn.values():
            self._pass(arrow)
        for ends, arrow in self.drawn.items():
            yield arrow.replace(some=True) if self._lacks(ends, arrow) else arrow
        seen = {ends[:2] for ends in self.drawn}
        for arrow in (missing for gate in self.gates.values() for missing in gate.missing()):
            if (arrow.tail, arrow.head) not in seen:
                seen.add((arrow.tail, arrow.head))
                yield arrow.replace(some=True)

    def _lacks(self, ends: Ends, arrow: Arrow) -> bool:
        """Whether some repeats lack an arrow, or one of its ends."""
        tree = self.tree
        if tree.part(arrow.tail) != tree.part(arrow.head):
            return True
        tails, left = tree.instances(arrow.tail), self.tails[ends]
        if tails[-1] not in left or arrow.tail not in self._passing and len(left) < len(tails):
            return True
        there = self.heads[ends] | self.joined.get((arrow.head, arrow.slot), set())
        return len(there) < len(tree.instances(arrow.head))

    @cached_property
    def _passing(self) -> Collection[str]:
        """The boxes of which the next sibling reads a result: only the last one has a way out."""
        return {tail for gate in self.gates.values() for tail, _ in gate.joins}

    def _pass(self, arrow: Arrow) -> None:
        """Register an arrow at each gate that it crosses."""
        tails, heads = [*self.tree.around(arrow.tail)], [*self.tree.around(arrow.head)]
        while tails and heads and tails[-1] == heads[-1]:
            tails.pop()
            heads.pop()
        for item in tails:
            if item in self.gates:
                self.gates[item].exits.setdefault(arrow.tail, []).append(arrow)
        for item in heads:
            if item in self.gates:
                self.gates[item].entries.setdefault((arrow.head, arrow.slot), arrow)
