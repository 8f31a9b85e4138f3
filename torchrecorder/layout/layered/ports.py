"""Items and links -> for each scope its children, and the nets that join them there.

A net is one tensor inside one scope: from the child that makes it, or the entry by which it
comes in, to the children that use it and the exit by which it leaves. A line from deep in
one scope to deep in another belongs to one net in every scope on its way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from torchrecorder.layout.layered.items import Item, Link

OUTSIDE = -1
"""In the place of a child: the scope's own entries or exits."""

Carried = tuple[int, str]
"""The item that made a tensor, and the tensor."""


class End(NamedTuple):
    """Where a net begins or ends: a child and one of its ports.

    Attributes:
        child: Its number among its siblings; `OUTSIDE` for an entry or exit of the scope.
        port: The number of the exit it leaves by, or of the entry it goes in by.
    """

    child: int
    port: int


@dataclass
class Net:
    """One tensor inside one scope."""

    carried: Carried
    source: End
    sinks: list[End] = field(default_factory=list)


@dataclass
class Level:
    """What is directly in one scope.

    Attributes:
        children: Numbers of the items in it, in their order.
        nets: What joins them, in the order of the links.
        entries: How many tensors come in.
        exits: How many tensors leave.
    """

    children: list[int] = field(default_factory=list)
    nets: list[Net] = field(default_factory=list)
    entries: int = 0
    exits: int = 0


def levels(items: Sequence[Item], links: Iterable[Link]) -> dict[int, Level]:
    """What is in each scope, by the scope's number; -1 is the paper."""
    return _Levels(items).joined(links)


class _Levels:
    def __init__(self, items: Sequence[Item]) -> None:
        self.parent = [item.parent for item in items]
        self.depth: list[int] = []
        self.place: list[int] = []
        self.found: dict[int, Level] = {-1: Level()}
        for number, item in enumerate(items):
            self.depth.append(0 if item.parent < 0 else self.depth[item.parent] + 1)
            siblings = self.found[item.parent].children
            self.place.append(len(siblings))
            siblings.append(number)
            if item.header is not None:
                self.found[number] = Level()
        self.nets: dict[tuple[int, Carried, End], Net] = {}
        self.entry: dict[tuple[int, Carried, int], int] = {}
        self.exit: dict[tuple[int, Carried], int] = {}
        self.entries = [0] * len(items)
        self.exits = [0] * len(items)
        self.sunk: set[tuple[int, Carried, End, End]] = set()

    def joined(self, links: Iterable[Link]) -> dict[int, Level]:
        copies: dict[Link, int] = {}
        for link in links:
            copies[link] = copies.get(link, -1) + 1
            self._join(link, copies[link])
        for number, level in self.found.items():
            if number >= 0:
                level.entries, level.exits = self.entries[number], self.exits[number]
        return self.found

    def _join(self, link: Link, copy: int) -> None:
        """Add a link to a net in every scope on its way: up to the common one, and down."""
        tail, head = link.tail, link.head
        carried, bundles = (tail, link.value), dict(link.bundles)
        ups, downs = [], []
        one, other = tail, head
        while self.parent[one] != self.parent[other]:
            if self.depth[one] >= self.depth[other]:
                ups.append(one)
                one = self.parent[one]
            else:
                downs.append(other)
                other = self.parent[other]
        for item in ups:
            source = End(self.place[item], self._exit(item, carried))
            around, inner = self.parent[item], carried
            carried = (around, bundles[around]) if around in bundles else carried
            self._sink(around, inner, source, End(OUTSIDE, self._exit(around, carried)))
        source = End(self.place[one], self._exit(one, carried))
        for item in (other, *reversed(downs)):
            port = self._entry(item, carried, copy if item == head else 0)
            self._sink(self.parent[item], carried, source, End(self.place[item], port))
            source = End(OUTSIDE, port)

    def _exit(self, item: int, carried: Carried) -> int:
        key = (item, carried)
        if key not in self.exit:
            self.exit[key] = self.exits[item]
            self.exits[item] += 1
        return self.exit[key]

    def _entry(self, item: int, carried: Carried, copy: int) -> int:
        key = (item, carried, copy)
        if key not in self.entry:
            self.entry[key] = self.entries[item]
            self.entries[item] += 1
        return self.entry[key]

    def _sink(self, scope: int, carried: Carried, source: End, sink: End) -> None:
        key = (scope, carried, source)
        net = self.nets.get(key)
        if net is None:
            net = self.nets[key] = Net(carried, source)
            self.found[scope].nets.append(net)
        if (*key, sink) not in self.sunk:
            self.sunk.add((*key, sink))
            net.sinks.append(sink)
