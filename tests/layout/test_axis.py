"""Places along one axis: where a scope can be cut, what crosses a cut."""

from __future__ import annotations

import pytest

from tests.layout.test_u_shape import _chain, runs_down
from torchrecorder.layout.layered.cuts import crossing, crossings, even_cuts, row_ends, since, until
from torchrecorder.layout.layered.positions import BranchPath, Frame, PlacedScope
from torchrecorder.layout.layered.side_by_side import MAX_BOTTOMS, MIN_LENGTH, MIN_RATIO, _bottoms


def scope(frames: list[tuple[float, float]], *paths: tuple[int, list[float]]) -> PlacedScope:
    """A scope with boxes from here to there, and lines straight along, by their trunks."""
    boxes = tuple(Frame(0.0, begin, 10.0, end - begin) for begin, end in frames)
    lines = tuple(
        BranchPath(trunk, number, tuple((5.0, at) for at in ways))
        for number, (trunk, ways) in enumerate(paths)
    )
    high = max(end for _, end in frames) + 10.0
    return PlacedScope(20.0, high, (), (), boxes, lines, {})


def test_rows_end_where_no_box_reaches_across() -> None:
    """Nor a line that runs back up."""
    boxes = [(0.0, 10.0), (20.0, 30.0), (25.0, 50.0), (50.0, 60.0), (70.0, 80.0)]
    assert row_ends(scope(boxes)) == [10.0, 50.0, 60.0, 80.0]
    assert row_ends(scope(boxes, (0, [75.0, 55.0]))) == [10.0, 50.0, 80.0]
    assert row_ends(scope(boxes, (0, [55.0, 75.0]))) == [10.0, 50.0, 60.0, 80.0]


def test_trunks_that_cross() -> None:
    """Each once, from where it begins to where the last in the scope reads it."""
    boxes = [(at, at + 10.0) for at in (0.0, 20.0, 40.0, 60.0)]
    levels = [10.0, 30.0, 50.0, 70.0]
    found = scope(boxes, (0, [10.0, 20.0]), (1, [10.0, 20.0]), (1, [10.0, 60.0]), (2, [30.0, 40.0]))
    assert [*crossing(found, levels)] == [2, 2, 1, 0]
    leaving = scope(boxes, (0, [30.0, 80.0]), (0, [30.0, 60.0]), (1, [50.0, 80.0]))
    assert [*crossing(leaving, levels)] == [0, 1, 1, 0]


def test_cuts_are_even_where_few_lines_cross() -> None:
    """A column may be a bit longer if fewer lines go on from it."""
    boxes = [(20.0 * number, 20.0 * number + 10.0) for number in range(10)]
    levels = [0.0, *row_ends(scope(boxes))]
    assert even_cuts(scope(boxes), levels, 2) == [90.0]
    assert even_cuts(scope(boxes), levels, 4) == [50.0, 90.0, 150.0]
    assert even_cuts(scope(boxes), levels, 1) == []
    crossed = scope(boxes, *((trunk, [90.0, 100.0]) for trunk in range(2)))
    assert even_cuts(crossed, levels, 2) == [110.0]
    assert even_cuts(scope(boxes[:1]), [10.0], 3) == []


def test_a_way_up_to_a_level_and_from_it_on() -> None:
    """Both end where it crosses the level; a corner there belongs to both."""
    way = [(0.0, 0.0), (0.0, 10.0), (5.0, 10.0), (5.0, 30.0)]
    assert until(way, 4.0) == [(0.0, 0.0), (0.0, 4.0)]
    assert until(way, 10.0) == way[:3] and until(way, 99.0) == way
    assert until(way, 20.0) == [*way[:3], (5.0, 20.0)]
    assert since(way, 20.0) == [(5.0, 20.0), (5.0, 30.0)]
    assert since(way, 4.0) == [(0.0, 4.0), *way[1:]] and since(way, -9.0) == way


@pytest.mark.parametrize(("height", "folds"), [(20.0, False), (60.0, True)])
def test_a_small_scope_makes_no_u(height: float, folds: bool) -> None:
    """Of the same levels only if they are long."""
    net = _chain(5, [(1, 3), (0, 4)])
    items = [item._replace(height=height) for item in net.items]
    assert runs_down(net._replace(items=items)) != folds


@pytest.mark.parametrize(("trunks", "count"), [((0, 1), 1), ((0, 0), 0)])
def test_lines_of_one_trunk_do_not_cross(trunks: tuple[int, int], count: int) -> None:
    """Where its branches part, one runs across the way of the other."""
    ways = [((0.0, 5.0), (10.0, 5.0)), ((5.0, 0.0), (5.0, 10.0))]
    paths = tuple(
        BranchPath(trunk, number, way) for number, (trunk, way) in enumerate(zip(trunks, ways))
    )
    assert crossings(PlacedScope(20.0, 20.0, (), (), (), paths, {})) == count


def bottoms(high: float, levels: list[float], *paths: tuple[int, list[float]]) -> list[float]:
    """Where a scope of this height may turn back, the best places first."""
    return _bottoms(scope([(0.0, high - 10.0)], *paths), [0.0, *levels])


@pytest.mark.parametrize("turned", [False, True])
def test_both_sides_of_a_u_are_long_enough(turned: bool) -> None:
    """One has at least so many points, the other at least a share of those."""
    for longer, shorter, is_long in (
        (MIN_LENGTH, MIN_LENGTH * MIN_RATIO, True),
        (MIN_LENGTH, MIN_LENGTH * MIN_RATIO - 1, False),
        (MIN_LENGTH - 1, MIN_LENGTH - 1, False),
        (2 * MIN_LENGTH, MIN_LENGTH, True),
        (3 * MIN_LENGTH, MIN_LENGTH, False),
    ):
        first = shorter if turned else longer
        assert bottoms(longer + shorter, [first]) == ([first] if is_long else [])


def test_a_u_turns_back_where_most_lines_cross() -> None:
    """Of places that equally many cross, nearest to the middle; only the best are tried."""
    levels = [150.0 + 10 * number for number in range(11)]
    middle = sorted(levels, key=lambda level: abs(level - 200.0))
    assert bottoms(400.0, levels)[:3:2] == [200.0, *{190.0, 210.0} - {bottoms(400.0, levels)[1]}]
    assert len(bottoms(400.0, levels)) == MAX_BOTTOMS < len(levels)
    assert set(bottoms(400.0, levels)) <= set(middle[: MAX_BOTTOMS + 1])
    lines = [(trunk, [155.0, 168.0]) for trunk in range(2)], [(2, [225.0, 238.0])]
    assert bottoms(400.0, levels, *lines[0], *lines[1])[:3] == [160.0, 230.0, 200.0]
