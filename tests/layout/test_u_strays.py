"""Lanes between the sides of a U: their order from left to right."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest

from tests.layout.test_u_parts import APART, BELOW, LAST, OUTER, UP, folded
from tests.work import growth
from torchrecorder.layout.layered.constants import TRACK_PITCH
from torchrecorder.layout.layered.side_by_side import CutEdge
from torchrecorder.layout.layered.u_strays import LaneSpan, lane_order, side_places


@pytest.mark.parametrize("order", permutations(range(3)))
def test_lanes_are_in_the_order_without_crossings(order: tuple[int, ...]) -> None:
    """Whatever order they come in: what begins furthest down, and ends furthest down, is left."""
    spans = [LaneSpan(40.0 - 10 * place, [70.0 - 10 * place, 65.0]) for place in (0, 1, 2)]
    found = lane_order([spans[place] for place in order])
    assert [place for _, place in sorted(zip(found, order))] == [0, 1, 2]


@pytest.mark.parametrize("turned", [False, True])
def test_two_tensors_are_never_on_one_line(turned: bool) -> None:
    """Where one enters the right side at the height at which another leaves the left one, that
    other has its lane to the left, also if more edges cross then."""
    one, other = LaneSpan(30.0, [10.0, 15.0]), LaneSpan(10.0, [20.0, 25.0, 40.0])
    spans = [other, one] if turned else [one, other]
    assert lane_order(spans) == ([0, 1] if turned else [1, 0])


def test_a_tensor_leaves_at_one_place_and_enters_at_one_for_each_reader() -> None:
    """The places are in the middle of the side of the box."""
    left = [CutEdge(0, 7, 0, 4, 10.0, 30.0), CutEdge(1, 7, 0, 5, 10.0, 40.0),
            CutEdge(2, 8, 0, 6, 10.0, 50.0)]
    right = [CutEdge(0, 7, 1, 4, 10.0, 30.0), CutEdge(1, 7, 2, 4, 20.0, 30.0)]
    first, second, third = side_places(left, left, left, False).values()
    assert first == second != third and first == -third
    first, second = side_places(right, right, right, True).values()
    assert first == -second != 0


def test_lanes_in_another_order_than_their_lines() -> None:
    """Of two lines from one box, the left one ends further down: its lane is the left one."""
    ends = ((22.0, LAST, 160.0), (20.0, UP, BELOW))
    lines = [((at, 40.0), (at, level + APART)) for at, _, level in ends]
    others = [
        CutEdge(6 + n, 6 + n, OUTER, box, 40.0, level) for n, (_, box, level) in enumerate(ends)
    ]
    right, left = (path.points[2][0] for path in folded(lines=lines, others=others).paths[6:])
    assert right - left == pytest.approx(TRACK_PITCH)


def test_a_lane_is_compared_once_with_each_of_the_others() -> None:
    """Not again at each of its possible places."""
    def ordering(number: int) -> Callable[[], object]:
        spans = [LaneSpan(10.0 * place, [600.0 + 10 * place]) for place in range(number)]
        return lambda: lane_order(spans)

    assert growth(ordering, 10) < 4.2
