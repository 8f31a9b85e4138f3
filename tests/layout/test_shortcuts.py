"""Shortcuts between columns: straight across where nothing is in the way."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.layout.test_column_parts import OUT, cut
from torchrecorder.layout.layered.positions import PlacedScope, PlanePoint
from torchrecorder.layout.layered.shortcuts import with_shortcuts


def climbs(points: Sequence[PlanePoint]) -> bool:
    """Whether a line runs up anywhere."""
    return any(after < before for (_, before), (_, after) in zip(points, points[1:]))


def columns(sinks: Sequence[int], at: float = 10.0, source: int = 0) -> PlacedScope:
    """Two columns of four boxes, with a line from a box of the first to some of the second, which
    runs there at a place beside the boxes or behind them."""
    return with_shortcuts(cut(8, [4], [(source, sinks, at)]))


@pytest.mark.parametrize(("source", "sink"), [(0, 6), (0, 7), (1, 7)])
def test_a_line_to_a_box_further_down_does_not_climb(source: int, sink: int) -> None:
    """It goes across at the level at which it leaves its column, and on as before."""
    before = cut(8, [4], [(source, [sink], -10.0)])
    (path,) = with_shortcuts(before).paths
    assert climbs(before.paths[0].points) and not climbs(path.points)
    assert path.points[0] == before.paths[0].points[0]
    assert path.points[-2:] == before.paths[0].points[-2:]
    assert before.width == with_shortcuts(before).width


@pytest.mark.parametrize(("source", "sink"), [(3, 4), (2, 5), (3, 7)])
def test_a_line_to_a_box_further_up_climbs(source: int, sink: int) -> None:
    """There is no other way."""
    (path,) = columns([sink], -10.0, source).paths
    assert climbs(path.points)


def test_of_two_readers_only_that_above_is_reached_from_above() -> None:
    """The line to the other one leaves the common part on the way up."""
    upper, lower = columns([4, 7], -10.0, 1).paths
    assert climbs(upper.points) and not climbs(lower.points)
    assert lower.points[:2] == upper.points[:2]


def test_a_box_is_in_the_way() -> None:
    """What comes down behind the boxes of its column climbs over them."""
    (path,) = columns([7], 60.0, 2).paths
    assert climbs(path.points)


def test_a_line_that_climbs_is_in_the_way() -> None:
    """One that leaves the column below, to the top of the next, is not crossed."""
    made = with_shortcuts(cut(8, [4], [(0, [7], -10.0), (3, [4], 15.0)]))
    assert all(climbs(path.points) for path in made.paths)


def test_lines_that_leave_below_one_another_all_cross() -> None:
    """The lowest first: then it is not in the way of the others."""
    made = with_shortcuts(cut(8, [4], [(0, [6], -10.0), (1, [7], -20.0)]))
    assert not any(climbs(path.points) for path in made.paths)


def test_what_leaves_the_scope_beside_the_last_column_need_not_climb() -> None:
    """It ends where it did before, whatever another reader needs."""
    before = cut(8, [4], [(0, [4, OUT], -10.0)])
    made = with_shortcuts(before)
    assert climbs(before.paths[1].points)
    assert [climbs(path.points) for path in made.paths] == [True, False]
    assert made.paths[1].points[-1] == (before.exits[0], before.height)
