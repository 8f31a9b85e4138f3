"""Where a few bodies come to stand, by hand: as their lines want, in order, apart, not too far."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from tests.layout.test_columns import _chain, sheet
from tests.layout.test_nested import SOME
from torchrecorder.layout.layered import Link, place, plan
from torchrecorder.layout.layered.compaction import Body, Segment, _Compaction, compact
from torchrecorder.layout.layered.constants import (
    BEND_COST, LAYER_GAP, MAX_BEND_EDGES, MAX_WIDENING, MIN_MOVE, PAD, SEPARATION, TRACK_MARGIN,
    TRACK_PITCH,
)
from torchrecorder.layout.layered.edge_routing import edge_routes
from torchrecorder.layout.layered.multi_column import COLUMN_MARGIN


def box(row: int, half: float = 10.0, last: int | None = None) -> Body:
    """A box in one row, or in several."""
    return Body(row, row if last is None else last, half, half, True)


def line(first: int, last: int) -> Body:
    """A line that passes some rows."""
    return Body(first, last, 0.0, 0.0, False)


def test_only_what_overlaps_is_moved_without_lines() -> None:
    """To both sides alike, by no more than needed; a box in two rows keeps apart in both."""
    bodies = [box(0), box(0), box(1), box(0, last=1)]
    apart = 20 + SEPARATION[True, True]
    beside = [2.5 - apart / 2, 2.5 + apart / 2]
    assert compact(bodies[:3], [0.0, 5.0, 3.0], []) == [*beside, 3.0]
    first, second, below, both = compact(bodies, [0.0, 5.0, 1.0 + 2 * apart, 2 * apart], [])
    assert second - first == both - second == below - both == apart
    assert below - (1.0 + 2 * apart) == 0.0 - first
    assert compact([box(0)] * 3, [0.0, 0.0, 0.0], []) == [-apart, 0.0, apart]
    mixed = compact([box(0), line(0, 0), line(0, 0), box(0)], [0.0, 1.0, 2.0, 3.0], [])
    gaps = [after - before for before, after in pairwise(mixed)]
    assert gaps == [
        10 + SEPARATION[True, False],
        SEPARATION[False, False],
        SEPARATION[False, True] + 10,
    ]


def test_what_nothing_connects_is_next_to_the_largest_group() -> None:
    """However far away what grew beside it moved it, on both sides, and as it is in itself."""
    apart = 20 + SEPARATION[True, True]
    chain = [box(0), box(1, half=50.0), box(2)]
    beside = [box(0), box(0), box(2), box(2)]
    down = [Segment(0, 0.0, 1, 0.0, 4), Segment(1, 0.0, 2, 0.0, 4)]
    at = [0.0, 0.0, 0.0, 300.0, 200.0, -200.0, -300.0]
    found = compact(chain + beside, at, [*down, Segment(5, 0.0, 6, 60.0, 4)])
    assert found == [0.0, 0.0, 0.0, 2 * apart, apart, -apart, -apart - 60.0]
    reaching = compact(
        [*chain, box(5), box(0)],
        [0.0, 0.0, 0.0, -10.0, 300.0],
        [*down, Segment(3, 310.0, 4, 0.0, 4)],
    )
    assert reaching == [0.0, 0.0, 0.0, apart - 310.0, apart], "most of it is on the right"
    mirrored = compact(
        [*chain, box(5), box(0)],
        [0.0, 0.0, 0.0, 10.0, -300.0],
        [*down, Segment(3, -310.0, 4, 0.0, 4)],
    )
    assert mirrored == [-at for at in reaching]
    alone = compact([*chain, box(5)], [0.0, 0.0, 0.0, 300.0], down)
    assert alone[3] == 300.0, "nothing is beside it"


def price(segment: Segment, at: list[float], moved: int = -1, far: float = 0.0) -> float:
    """What a line costs: its way aside, and its bends; with one of its ends moved."""
    one, other = (at[end] + far * (end == moved) for end in (segment.one, segment.other))
    off = abs(one + segment.here - other - segment.there)
    return segment.weight * (off if off < MIN_MOVE else off + BEND_COST)


LINES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(-9, 9),
                           st.sampled_from([1, 4, 20])), min_size=1, max_size=6)


@SOME
@given(st.lists(st.integers(-200, 200), min_size=5, max_size=5), LINES)
def test_lines_are_never_worse_than_before(
    at: list[int], lines: list[tuple[int, int, int, int]]
) -> None:
    """All together, in rows of their own."""
    bodies = [box(row) for row in range(5)]
    segments = [
        Segment(one, off, other, 0.0, weight) for one, other, off, weight in lines if one != other
    ]
    before = [float(each) for each in at]
    after = compact(bodies, before, segments)
    costs = [sum(price(segment, places) for segment in segments) for places in (before, after)]
    assert costs[1] <= costs[0] + 1e-6


def star(places: list[float], weights: list[int]) -> tuple[list[Body], list[Segment]]:
    """A last box below others, each of which has a line to it."""
    bodies = [box(0) for _ in places]
    segments = [
        Segment(number, 0.0, len(places), 0.0, weight) for number, weight in enumerate(weights)
    ]
    return [*bodies, box(1)], segments


@pytest.mark.parametrize(
    ("weights", "wanted"),
    [([9, 1, 1], 0), ([1, 9, 1], 1), ([1, 1, 9], 2), ([1, 1, 1], 1),
     ([1] * (MAX_BEND_EDGES + 1), MAX_BEND_EDGES // 2),
     ([1] * 9, 4), ([1, 1, 1, 1, 1, 1, 20], 6)],
)
def test_a_box_goes_where_its_lines_are_shortest(weights: list[int], wanted: int) -> None:
    """To the heaviest; of equal ones to that in the middle. The others cannot move."""
    apart = 20 + SEPARATION[True, True]
    places = [apart * number for number in range(len(weights))]
    bodies, segments = star(places, weights)
    for start in (-5.0, places[-1] + 5.0):
        found = compact(bodies, [*places, start], segments)
        assert found[-1] == pytest.approx(found[wanted], abs=MIN_MOVE)
        assert all(b - a == pytest.approx(apart) for a, b in pairwise(found[:-1]))


@pytest.mark.parametrize("start", [-99.0, 150.0, 350.0, 999.0])
def test_between_two_equal_halves_a_box_stays(start: float) -> None:
    """Of all places between the two in the middle the nearest is as good as any."""
    places = [100.0 * number for number in range(MAX_BEND_EDGES + 2)]
    bodies = [box(0) for _ in places]
    segments = [Segment(number, 0.0, len(places), 0.0, 1) for number in range(len(places))]
    compaction = _Compaction([*bodies, box(1)], [*places, start], segments)
    low, high = places[MAX_BEND_EDGES // 2], places[MAX_BEND_EDGES // 2 + 1]
    assert start + compaction.wish([len(places)]) == min(max(start, low), high)


def test_ends_of_a_line_are_in_line() -> None:
    """Wherever on their boxes they are; a short bend is no better than a long one."""
    bodies = [box(0), box(1)]
    first, second = compact(bodies, [0.0, 4.0], [Segment(0, 3.0, 1, -5.0, 4)])
    assert second - first == pytest.approx(8.0)


def test_what_is_in_the_way_is_moved_too() -> None:
    """If that is better for both; else it stays, and so does what it blocks."""
    apart = 20 + SEPARATION[True, True]
    bodies = [box(0), box(1), box(1), box(2), box(0), box(2)]
    at = [100.0, 0.0, apart, 100.0, 100.0 + apart, 100.0 + apart]
    both = [Segment(0, 0.0, 1, 0.0, 4), Segment(3, 0.0, 1, 0.0, 4), Segment(0, 0.0, 3, 0.0, 9),
            Segment(4, 0.0, 2, 0.0, 4), Segment(5, 0.0, 2, 0.0, 4), Segment(4, 0.0, 5, 0.0, 9)]
    found = compact(bodies, at, both)
    assert found[1] == pytest.approx(found[0]) and found[2] == pytest.approx(found[4])
    back = [
        *both[:3],
        Segment(2, 0.0, 6, 0.0, 9),
        Segment(2, 0.0, 7, 0.0, 9),
        Segment(6, 0.0, 7, 0.0, 9),
    ]
    more = [*bodies[:4], box(0), box(2), box(0), box(2)]
    kept = compact(more, [100.0, 0.0, apart, 100.0, 900.0, 900.0, apart, apart], back)
    assert kept[2] - kept[1] >= apart and kept[2] == pytest.approx(kept[6])


def test_a_little_room_is_used() -> None:
    """Where a box cannot move to where it is wanted, it moves as far as it can."""
    apart = 20 + SEPARATION[True, True]
    segments = [Segment(0, 0.0, 2, 0.0, 4), Segment(1, 0.0, 3, 0.0, 9)]
    at = [0.0, apart + 0.5, 50.0, apart + 0.5]
    compaction = _Compaction([box(0), box(0), box(1), box(2)], at, segments)
    compaction.find_limits()
    compaction.pull([[0]])
    assert compaction.at == [0.5, *at[1:]]


def test_nothing_leaves_the_fence() -> None:
    """A quarter of the width beyond it, on both sides."""
    bodies = [box(0, 50.0), box(0, 50.0), box(1)]
    width = 300.0
    for off, end in ((900.0, 250.0 + MAX_WIDENING * width), (-900.0, -50.0 - MAX_WIDENING * width)):
        found = compact(bodies, [0.0, 200.0, 100.0], [Segment(0, off, 2, 0.0, 4)])
        assert found[2] + (10.0 if off > 0 else -10.0) == pytest.approx(end)


def test_what_moved_lets_others_move() -> None:
    """What stands beside it, and what it is joined to; nothing else is tried again."""
    apart = 20 + SEPARATION[True, True]
    bodies = [box(0), box(0), box(1), box(2), box(3)]
    segments = [Segment(0, 0.0, 3, 0.0, 4), Segment(2, 0.0, 4, 0.0, 4)]
    compaction = _Compaction(bodies, [0.0, apart, 0.0, 1.0, 2.0], segments)
    assert len(compaction.single()) == 5 and compaction.single() == []
    compaction._move([0], -1.0)
    assert compaction.single() == [[3], [1]]


# Columns ----------------------------------------------------------------------------------


def test_columns_take_no_more_room_than_they_need() -> None:
    """One line goes up between two; boxes stand as close as in one; the frame is near."""
    items, links = _chain(24)
    picture = place(plan(items, links), sheet=sheet(500.0, 500.0))
    boxes = {box.item: box for box in picture.boxes}
    columns: dict[float, list[int]] = {}
    for number in range(1, 25):
        columns.setdefault(round(boxes[number].x, 2), []).append(number)
    assert len(columns) > 2
    for one, other in pairwise(sorted(columns)):
        assert other - one - 100 == pytest.approx(2 * COLUMN_MARGIN, abs=0.02)
    for members in columns.values():
        for one, other in pairwise(members):
            assert boxes[other].y - boxes[one].y - 40 == pytest.approx(LAYER_GAP, abs=0.02)
    model = boxes[0]
    assert model.x + model.width - max(columns) - 100 == pytest.approx(PAD, abs=0.02)
    lowest = max(boxes[members[-1]].y + 40 for members in list(columns.values())[:-1])
    assert model.y + model.height - lowest == pytest.approx(TRACK_MARGIN + PAD, abs=0.02)
    ways = [way for way in edge_routes(picture, links) if len(way) > 2]
    assert len(ways) == len(columns) - 1
    for way in ways:
        (x, y), (_, below), (lane, _), (_, above), (to, _), (_, end) = way
        assert below - y == pytest.approx(TRACK_MARGIN) and end - above >= TRACK_MARGIN
        assert lane - x == pytest.approx(50 + COLUMN_MARGIN) and to - lane == pytest.approx(
            50 + COLUMN_MARGIN
        )


def test_each_further_line_between_columns_takes_one_track() -> None:
    """Side by side, without touching."""
    items, links = _chain(24)
    links += [Link(2, 23, "a"), Link(3, 22, "b")]
    picture = place(plan(items, links), sheet=sheet(500.0, 500.0))
    boxes = {box.item: box for box in picture.boxes}
    across = sorted({round(boxes[number].x, 2) for number in range(1, 25)})
    first = across[1] - across[0] - 100
    assert first == pytest.approx(2 * COLUMN_MARGIN + 2 * TRACK_PITCH, abs=0.02)
    lanes = {
        round(ax, 2)
        for way in edge_routes(picture, links)
        for (ax, ay), (bx, by) in pairwise(way)
        if ax == bx and by < ay and across[0] + 100 < ax < across[1]
    }
    assert [other - one for one, other in pairwise(sorted(lanes))] == pytest.approx(
        [TRACK_PITCH] * 2
    )
