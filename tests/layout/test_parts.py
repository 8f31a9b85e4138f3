"""Parts of the nested layout on their own: rows, tracks, slots and distances."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from torchrecorder.layout.layered import Item, constants, place, plan
from torchrecorder.layout.layered.compaction import Body, Segment, _Compaction, compact
from torchrecorder.layout.layered.compound import compose
from torchrecorder.layout.layered.constants import MIN_MOVE, PAD, SEPARATION, THROUGH_WEIGHT
from torchrecorder.layout.layered.edge_routing import corners
from torchrecorder.layout.layered.layering import rows
from torchrecorder.layout.layered.ordering import (
    NODE_GAP, Grid, _dot_lines, _without_graphviz, columns,
)
from torchrecorder.layout.layered.ports import End
from torchrecorder.layout.layered.positions import HeaderSpace
from torchrecorder.layout.layered.template import Branch, ClosedChild, Template, Trunk
from torchrecorder.layout.layered.tracks import NetExtent, slots, tracks


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 3), st.floats(0, 50), st.booleans()),
        min_size=2,
        max_size=12,
    ),
    st.data(),
)
def test_settling_keeps_order_and_distance(
    drawn: list[tuple[int, int, float, bool]], data: st.DataObject
) -> None:
    """Whatever pulls, those of a row stay in their order, with room between them."""
    bodies = [Body(row, row + more, half, half, box) for row, more, half, box in drawn]
    at = data.draw(st.lists(st.floats(0, 500), min_size=len(bodies), max_size=len(bodies)))
    number, far = st.integers(0, len(bodies) - 1), st.floats(-20, 20)
    segment = st.builds(Segment, number, far, number, far, st.sampled_from([1, 2, 4]))
    segments = [
        each for each in data.draw(st.lists(segment, max_size=20)) if each.one != each.other
    ]
    found = compact(bodies, at, segments)
    for one, other in ((a, b) for a in range(len(bodies)) for b in range(len(bodies))):
        here, there = bodies[one], bodies[other]
        if (at[one], one) < (at[other], other):
            if here.first <= there.last and there.first <= here.last:
                apart = here.right + SEPARATION[here.box, there.box] + there.left
                assert found[other] - found[one] >= apart - 1e-6


def test_settling_brings_ends_in_line() -> None:
    """A box and all that hangs on it move below what feeds them."""
    bodies = [Body(row, row, 20, 20, True) for row in range(4)]
    segments = [Segment(one, 0.0, one + 1, 0.0, 4) for one in range(3)]
    assert len(set(compact(bodies, [300.0, 0.0, 20.0, 10.0], segments))) == 1


def test_rows_follow_what_they_read() -> None:
    """Each box is below all it reads; a parameter stands just above its reader."""
    assert rows(4, [(0, 1), (1, 2), (3, 2)], [True, False, False, False]) == [0, 1, 2, 1]


def test_what_depends_on_an_input_stands_below_it() -> None:
    """Not above its reader, though it reads no input itself."""
    pairs = [(0, 1), (1, 4), (0, 2), (2, 3), (3, 4)]
    assert rows(5, pairs, [True, False, False, False, False]) == [0, 1, 1, 2, 3]
    assert rows(5, pairs, [False, False, True, False, False]) == [0, 2, 1, 2, 3]


def test_rows_of_a_circle_end() -> None:
    """A circle is cut where it begins."""
    assert rows(3, [(0, 1), (1, 2), (2, 0)], [False] * 3) == [0, 1, 2]


def test_tracks_keep_overlapping_lines_apart() -> None:
    """Two lines over the same stretch have different tracks; apart from it they share one."""
    ends = ((0, 0, 10), (5, 5, 15), (40, 40, 60), (7, 7, 7))
    runs = {number: NetExtent(*one) for number, one in enumerate(ends)}
    track = tracks(runs)
    assert track[0] != track[1] and track[2] == 0 and 3 not in track


def test_a_hair_is_no_bend() -> None:
    """A line that is off by less than a point goes on, without a track."""
    assert tracks({0: NetExtent(0, 0, 0.9), 1: NetExtent(10, 10, 11)}) == {1: 0}


def test_slots_leave_the_middle_to_who_comes_straight() -> None:
    """The line from above goes straight on, the others stand beside it, in order."""
    assert slots([100.0, 50.0, 0.0], 50.0, 60.0) == [62.0, 50.0, 38.0]
    assert slots([54.0], 50.0, 60.0) == [54.0] and slots([70.0], 50.0, 60.0) == [50.0]


def test_slots_let_lines_come_straight_that_are_apart() -> None:
    """Two lines down to a wide box keep their distance, if the box is below both."""
    assert slots([70.0, 40.0], 50.0, 80.0) == [70.0, 40.0]
    assert slots([52.0, 48.0], 50.0, 80.0) == [60.0, 48.0]


def test_corners_are_where_lines_turn() -> None:
    """Points in line, and points twice, are left out."""
    assert corners([(0, 0), (0, 5), (0, 5), (0, 9), (4, 9)]) == ((0, 0), (0, 9), (4, 9))


def test_lines_that_are_apart_share_a_track() -> None:
    """Whichever side they run to; those that meet do not."""
    for end in (0, 1):
        left, right, between = (
            NetExtent(ends[end], *ends) for ends in ((0, 10), (40, 60), (5, 50))
        )
        assert set(tracks({0: left, 1: right}).values()) == {0}
        assert set(tracks({0: right, 1: left}).values()) == {0}
        track = tracks({0: left, 1: right, 2: between})
        assert track[2] not in (track[0], track[1])


@pytest.mark.parametrize("high", [20.0, 400.0])
def test_lines_meet_a_box_within_its_width(high: float) -> None:
    """However high it is, and wherever they come from."""
    above = tuple(ClosedChild(100.0 * number, 0, 40.0, 20.0, 0) for number in range(6))
    joins = tuple(Trunk(End(one, 0), (), (Branch(End(6, one), ()),)) for one in range(6))
    boxes = (*above, ClosedChild(250.0, 1, 60.0, high, 1))
    made = compose(Template(boxes, 2, (), (), joins, 0), {}, HeaderSpace())
    frame, ends = made.frames[6], [path.points[-1][0] for path in made.paths]
    assert sorted(ends) == ends and len(set(ends)) == 6
    assert frame.across < ends[0] and ends[-1] < frame.across + frame.width


def test_what_is_in_line_is_moved_together() -> None:
    """In line are the ends of the segment, wherever on their bodies."""
    bodies = [Body(row, row, 10.0, 10.0, True) for row in range(2)]
    for second, together in ((8.0, [[0, 1]]), (2.0, []), (0.0, [])):
        compaction = _Compaction(bodies, [0.0, second], [Segment(0, 3.0, 1, -5.0, 4)])
        assert compaction.joined(MIN_MOVE) == together
    through = _Compaction(bodies, [0.0, 8.0], [Segment(0, 3.0, 1, -5.0, THROUGH_WEIGHT)])
    assert through.joined(MIN_MOVE) == [], "no line joins them"


def test_a_box_that_reads_its_own_result_stands_above_its_readers() -> None:
    """Where these come first by number, too."""
    assert rows(3, [(1, 2), (2, 2), (2, 0)], [False, True, False]) == [2, 0, 1]


@pytest.mark.parametrize("direction", ["TB", "LR", "BT", "RL"])
def test_a_picture_has_equal_margins(direction: str) -> None:
    """On all four sides of one box."""
    picture = place(plan([Item("x", -1, 40, 20)], [], direction))  # type: ignore[arg-type]
    (box,) = picture.boxes
    assert (box.x, box.y) == (PAD, PAD)
    assert (picture.width, picture.height) == (2 * PAD + 40, 2 * PAD + 20)


def test_without_graphviz_everything_is_right_of_0() -> None:
    """Places left of it are those of lanes."""
    for rows_of in ([0, 0, 0], [0, 1, 1]):
        found = _without_graphviz(Grid([40.0, 7.0, 90.0], rows_of, [(0, 1, 1)]))
        assert min(at - width / 2 for at, width in zip(found, (40.0, 7.0, 90.0))) == 0


def test_a_piece_of_a_grid_is_without_the_others() -> None:
    """Its nodes and the edges between them; the highest hang from a chain with a node
    for each row."""
    grid = Grid([40.0, 7.0, 90.0, 0.2], [2, 3, 2, 4], [(0, 1, 5), (2, 3, 8), (1, 3, 2)])
    text = "\n".join(_dot_lines(grid, [0, 1]))
    assert [line.partition(" [")[0] for line in text.splitlines()[3:]] == [
        "above0", "0", "1", "0 -> 1", "above0 -> 0", "}"
    ]
    assert '0 [width="0.5556"]' in text
    whole = "\n".join(_dot_lines(grid, [0, 1, 2, 3]))
    assert '3 [width="0.0139"]' in whole and '2 -> 3 [weight="8"]' in whole
    assert whole.count("above") == 2  # all of them are joined
    apart = "\n".join(_dot_lines(grid, [0, 3]))
    assert "above1 -> above2" in apart and "above2 -> 3" in apart


def test_boxes_without_lines_are_near_each_other() -> None:
    """In each row, as no line from the top passes between them."""
    (found,) = columns([Grid([40.0] * 60, [node // 3 for node in range(60)])], timeout=60)
    assert max(found) < 6 * (40 + NODE_GAP)


def test_a_page_has_the_numbers_of_the_layout() -> None:
    """By their names; boxes are further from each other than lines."""
    found = constants.to_json()
    apart = [found[f"{what}_SEPARATION"] for what in ("BOX", "MIXED", "LINE")]
    pairs = (True, True), (True, False), (False, False)
    assert apart == [constants.SEPARATION[pair] for pair in pairs] and len(set(apart)) == 3
    assert found["PAD"] == constants.PAD and "SEPARATION" not in found
