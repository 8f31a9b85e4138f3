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
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from torchrecorder.layout.layered.layering import inversions, members_of_rows
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
    grid: Grid, across: Sequence[float], ports: PortOrder = MappingProxyType({}), *,
    follows: bool = False,
) -> list[float]:
    """The approximate centers of the nodes of *grid* after all moves; *across* are those before.

    If the grid *follows* the order of the edges around its scope, the inputs are in that order even
    at the cost of as many crossings: the scopes inside may follow in turn, and then none is left.
    """
    found = _Sifting(grid, across, ports).swept()
    if cost := found.cost():
        mirrored = _Sifting(grid, [-at for at in across], ports).swept()
        exchanged = mirrored.disorder(grid.inputs) - found.disorder(grid.inputs)
        saved = cost - mirrored.cost()
        if exchanged <= 0 and (saved > 0 or follows and saved == 0 and exchanged < 0):
            found = mirrored
    return grid.from_left(found.across[:-1])


def crossings(grid: Grid, across: Sequence[float], ports: PortOrder) -> int:
    """The number of crossings between the layers of *grid*, with its nodes at *across*."""
    return _Edges(grid, across, ports).crossings()


def cost(grid: Grid, across: Sequence[float], ports: PortOrder) -> int:
    """The number of crossings, and of inputs and outputs out of their order."""
    return _Edges(grid, across, ports).cost()


class _Edges:
    """The edges in each gap between two layers of a grid with its nodes at known places."""

    def __init__(self, grid: Grid, across: Sequence[float], ports: PortOrder) -> None:
        self.grid, self.across, self.ports = grid, [*across, math.inf], ports
        self.gap: dict[int, list[_GapEdge]] = {}
        for number, (one, other, _) in enumerate(grid.edges):
            self.gap.setdefault(grid.row[other], []).append(self._edge(number, one, other))
        for gap, node in grid.detours:
            ends = (node, len(across)) if grid.row[node] < gap else (len(across), node)
            self.gap.setdefault(gap, []).append((ends[0], 0.0, ends[1], 0.0))

    def _edge(self, number: int, one: int, other: int) -> _GapEdge:
        """An edge with the offsets of its ports."""
        begin = end = 0
        if one in self.ports:
            begin = self.ports[one][0][self.grid.leaving[number]]
        if other in self.ports:
            end = self.ports[other][1][self.grid.entering[number]]
        return one, begin * PORT_SPACING, other, end * PORT_SPACING

    def cost(self) -> int:
        """The number of crossings, and of inputs and outputs out of their order."""
        disorder = self.disorder(self.grid.inputs) + self.disorder(self.grid.outputs)
        return self.crossings() + disorder

    def crossings(self) -> int:
        """The number of crossings."""
        return sum(
            inversions(
                (self.across[one] + begin, self.across[other] + end)
                for one, begin, other, end in edges
            )
            for edges in self.gap.values() if len(edges) > 1
        )

    def disorder(self, nodes: Iterable[int]) -> int:
        """How many pairs of nodes in one layer are out of their order."""
        rows: dict[int, list[tuple[float, float]]] = {}
        for rank, node in enumerate(nodes):
            rows.setdefault(self.grid.row[node], []).append((self.across[node], rank))
        return sum(map(inversions, rows.values()))


class _Sifting(_Edges):
    """Edges whose nodes can be moved."""

    def __init__(self, grid: Grid, across: Sequence[float], ports: PortOrder) -> None:
        super().__init__(grid, across, ports)
        self.readers = [node for row in members_of_rows(grid.row) for node in row]
        self.above: list[list[int]] = [[] for _ in grid.row]
        self.below: list[list[int]] = [[] for _ in grid.row]
        self.entering: dict[tuple[int, int], int] = {}
        for number, (one, other, _) in enumerate(grid.edges):
            if (one, other) not in self.entering:
                self.entering[one, other] = grid.entering.get(number, 0)
                self.above[other].append(one)
                self.below[one].append(other)
        self.leaving, self.arriving = _by_end(self.gap, 0), _by_end(self.gap, 2)
        offsets = (max(edge[1], edge[3]) for edges in self.gap.values() for edge in edges)
        self.margin = 2 * max(offsets, default=0.0)
        self.rank = {node: rank for rank, node in enumerate(grid.inputs)}
        places = sorted((at, node) for node, at in enumerate(across))
        self.rows: dict[int, list[_NodePlace]] = {}
        for place in places:
            self.rows.setdefault(grid.row[place[1]], []).append(place)
        self.inputs = [place for place in places if place[1] in self.rank]
        self.work = MAX_COMPARISONS

    def swept(self) -> _Sifting:
        """This, after all moves."""
        for _ in range(MAX_PASSES):
            if not self.sweep():
                break
        return self

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
                    self._move(each, at)
                return True
        return False

    def _move(self, node: int, at: float) -> None:
        for places in self.rows[self.grid.row[node]], self.inputs if node in self.rank else None:
            if places is not None:
                del places[bisect_left(places, (self.across[node], node))]
                insort(places, (at, node))
        self.across[node] = at

    def _passed(self, places: Sequence[_NodePlace], node: int, at: float) -> list[int]:
        """Which of the nodes at some sorted *places* change sides with *node*, if it moves."""
        low, high = sorted((self.across[node], at))
        start = bisect_left(places, (low - self.margin, -1))
        end = bisect_right(places, (high + self.margin, math.inf))
        return [one for _, one in places[start:end]]

    def _reordered(self, moves: Mapping[int, float]) -> int:
        """How many more pairs of inputs are out of their order after some moves."""
        change, rank = 0, self.rank
        moved = moves.keys() & rank.keys()
        for node in moved:
            self.work -= len(rank)
            for other in moved.union(self._passed(self.inputs, node, moves[node])):
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
        row = self.rows[self.grid.row[node]]
        begin, end = bisect_left(row, (at, -1)), bisect_right(row, (at, math.inf))
        after = row[end : end + 1] if side > 0 else row[:begin][-1:]
        if after:
            return (at + after[0][0]) / 2
        width = max(self.grid.widths[each] for _, each in row[begin:end])
        return at + side * ((width + self.grid.widths[node]) / 2 + NODE_GAP)

    def _change(self, moves: Mapping[int, float]) -> int:
        """How many more edges cross after these moves."""
        change, at = 0, self.across
        passed = {
            node: self._passed(self.rows[self.grid.row[node]], node, to)
            for node, to in moves.items()
        }
        for row in {self.grid.row[node] + more for node in moves for more in (0, 1)}:
            edges = self.gap.get(row, ())
            leaving, arriving = self.leaving.get(row, {}), self.arriving.get(row, {})
            ends = [ends for node in moves for ends in (leaving.get(node), arriving.get(node))]
            mine = {edge for each in ends if each for edge in each}
            self.work -= len(mine) * (len(edges) - len(mine))
            for one, begin, other, end in map(edges.__getitem__, mine):
                x, y = at[one] + begin, at[other] + end
                to_x, to_y = moves.get(one, at[one]) + begin, moves.get(other, at[other]) + end
                near = {edge for node in passed.get(one, ()) for edge in leaving.get(node, ())}
                near.update(
                    edge for node in passed.get(other, ()) for edge in arriving.get(node, ())
                )
                for above, right, below, left in map(edges.__getitem__, near - mine):
                    upper, lower = at[above] + right, at[below] + left
                    change += (to_x - upper) * (to_y - lower) < 0
                    change -= (x - upper) * (y - lower) < 0
        return change


_GapEdge = tuple[int, float, int, float]
"""An edge between two layers: each end, and the offset of its port."""

_NodePlace = tuple[float, int]
"""Where a node is, and its number."""


def _by_end(
    gaps: Mapping[int, Sequence[_GapEdge]], end: Literal[0, 2]
) -> dict[int, dict[int, list[int]]]:
    """For each gap, the numbers of its edges by the node at one of their ends."""
    found: dict[int, dict[int, list[int]]] = {gap: {} for gap in gaps}
    for gap, edges in gaps.items():
        for number, edge in enumerate(edges):
            found[gap].setdefault(edge[end], []).append(number)
    return found
