"""Shortcuts between columns: straight across where nothing is in the way."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.layout.test_column_parts import OUT, cut
from torchrecorder.layout.layered.constants import ARROW_MARGIN
from torchrecorder.layout.layered.positions import BranchPath, Frame, PlacedScope, PlanePoint
from torchrecorder.layout.layered.shortcuts import CLEARANCE, with_shortcuts


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


LEVEL, LEFT, RIGHT = 40.0, 20.0, 60.0
"""Where the line below leaves its column, runs up, and comes down again."""


def crosses(
    *frames: Frame,
    ways: Sequence[Sequence[PlanePoint]] = (),
    end: float = 100.0,
    turned: bool = False,
) -> bool:
    """Whether a line goes across at its level, beside boxes and other lines; *turned*: to a column
    on the left."""
    begin, there = (RIGHT, LEFT) if turned else (LEFT, RIGHT)
    line = ((begin - 10, 0.0), (begin - 10, LEVEL), (begin, LEVEL), (begin, -50.0), (there, -50.0),
            (there, end))
    paths = [BranchPath(0, 0, line)]
    paths += [BranchPath(number, 0, tuple(way)) for number, way in enumerate(ways, 1)]
    made = with_shortcuts(PlacedScope(200.0, 200.0, (), (), frames, tuple(paths), {})).paths
    assert [path.points for path in made[1:]] == [tuple(way) for way in ways]
    if not climbs(made[0].points):
        assert made[0].points == (*line[:2], (there, LEVEL), (there, end))
    return not climbs(made[0].points)


@pytest.mark.parametrize("turned", [False, True])
def test_the_reader_is_below_the_level(turned: bool) -> None:
    """With room for the arrowhead."""
    assert crosses(turned=turned)
    assert crosses(end=LEVEL + ARROW_MARGIN + 0.1, turned=turned)
    assert not crosses(end=LEVEL + ARROW_MARGIN, turned=turned)
    assert not crosses(end=LEVEL - 10, turned=turned)


@pytest.mark.parametrize("turned", [False, True])
def test_a_box_beside_the_level_is_at_a_distance(turned: bool) -> None:
    """On each of its sides; one that is nearer is in the way, whatever others are not."""
    far = Frame(300.0, LEVEL, 10.0, 10.0)
    for gap, clear in ((CLEARANCE, True), (CLEARANCE - 0.1, False)):
        for frame in (
            Frame(30.0, LEVEL + gap, 10.0, 10.0),
            Frame(30.0, LEVEL - gap - 10.0, 10.0, 10.0),
            Frame(LEFT - gap - 10.0, LEVEL - 5.0, 10.0, 10.0),
            Frame(RIGHT + gap, LEVEL - 5.0, 10.0, 10.0),
        ):
            assert crosses(far, frame, turned=turned) is clear


@pytest.mark.parametrize("turned", [False, True])
def test_a_line_beside_the_level_is_at_a_distance(turned: bool) -> None:
    """In whichever direction it runs; one that is nearer, or crosses the level, is in the way."""
    for gap, clear in ((CLEARANCE, True), (CLEARANCE - 0.1, False)):
        for way in (
            [(30.0, LEVEL + gap), (40.0, LEVEL + gap)],
            [(30.0, LEVEL - gap), (40.0, LEVEL - gap)],
            [(30.0, LEVEL + gap), (30.0, LEVEL + 30.0)],
            [(30.0, LEVEL - 30.0), (30.0, LEVEL - gap)],
            [(LEFT - gap, LEVEL - 30.0), (LEFT - gap, LEVEL + 30.0)],
            [(RIGHT + gap, LEVEL - 30.0), (RIGHT + gap, LEVEL + 30.0)],
        ):
            assert crosses(ways=[way], turned=turned) is clear
            assert crosses(ways=[way[::-1]], turned=turned) is clear
    across = [(0.0, LEVEL), (200.0, LEVEL)]
    assert not crosses(ways=[across]) and not crosses(ways=[across[::-1]])
