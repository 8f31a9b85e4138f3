"""Lines from aside enter circles at their sides, where nothing is in the way."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from torchrecorder.export.nested import Placed
from torchrecorder.layout.layered import PlacedBox
from torchrecorder.layout.layered.side_entry import CELL_SIZE, CLEARANCE, side_entries
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.views.pipeline import ViewOptions, make_view

CIRCLE = PlacedBox(0, 40.0, 100.0, 20.0, 20.0, False)
MAIN = ((50.0, 60.0), (50.0, 85.0), (46.0, 85.0), (46.0, 100.0))
ASIDE = ((50.0, 0.0), (50.0, 10.0), (90.0, 10.0), (90.0, 90.0), (54.0, 90.0), (54.0, 100.0))

BETWEEN = PlacedBox(2, 71.0, 98.0, 2.0, 4.0, False)
"""A box right beside the circle, above a line that enters it at its side."""

Ways = list[tuple[tuple[float, float], ...]]


def entered(*more: PlacedBox, by: tuple[float, float] = (0.0, 0.0)) -> Ways:
    """The ways of two lines into a circle, beside other boxes, found elsewhere on the paper."""
    circle, *boxes = (box._replace(x=box.x + by[0], y=box.y + by[1]) for box in (CIRCLE, *more))
    ways = side_entries(
        shifted([MAIN, ASIDE], *by), ["a", "b"], {0: circle, 1: circle}, [circle, *boxes], True
    )
    return shifted(ways, -by[0], -by[1])


def shifted(ways: Ways, right: float, down: float) -> Ways:
    """The same elsewhere."""
    return [tuple((x + right, y + down) for x, y in way) for way in ways]


def test_the_other_line_is_straight_then() -> None:
    """And that from aside has two bends after it has left."""
    main, aside = entered()
    assert main == ((50.0, 60.0), (50.0, 100.0))
    assert aside == (*ASIDE[:3], (90.0, 110.0), (60.0, 110.0))


@pytest.mark.parametrize(
    "box",
    [
        PlacedBox(1, 65.0, 95.0, 10.0, 30.0, False),  # beside the circle
        PlacedBox(1, 85.0, 105.0, 10.0, 30.0, False),  # where the line would come down
        PlacedBox(1, 62.0, 95.0, 60.0, 60.0, True),  # an open frame
    ],
)
def test_nothing_is_crossed(box: PlacedBox) -> None:
    """All stays as it is where something is in the way; a frame around the circle is not."""
    assert entered(box, BETWEEN) == [MAIN, ASIDE]
    assert entered(PlacedBox(2, 0.0, 0.0, 200.0, 200.0, True)) == entered()


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize(
    ("left", "top", "free"),
    [
        (93.0, 95.0, True), (92.9, 95.0, False),  # beside the line down
        (77.0, 95.0, True), (77.1, 95.0, False),
        (65.0, 113.0, True), (65.0, 112.9, False),  # below the line aside
        (65.0, 97.0, True), (65.0, 97.1, False),  # and above it
        (93.0, 105.0, True), (92.9, 105.0, False),  # beyond the corner
        (91.0, 40.0, True),  # where the line runs already
    ],
)
def test_lines_keep_their_distance(left: float, top: float, free: bool, side: int) -> None:
    """From every box: as much as is asked for is enough; on both sides of the circle."""
    assert CLEARANCE == 3.0
    box = PlacedBox(1, left, top, 10.0, 10.0, False)
    if side > 0:
        for by in (
            (512.0, 256.0),
            *((0.0, float(down)) for down in range(0, 2 * int(CELL_SIZE), 4)),
        ):
            ends = [way[-1] for way in entered(box, BETWEEN, by=by)]
            assert ends == ([(50.0, 100.0), (60.0, 110.0)] if free else [MAIN[-1], ASIDE[-1]])
    else:
        mirrored = [tuple((100 - x, y) for x, y in way) for way in (MAIN, ASIDE)]
        boxes = [each._replace(x=100 - each.x - each.width) for each in (box, BETWEEN)]
        ways = side_entries(mirrored, ["a", "b"], {0: CIRCLE, 1: CIRCLE}, [CIRCLE, *boxes], True)
        assert (ways[1][-1] == (40.0, 110.0)) == free


@pytest.mark.parametrize(
    ("way", "last"),
    [
        (((90.0, 0.0), (90.0, 90.0), (54.0, 90.0), (54.0, 100.0)), (60.0, 110.0)),
        (((90.0, 90.0), (54.0, 90.0), (54.0, 100.0)), None),
        (((72.0, 0.0), (72.0, 90.0), (54.0, 90.0), (54.0, 100.0)), (60.0, 110.0)),
        (((71.9, 0.0), (71.9, 90.0), (54.0, 90.0), (54.0, 100.0)), None),
        (((10.0, 0.0), (10.0, 90.0), (54.0, 90.0), (54.0, 100.0)), (40.0, 110.0)),
        (((50.0, 0.0), (50.0, 90.0), (54.0, 90.0), (54.0, 100.0)), None),
        (((54.0, 0.0), (54.0, 100.0)), None),
    ],
)
def test_which_lines_can_enter_at_the_side(way: Any, last: Any) -> None:
    """Those that come down beside it, far enough for the arrow; others stay as they are."""
    _, found = side_entries([MAIN, way], ["a", "b"], {0: CIRCLE, 1: CIRCLE}, [CIRCLE], True)
    assert found[-1] == (last or way[-1]) and (found == way) == (last is None)


def test_two_lines_do_not_enter_at_one_side() -> None:
    """Nor does one that is alone; one at each side is fine, and the others stay."""
    left = tuple((100 - x, y) for x, y in ASIDE)
    ends = {number: CIRCLE for number in range(3)}
    both = side_entries([MAIN, ASIDE, left], ["a", "b", "c"], ends, [CIRCLE], True)
    assert [way[-1] for way in both] == [(50.0, 100.0), (60.0, 110.0), (40.0, 110.0)]
    same = [MAIN, ASIDE, tuple((x + 5, y - 20) for x, y in ASIDE[:4]) + ASIDE[-2:]]
    assert side_entries(same, ["a", "b", "c"], ends, [CIRCLE], True) == same
    assert side_entries([ASIDE], ["b"], {0: CIRCLE}, [CIRCLE], True) == [ASIDE]
    further = (*((x + 30, y - 10) for x, y in ASIDE[2:4]), (54.0, 80.0), (54.0, 100.0))
    apart = [MAIN, ASIDE, further]
    assert side_entries(apart, ["a", "b", "c"], ends, [CIRCLE], True) == apart
    assert side_entries([MAIN, further], ["a", "c"], {0: CIRCLE, 1: CIRCLE}, [CIRCLE], True)[1][
        -1
    ] == (60.0, 110.0)
    more = [MAIN, MAIN, ASIDE]
    kept = side_entries(more, ["a", "b", "c"], ends, [CIRCLE], True)
    assert kept[:2] == [MAIN, MAIN] and kept[2][-1] == (60.0, 110.0)


@pytest.mark.parametrize(("across", "straight"), [(50.0, True), (54.5, True), (54.6, False)])
def test_the_other_line_enters_at_the_middle_or_straight(across: float, straight: bool) -> None:
    """Straight where it comes down near the middle of the circle."""
    main = ((across, 60.0), (across, 85.0), (46.0, 85.0), (46.0, 100.0))
    found, _ = side_entries([main, ASIDE], ["a", "b"], {0: CIRCLE, 1: CIRCLE}, [CIRCLE], True)
    if straight:
        assert found == ((across, 60.0), (across, 100.0))
    else:
        assert found == (*main[:2], (50.0, 85.0), (50.0, 100.0))


def test_other_lines_are_not_crossed() -> None:
    """But those of the same tensor may be."""
    other = ((75.0, 60.0), (75.0, 200.0))
    for carried, changed in (("c", False), ("b", True)):
        ways = side_entries(
            [MAIN, ASIDE, other], ["a", "b", carried], {0: CIRCLE, 1: CIRCLE}, [CIRCLE], True
        )
        assert (ways[1] != ASIDE) == changed and ways[2] == other


class Residual(nn.Module):
    """A block and a way around it."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both."""
        return (x + self.block(x)).relu()


@pytest.mark.parametrize("direction", ["TB", "LR", "BT", "RL"])
def test_a_residual_has_two_bends(direction: str) -> None:
    """In every direction; the line through the block has none at the sum."""
    view = make_view(torchrecorder.record(Residual(), torch.ones(1, 4)), ViewOptions())
    figure = draw(view, Style(direction=direction))  # type: ignore[arg-type]
    placed = Placed.lay_out(figure, 60.0)
    (circle,) = (shape.id for shape in figure.shapes if shape.look.outline == "circle")
    box = placed.boxes()[circle]
    ways = [way for line, way in zip(figure.lines, placed.routes()) if line.head == circle]
    middle = box.x + box.width / 2, box.y + box.height / 2
    along = 1 if direction in ("TB", "BT") else 0
    straight, around = sorted(ways, key=len)
    assert len(straight) == 2 and abs(straight[-1][1 - along] - middle[1 - along]) < 5
    assert len(around) == 5 and around[-1][along] == around[-2][along] == middle[along]


@pytest.mark.parametrize(("right", "enters"), [(6.0, False), (40.0, False), (62.0, True)])
def test_a_line_that_comes_down_over_a_large_circle_does_not_enter_at_its_side(
    right: float, enters: bool
) -> None:
    """However far from the side it is."""
    circle = PlacedBox(0, 0.0, 100.0, 100.0, 100.0, False)
    at = 50 + right
    way = ((at, 0.0), (at, 90.0), (54.0, 90.0), (54.0, 100.0))
    _, found = side_entries([MAIN, way], ["a", "b"], {0: circle, 1: circle}, [circle], True)
    assert (found[-1] == (100.0, 150.0)) == enters


@pytest.mark.parametrize("changed", [True, False])
def test_a_line_that_was_changed_is_in_the_way_of_others(changed: bool) -> None:
    """Where it runs now."""
    small = PlacedBox(1, 62.0, 95.0, 6.0, 6.0, False)
    straight = ((65.0, 60.0), (65.0, 95.0))
    other = ((120.0, 0.0), (120.0, 80.0), (66.0, 80.0), (66.0, 95.0))
    ways = [MAIN, ASIDE, straight, other] if changed else [MAIN, MAIN[:1], straight, other]
    ends = {0: CIRCLE, 1: CIRCLE, 2: small, 3: small}
    found = side_entries(ways, ["a", "b", "c", "d"], ends, [CIRCLE, small], True)
    assert (found[1] != ways[1]) == changed == (found[3] == other)


@pytest.mark.parametrize("high", [10.0, 30.0, 90.0])
def test_a_box_beside_a_circle_is_in_the_way(high: float) -> None:
    """On both sides of it, however high it is; only what contains the circle is not."""
    for left in (68.0, 22.0):
        box = PlacedBox(1, left, 110.0 - high / 2, 10.0, high, False)
        aside = ASIDE if left > 60 else tuple((100 - x, y) for x, y in ASIDE)
        ends = {0: CIRCLE, 1: CIRCLE}
        assert side_entries([MAIN, aside], ["a", "b"], ends, [CIRCLE, box], True)[1] == aside
        assert side_entries([MAIN, aside], ["a", "b"], ends, [CIRCLE], True)[1] != aside


NEAR = ((90.0, 60.0), (90.0, 90.0), (54.0, 90.0), (54.0, 100.0))
"""A line from the layer before the circle, beside `MAIN`."""

BELOW = PlacedBox(1, 78.0, 100.0, 40.0, 30.0, False)
"""A box below the place where it begins."""


def both(main: Any, near: Any, *boxes: PlacedBox) -> Ways:
    """The ways of two lines into a circle, in this order."""
    circles = {0: CIRCLE, 1: CIRCLE}
    return side_entries([main, near], ["a", "b"], circles, [CIRCLE, *boxes], True)


@pytest.mark.parametrize("swap", [True, False])
def test_a_line_that_cannot_come_down_turns_beside_the_circle(swap: bool) -> None:
    """If the other line is straight then."""
    found = both(NEAR, MAIN, BELOW)[::-1] if swap else both(MAIN, NEAR, BELOW)
    assert found == [
        ((50.0, 60.0), (50.0, 100.0)),
        (*NEAR[:2], (72.0, 90.0), (72.0, 110.0), (60.0, 110.0)),
    ]


def test_a_line_does_not_turn_beside_the_circle_for_nothing() -> None:
    """The other one has bends anyway, something is there, or it begins close by."""
    bent = ((20.0, 60.0), (20.0, 85.0), (46.0, 85.0), (46.0, 100.0))
    beside = PlacedBox(1, 0.0, 100.0, 35.0, 30.0, False)
    assert both(bent, NEAR, BELOW, beside) == [bent, NEAR]
    wide = BELOW._replace(x=70.0)
    assert both(MAIN, NEAR, wide) == [MAIN, NEAR]
    close = tuple((min(x, 80.0), y) for x, y in NEAR)
    assert both(MAIN, close, BELOW) == [MAIN, close]
