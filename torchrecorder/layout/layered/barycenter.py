"""Barycenter: the order and coordinates of the nodes of a grid, where Graphviz is not installed.

Layers are ordered by barycenters (Sugiyama, Tagawa and Toda, 1981): nodes are sorted by the mean
position of their neighbors in the layer above or below, and the order with the fewest crossings is
taken. Then each node is moved as close to the mean of its neighbors as the nodes beside it allow,
which is an isotonic regression in each layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from torchrecorder.layout.layered.layering import inversions, members_of_rows

MAX_SWEEPS = 8
"""The number of sweeps over all layers, alternately downwards and upwards."""

WeightedEdge = tuple[int, int, int]
Layers = list[list[int]]
WeightedNeighbors = Mapping[int, Sequence[tuple[int, int]]]


class _Block(NamedTuple):
    """Adjacent nodes: their desired position, its weight, and their number."""

    place: float
    weight: float
    nodes: int


def coordinates(
    widths: Sequence[float], rows: Sequence[int], edges: Sequence[WeightedEdge], apart: float
) -> list[float]:
    """The center of each node across the flow.

    *edges* are pairs of nodes in adjacent layers, the upper one first, with the weight of their
    alignment. *apart* is the minimum distance between the nodes of a layer.
    """
    above, below = _neighbors(edges)
    layers = _ordered(members_of_rows(rows), above, below)
    across = [0.0] * len(rows)
    for sweep in range(MAX_SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            _assign_positions(layer, above if down else below, across, widths, apart)
    return across


def _neighbors(edges: Iterable[WeightedEdge]) -> tuple[WeightedNeighbors, WeightedNeighbors]:
    """The neighbors above and below each node, with the weights of the edges."""
    above: dict[int, list[tuple[int, int]]] = {}
    below: dict[int, list[tuple[int, int]]] = {}
    for upper, lower, weight in edges:
        above.setdefault(lower, []).append((upper, weight))
        below.setdefault(upper, []).append((lower, weight))
    return above, below


def _ordered(layers: Layers, above: WeightedNeighbors, below: WeightedNeighbors) -> Layers:
    """The layers in the best order found by the sweeps."""
    best, fewest = layers, _crossings(layers, below)
    for sweep in range(MAX_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        layers = _swept(layers, above) if down else _swept(layers[::-1], below)[::-1]
        crossings = _crossings(layers, below)
        if crossings < fewest:
            best, fewest = layers, crossings
    return best


def _swept(layers: Layers, neighbors: WeightedNeighbors) -> Layers:
    """Each layer in the order of the barycenters in the one before it."""
    place: dict[int, float] = {}
    found = []
    for layer in layers:
        here = {node: _mean(neighbors.get(node, ()), place, at) for at, node in enumerate(layer)}
        found.append(sorted(layer, key=here.__getitem__))
        place.update((node, at) for at, node in enumerate(found[-1]))
    return found


def _mean(neighbors: Sequence[tuple[int, int]], place: Mapping[int, float], alone: float) -> float:
    total = sum(weight for _, weight in neighbors)
    return sum(place[node] * weight for node, weight in neighbors) / total if total else alone


def _crossings(layers: Layers, below: WeightedNeighbors) -> int:
    """The number of crossings."""
    place = {node: at for layer in layers for at, node in enumerate(layer)}
    return sum(
        inversions((place[node], place[head]) for node in layer for head, _ in below.get(node, ()))
        for layer in layers
    )


def _assign_positions(
    layer: Sequence[int],
    neighbors: WeightedNeighbors,
    across: list[float],
    widths: Sequence[float],
    apart: float,
) -> None:
    """Move the nodes of a layer toward their neighbors; their order and minimum distances are
    kept."""
    offset, offsets = 0.0, []
    for left, node in zip([None, *layer], layer):
        offset += 0.0 if left is None else (widths[left] + widths[node]) / 2 + apart
        offsets.append(offset)
    blocks: list[_Block] = []
    for node, offset in zip(layer, offsets):
        near = neighbors.get(node, ())
        wanted = _mean(near, {other: across[other] for other, _ in near}, across[node])
        weight = float(sum(weight for _, weight in near)) or 0.01
        blocks.append(_Block(wanted - offset, weight, 1))
        while len(blocks) > 1 and blocks[-2].place > blocks[-1].place:
            last = blocks.pop()
            blocks[-1] = _joined(blocks[-1], last)
    starts = [block.place for block in blocks for _ in range(block.nodes)]
    for node, start, offset in zip(layer, starts, offsets):
        across[node] = start + offset


def _joined(one: _Block, other: _Block) -> _Block:
    weight = one.weight + other.weight
    place = (one.place * one.weight + other.place * other.weight) / weight
    return _Block(place, weight, one.nodes + other.nodes)
