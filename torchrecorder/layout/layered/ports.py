"""Ports: the children of each scope, and the nets between them.

A net is one tensor inside one scope. It leads from the child that computes the tensor, or from an
entry of the scope, to the children that use it and to an exit. An edge between children of
different scopes belongs to one net in every scope on its way.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from torchrecorder.layout.layered.items import Item, Link

OUTSIDE = -1
"""The number that stands for the entries or exits of a scope in place of a child."""

Carried = tuple[int, str]
"""The item that computed a tensor, and the tensor."""

_KeyT = TypeVar("_KeyT", bound=Hashable)


class End(NamedTuple):
    """One end of a net: a child and one of its ports.

    Attributes:
        child: Its number among its siblings; `OUTSIDE` for an entry or exit of the scope.
        port: The number of the exit or entry.
    """

    child: int
    port: int


class Net(NamedTuple):
    """One tensor inside one scope; *side*: it carries no data, but a mask, positions or the
    like."""

    source: End
    sinks: list[End]
    side: bool = False


class ScopeNets:
    """The children of one scope, and the nets between them, as numbers that are fast to compare:
    most scopes equal a known one.

    Attributes:
        children: The numbers of its items, in their order.
        nets: For the number of each tensor, the child and port of its source, then of each sink.
        carried: The tensors that the numbers stand for.
        entries: The port by which each tensor comes in.
        exits: The port by which each tensor leaves.
        data: The numbers of tensors that carry data.
    """

    __slots__ = ("children", "nets", "carried", "entries", "exits", "data", "_key")

    def __init__(
        self,
        carried: Sequence[Carried],
        data: Collection[int],
        entries: Collection[object] = (),
        exits: Collection[object] = (),
    ) -> None:
        self.children: list[int] = []
        self.nets: dict[int, list[int]] = {}
        self.carried, self.entries, self.exits, self.data = carried, entries, exits, data
        self._key: object = None

    def values(self) -> tuple[Carried, ...]:
        """The tensor of each net."""
        return tuple([self.carried[number] for number in self.nets])

    def key(self) -> object:
        """A key that is equal for scopes with the same nets, when these are complete."""
        if self._key is None:
            nets, data = tuple(map(tuple, self.nets.values())), self.data.__contains__
            ports = len(self.entries), len(self.exits)
            self._key = nets, tuple(map(data, self.nets)), *ports
        return self._key

    def joined(self) -> list[Net]:
        """The nets, as objects instead of numbers."""
        return [
            Net(
                End(*ends[:2]),
                [End(*ends[at:at + 2]) for at in range(2, len(ends), 2)],
                number not in self.data,
            )
            for number, ends in self.nets.items()
        ]


def scope_nets(items: Sequence[Item], links: Iterable[Link]) -> dict[int, ScopeNets]:
    """The nets of each scope, by the number of the scope; -1 is the paper."""
    return _NetBuilder(items).joined(links)


class _NetBuilder:
    def __init__(self, items: Sequence[Item]) -> None:
        self.parent = [item.parent for item in items]
        self.depth: list[int] = []
        self.place: list[int] = []
        self.numbers: dict[Carried, int] = {}
        self.carried: list[Carried] = []
        self.data: set[int] = set()
        self.gathered: set[tuple[int, int]] = set()
        self.entry: list[dict[Hashable, int]] = [{} for _ in items]
        self.exit: list[dict[int, int]] = [{} for _ in items]
        self.found: dict[int, ScopeNets] = {-1: ScopeNets(self.carried, self.data)}
        for number, item in enumerate(items):
            self.depth.append(0 if item.parent < 0 else self.depth[item.parent] + 1)
            siblings = self.found[item.parent].children
            self.place.append(len(siblings))
            siblings.append(number)
            if item.header is not None:
                ports = self.entry[number], self.exit[number]
                self.found[number] = ScopeNets(self.carried, self.data, *ports)

    def joined(self, links: Iterable[Link]) -> dict[int, ScopeNets]:
        copies: dict[Link, int] = {}
        for link in links:
            copy = copies[link] = copies.get(link, -1) + 1
            self._join(link, copy)
        return self.found

    def _join(self, link: Link, copy: int) -> None:
        """Add a link to a net in every scope on its way: up to the common one, and down.

        A scope that already has a port for the tensor also has the sink.
        """
        parent, depth, downs, found = self.parent, self.depth, list[int](), self.found
        one, other, carried = link.tail, link.head, self._number((link.tail, link.value))
        bundles = dict(link.bundles) if link.bundles else {}
        if not link.side:
            self.data.add(carried)
        while parent[one] != parent[other]:
            if depth[one] >= depth[other]:
                carried = self._leave(one, carried, bundles)
                one = parent[one]
            else:
                downs.append(other)
                other = parent[other]
        source = self.place[one], _port(self.exit[one], carried)
        for item in (other, *reversed(downs)):
            entries, nets = self.entry[item], found[parent[item]].nets
            key: Hashable = (carried, copy) if copy and item == link.head else carried
            if carried not in nets:
                nets[carried] = [*source]
            if key not in entries:
                entries[key] = len(entries)
                nets[carried] += (self.place[item], entries[key])
            source = OUTSIDE, entries[key]

    def _leave(self, item: int, carried: int, bundles: Mapping[int, str]) -> int:
        """Add an exit for a tensor from an item to the scope around it; return its tensor or bundle
        outside."""
        around = self.parent[item]
        nets, source = self.found[around].nets, _port(self.exit[item], carried)
        ends = nets.setdefault(carried, [self.place[item], source])
        outer, exits = carried, self.exit[around]
        if around in bundles:
            outer = self._number((around, bundles[around]))
            is_new = (carried, outer) not in self.gathered
            self.gathered.add((carried, outer))
            if carried in self.data:
                self.data.add(outer)
        else:
            is_new = carried not in exits
        if is_new:
            ends += (OUTSIDE, _port(exits, outer))
        return outer

    def _number(self, carried: Carried) -> int:
        """A small number that stands for a tensor."""
        number = self.numbers.setdefault(carried, len(self.carried))
        if number == len(self.carried):
            self.carried.append(carried)
        return number


def _port(ports: dict[_KeyT, int], key: _KeyT) -> int:
    """The number of a port; ports are counted as they are needed."""
    return ports.setdefault(key, len(ports))
