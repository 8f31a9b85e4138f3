"""Order and coordinates where Graphviz is not installed."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from tests.layout.test_nested import SOME, check, directions, some_open, trees
from torchrecorder.errors import LayoutFailed
from torchrecorder.layout.layered import Item, Link, ordering as columns_module, place, plan
from torchrecorder.layout.layered.barycenter import (
    WeightedEdge, _assign_positions, _crossings, _neighbors, coordinates,
)
from torchrecorder.layout.layered.layering import members_of_rows
from torchrecorder.layout.layered.ordering import MAX_NODES_PER_JOB, NODE_GAP, Grid, columns


@st.composite
def grids(draw: st.DrawFn) -> tuple[list[float], list[int], list[WeightedEdge]]:
    """Widths and rows of nodes, and edges between neighboring rows."""
    count = draw(st.integers(1, 30))
    rows = [draw(st.integers(0, 4)) for _ in range(count)]
    widths = [draw(st.floats(1, 150)) for _ in range(count)]
    pairs = [(one, other) for one in range(count) for other in range(count)]
    near = [(one, other) for one, other in pairs if rows[other] == rows[one] + 1]
    chosen = draw(st.lists(st.sampled_from(near), unique=True)) if near else []
    return widths, rows, [(*pair, draw(st.sampled_from([1, 4, 20]))) for pair in chosen]


@pytest.mark.parametrize("turned", [False, True])
def test_a_long_chain_stands_in_line(turned: bool) -> None:
    """Below the one of two boxes that it reads, or above the one that reads it."""
    length = 60
    rows = [0, 0, *range(1, length)]
    edges = [(1, 2, 1), *((node, node + 1, 1) for node in range(2, length))]
    if turned:
        rows = [length - 1 - row for row in rows]
        edges = [(other, one, weight) for one, other, weight in edges]
    across = coordinates([50.0] * len(rows), rows, edges, NODE_GAP)
    assert across[1:] == pytest.approx([across[1]] * length)
    assert abs(across[0] - across[1]) == pytest.approx(50.0 + NODE_GAP)


@SOME
@given(grids())
def test_nodes_of_a_row_are_apart(grid: tuple[list[float], list[int], list[WeightedEdge]]) -> None:
    """Whatever draws them, there is the least distance between any two beside each other."""
    widths, rows, edges = grid
    across = coordinates(widths, rows, edges, NODE_GAP)
    members = defaultdict(list)
    for node, row in enumerate(rows):
        members[row].append(node)
    for row in members.values():
        row.sort(key=across.__getitem__)
        for left, right in zip(row, row[1:]):
            room = across[right] - widths[right] / 2 - across[left] - widths[left] / 2
            assert room >= NODE_GAP - 1e-6


NODES = st.tuples(st.integers(-50, 50), st.integers(1, 5), st.integers(1, 30))
"""What a node wants, how much, and its width."""


@SOME
@given(st.lists(NODES, min_size=1, max_size=9))
def test_nodes_come_as_near_as_they_can(nodes: list[tuple[int, int, int]]) -> None:
    """In their order and apart, the sum of weighted squares is least: by the formula for it."""
    wanted, weights, widths = zip(*nodes)
    count = len(nodes)
    neighbors = {node: [(node + count, weight)] for node, weight in enumerate(weights)}
    across = [0.0] * count + [float(at) for at in wanted]
    _assign_positions(range(count), neighbors, across, widths, 7.0)
    offsets = [0.0]
    for left, right in zip(widths, widths[1:]):
        offsets.append(offsets[-1] + (left + right) / 2 + 7.0)

    def mean(first: int, last: int) -> float:
        part = range(first, last + 1)
        total = sum(weights[node] for node in part)
        return sum(weights[node] * (wanted[node] - offsets[node]) for node in part) / total

    for node in range(count):
        nearest = max(
            min(mean(first, last) for last in range(node, count)) for first in range(node + 1)
        )
        assert across[node] == pytest.approx(nearest + offsets[node], abs=1e-6)


def test_a_chain_is_straight() -> None:
    """Nodes with one neighbor above and one below stand in line, whatever their widths."""
    edges = [(number, number + 1, 1) for number in range(9)]
    across = coordinates(
        [10.0 * number + 5 for number in range(10)], list(range(10)), edges, NODE_GAP
    )
    assert across == pytest.approx([across[0]] * 10)


def test_a_node_stands_where_its_heaviest_edges_end() -> None:
    """Between the two that it reads, by their weights; whichever is named first."""
    for neighbors in ([(1, 1), (2, 3)], [(2, 3), (1, 1)]):
        across = [0.0, 10.0, 50.0]
        _assign_positions([0], {0: neighbors}, across, [10.0] * 3, NODE_GAP)
        assert across == [40.0, 10.0, 50.0]


def test_no_crossing_where_none_is_needed() -> None:
    """Two ladders whose nodes come in turn are pulled apart, as is a tree upside down."""
    rows = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    edges = [(0, 7, 1), (1, 6, 1), (2, 5, 1), (3, 4, 1), (7, 8, 1), (5, 8, 1), (6, 9, 1), (4, 9, 1)]
    across = coordinates([20.0] * 10, rows, edges, NODE_GAP)
    for one, other, _ in edges:
        for third, fourth, _ in edges:
            if rows[one] == rows[third]:
                before, after = across[one] - across[third], across[other] - across[fourth]
                assert before * after >= 0


def test_what_comes_first_keeps_its_order() -> None:
    """Where either of two rows can be turned, it is the lower one."""
    across = coordinates([20.0] * 4, [0, 0, 1, 1], [(0, 3, 1), (1, 2, 1)], NODE_GAP)
    assert across[0] < across[1] and across[3] < across[2]


def _late(*_: object, **__: object) -> list[bytes]:
    raise LayoutFailed("too late")


@SOME
@given(grids())
def test_a_grid_begins_at_its_leftmost_box(
    grid: tuple[list[float], list[int], list[WeightedEdge]],
) -> None:
    """Without Graphviz, and equally where it takes too long; boxes of a row are apart."""
    widths, rows, edges = grid
    found = []
    for late in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(columns_module.engine, "available", lambda: late)
            patch.setattr(columns_module.engine, "run_many", _late)
            found += columns([Grid(widths, rows, edges)], timeout=1)
    across, again = found
    assert across == again == [round(at, 2) for at in across]
    sides = [(at - width / 2, at + width / 2) for at, width in zip(across, widths)]
    assert min(left for left, _ in sides) == pytest.approx(0, abs=0.01)
    for row in set(rows):
        members = sorted(side for side, each in zip(sides, rows) if each == row)
        gaps = [after - before for (_, before), (after, _) in pairwise(members)]
        assert min(gaps, default=NODE_GAP) >= NODE_GAP - 0.02


@SOME
@given(trees(), directions, st.data())
def test_boxes_and_lines_keep_apart(
    tree: tuple[list[Item], list[Link]], direction: str, data: st.DataObject
) -> None:
    """The picture keeps all the rules that it keeps with Graphviz."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns_module.engine, "available", lambda: False)
        patch.setattr(columns_module.engine, "run_many", None)
        planned = plan(*tree, direction)  # type: ignore[arg-type]
    check(place(planned, some_open(data, tree[0])), planned)
    check(place(planned), planned)


def test_pieces_of_a_large_grid_are_moved_to_each_other() -> None:
    """By the median of the edges between them; lines inside a piece do not count."""
    between, inside = [(0, 2, 1), (1, 3, 1), (1, 4, 1)], [(2, 5, 1), (3, 5, 1), (4, 5, 1)]
    grid = Grid([10.0] * 6, [0, 0, 1, 1, 1, 2], between + inside)
    upper, lower = {0: 25.0, 1: 65.0}, {2: 105.0, 3: 135.0, 4: 165.0, 5: 135.0}
    found = columns_module._joined(grid, [[0, 1], [2, 3, 4, 5]], [upper, lower])
    assert found == [5.0, 45.0, 5.0, 35.0, 65.0, 35.0]


def test_a_grid_is_cut_from_the_top_where_a_job_is_full() -> None:
    """Between rows, in whatever order they come."""
    rows = [2] * 60 + [1] * 100 + [0] * (MAX_NODES_PER_JOB - 100)
    nodes = [[node for node, row in enumerate(rows) if row == number] for number in range(3)]
    assert columns_module._cut(Grid([10.0] * len(rows), rows)) == [nodes[0] + nodes[1], nodes[2]]


@SOME
@given(grids())
def test_crossings_of_layers(grid: tuple[list[float], list[int], list[WeightedEdge]]) -> None:
    """Each pair of edges whose ends are in another order counts once."""
    _, rows, edges = grid
    layers, (_, below) = members_of_rows(rows), _neighbors(edges)
    place = {node: at for layer in layers for at, node in enumerate(layer)}
    ends = [(rows[one], place[one], place[other]) for one, other, _ in edges]
    assert _crossings(layers, below) == sum(
        row == other_row and (one < other) and (to_one > to_other)
        for row, one, to_one in ends for other_row, other, to_other in ends
    )


@pytest.mark.parametrize("there", [True, False])
def test_boxes_of_a_row_are_as_near_as_they_may_be(
    there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In points, with Graphviz and without."""
    if not there:
        monkeypatch.setattr(columns_module.engine, "available", lambda: False)
    (found,) = columns([Grid([100.0, 60.0], [0, 0], [])], timeout=60)
    assert abs(found[1] - found[0]) == pytest.approx(80.0 + NODE_GAP, abs=0.1)
