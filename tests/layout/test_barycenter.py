"""Order and coordinates where Graphviz is not installed."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.layout.test_nested import SOME, check, directions, some_open, trees
from torchrecorder.layout.layered import Item, Link, place, plan
from torchrecorder.layout.layered import ordering as columns_module
from torchrecorder.layout.layered.barycenter import Edge, coordinates
from torchrecorder.layout.layered.ordering import APART


@st.composite
def grids(draw: st.DrawFn) -> tuple[list[float], list[int], list[Edge]]:
    """Widths and rows of nodes, and edges between neighbouring rows."""
    count = draw(st.integers(1, 30))
    rows = [draw(st.integers(0, 4)) for _ in range(count)]
    widths = [draw(st.floats(1, 150)) for _ in range(count)]
    pairs = [(one, other) for one in range(count) for other in range(count)]
    near = [(one, other) for one, other in pairs if rows[other] == rows[one] + 1]
    chosen = draw(st.lists(st.sampled_from(near), unique=True)) if near else []
    return widths, rows, [(*pair, draw(st.sampled_from([1, 4, 20]))) for pair in chosen]


@SOME
@given(grids())
def test_nodes_of_a_row_are_apart(grid: tuple[list[float], list[int], list[Edge]]) -> None:
    """Whatever draws them, there is the least distance between any two beside each other."""
    widths, rows, edges = grid
    across = coordinates(widths, rows, edges, APART)
    members = defaultdict(list)
    for node, row in enumerate(rows):
        members[row].append(node)
    for row in members.values():
        row.sort(key=across.__getitem__)
        for left, right in zip(row, row[1:]):
            room = across[right] - widths[right] / 2 - across[left] - widths[left] / 2
            assert room >= APART - 1e-6


def test_a_chain_is_straight() -> None:
    """Nodes with one neighbour above and one below stand in line, whatever their widths."""
    edges = [(number, number + 1, 1) for number in range(9)]
    across = coordinates([10.0 * number + 5 for number in range(10)], list(range(10)), edges, APART)
    assert across == pytest.approx([across[0]] * 10)


def test_no_crossing_where_none_is_needed() -> None:
    """Two ladders whose nodes come in turn are pulled apart, as is a tree upside down."""
    rows = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    edges = [(0, 7, 1), (1, 6, 1), (2, 5, 1), (3, 4, 1), (7, 8, 1), (5, 8, 1), (6, 9, 1), (4, 9, 1)]
    across = coordinates([20.0] * 10, rows, edges, APART)
    for one, other, _ in edges:
        for third, fourth, _ in edges:
            if rows[one] == rows[third]:
                before, after = across[one] - across[third], across[other] - across[fourth]
                assert before * after >= 0


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
