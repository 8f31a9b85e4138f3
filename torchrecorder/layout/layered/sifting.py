"""Sifting: moves edges and boxes to the other side of their neighbors, for fewer crossings.

Graphviz orders the nodes of each layer for few crossings. But it moves single nodes, so an edge
that passes many layers stays on one side. And it does not know where edges enter and leave open
modules. Here such an edge, or a box with one reader, moves as a whole to the other side of the next
input of its reader, if fewer edges cross then. It also moves if as many cross, and the arguments of
an operation are in order then: so equal parts of a scope look equal. Two inputs that change places
count as a crossing, because the modules that read them may be side by side; so do two outputs.

Sifting is due to Matuszewski, Schönfeld and Molitor (1999). Its result depends on the order at the
start. So if crossings are left, the mirror image is a second start, and the better result is taken.
An image that exchanges inputs is not taken.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from torchrecorder.layout.layered.layering import members_of_rows
from torchrecorder.layout.layered.ordering import NODE_GAP, Grid

MAX_PASSES = 3
"""The maximum number of passes over all readers."""

MAX_COMPARISONS = 1_000_000
"""The maximum number of pairs of edges that are compared in one grid."""

PORT_SPACING = 1e-4
"""Distance between two ports of a node, in points; only their order matters."""

PortOrder = Mapping[int, tuple[Sequence[int], Sequence[int]]]
"""For each node that can open, the ranks of its exits and entries, from left to right."""


def sifted(
    grid: Grid, across: Sequence[float], ports: PortOrder = MappingProxyType({})
) -> list[float]:
    """The approximate centers of the nodes of *grid* after all moves; *across* are those before."""
    found = _Sifting(grid, across, ports).swept()
    if cost := found.cost():
        mirrored = _Sifting(grid, [-at for at in across], ports).swept()
        exchanged = mirrored.disorder(grid.inputs) > found.disorder(grid.inputs)
        if mirrored.cost() < cost and not exchanged:
            found = mirrored
    start = min((at - wide / 2 for at, wide in zip(found.across, grid.widths)), default=0.0)
    return [round(at - start, 2) for at in found.across[:-1]]


def crossings(grid: Grid, across: Sequence[float], ports: PortOrder) -> int:
    """The number of crossings between the layers of *grid*, with its nodes at *across*."""
    return _Sifting(grid, across, ports).crossings()


def cost(grid: Grid, across: Sequence[float], ports: PortOrder) -> int:
    """The number of crossings, and of inputs and outputs out of their order."""
    return _Sifting(grid, across, ports).cost()


class _Sifting:
    def __init__(self, grid: Grid, across: Sequence[float], ports: PortOrder) -> None:
        self.grid, self.across, self.ports = grid, [*across, math.inf], ports
        self.readers = [node for row in members_of_rows(grid.row) for node in row]
        self.above: list[list[int]] = [[] for _ in grid.row]
        self.below: list[list[int]] = [[] for _ in grid.row]
        self.gap: dict[int, list[_GapEdge]] = {}
        self.entering: dict[tuple[int, int], int] = {}
        for number, (one, other, _) in enumerate(grid.edges):
            if (one, other) not in self.entering:
                self.entering[one, other] = grid.entering.get(number, 0)
                self.above[other].append(one)
                self.below[one].append(other)
            self.gap.setdefault(grid.row[other], []).append(self._edge(number, one, other))
        for gap, node in grid.detours:
            ends = (node, len(across)) if grid.row[node] < gap else (len(across), node)
            self.gap.setdefault(gap, []).append((ends[0], 0.0, ends[1], 0.0))
        self.members: dict[int, list[int]] = {}
        for node, row in enumerate(grid.row):
            self.members.setdefault(row, []).append(node)
        self.rank = {node: rank for rank, node in enumerate(grid.inputs)}
        self.work = MAX_COMPARISONS

    def _edge(self, number: int, one: int, other: int) -> _GapEdge:
        """An edge with the offsets of its ports."""
        begin = end = 0
        if one in self.ports:
            begin = self.ports[one][0][self.grid.leaving[number]]
        if other in self.ports:
            end = self.ports[other][1][self.grid.entering[number]]
        return one, begin * PORT_SPACING, other, end * PORT_SPACING

    def swept(self) -> _Sifting:
        """This, after all moves."""
        for _ in range(MAX_PASSES):
            if not self.sweep():
                break
        return self

    def cost(self) -> int:
        """The number of crossings, and of inputs and outputs out of their order."""
        disorder = self.disorder(self.grid.inputs) + self.disorder(self.grid.outputs)
        return self.crossings() + disorder

    def crossings(self) -> int:
        """The number of crossings."""
        return sum(
            _inversions(
                (self.across[one] + begin, self.across[other] + end)
                for one, begin, other, end in edges
            )
            for edges in self.gap.values()
        )

    def disorder(self, nodes: Iterable[int]) -> int:
        """How many pairs of nodes in one layer are out of their order."""
        rows: dict[int, list[tuple[float, float]]] = {}
        for rank, node in enumerate(nodes):
            rows.setdefault(self.grid.row[node], []).append((self.across[node], rank))
        return sum(map(_inversions, rows.values()))

    def sweep(self) -> bool:
        """Try all moves at all readers; return whether there were any."""
        found = [self._arrange(node) for node in self.readers if len(self.above[node]) > 1]
        return any(found)

    def _arrange(self, reader: int) -> bool:
        """Try to move the inputs of a reader, two adjacent ones at a time."""
        changed, entering = False, self.entering
        joining = sorted(self.above[reader], key=self.across.__getitem__)
        for place in range(len(joining) - 1):
            left, right = joining[place : place + 2]
            wrong = reader not in self.ports and (
                entering[left, reader] > entering[right, reader]
            )
            if self._swap(left, right, 1, wrong) or self._swap(right, left, -1, wrong):
                joining[place : place + 2] = right, left
                changed = True
        return changed

    def _swap(self, node: int, other: int, side: int, wrong: bool) -> bool:
        """Move a node, and the nodes that lead only to it, to the other side of *other*, if fewer
        edges cross then; or as many, if the two are in the wrong order."""
        strand = self._strand(node) if self.work > 0 else []
        for count in sorted({min(1, len(strand)), len(strand)} - {0}):
            moves = self._beyond(strand[:count], other, side)
            change = self._change(moves) + self._reordered(moves) if moves else 1
            if change < 0 or wrong and change == 0:
                for each, at in moves.items():
                    self.across[each] = at
                return True
        return False

    def _reordered(self, moves: Mapping[int, float]) -> int:
        """How many more pairs of inputs are out of their order after some moves."""
        change, rank = 0, self.rank
        for node in moves.keys() & rank.keys():
            self.work -= len(rank)
            for other in rank:
                after = rank[node] - rank[other]
                if other not in moves or after < 0:
                    to = moves.get(other, self.across[other])
                    change += after * (moves[node] - to) < 0
                    change -= after * (self.across[node] - self.across[other]) < 0
        return change

    def _strand(self, node: int) -> list[int]:
        """A node with one reader, and the nodes that lead only to it, from layer to layer."""
        found: list[int] = []
        while len(self.below[node]) == 1:
            found.append(node)
            if len(self.above[node]) != 1:
                break
            node = self.above[node][0]
        return found

    def _beyond(self, strand: Sequence[int], other: int, side: int) -> dict[int, float]:
        """The new positions of a strand beside another node and all nodes above that one."""
        found, beside = {}, {other}
        for node in strand:
            here = side * self.across[node]
            limit = max((side * self.across[each] for each in beside), default=here)
            if limit > here:
                found[node] = self._next_to(node, limit * side, side)
            beside = {above for each in beside for above in self.above[each]} - set(strand)
        return found

    def _next_to(self, node: int, at: float, side: int) -> float:
        """A position beside another node, before the next one."""
        row = self.members[self.grid.row[node]]
        after = [side * self.across[each] for each in row if side * self.across[each] > side * at]
        if after:
            return (at + side * min(after)) / 2
        width = max(self.grid.widths[each] for each in row if self.across[each] == at)
        return at + side * ((width + self.grid.widths[node]) / 2 + NODE_GAP)

    def _change(self, moves: Mapping[int, float]) -> int:
        """How many more edges cross after these moves."""
        change = 0
        for row in {self.grid.row[node] + more for node in moves for more in (0, 1)}:
            edges = self.gap.get(row, ())
            mine = [edge for edge in edges if edge[0] in moves or edge[2] in moves]
            others = [
                (self.across[one] + begin, self.across[other] + end)
                for one, begin, other, end in edges if one not in moves and other not in moves
            ]
            self.work -= len(mine) * len(others)
            for one, begin, other, end in mine:
                x, y = self.across[one] + begin, self.across[other] + end
                to_x = moves.get(one, self.across[one]) + begin
                to_y = moves.get(other, self.across[other]) + end
                for upper, lower in others:
                    change += (to_x - upper) * (to_y - lower) < 0
                    change -= (x - upper) * (y - lower) < 0
        return change


_GapEdge = tuple[int, float, int, float]
"""An edge between two layers: each end, and the offset of its port."""


def _inversions(ends: Iterable[tuple[float, float]]) -> int:
    """The number of pairs that are in one order at their first ends and in the other at their
    second."""
    found, seconds = 0, list[float]()
    for _, second in sorted(ends):
        found += len(seconds) - bisect_right(seconds, second)
        insort(seconds, second)
    return found
