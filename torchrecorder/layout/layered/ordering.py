"""Ordering: the order and approximate positions of boxes and dummy nodes in each layer.

Graphviz computes them from the layers. An edge has a dummy node in each layer that it passes. Edges
that pass many layers are left out; they run beside everything, in lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from torchrecorder.errors import LayoutFailed
from torchrecorder.layout import engine
from torchrecorder.layout.layered.barycenter import coordinates
from torchrecorder.layout.layered.layering import members_of_rows

NODE_GAP = 16.0
"""The minimum distance between two boxes of a layer, in points."""

DUMMY_WIDTH = 7.0
"""The width of a dummy node, in points."""

MAX_NODES_PER_JOB = 260
"""The maximum number of nodes in one run of Graphviz; larger scopes are cut between layers."""


@dataclass
class Grid:
    """Layers of nodes without positions: boxes, and dummy nodes of edges.

    Attributes:
        widths: Width of each node.
        row: Row of each node.
        edges: Pairs of nodes in neighboring rows, the upper first, with the weight of their
            alignment.
        leaving: For the number of the first edge of each line, the port at which it leaves its
            source.
        entering: For the number of its last edge, the port at which it enters its reader.
        detours: The gaps in which a line runs to or from a lane on the right, each with the node at
            its other end; gap *n* is before row *n*.
        inputs: The nodes of inputs, and of lines that enter the scope, in the desired order: that
            of the program, or around the scope.
        outputs: The nodes that no line leaves, and of lines that leave the scope, in that order.
    """

    widths: list[float] = field(default_factory=list)
    row: list[int] = field(default_factory=list)
    edges: list[tuple[int, int, int]] = field(default_factory=list)
    leaving: dict[int, int] = field(default_factory=dict)
    entering: dict[int, int] = field(default_factory=dict)
    detours: list[tuple[int, int]] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def add(self, width: float, row: int) -> int:
        """Add a node; return its number."""
        self.widths.append(width)
        self.row.append(row)
        return len(self.row) - 1

    def from_left(self, across: Sequence[float]) -> list[float]:
        """The centers *across* of all nodes, rounded; the leftmost node begins at 0."""
        start = min((at - width / 2 for at, width in zip(across, self.widths)), default=0.0)
        return [round(at - start, 2) for at in across]


def columns(grids: Sequence[Grid], *, timeout: float) -> list[list[float]]:
    """For each grid, the approximate centers of its nodes, which also give their order."""
    if not engine.available():
        return [_without_graphviz(grid) for grid in grids]
    cut = [_cut(grid) for grid in grids]
    jobs = [
        engine.Job("\n".join(_dot_lines(grid, nodes)), "plain")
        for grid, pieces in zip(grids, cut)
        for nodes in pieces
    ]
    try:
        answers = iter(engine.run_many(jobs, timeout=timeout))
    except LayoutFailed as failed:
        if failed.final and engine.available():
            raise
        return [_without_graphviz(grid) for grid in grids]
    placed = []
    for grid, pieces in zip(grids, cut):
        found = [_places(next(answers)) for _ in pieces]
        placed.append(_joined(grid, pieces, found))
    return placed


def _without_graphviz(grid: Grid) -> list[float]:
    """Centers of all nodes: Graphviz is missing, or takes too long."""
    return grid.from_left(coordinates(grid.widths, grid.row, grid.edges, NODE_GAP))


def _cut(grid: Grid) -> list[list[int]]:
    """The nodes in pieces of whole rows."""
    pieces: list[list[int]] = []
    for members in members_of_rows(grid.row):
        if not pieces or len(pieces[-1]) + len(members) > MAX_NODES_PER_JOB:
            pieces.append([])
        pieces[-1].extend(members)
    return pieces


def _dot_lines(grid: Grid, nodes: Sequence[int]) -> Iterator[str]:
    """Some nodes of a grid in DOT; a chain of nodes holds each component in its rows."""
    here = set(nodes)
    edges = [edge for edge in grid.edges if edge[0] in here and edge[1] in here]
    yield f'digraph {{ graph [nodesep="{NODE_GAP / 72:.4f}", ranksep="0.1"{_effort(nodes, edges)}]'
    yield 'node [shape="box", fixedsize="true", height="0.1", label=""]'
    yield 'edge [arrowhead="none"]'
    start = min(grid.row[node] for node in nodes)
    highest = [(node, grid.row[node] - start) for node in _highest(grid, nodes, edges)]
    for row in range(max(row for _, row in highest) + 1):
        yield f'above{row} [width="0.01"]'
        if row:
            yield f'above{row - 1} -> above{row} [weight="0", style="invis"]'
    for node in nodes:
        yield f'{node} [width="{max(grid.widths[node], 1.0) / 72:.4f}"]'
    for one, other, weight in edges:
        yield f'{one} -> {other} [weight="{weight}"]'
    for node, row in highest:
        yield f'above{row} -> {node} [weight="0", style="invis"]'
    yield "}"


def _effort(nodes: Sequence[int], edges: Sequence[object]) -> str:
    size = len(nodes) + len(edges)
    return ', nslimit="1", mclimit="0.4"' if size > 300 else ""


def _highest(
    grid: Grid, nodes: Sequence[int], edges: Sequence[tuple[int, int, int]]
) -> Iterator[int]:
    """A node in the first row of each connected component."""
    part_of = {node: [node] for node in nodes}
    for one, other, _ in edges:
        small, large = sorted((part_of[one], part_of[other]), key=len)
        if small is not large:
            large += small
            part_of.update(dict.fromkeys(small, large))
    for part in {id(part): part for part in part_of.values()}.values():
        yield min(part, key=lambda node: (grid.row[node], node))


def _places(answer: bytes) -> Mapping[int, float]:
    """The centers of nodes in output of Graphviz in the format ``plain``."""
    places = {}
    for line in answer.decode().splitlines():
        words = line.split(" ", 3)
        if words[0] == "node" and words[1].isdigit():
            places[int(words[1])] = float(words[2]) * 72
    return places


def _joined(
    grid: Grid, pieces: Sequence[Sequence[int]], columns: Sequence[Mapping[int, float]]
) -> list[float]:
    """The positions of all nodes; each piece is moved so that lines from the piece above are
    straight."""
    across = [0.0] * len(grid.row)
    piece = {node: number for number, nodes in enumerate(pieces) for node in nodes}
    crossing: dict[int, list[tuple[int, int]]] = {}
    for one, other, _ in grid.edges:
        if piece[one] != piece[other]:
            crossing.setdefault(piece[other], []).append((one, other))
    for number, nodes in enumerate(pieces):
        places = columns[number]
        moves = sorted(across[one] - places[other] for one, other in crossing.get(number, ()))
        shift = moves[len(moves) // 2] if moves else 0.0
        for node in nodes:
            across[node] = places[node] + shift
    return grid.from_left(across)
