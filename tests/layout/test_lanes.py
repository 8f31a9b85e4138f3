"""Lines in lanes stand beside everything in their scope, apart from each other and inside of it."""

from __future__ import annotations

import pytest

from torchrecorder.layout.layered import Item, Link, place, plan
from torchrecorder.layout.layered.compound import compose
from torchrecorder.layout.layered.constants import (
    ARROW_MARGIN, LANE_PITCH, LAYER_GAP, MAX_LANES_WIDTH, MAX_TRACKS_HEIGHT, PAD, SEPARATION,
    TRACK_MARGIN, TRACK_PITCH,
)
from torchrecorder.layout.layered.edge_routing import edge_routes
from torchrecorder.layout.layered.ports import End
from torchrecorder.layout.layered.positions import HeaderSpace, PlacedScope
from torchrecorder.layout.layered.template import Branch, ClosedChild, Stem, Template, Trunk

WIDTH = 40.0
BOXES = tuple(ClosedChild(20.0, row, WIDTH, 20.0 + 2000 * (row == 1), row) for row in range(3))
"""The second is so high that the longest piece of a line is the one beside it."""


def scope(lanes: int) -> PlacedScope:
    """Three boxes below each other, and lines from the first to the last, each in a lane."""
    trunks = tuple(
        Trunk(End(0, lane), (Stem(-1.0 - lane, 1, 2),), (Branch(End(2, lane), (0,)),))
        for lane in range(lanes)
    )
    return compose(Template(BOXES, 3, (), (), trunks, lanes), {}, HeaderSpace())


def places(composed: PlacedScope) -> list[float]:
    """Where the longest upright piece of each line is, across the flow."""
    found = []
    for path in composed.paths:
        pieces = zip(path.points, path.points[1:])
        upright = [(abs(by - ay), ax) for (ax, ay), (bx, by) in pieces if ax == bx]
        found.append(max(upright)[1])
    return found


@pytest.mark.parametrize("lanes", [1, 2, 5, 24, 25, 26, 60])
def test_lanes_are_beside_the_boxes_and_apart(lanes: int) -> None:
    """Closer to each other where they are many; together they take no more than so much."""
    plain, composed = scope(0), scope(lanes)
    found = sorted(places(composed))
    edge = max(frame.across + frame.width for frame in composed.frames)
    apart = [after - before for before, after in zip(found, found[1:])]
    assert apart == pytest.approx([min(LANE_PITCH, MAX_LANES_WIDTH / lanes)] * (lanes - 1))
    assert found[0] == pytest.approx(edge + LANE_PITCH)
    assert found[-1] - found[0] <= MAX_LANES_WIDTH
    assert found[-1] + PAD <= composed.width <= found[-1] + LANE_PITCH + PAD + 0.01
    assert [frame.across for frame in composed.frames] == [
        frame.across for frame in plain.frames
    ]


def test_a_line_beside_a_box_is_not_kept_as_far_from_others_as_a_box() -> None:
    """Two lines that pass a box are closer to each other than two boxes would be."""
    trunks = tuple(
        Trunk(End(0, port), (Stem(50.0 + 5 * port, 1, 2),), (Branch(End(2, port), (0,)),))
        for port in range(2)
    )
    one, other = places(compose(Template(BOXES, 3, (), (), trunks, 0), {}, HeaderSpace()))
    assert (
        other - one == pytest.approx(SEPARATION[False, False])
        and one - WIDTH > SEPARATION[False, True]
    )


@pytest.mark.parametrize("first", [0, 1])
def test_lines_enter_a_box_in_the_order_in_which_they_come(first: int) -> None:
    """As they are at their end, not where they went before."""
    wide = tuple(ClosedChild(100.0, row, 4 * WIDTH, 20.0, row) for row in range(4))
    before, after = (230.0, 10.0), (10.0, 230.0)
    trunks = tuple(
        Trunk(End(0, port), (Stem(before[port], 1, 2), Stem(after[port], 2, 3)),
              (Branch(End(3, port), (0, 1)),))
        for port in range(2)
    )
    ordered = trunks if first == 0 else trunks[::-1]
    composed = compose(Template(wide, 4, (), (), ordered, 0), {}, HeaderSpace())
    ends = {ordered[path.trunk].source.port: path.points[-1][0] for path in composed.paths}
    assert ends[0] < ends[1]


def test_a_line_in_a_lane_moves_nothing() -> None:
    """Boxes that only such a line joins stay where they are."""
    boxes = (ClosedChild(20.0, 0, WIDTH, 20.0, 0), ClosedChild(300.0, 2, WIDTH, 20.0, 2),
             ClosedChild(150.0, 1, WIDTH, 20.0, 1))
    trunk = Trunk(End(0, 0), (Stem(-1.0, 1, 2),), (Branch(End(1, 0), (0,)),))
    with_line = compose(Template(boxes, 3, (), (), (trunk,), 1), {}, HeaderSpace())
    without = compose(Template(boxes, 3, (), (), (), 0), {}, HeaderSpace())
    assert [frame.across for frame in with_line.frames] == [
        frame.across for frame in without.frames
    ]


@pytest.mark.parametrize(("source", "sink", "apart"), [(5, 4, LANE_PITCH), (6, 5, 0.0)])
def test_lines_that_run_back_do_not_lie_on_each_other(
    source: int, sink: int, apart: float
) -> None:
    """One ends beside the row at which the other begins: they take two lanes; else they share one.
    """
    items = [Item(str(number), -1, 40, 20) for number in range(7)]
    links = [Link(number, number + 1, "x") for number in range(6)]
    back = [Link(3, 1, "back"), Link(source, sink, "back")]
    ways = list(edge_routes(place(plan(items, [*links, *back])), [*links, *back]))
    one, other = (max(x for x, _ in way) for way in ways[-2:])
    assert abs(one - other) == pytest.approx(apart)


@pytest.mark.parametrize("lines", [4, 16, 18, 40])
def test_many_tracks_of_a_gap_are_closer_to_each_other(lines: int) -> None:
    """They fill a band of the same height then; arrows have as much room as ever."""
    boxes = tuple(ClosedChild(20.0, row, WIDTH, 20.0, row) for row in range(4))
    trunks = tuple(
        Trunk(End(0, port), (Stem(90.0 + port, 1, 2), Stem(90.0 + lines - port, 2, 3)),
              (Branch(End(3, port), (0, 1)),))
        for port in range(lines)
    )
    made = compose(Template(boxes, 4, (), (), trunks, 0), {}, HeaderSpace())
    above, below = made.frames[1].end, made.frames[2].along
    levels = sorted({y for path in made.paths for _, y in path.points if above < y < below})
    apart = min(TRACK_PITCH, MAX_TRACKS_HEIGHT / lines)
    assert levels == pytest.approx(
        [above + TRACK_MARGIN + apart * number for number in range(lines)]
    )
    assert levels[-1] == pytest.approx(below - ARROW_MARGIN)


def test_rows_beside_a_long_open_box() -> None:
    """It adds nothing to its first row, and what is below it begins after its end."""
    boxes = (ClosedChild(20.0, 0, WIDTH, 20.0, 1), ClosedChild(120.0, 0, WIDTH, 30.0, 0),
             ClosedChild(120.0, 1, WIDTH, 20.0, 1), ClosedChild(20.0, 2, WIDTH, 20.0, 2))
    template = Template(boxes, 3, (), (), (), 0)
    inside = PlacedScope(WIDTH, 200.0, (), (), (), (), {})
    long, beside, next_row, below = compose(template, {0: inside}, HeaderSpace()).frames
    assert next_row.along == beside.end + LAYER_GAP < long.end
    assert below.along == long.end + LAYER_GAP
    alone = Template((boxes[0], *boxes[2:]), 3, (), (), (), 0)
    long, next_row, below = compose(alone, {0: inside}, HeaderSpace()).frames
    assert next_row.along == long.along + LAYER_GAP and below.along == long.end + LAYER_GAP


def test_a_closed_box_is_in_one_row() -> None:
    """Also one that would fill several when it is open."""
    boxes = (ClosedChild(20.0, 0, WIDTH, 90.0, 1), ClosedChild(120.0, 1, WIDTH, 20.0, 1))
    high, below = compose(Template(boxes, 2, (), (), (), 0), {}, HeaderSpace()).frames
    assert below.along == high.end + LAYER_GAP


@pytest.mark.parametrize("side", [-1, 1])
def test_a_line_past_a_box_is_straight_where_it_can_be(side: int) -> None:
    """It is joined to what is above and below it, not to the box that it passes."""
    boxes = tuple(ClosedChild(500.0 + side * off, row, WIDTH, 20.0, row)
                  for row, off in enumerate((200.0, 0.0, 200.0)))
    trunk = Trunk(End(0, 0), (Stem(500.0 + side * 60.0, 1, 2),), (Branch(End(2, 0), (0,)),))
    made = compose(Template(boxes, 3, (), (), (trunk,), 0), {}, HeaderSpace())
    (path,), above = made.paths, made.frames[0]
    assert {x for x, _ in path.points} == {above.across + WIDTH / 2}
