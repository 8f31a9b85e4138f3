"""Settle: lines as straight as they can be, but no figure of any width for that."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from torchrecorder.layout.layered.compaction import Body, Segment, compact
from torchrecorder.layout.layered.constants import (
    BEND_WEIGHT, LONG_WEIGHT, MAX_WIDENING, STRAIGHT_WEIGHT,
)
from torchrecorder.layout.layered.coordinate_assignment import CrossCoordinates
from torchrecorder.layout.layered.ports import End

WIDTH, OFF = 100.0, 30.0


def chain(length: int) -> list[float]:
    """Boxes below each other, each of which is left a bit to the right of where it is entered."""
    bodies = [Body(row, row, WIDTH / 2, WIDTH / 2, True) for row in range(length)]
    segments = [Segment(row, OFF, row + 1, 0.0, 4) for row in range(length - 1)]
    return compact(bodies, [0.0] * length, segments)


def test_a_line_is_straight_where_there_is_room() -> None:
    """Of two boxes one moves."""
    first, second = chain(2)
    assert second - first == pytest.approx(OFF)


@pytest.mark.parametrize("length", [3, 30, 300])
def test_long_chains_stay_in_line(length: int) -> None:
    """Whatever their length, they stay about as wide as they were."""
    places = chain(length)
    assert max(places) - min(places) <= 2 * MAX_WIDENING * WIDTH + 0.01


@pytest.mark.parametrize("seed", range(5))
def test_what_is_settled_stays(seed: int) -> None:
    """Boxes move until none wants to move any more, not once each."""
    random = Random(seed)
    bodies = [Body(row, row, 20.0, 20.0, True) for row in range(6) for _ in range(3)]
    segments = [
        Segment(3 * row + random.randrange(3), random.uniform(-15, 15), 3 * row + 3 + place, 0.0, 4)
        for row in range(5) for place in range(3)
    ]
    start = [300.0 * random.random() + 60 * (number % 3) for number in range(len(bodies))]
    found = compact(bodies, start, segments)
    assert compact(bodies, found, segments) == pytest.approx(found, abs=0.5)


@pytest.mark.parametrize(
    ("stems", "weights"),
    [
        ([], [STRAIGHT_WEIGHT]),
        ([4], [BEND_WEIGHT, BEND_WEIGHT]),
        ([4, 5], [BEND_WEIGHT, LONG_WEIGHT, BEND_WEIGHT]),
        ([4, 5, 6], [BEND_WEIGHT, LONG_WEIGHT, LONG_WEIGHT, BEND_WEIGHT]),
    ],
)
def test_long_lines_are_straight_between_their_ends(stems: list[int], weights: list[float]) -> None:
    """What passes several rows is held together more than the pieces that turn to a box."""
    across: Any = object.__new__(CrossCoordinates)
    across._fixed_to, across.bends = (lambda end, exits: (end.child, 0.5)), {}
    trunk: Any = SimpleNamespace(source=End(1, 0))
    branch: Any = SimpleNamespace(stems=range(len(stems)), sink=End(2, 0))
    segments = list(across._branch_segments(trunk, branch, stems))
    assert [segment.weight for segment in segments] == weights and LONG_WEIGHT > BEND_WEIGHT
    assert [(segment.one, segment.other) for segment in segments] == [
        *zip([1, *stems], [*stems, 2])
    ]
    assert (segments[0].here, segments[-1].there) == (0.5, 0.5)
    branch.stems = [0, 1]
    lane = list(across._branch_segments(trunk, branch, [4, -1]))
    assert [(segment.one, segment.other) for segment in lane] == [(1, 4)]
