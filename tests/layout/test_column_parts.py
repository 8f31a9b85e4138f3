"""Chains made by hand, cut in columns: where lines turn off, rise and run, and how wide it is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings, strategies as st

from torchrecorder.layout.layered.constants import PAD, TRACK_MARGIN, TRACK_PITCH
from torchrecorder.layout.layered.multi_column import COLUMN_MARGIN, EXIT_GAP, cut_before
from torchrecorder.layout.layered.positions import (
    BranchPath, Frame, HeaderSpace, PlacedScope, PlanePoint,
)

ROW, HIGH, WIDE = 40.0, 20.0, 40.0
"""From row to row, and the size of a box; all begin this high above it."""

OUT = -1
"""In the place of a row: outside."""


def line(source: int, sink: int, at: float, rows: int) -> tuple[PlanePoint, ...]:
    """From a row to a later one, beside the boxes between."""
    x, begin = (10.0, ROW * (source + 1)) if source != OUT else (at, 0.0)
    way = [(x, begin), (x, begin + 4), (at, begin + 4)]
    if sink == OUT:
        return tuple(dict.fromkeys([*way, (at, ROW * rows + HIGH)]))
    end = ROW * sink + HIGH
    way += [(at, end - 4), (30.0, end - 4), (30.0, end)]
    return tuple(dict.fromkeys(way))


def cut(
    rows: int,
    before: Sequence[int],
    trunks: Sequence[tuple[int, Sequence[int], float]],
    room: HeaderSpace = HeaderSpace(),
    boxes: Sequence[Frame] = (),
    ways: Sequence[Sequence[PlanePoint]] = (),
) -> PlacedScope:
    """A chain with a new column before some rows; trunks from a row to some others, and more."""
    frames = [Frame(0.0, ROW * row + HIGH, WIDE, HIGH) for row in range(rows)]
    paths = [
        BranchPath(number, branch, line(source, sink, at, rows))
        for number, (source, sinks, at) in enumerate(trunks) for branch, sink in enumerate(sinks)
    ]
    paths += [BranchPath(len(trunks) + more, 0, tuple(way)) for more, way in enumerate(ways)]
    entries = tuple(at for source, _, at in trunks if source == OUT)
    exits = tuple(at for _, sinks, at in trunks if OUT in sinks)
    scope = PlacedScope(
        200.0, ROW * rows + HIGH, entries, exits, (*frames, *boxes), tuple(paths), {}
    )
    made = cut_before(scope, [ROW * row + HIGH for row in before], room)
    assert made is not None
    return made


@st.composite
def trunks(draw: st.DrawFn, rows: int) -> list[tuple[int, list[int], float]]:
    """Some, each beside the boxes in a place of its own, in any order."""
    count = draw(st.integers(1, 5))
    places = draw(st.permutations([60.0 + 10 * number for number in range(count)]))
    found = []
    for at in places:
        source = draw(st.integers(0, rows - 3))
        sinks = draw(st.sets(st.integers(source + 2, rows - 1), min_size=1, max_size=3))
        found.append((source, sorted(sinks), at))
    return found


SOME = settings(max_examples=40, deadline=None)


@SOME
@given(st.data(), st.sets(st.integers(1, 7), min_size=1, max_size=3))
def test_lines_to_other_columns(data: st.DataObject, before: set[int]) -> None:
    """They turn off as soon as nothing in their column reads them, rise beside it, and run above
    the others; the rest of a line is as it was."""
    given_, rows = data.draw(trunks(8)), 8
    made = cut(rows, sorted(before), given_)
    column = [sum(row >= each for each in before) for row in range(rows)]
    turns, rises, bars = [], [], []
    for number, (source, sinks, at) in enumerate(given_):
        ways = {sink: path.points for sink, path in
                zip(sinks, (path for path in made.paths if path.trunk == number))}
        here = column[source]
        away = [sink for sink in sinks if column[sink] > here]
        needed = max([source, *(sink - 1 for sink in sinks if sink not in away)])
        after = made.frames[needed].end
        for sink in sinks:
            (x, y), (to_x, to_y) = ways[sink][0], ways[sink][-1]
            assert (x, y) == (made.frames[source].across + 10, made.frames[source].end)
            assert (to_x, to_y) == (made.frames[sink].across + 30, made.frames[sink].along)
            if sink not in away:
                assert max(y for _, y in ways[sink]) == to_y
        for sink in away:
            way = ways[sink]
            up = next(place for place in range(len(way)) if way[place + 1][1] < way[place][1])
            rise, bar, over = way[up : up + 3]
            assert rise[0] == bar[0] and rise[1] == max(y for _, y in way[: up + 1])
            assert over[1] == bar[1] < min(frame.along for frame in made.frames)
            across = 10.0 if needed == source else at
            turns.append((needed, round(rise[1] - after, 3), (-across, number)))
            rises.append((here, rise[0], rise[1], number))
            bars.append((bar[0], over[0], bar[1], number))
    check_tracks(turns)
    check_channels(made, column, rises)
    check_bars(bars)


def check_tracks(turns: Sequence[tuple[int, float, tuple[float, int]]]) -> None:
    """Below each row one track for each trunk, the rightmost first."""
    for row in {turn[0] for turn in turns}:
        found = {(place, level) for at, level, place in turns if at == row}
        assert [level for _, level in sorted(found)] == pytest.approx(
            [TRACK_MARGIN + TRACK_PITCH * number for number in range(len(found))]
        )


def check_channels(
    made: PlacedScope, column: Sequence[int], rises: Sequence[tuple[int, float, float, int]]
) -> None:
    """Beside each column one place for each trunk, what turns off first the nearest; each column
    stands right beside the lines before it."""
    for here in set(column):
        found = sorted({(y, x) for place, x, y, _ in rises if place == here})
        places = [x for _, x in found]
        assert places == pytest.approx([places[0] + TRACK_PITCH * n for n in range(len(places))]
                                       if places else [])
        left = made.frames[column.index(here)].across
        if places:
            assert places[0] >= left + WIDE + COLUMN_MARGIN
            if here < max(column):
                after = made.frames[column.index(here + 1)].across
                assert after - places[-1] == pytest.approx(COLUMN_MARGIN)


def check_bars(bars: Sequence[tuple[float, float, float, int]]) -> None:
    """Above all columns lines of several trunks that meet are on several tracks; some line is on
    the first."""
    whole: dict[int, tuple[float, float, float]] = {}
    for begin, end, level, number in bars:
        low, high, _ = whole.get(number, (begin, end, level))
        whole[number] = min(low, begin, end), max(high, begin, end), level
    for (low, high, level), (begin, end, other) in combinations(whole.values(), 2):
        assert level != other or high < begin or end < low
    levels = sorted({level for *_, level in whole.values()})
    assert levels == pytest.approx([TRACK_MARGIN + TRACK_PITCH * n for n in range(len(levels))])


@SOME
@given(st.data(), st.integers(1, 7))
def test_no_more_room_than_lines_need(data: st.DataObject, before: int) -> None:
    """Rows are a track further apart for each line that turns off between them; above the first
    ones, and below the last, is as much as before."""
    given_ = data.draw(trunks(8))
    made, bare = cut(8, [before], given_), cut(8, [before], [])
    away = [(source, sinks) for source, sinks, _ in given_
            if source < before and any(sink >= before for sink in sinks)]
    turned = [max([source, *(sink - 1 for sink in sinks if sink < before)])
              for source, sinks in away]
    for row in range(7):
        gap = made.frames[row + 1].along - made.frames[row].end
        if row != before - 1:
            assert gap == pytest.approx(ROW - HIGH + TRACK_PITCH * turned.count(row))
    first, other = made.frames[0].along, made.frames[before].along
    assert first == other
    levels = sorted({y for path in made.paths for _, y in path.points if y < first})
    highest = [y for y in levels if y <= first - TRACK_MARGIN - HIGH]
    assert bool(highest) == bool(away)
    if away:
        assert highest[0] == TRACK_MARGIN and first == pytest.approx(
            highest[-1] + TRACK_MARGIN + HIGH
        )
    assert bare.frames[0].along == pytest.approx(2 * TRACK_MARGIN + HIGH)
    lowest = max(frame.end for frame in made.frames)
    tracks = [
        (
            made.frames[before - 1].end
            + TRACK_MARGIN
            + TRACK_PITCH * (turned.count(before - 1) - 1)
            + PAD
            if before - 1 in turned
            else 0.0
        )
    ]
    assert made.height >= max([lowest, *tracks]) - 1e-6
    corners = [x for path in made.paths for x, _ in path.points]
    right = max([made.frames[-1].across + WIDE, *corners])
    assert made.width == pytest.approx(right + PAD)


@pytest.mark.parametrize("sinks, row", [((4,), None), ((0, 5), None), ((1, 4), 0), ((2, 4), 1)])
def test_what_comes_in_for_a_later_column(sinks: tuple[int, ...], row: int | None) -> None:
    """It turns off below the last row that it passes, if any; else above all."""
    made = cut(6, [3], [(OUT, sinks, 60.0)], HeaderSpace(before=10.0))
    *_, path = made.paths
    begin, second, third = path.points[:3]
    assert begin == (made.entries[0], 0.0)
    if row is None:
        assert second == (60.0, 10.0 + TRACK_MARGIN) and third[1] == second[1] and third[0] > 60
        assert (
            third[1] + TRACK_MARGIN + HIGH - 10.0 == made.frames[0].along and len(path.points) < 9
        )
    else:
        level = next(y for x, y in path.points if x > 60)
        assert level == made.frames[row].end + TRACK_MARGIN


@pytest.mark.parametrize("reader, column", [(2, 0), (4, 1), (None, 0)])
def test_what_leaves_does_so_where_it_is_read_last(reader: int | None, column: int) -> None:
    """Straight down from there to the end of the whole scope."""
    made = cut(6, [3], [(0, [OUT] if reader is None else [reader, OUT], 60.0)])
    (*_, (to_x, turned), (x, y)) = made.paths[-1].points
    assert made.exits == (x,) and to_x == x and y == made.height and turned < y
    assert x == pytest.approx(60.0 + made.frames[3 * column].across)
    assert made.width >= x + PAD and made.height >= max(frame.end for frame in made.frames)


@pytest.mark.parametrize(
    "row, more, straight",
    [(3, [], True), (4, [], False), (3, [(2, [5], 30 + EXIT_GAP)], True),
     (3, [(2, [5], 30 + EXIT_GAP - 1)], False), (3, [(2, [5], 30 - EXIT_GAP + 1)], False)],
    ids=["first", "second", "beside", "on the right", "on the left"],
)
def test_a_way_down_is_straight_where_it_is_free(
    row: int, more: list[tuple[int, list[int], float]], straight: bool
) -> None:
    """Into the first box of a column, unless a line of another tensor is in the way."""
    boxes = [] if row == 4 else [Frame(-40.0, ROW * 2 + HIGH, 10.0, HIGH)]
    made = cut(6, [3], [(0, [row], 90.0), *more], boxes=boxes)
    points = made.paths[0].points
    down = points[next(n for n, (_, y) in enumerate(points) if y == min(y for _, y in points)) :]
    assert down[-1] == (made.frames[row].across + 30, made.frames[row].along)
    assert (len({x for x, _ in down[1:]}) == 1) == straight


LONG = Frame(-60.0, HIGH, 30.0, 2.5 * ROW)
"""A box beside the first rows of a chain; without it they end apart."""

EARLY, LATE = ROW + TRACK_MARGIN, LONG.end + TRACK_MARGIN
"""The first places at which what the first box gives can turn off, beside it and below it."""


@pytest.mark.parametrize(
    "box, level",
    [
        (Frame(70.0, EARLY - 4, 10.0, 8.0), EARLY + 2 * TRACK_PITCH),
        (Frame(0.0, 50.0, 60.0 - EXIT_GAP, 90.0), EARLY),
        (Frame(0.0, 50.0, 61.0 - EXIT_GAP, 70.0), LATE),
        (Frame(70.0, EARLY + EXIT_GAP, 10.0, 92.0 - EARLY), EARLY),
        (Frame(70.0, EARLY - EXIT_GAP - 6, 10.0, 6.0), EARLY),
        (Frame(70.0, EARLY - EXIT_GAP - 6, 10.0, 7.0), EARLY + TRACK_PITCH),
    ],
    ids=["there", "left of it", "too near", "below it", "above it", "just above it"],
)
def test_a_line_turns_off_beside_a_long_box_where_nothing_is_in_the_way(
    box: Frame, level: float
) -> None:
    """Else some tracks later, as soon as that is so, or below the long box."""
    made = cut(6, [4], [(0, [5], 60.0)], boxes=[LONG, box])
    moved = made.frames[0].along - HIGH
    assert max(y for x, y in made.paths[0].points if 0 < x <= 60.0) == level + moved


@pytest.mark.parametrize("to, above, free", [
    (60.0, 0.0, False), (60.0 - EXIT_GAP, 0.0, True), (61.0 - EXIT_GAP, 0.0, False),
    (90.0, 1.0 - EXIT_GAP, False), (90.0, -EXIT_GAP, True), (90.0, EXIT_GAP - 1.0, False),
])
def test_a_line_turns_off_where_no_other_runs_across(to: float, above: float, free: bool) -> None:
    """One that ends left of it is not in the way."""
    level = EARLY + above
    other = (15.0, ROW), (15.0, level), (to, level), (to, ROW * 2)
    made = cut(6, [4], [(0, [5], 60.0)], boxes=[LONG], ways=[other])
    moved = made.frames[0].along - HIGH
    turned = max(y for x, y in made.paths[0].points if 0 < x <= 60.0)
    assert (turned == EARLY + moved) == free and turned <= EARLY + 2 * TRACK_PITCH + moved


def test_lines_that_turn_off_beside_a_long_box_keep_apart() -> None:
    """Each a track below the one before; none on a level piece of another."""
    made = cut(6, [4], [(0, [5], 60.0 + 10 * number) for number in range(3)], boxes=[LONG])
    moved = made.frames[0].along - HIGH
    levels = [max(y for x, y in path.points if x <= 60.0 + 10 * path.trunk) for path in made.paths]
    assert levels == pytest.approx([EARLY + moved + TRACK_PITCH * number for number in range(3)])


@pytest.mark.parametrize(
    ("room", "begin"),
    [(HeaderSpace(), PAD), (HeaderSpace(beside=30.0), PAD + 30.0), (HeaderSpace(clear=60.0), 50.0)],
    ids=["plain", "text at the side", "text above"],
)
def test_the_first_column_begins_at_the_side(room: HeaderSpace, begin: float) -> None:
    """The second needed more space on its left than the first does; an entry stays off the text."""
    frames = tuple(
        Frame(100.0 * (row < 2), ROW * row + HIGH, WIDE, HIGH) for row in range(4)
    )
    paths = (
        BranchPath(0, 0, ((110.0, 0.0), (110.0, HIGH))),
        BranchPath(
            0, 1, ((110.0, 0.0), (110.0, HIGH / 2), (20.0, HIGH / 2), (20.0, ROW * 2 + HIGH))
        ),
    )
    scope = PlacedScope(300.0, ROW * 4 + HIGH, (110.0,), (), frames, paths, {})
    made = cut_before(scope, [ROW * 2 + HIGH], room)
    assert made is not None
    assert made.frames[0].across == made.frames[1].across == begin
    assert made.entries == (begin + 10.0,) == (made.paths[0].points[0][0],)
    assert made.frames[2].across > begin + WIDE and made.width < 300.0
    assert made.paths[1].points[0][0] == made.entries[0]
    assert all(x >= begin for path in made.paths for x, _ in path.points)


def test_lines_above_columns_that_do_not_meet_are_at_one_height() -> None:
    """One from the first to the second column, the other from there to the third."""
    made = cut(9, [3, 6], [(0, [3], 60.0), (3, [6], 60.0)])
    highest = {min(y for _, y in path.points) for path in made.paths}
    assert highest == {TRACK_MARGIN} and made.frames[0].along == 2 * TRACK_MARGIN + HIGH
    meeting = cut(9, [3, 6], [(0, [6], 60.0), (3, [6], 60.0)])
    assert len({min(y for _, y in path.points) for path in meeting.paths}) == 2


@pytest.mark.parametrize("places", [(60.0, 70.0), (70.0, 60.0)])
def test_what_runs_further_right_turns_off_first(places: tuple[float, float]) -> None:
    """At the end of the row where both are read last; so they do not cross."""
    made = cut(7, [4], [(0, [2, 5], places[0]), (0, [2, 6], places[1])])
    below = made.frames[1].end
    levels = [min(y for x, y in path.points if y >= below + TRACK_MARGIN and x > 80)
              for path in made.paths if path.branch == 1]
    assert (levels[0] < levels[1]) == (places[0] > places[1])


@pytest.mark.parametrize("places", [(60.0, 70.0), (70.0, 60.0)])
def test_what_comes_in_further_right_runs_above(places: tuple[float, float]) -> None:
    """So lines for a later column do not cross each other."""
    made = cut(6, [3], [(OUT, [4], places[0]), (OUT, [5], places[1])])
    levels = [path.points[1][1] for path in made.paths]
    assert (levels[0] < levels[1]) == (places[0] > places[1])
    assert abs(levels[0] - levels[1]) == TRACK_PITCH


@pytest.mark.parametrize("at, beside", [(60.0, 60.0), (100.0, WIDE)])
def test_the_second_column_may_begin_below_what_comes_in_for_it(at: float, beside: float) -> None:
    """A line that rises to it does so beside the first one, or beside what comes in near that."""
    made = cut(6, [3], [(OUT, [4], at), (1, [5], 20.0)])
    assert made.frames[0].across == 0.0 and made.paths[0].points[0] == (at, 0.0)
    rising = made.paths[1].points
    (up,) = {x for (x, y), (_, after) in zip(rising, rising[1:]) if after < y}
    assert up == beside + COLUMN_MARGIN
    assert made.frames[-1].across == pytest.approx(up + COLUMN_MARGIN)
