"""Parts of the nested layout on their own: rows, tracks, slots, distances and stretching."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torchrecorder.layout.layered.constants import APART
from torchrecorder.layout.layered.tracks import Run, slots, tracks
from torchrecorder.layout.layered.edge_routing import corners
from torchrecorder.layout.layered.layering import rows
from torchrecorder.layout.layered.compaction import Body, Tie, settle
from torchrecorder.layout.layered.monotone_map import Stretch, Wish


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
    tie = st.builds(Tie, number, far, number, far, st.sampled_from([1, 2, 4]))
    ties = [each for each in data.draw(st.lists(tie, max_size=20)) if each.one != each.other]
    found = settle(bodies, at, ties)
    for one, other in ((a, b) for a in range(len(bodies)) for b in range(len(bodies))):
        here, there = bodies[one], bodies[other]
        if (at[one], one) < (at[other], other):
            if here.first <= there.last and there.first <= here.last:
                apart = here.right + APART[here.box, there.box] + there.left
                assert found[other] - found[one] >= apart - 1e-6


def test_settling_brings_ends_in_line() -> None:
    """A box and all that hangs on it move below what feeds them."""
    bodies = [Body(row, row, 20, 20, True) for row in range(4)]
    ties = [Tie(one, 0.0, one + 1, 0.0, 4) for one in range(3)]
    assert len(set(settle(bodies, [300.0, 0.0, 20.0, 10.0], ties))) == 1


def test_rows_follow_what_they_read() -> None:
    """Each box is below all it reads; a parameter stands just above its reader."""
    assert rows(4, [(0, 1), (1, 2), (3, 2)], [True, False, False, False]) == [0, 1, 2, 1]


def test_rows_of_a_circle_end() -> None:
    """A circle is cut where it begins."""
    assert rows(3, [(0, 1), (1, 2), (2, 0)], [False] * 3) == [0, 1, 2]


@given(
    st.lists(
        st.builds(
            lambda begin, length, growth: Wish(begin, begin + length, growth),
            st.integers(0, 50).map(float),
            st.integers(1, 30).map(float),
            st.floats(0, 100),
        )
    ),
    st.lists(st.floats(-10, 100), min_size=2),
)
def test_stretch_gives_every_wish_and_only_stretches(
    wishes: list[Wish], points: list[float]
) -> None:
    """Every interval grows by what it asks for, and no two points come closer."""
    stretch = Stretch(wishes)
    for wish in wishes:
        grown = stretch(wish.end) - stretch(wish.begin) - (wish.end - wish.begin)
        assert grown >= wish.growth - 1e-6
    for one, other in zip(sorted(points), sorted(points)[1:]):
        assert stretch(other) - stretch(one) >= other - one - 1e-6


def test_tracks_keep_overlapping_lines_apart() -> None:
    """Two lines over the same stretch have different tracks; apart from it they share one."""
    runs = {0: Run(0, 0, 10), 1: Run(5, 5, 15), 2: Run(40, 40, 60), 3: Run(7, 7, 7)}
    track = tracks(runs)
    assert track[0] != track[1] and track[2] == 0 and 3 not in track


def test_a_hair_is_no_bend() -> None:
    """A line that is off by less than a point goes on, without a track."""
    assert tracks({0: Run(0, 0, 0.9), 1: Run(10, 10, 11)}) == {1: 0}


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
