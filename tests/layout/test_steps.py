"""The steps of the nested layout one by one: lanes, degree-1 boxes, coordinates."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st

from torchrecorder.layout.layered import Item, Link, place, plan
from torchrecorder.layout.layered.compaction import Body, Segment, _Compaction, compact
from torchrecorder.layout.layered.constants import MAX_BEND_EDGES, MAX_WIDENING, SEPARATION
from torchrecorder.layout.layered.port_order import PortGroup, in_order, port_groups
from torchrecorder.layout.layered.ports import OUTSIDE, End, Net
from torchrecorder.layout.layered.tracks import lanes

SOME = settings(max_examples=200, deadline=None)

spans = st.tuples(st.integers(0, 30), st.integers(0, 12)).map(lambda pair: (pair[0], sum(pair)))


@SOME
@given(st.lists(spans, max_size=30))
def test_no_two_lines_share_a_place_in_a_lane(given_spans: list[tuple[int, int]]) -> None:
    """Lines in one lane have no gap in common, not even the one where they end and begin."""
    lane = lanes(given_spans)
    for one, (begin, end) in enumerate(given_spans):
        for other in range(one):
            if lane[one] == lane[other]:
                first, last = given_spans[other]
                assert end < first or last < begin


@SOME
@given(st.lists(spans, max_size=30))
def test_each_line_has_the_innermost_lane_that_shorter_ones_leave(
    given_spans: list[tuple[int, int]],
) -> None:
    """In each lane further in there is a line in its way that is not longer."""
    lane = lanes(given_spans)
    for one, (begin, end) in enumerate(given_spans):
        for inner in range(lane[one]):
            assert any(
                lane[other] == inner and first <= end and begin <= last
                and last - first <= end - begin
                for other, (first, last) in enumerate(given_spans)
            )


def test_lines_that_meet_at_one_gap_take_twolanes() -> None:
    """The first ends in the gap in which the second begins; the third is clear of both."""
    assert lanes([(0, 4), (4, 8), (9, 13)]) == [0, 1, 0]


ENTRY, EXIT = [10, 11, 12], [20, 21, 22]
"""The nodes of the ports of a scope."""


def net(source: tuple[int, int], *sinks: tuple[int, int]) -> Net:
    """A net from a child and its port to others."""
    return Net(End(*source), [End(*sink) for sink in sinks])


def groups(nets: Sequence[Net], *between: Sequence[int]) -> list[PortGroup]:
    """The port groups of a scope; *between* are the nodes on the way of the first nets."""
    return port_groups(nets, ENTRY, EXIT, [*between, *[()] * (len(nets) - len(between))])


def test_boxes_with_one_line_are_loose() -> None:
    """Two outputs of one module may change places; so may two inputs."""
    (found,) = groups([net((0, 1), (1, 0)), net((0, 0), (2, 0))])
    assert (found.child, found.exits, found.ends) == (0, True, ((1, (1,)), (0, (2,))))
    (found,) = groups([net((0, 0), (2, 1)), net((1, 0), (2, 0))])
    assert (found.child, found.exits, found.ends) == (2, False, ((1, (0,)), (0, (1,))))


def test_boxes_that_share_a_line_are_loose() -> None:
    """Two outputs that are one tensor may change places with another one, if both have no other
    line and are in the next layer."""
    both = net((0, 1), (1, 0), (2, 0))
    (found,) = groups([both, net((0, 0), (3, 0))])
    assert (found.child, found.exits, found.ends) == (0, True, ((1, (1,)), (1, (2,)), (0, (3,))))
    assert groups([both, net((0, 0), (2, 1)), net((0, 2), (3, 0))]) == []
    assert groups([both, net((0, 0), (3, 0))], [30]) == []


def test_lines_to_loose_boxes_are_loose() -> None:
    """From the module on, in each layer that they pass."""
    (found,) = groups([net((0, 1), (1, 0)), net((0, 0), (2, 0))], [30, 31])
    assert found.ends == ((1, (30, 31, 1)), (0, (2,)))
    (found,) = groups([net((0, 0), (2, 1)), net((1, 0), (2, 0))], [30, 31])
    assert found.ends == ((1, (31, 30, 0)), (0, (1,)))


def test_ports_of_a_scope_with_one_line_are_loose() -> None:
    """Those that lead to one module, and those that come from one."""
    nets = [net((OUTSIDE, 2), (0, 1)), net((OUTSIDE, 0), (0, 0)), net((0, 0), (1, 0)),
            net((1, 1), (OUTSIDE, 0)), net((1, 0), (OUTSIDE, 2))]
    first, last = groups(nets)
    assert (first.child, first.exits, first.ends) == (0, False, ((1, (12,)), (0, (10,))))
    assert (last.child, last.exits, last.ends) == (1, True, ((1, (20,)), (0, (22,))))


@pytest.mark.parametrize("nets", [
    [net((OUTSIDE, 0), (0, 0), (1, 0)), net((OUTSIDE, 1), (0, 1))],  # one leads to two modules
    [net((OUTSIDE, 0), (OUTSIDE, 0)), net((OUTSIDE, 1), (OUTSIDE, 1))],  # through the scope
])
def test_other_ports_of_a_scope_keep_their_places(nets: list[Net]) -> None:
    assert groups(nets) == []


@pytest.mark.parametrize("depth", [1, 3])
def test_inputs_are_in_the_order_of_what_reads_them_inside(depth: int) -> None:
    """However many scopes are around that: no line crosses another."""
    items = [Item(f"x{place}", -1, 40, 20) for place in range(3)]
    for around in range(depth):
        items.append(Item("scope", len(items) - 1 if around else -1, 60, 30, (50.0, 12.0)))
    inner = len(items) - 1
    items += [Item("reads", inner, 40, 20) for _ in range(3)]
    items.append(Item("joins", inner, 40, 20))
    links = [Link(place, inner + 1 + order, f"x{place}") for place, order in enumerate((2, 0, 1))]
    links += [Link(inner + 1 + place, inner + 4, f"y{place}") for place in range(3)]
    boxes = {box.item: box for box in place(plan(items, links)).boxes}
    given = sorted(range(3), key=lambda item: boxes[item].x)
    read = sorted(range(inner + 1, inner + 4), key=lambda item: boxes[item].x)
    assert [(2, 0, 1)[item] for item in given] == [item - inner - 1 for item in read]


@pytest.mark.parametrize(
    ("nets", "between"),
    [
        ([net((0, 0), (1, 0))], []),  # only one
        ([net((0, 0), (1, 0)), net((0, 1), (2, 0))], [~0]),  # one in a lane
        ([net((0, 0), (1, 0), (2, 0)), net((0, 1), (2, 1))], []),  # one tensor to both
        ([net((0, 0), (1, 0)), net((0, 1), (2, 0)), net((2, 0), (1, 1))], []),
        ([net((0, 0), (1, 0)), net((0, 1), (2, 0)), net((1, 0), (OUTSIDE, 0))], []),
        ([net((OUTSIDE, 0), (1, 0)), net((OUTSIDE, 1), (2, 0))], []),
        ([net((0, 0), (2, 0)), net((1, 0), (2, 1)), net((1, 1), (3, 0))], []),
    ],
)
def test_other_boxes_are_not_loose(nets: list[Net], between: list[int]) -> None:
    """A second line holds a box, a lane too, and so does being alone."""
    assert groups(nets, between) == []


def test_loose_boxes_take_each_others_places_in_the_order_of_ports() -> None:
    """The places stay; the boxes on them change, and nothing else moves."""
    nets = [net((0, 1), (1, 0)), net((0, 0), (2, 0)), net((0, 2), (3, 0))]
    (found,) = groups(nets)
    assert in_order([50.0, 10.0, 40.0, 80.0], found, [5.0, 90.0, 30.0]) == [50.0, 80.0, 10.0, 40.0]


def test_lines_past_loose_boxes_take_their_places_too() -> None:
    """In each layer for itself: one line goes on where another ends."""
    group = PortGroup(0, True, ((0, (1, 2)), (1, (3,)), (2, (4, 5))))
    at = [0.0, 40.0, 90.0, 10.0, 70.0, 20.0]
    assert in_order(at, group, [9.0, 5.0, 1.0]) == [0.0, 70.0, 90.0, 40.0, 10.0, 20.0]


def test_ports_at_one_place_are_in_their_own_order() -> None:
    """Whatever boxes they are joined to."""
    ends = ((0, (1,)), (1, (0,)), (2, (2,)))
    found = in_order([10.0, 20.0, 30.0], PortGroup(3, True, ends), [5.0, 5.0, 5.0])
    assert found == [20.0, 10.0, 30.0]


def box(row: int, half: float = 10.0) -> Body:
    """A box in one layer."""
    return Body(row, row, half, half, True)


def test_a_box_moves_to_what_it_is_tied_to() -> None:
    """One line alone: it is straight afterwards, with its ends where they are fixed."""
    one, other = compact([box(0), box(1)], [0.0, 4.0], [Segment(0, 3.0, 1, -2.0, 4)])
    assert one + 3.0 == pytest.approx(other - 2.0)


def test_of_two_lines_one_is_straight() -> None:
    """Between two readers a box stands over one of them: two bends cost more than one."""
    at = compact(
        [box(0), box(1), box(1)],
        [30.0, 0.0, 60.0],
        [Segment(0, 0, 1, 0, 4), Segment(0, 0, 2, 0, 4)],
    )
    assert min(abs(at[0] - at[1]), abs(at[0] - at[2])) == pytest.approx(0.0)


def test_of_many_lines_the_median_counts() -> None:
    """More lines than have their bends counted: the box stands over the one in the middle."""
    readers = MAX_BEND_EDGES + 1
    bodies = [box(0), *(box(1) for _ in range(readers))]
    segments = [Segment(0, 0.0, number + 1, 0.0, 2) for number in range(readers)]
    at = compact(bodies, [0.0, *(100.0 * number for number in range(readers))], segments)
    assert at[0] == pytest.approx(at[1 + readers // 2])


def test_neighbors_in_the_way_are_taken_along() -> None:
    """A box whose reader is far to the right moves there with the free box beside it."""
    bodies = [box(0), box(0), Body(1, 1, 100.0, 100.0, True)]
    at = compact(
        bodies, [0.0, 40.0, 60.0], [Segment(0, 0.0, 2, 0.0, 4), Segment(1, 0.0, 2, 30.0, 4)]
    )
    assert at[1] - at[0] >= 20.0 + SEPARATION[True, True] - 0.01
    assert at[0] == pytest.approx(at[2]) or at[1] == pytest.approx(at[2] + 30.0)


@SOME
@given(st.data())
def test_nothing_leaves_the_widened_scope(data: st.DataObject) -> None:
    """Boxes keep their order and distances, inside of the width with its allowance."""
    count = data.draw(st.integers(2, 8))
    rows = [data.draw(st.integers(0, 3)) for _ in range(count)]
    bodies = [box(row) for row in rows]
    start = [36.0 * rows[:number].count(rows[number]) for number in range(count)]
    number = st.integers(0, count - 1)
    segments = [
        Segment(
            one, data.draw(st.floats(-60, 60)), other, 0.0, data.draw(st.sampled_from([1, 2, 4]))
        )
        for one, other in data.draw(st.lists(st.tuples(number, number), max_size=10))
        if one != other
    ]
    at = compact(bodies, start, segments)
    low, high = min(start) - 10.0, max(start) + 10.0
    more = MAX_WIDENING * (high - low) + 0.01
    assert min(at) - 10.0 >= low - more and max(at) + 10.0 <= high + more
    for one in range(count):
        for other in range(count):
            if rows[one] == rows[other] and start[one] < start[other]:
                assert at[other] - at[one] >= 36.0 - 0.01


def test_lanes_of_a_figure_do_not_lie_on_each_other() -> None:
    """Long lines beside the same layers stand side by side."""
    count = 70
    items = [Item(str(number), -1, 40.0, 20.0) for number in range(count)]
    links = [Link(number, number + 1, "x") for number in range(count - 1)]
    links += [Link(start, count - 1 - start, "y") for start in range(3)]
    picture = place(plan(items, links))
    right = max(box.x + box.width for box in picture.boxes)
    beside = [
        {x for x, _ in piece.points if x > right}
        for piece in picture.sections
        if piece.value == "y"
    ]
    places = [x for each in beside for x in each]
    assert len(places) == len(set(places)) == 3


def test_bends_of_many_lines_do_not_count() -> None:
    """A box with few lines goes where most are straight, one with many where they are shortest."""
    wishes = [0.0, 36.0, 72.0, 108.0, 144.0, 144.0, 144.0]
    bodies = [box(0), *(box(row) for row in (1, 1, 1, 1, 1, 2, 3))]
    segments = [Segment(0, 0.0, number + 1, 0.0, 2) for number in range(len(wishes))]
    assert len(wishes) == MAX_BEND_EDGES + 1
    many = _Compaction(bodies, [0.0, *wishes], segments)
    assert many.wish([0]) == 108.0
    few = _Compaction(bodies[:4] + bodies[5:], [0.0, *wishes[:3], *wishes[4:]], segments[:-1])
    assert few.wish([0]) == 144.0
