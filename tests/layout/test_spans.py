"""Which rows an open box can fill: those in which nothing else stands in its column."""

from __future__ import annotations

import pytest

from torchrecorder.layout.layered.ordering import Grid
from torchrecorder.layout.layered.scope_layout import Spans

BOX, OWN, OTHER = 0, (1, 2), 3
"""A box in row 0, the nodes of its line in rows 1 and 2, and a node of another line."""


def last(own: float, other: float, row: int = 1, **more: list[tuple[int, int]]) -> int:
    """The last row that a box at 100 fills, with its line at *own* and another node at *other*."""
    grid = Grid([40.0, 1.0, 1.0, 1.0, 1.0], [0, 1, 2, row, row + 1])
    grid.edges += [(*pair, 1) for pair in more.get("edges", [])]
    grid.detours += more.get("detours", [])
    across = [100.0, own, own, other, other]
    spans = Spans(grid, across)
    return spans.last(BOX, 0, 2, {1: [OWN[0]], 2: [OWN[1]]})


@pytest.mark.parametrize("own", [60.0, 100.0, 140.0])
@pytest.mark.parametrize("row", [1, 2])
def test_nothing_else_stands_between_a_box_and_its_line(own: float, row: int) -> None:
    """Neither there nor on one of the two; on both sides of them others may."""
    low, high = min(own, 100.0), max(own, 100.0)
    for other in (low, (low + high) / 2, high):
        assert last(own, other, row) == row - 1
    for other in (low - 1, high + 1):
        assert last(own, other, row) == 2


def test_it_fills_no_more_rows_than_it_has_a_line_in() -> None:
    """Nor more than it may reach."""
    spans = Spans(Grid([40.0, 1.0], [0, 1]), [100.0, 100.0])
    assert spans.last(BOX, 0, 3, {1: [1]}) == 1
    assert spans.last(BOX, 0, 0, {1: [1]}) == 0
    assert spans.last(BOX, 0, 3, {}) == 0


@pytest.mark.parametrize("side", [50.0, 150.0])
def test_a_line_that_changes_sides_is_in_the_way(side: float) -> None:
    """In the gap before a row; not one that stays on its side, nor the box's own."""
    grid = Grid([40.0, 1.0, 1.0, 1.0], [0, 1, 0, 1])
    for other, free in ((side, True), (200.0 - side, False)):
        grid.edges[:] = [(2, 3, 1), (BOX, 1, 1)]
        spans = Spans(grid, [100.0, 100.0, side, other])
        assert spans.last(BOX, 0, 1, {1: [1]}) == free
    grid.edges[:] = [(BOX, 3, 1), (2, 1, 1)]
    assert Spans(grid, [100.0, 100.0, 50.0, 150.0]).last(BOX, 0, 1, {1: [1]}) == 1


def test_a_way_to_a_lane_is_in_the_way_from_the_left() -> None:
    """Lanes are on the right: what stands there reaches them, and so does the box itself."""
    for other, free in ((50.0, False), (150.0, True)):
        assert last(100.0, other, 3, detours=[(1, OTHER)]) == (2 if free else 0)
        assert last(100.0, other, 3, detours=[(2, OTHER)]) == (2 if free else 1)
    assert last(99.0, 150.0, 3, detours=[(1, OWN[0])]) == 2
