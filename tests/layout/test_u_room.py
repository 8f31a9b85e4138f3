"""How much room a U takes: as much as its boxes and lines need, and no more."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given, settings, strategies as st

from tests.layout.test_u_shape import Net, u_net
from torchrecorder.layout.layered import Item, Link, Picture, PlacedBox, place, plan
from torchrecorder.layout.layered.constants import (
    BORDER_MARGIN, HEADER_GAP, LAYER_GAP, PAD, TRACK_MARGIN, TRACK_PITCH,
)
from torchrecorder.layout.layered.edge_routing import edge_routes
from torchrecorder.layout.layered.u_shape import CORNER_MARGIN, MIN_SIDE_DISTANCE, SIDE_MARGIN

CLOSE = 0.02
TITLE = 12.0
"""The height of the title of a net."""

FEW = settings(max_examples=8, deadline=None)
SIZES = st.tuples(st.floats(30, 120), st.floats(30, 120)).map(
    lambda size: (round(size[0], 1), round(size[1], 1))
)


def drawn(net: Net) -> tuple[Picture, dict[int, PlacedBox]]:
    """The picture of a net, and its boxes by number."""
    picture = place(plan(net.items, net.links), side_by_side=True)
    return picture, {box.item: box for box in picture.boxes}


def sides(net: Net, boxes: dict[int, PlacedBox]) -> tuple[list[PlacedBox], list[PlacedBox]]:
    """The boxes down the left, and those up the right, both from the top; the bottom is left."""
    middle = 1 + max(boxes[left].x + boxes[left].width for left, _ in net.ways)
    inside = [box for number, box in boxes.items()
              if net.items[number].parent == 1 and not net.items[number].id.startswith("time")]
    found = [sorted((box for box in inside if (box.x < middle) == left), key=lambda box: box.y)
             for left in (True, False)]
    return found[0], found[1]


def gaps(boxes: list[PlacedBox], top: PlacedBox, bottom: PlacedBox) -> list[float]:
    """Those between the boxes from one to another."""
    part = boxes[boxes.index(top) : boxes.index(bottom) + 1]
    return [below.y - above.y - above.height for above, below in pairwise(part)]


@FEW
@example([(40.5, 40.0), (40.5, 40.0)])  # the right side is longer by half a point
@given(st.lists(SIZES, min_size=2, max_size=5))
def test_a_side_is_stretched_only_for_the_other(sizes: list[tuple[float, float]]) -> None:
    """Between two levels one of the sides is as tight as a chain; lines between are level."""
    net = u_net(sizes, [False] * len(sizes))
    picture, boxes = drawn(net)
    left, right = sides(net, boxes)
    for (a, b), (c, d) in pairwise(net.ways):
        both = [gaps(left, boxes[a], boxes[c]), gaps(right, boxes[b], boxes[d])]
        tight = [all(gap == pytest.approx(LAYER_GAP, abs=CLOSE) for gap in side) for side in both]
        assert any(tight) and all(min(side) >= LAYER_GAP - CLOSE for side in both)
    lowest = [side[-1].y + side[-1].height for side in (left, right)]
    assert lowest[0] == pytest.approx(lowest[1], abs=CLOSE)
    for way in (
        way for number, way in enumerate(edge_routes(picture, net.links)) if number in net.skips
    ):
        assert len(way) == 2 and way[0][1] == pytest.approx(way[1][1], abs=CLOSE)
    for one, other in net.ways:
        middles = [boxes[box].y + boxes[box].height / 2 for box in (one, other)]
        assert middles[0] == pytest.approx(middles[1], abs=CLOSE)


@FEW
@given(st.lists(SIZES, min_size=2, max_size=4))
def test_both_sides_are_straight_and_close(sizes: list[tuple[float, float]]) -> None:
    """Boxes stand in line; the sides and the frame around them are as near as may be."""
    net = u_net(sizes, [False] * len(sizes))
    _, boxes = drawn(net)
    left, right = sides(net, boxes)
    for side in (left, right):
        middles = [box.x + box.width / 2 for box in side]
        assert middles == pytest.approx([middles[0]] * len(side), abs=CLOSE)
    ends = max(box.x + box.width for box in left), min(box.x for box in right)
    assert ends[1] - ends[0] == pytest.approx(MIN_SIDE_DISTANCE, abs=CLOSE)
    model = boxes[1]
    assert model.x + model.width - max(box.x + box.width for box in right) == pytest.approx(PAD)
    highest = min(left[0].y, right[0].y)
    assert highest - model.y == pytest.approx(TITLE + HEADER_GAP + BORDER_MARGIN, abs=CLOSE)
    lowest = max(box.y + box.height for box in [*left, *right])
    assert model.y + model.height - lowest == pytest.approx(TRACK_MARGIN + PAD, abs=CLOSE)
    out, first = boxes[len(net.items) - 1], boxes[0]
    assert out.x + out.width / 2 == pytest.approx(right[0].x + right[0].width / 2, abs=CLOSE)
    assert first.x + first.width / 2 == pytest.approx(left[0].x + left[0].width / 2, abs=CLOSE)


@pytest.mark.parametrize("parallel", [1, 2, 3, 4])
def test_lines_of_one_level_run_side_by_side(parallel: int) -> None:
    """One track apart, about the middle of both boxes."""
    net = u_net([(90, 60), (60, 90)], [False, False], parallel)
    picture, boxes = drawn(net)
    ways = list(edge_routes(picture, net.links))
    for (left, right), first in zip(net.ways[::-1], range(0, len(net.skips), parallel)):
        levels = sorted(ways[skip][0][1] for skip in net.skips[first : first + parallel])
        apart = [other - one for one, other in pairwise(levels)]
        assert apart == pytest.approx([TRACK_PITCH] * (parallel - 1))
        for box in (boxes[left], boxes[right]):
            middle = (levels[0] + levels[-1]) / 2
            assert box.y + box.height / 2 == pytest.approx(middle, abs=CLOSE)


@pytest.mark.parametrize("height", [15.0, 20.0, 25.0])
@pytest.mark.parametrize("low", ["left", "right"])
def test_lines_that_have_no_room_at_a_side_use_the_end(height: float, low: str) -> None:
    """They run on tracks below the left box, and enter the right one from below."""
    size = (90.0, height) if low == "left" else (height, 90.0)
    net = u_net([size] * 2, [False] * 2, 2)
    picture, boxes = drawn(net)
    ways = list(edge_routes(picture, net.links))
    for skip in net.skips:
        tail, head = boxes[net.links[skip].tail], boxes[net.links[skip].head]
        ends = ways[skip] if low == "left" else ways[skip][::-1]
        box, side = (tail, tail.x + tail.width) if low == "left" else (head, head.x)
        (x, y), level = ends[0], ends[1][1]
        if height >= TRACK_PITCH + 2 * CORNER_MARGIN:
            assert x == pytest.approx(side) and box.y < y < box.y + box.height
        else:
            assert y == pytest.approx(box.y + box.height) and level > y + 1
            if low == "left":
                assert round(level - y, 2) in (TRACK_MARGIN, TRACK_MARGIN + TRACK_PITCH)
    levels = sorted(ways[skip][1][1] for skip in net.skips[:2])
    assert levels[1] - levels[0] == pytest.approx(TRACK_PITCH)


@FEW
@given(st.lists(SIZES, min_size=2, max_size=4), st.data())
def test_open_boxes_are_left_at_their_end(
    sizes: list[tuple[float, float]], data: st.DataObject
) -> None:
    """On the first track below them; into closed ones a line goes at the side."""
    opened = data.draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    net = u_net(sizes, opened)
    picture, boxes = drawn(net)
    ways = list(edge_routes(picture, net.links))
    for (left, right), inside, skip in zip(net.ways[::-1], opened[::-1], net.skips):
        way = ways[skip]
        level = next(
            y for (x, y), (to, same) in pairwise(way) if y == same and to - x > SIDE_MARGIN
        )
        if inside:
            assert level == pytest.approx(
                boxes[left].y + boxes[left].height + TRACK_MARGIN, abs=CLOSE
            )
            assert level > boxes[right].y + boxes[right].height
        else:
            assert level == pytest.approx(boxes[left].y + boxes[left].height / 2, abs=CLOSE)
            assert level == pytest.approx(boxes[right].y + boxes[right].height / 2, abs=CLOSE)


def test_what_all_levels_read_has_a_lane_between_the_sides() -> None:
    """It keeps away from both; the sides stand no further apart for one lane."""
    net = u_net([(90, 40)] * 3, [False] * 3)
    time = len(net.items)
    net.items.append(Item("time", 1, 60, 20, module=True))
    net.links.append(Link(0, time, "given"))
    net.links.extend(Link(time, box, "time") for way in net.ways for box in way)
    picture, boxes = drawn(net)
    left, right = sides(net, boxes)
    edges = max(box.x + box.width for box in left), min(box.x for box in right)
    lanes = set()
    for link, way in zip(net.links, edge_routes(picture, net.links)):
        if link.value == "time" and boxes[link.head] in right:
            lanes |= {x for (x, y), (to, _) in pairwise(way) if x == to and edges[0] < x < edges[1]}
    assert len(lanes) == 1
    assert all(
        edges[0] + SIDE_MARGIN - CLOSE <= lane <= edges[1] - SIDE_MARGIN + CLOSE for lane in lanes
    )


@pytest.mark.parametrize("readers", [1, 2])
def test_what_goes_on_leaves_a_u_below(readers: int) -> None:
    """Beside the right side, each line on a track of its own, above the first box there."""
    net = u_net([(60, 40)] * 3, [False] * 3)
    last = net.links[-1].tail
    net.items.pop()
    net.links.pop()
    for number in range(readers):
        for step in range(2):
            net.items.append(Item(f"after{number}.{step}", -1, 60, 20, module=True))
        after = len(net.items) - 2
        source = last if number == readers - 1 else last - 1
        net.links.append(Link(source, after, f"given{number}"))
        net.links.append(Link(after, after + 1, f"next{number}"))
    picture, boxes = drawn(net)
    model, (_, right) = boxes[1], sides(net, boxes)
    edge = max(box.x + box.width for box in right)
    ways = [way for link, way in zip(net.links, edge_routes(picture, net.links))
            if link.value.startswith("given")]
    lanes, levels = [], []
    for way in ways:
        lane, y = next((x, y) for x, y in way if x > edge)
        lanes.append(lane)
        levels.append(y)
        assert (lane, model.y + model.height) <= way[way.index((lane, y)) + 1]
    assert sorted(lanes) == pytest.approx(
        [edge + SIDE_MARGIN + TRACK_PITCH * number for number in range(readers)]
    )
    assert model.x + model.width == pytest.approx(max(lanes) + PAD)
    levels.sort(reverse=True)
    assert all(one - other == pytest.approx(TRACK_PITCH) for one, other in pairwise(levels))
    assert min(levels) - model.y == pytest.approx(TITLE + HEADER_GAP + TRACK_MARGIN)
    assert max(levels) < right[0].y
