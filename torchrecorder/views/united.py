"""United: the arrows of siblings that are one box although they differ.

All arrows of all siblings are kept, each once; those from one sibling to the next are
implied by the count, as in a fold of equals. Where what the next one reads from has no way
out that is drawn, or what it reads into no way in, there is one beside the way that the
other siblings take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from torchrecorder.views.items import Items
from torchrecorder.views.view import Arrow, View

Ends = tuple[str, str, int]
"""Tail and head, and which of the arrows between them."""

Entry = tuple[str, str]
"""A box inside a sibling, and the argument that something enters as."""


class Tree(Protocol):
    """What is needed of siblings that were joined; see `similar.Merged`."""

    old: View
    items: Items
    groups: list[tuple[str, ...]]

    def of(self, item: str) -> str:
        """What stands for *item* in the end."""

    def instances(self, item: str) -> int:
        """How many boxes a box stands for."""

    def around(self, item: str) -> Iterator[str]:
        """What stays, and the clusters around it in the end, innermost first."""

    def part(self, item: str) -> str | None:
        """The innermost thing around *item*, itself included, that only some repeats have."""


@dataclass
class _Gate:
    """What goes through the edge of siblings that are one.

    Attributes:
        joins: From which box of one sibling something comes to which entry of the next.
        entries: What is drawn into them from outside.
        exits: What is drawn out of each of their boxes.
    """

    joins: dict[tuple[str, Entry], Arrow] = field(default_factory=dict)
    entries: dict[Entry, Arrow] = field(default_factory=dict)
    exits: dict[str, list[Arrow]] = field(default_factory=dict)

    def missing(self) -> Iterator[Arrow]:
        """Ways in and out for what only leads from one sibling to the next."""
        origin: dict[str, Arrow] = {}
        ways: dict[Entry, list[Arrow]] = {}
        for tail, entry in self.joins:
            if entry in self.entries:
                origin.setdefault(tail, self.entries[entry])
            if tail in self.exits:
                ways.setdefault(entry, self.exits[tail])
        for (tail, entry), arrow in self.joins.items():
            if entry not in self.entries and tail in origin:
                yield replace(arrow, tail=origin[tail].tail, value=origin[tail].value)
            for way in ways.get(entry, ()) if tail not in self.exits else ():
                yield replace(arrow, head=way.head, slot=way.slot)


def arrows(tree: Tree) -> Iterator[Arrow]:
    """The arrows of the view in which siblings are joined.

    Those that all repeats have come first: the trunk that they share with others is theirs.
    """
    return iter(sorted(_Arrows(tree).united(), key=lambda arrow: arrow.some))


class _Arrows:
    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.seat: dict[str, tuple[int, int]] = {}
        for number, group in enumerate(tree.groups):
            self.seat.update((item, (number, place)) for place, item in enumerate(group))
        self.drawn: dict[Ends, Arrow] = {}
        self.heads: dict[Ends, set[str]] = {}
        self.joined: dict[Entry, set[str]] = {}
        self.gates: dict[str, _Gate] = {}
        self._seats: dict[str, dict[int, int]] = {}
        self._sort()
        for arrow in self.drawn.values():
            self._pass(arrow)

    def united(self) -> Iterator[Arrow]:
        """Each arrow once, marked where only some repeats have it."""
        for ends, arrow in self.drawn.items():
            yield replace(arrow, some=True) if self._lacks(ends, arrow) else arrow
        seen = {ends[:2] for ends in self.drawn}
        for arrow in (each for gate in self.gates.values() for each in gate.missing()):
            if (arrow.tail, arrow.head) not in seen:
                seen.add((arrow.tail, arrow.head))
                yield replace(arrow, some=True)

    def _lacks(self, ends: Ends, arrow: Arrow) -> bool:
        """Whether an arrow is missing where its head is, or goes to what is not everywhere."""
        tree = self.tree
        if tree.part(arrow.tail) != tree.part(arrow.head):
            return True
        there = self.heads[ends] | self.joined.get((arrow.head, arrow.slot), set())
        return len(there) < tree.instances(arrow.head)

    def _sort(self) -> None:
        copies: Counter[tuple[str, str]] = Counter()
        for arrow in self.tree.old.arrows:
            tails, heads = self._seated(arrow.tail), self._seated(arrow.head)
            moved = replace(arrow, tail=self.tree.of(arrow.tail), head=self.tree.of(arrow.head))
            entry = moved.head, moved.slot
            apart = (each for each, place in heads.items() if tails.get(each, place) != place)
            crossed = next(apart, -1)
            if crossed >= 0:
                sibling = self.tree.of(self.tree.groups[crossed][0])
                self.gates.setdefault(sibling, _Gate()).joins.setdefault((moved.tail, entry), moved)
                self.joined.setdefault(entry, set()).add(arrow.head)
            elif moved.tail != moved.head:
                copies[arrow.tail, arrow.head] += 1
                ends = (moved.tail, moved.head, copies[arrow.tail, arrow.head])
                self.drawn.setdefault(ends, moved)
                self.heads.setdefault(ends, set()).add(arrow.head)

    def _pass(self, arrow: Arrow) -> None:
        """Note at each gate what goes through it."""
        tails, heads = [*self.tree.around(arrow.tail)], [*self.tree.around(arrow.head)]
        while tails and heads and tails[-1] == heads[-1]:
            tails.pop()
            heads.pop()
        for item in (each for each in tails if each in self.gates):
            self.gates[item].exits.setdefault(arrow.tail, []).append(arrow)
        for item in (each for each in heads if each in self.gates):
            self.gates[item].entries.setdefault((arrow.head, arrow.slot), arrow)

    def _seated(self, box: str) -> dict[int, int]:
        """The groups a box is in, innermost first, and which of the siblings it is in."""
        if box not in self._seats:
            around = self.tree.items.around(box)
            self._seats[box] = dict(self.seat[item] for item in around if item in self.seat)
        return self._seats[box]
