"""U shapes of scopes made by hand: what stands in the way of a level, lanes, how wide it is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st

from torchrecorder.layout.layered.constants import PAD, TRACK_MARGIN, TRACK_PITCH
from torchrecorder.layout.layered.cuts import crossings
from torchrecorder.layout.layered.ports import OUTSIDE
from torchrecorder.layout.layered.positions import (
    BranchPath, Frame, HeaderSpace, PlacedScope, PlanePoint,
)
from torchrecorder.layout.layered.side_by_side import CutEdge, UShape
from torchrecorder.layout.layered.u_shape import (
    MIN_SIDE_DISTANCE, SIDE_MARGIN, comes_from_right, u_shape,
)

OUTER, INNER, BOTTOM, UP, LAST = range(5)
"""Boxes of a chain, with lines from the second to the fourth and from the first to the last."""

LEVELS = OUTER, INNER
"""The lines of the two levels, by their place among the lines."""

APART = 20.0
"""From one box to the next."""

BELOW = 120.0
"""Where the bottom ends: there the scope is folded."""

OVER = CutEdge(0, 0, OUTER, LAST, 40.0, 160.0)
UNDER = CutEdge(1, 1, INNER, UP, 80.0, BELOW)
THROUGH = CutEdge(2, 2, BOTTOM, UP, BELOW, BELOW)


INTO = (20.0, 160.0), (20.0, 180.0)
"""The way into the last box from the one before."""


def chain(
    boxes: Sequence[Frame] = (),
    lines: Sequence[Sequence[PlanePoint]] = (),
    entries: tuple[float, ...] = (),
    into: Sequence[PlanePoint] = INTO,
    opened: Sequence[int] = (),
) -> PlacedScope:
    """The chain with more boxes and lines; its sixth line is the first of *lines*."""
    frames = [Frame(0.0, 20.0 + 40 * row, 40.0, 20.0) for row in range(5)]
    ways: list[Sequence[PlanePoint]] = [
        ((30.0, 40.0), (30.0, 180.0)), ((30.0, 80.0), (30.0, 140.0)),
    ]
    ways += [((20.0, 40.0 * row), (20.0, 40.0 * row + 20)) for row in (3, 1, 2)]
    paths = tuple(
        BranchPath(place, 0, tuple(way)) for place, way in enumerate([*ways, into, *lines])
    )
    inner = dict.fromkeys(opened, PlacedScope(40.0, 20.0, (), (), (), (), {}))
    return PlacedScope(80.0, 220.0, entries, (), (*frames, *boxes), paths, inner)


def folded(
    boxes: Sequence[Frame] = (),
    lines: Sequence[Sequence[PlanePoint]] = (),
    entries: tuple[float, ...] = (),
    into: Sequence[PlanePoint] = INTO,
    opened: Sequence[int] = (),
    others: Sequence[CutEdge] = (),
    skips: Sequence[Sequence[CutEdge]] = ([OVER], [UNDER]),
    room: HeaderSpace = HeaderSpace(),
    risen: bool = True,
    mirror: bool = False,
) -> PlacedScope:
    """That chain as a U."""
    fold = UShape(BELOW, tuple(map(tuple, skips)), (THROUGH, *others))
    made = u_shape(
        chain(boxes, lines, entries, into, opened), fold, room, risen=risen, mirror=mirror
    )
    assert made is not None
    return made


def test_levels_of_a_chain_are_straight() -> None:
    """From the middle of one box to that of the other, across the same space."""
    made = folded()
    for line, (left, right) in zip(LEVELS, ((OUTER, LAST), (INNER, UP))):
        (x, y), (to_x, to_y) = made.paths[line].points
        here, there = made.frames[left], made.frames[right]
        assert (x, to_x - x) == (here.across + here.width, MIN_SIDE_DISTANCE)
        assert y == to_y == here.along + 10 == there.along + 10


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("place", ["between", "outside", "above", "below"])
def test_a_level_leaves_and_enters_at_the_side_where_that_is_free(
    mirror: bool, level: int, side: str, place: str
) -> None:
    """Only what stands in the same row, towards the other side of the U, is in the way."""
    row = ((OUTER, LAST), (INNER, UP))[level][side == "right"]
    toward_end = (side == "left") == (place != "outside")
    if side == "right" and mirror:  # left and right are exchanged there
        toward_end = not toward_end
    along = 20.0 + 40 * row + {"above": -20.0, "below": 20.0}.get(place, 0.0)
    made = folded([Frame(90.0 if toward_end else -80.0, along, 30.0, 20.0)], mirror=mirror)
    box, points = made.frames[row], made.paths[LEVELS[level]].points
    end = points[0] if side == "left" else points[-1]
    inside = box.along < end[1] < box.end
    assert inside == (place != "between")
    if not inside:
        turn = points[1] if side == "left" else points[-2]
        assert end[1] == box.end and end[0] == turn[0]
        assert turn[1] == box.end + (TRACK_MARGIN if side == "left" else APART)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-200, 200), st.integers(0, 4)), max_size=4), st.booleans(),
    st.none() | st.floats(-50, 90), st.floats(0, 60), st.booleans(),
)
def test_sides_are_as_near_as_their_boxes_and_lines(
    bulges: list[tuple[float, int]], mirror: bool, entry: float | None, clear: float, corner: bool
) -> None:
    """A line that bulges out counts as a box does; what comes in keeps clear of the title."""
    bulges = [(round(at), row) for at, row in bulges]
    ways = [
        ((20.0, 40.0 * row + 40), (at, 40.0 * row + 41), (20.0, 40.0 * row + 42))
        for at, row in bulges if row != BOTTOM
    ]
    room = HeaderSpace(beside=10.0 if corner else 0.0, clear=clear, before=5.0)
    entries = () if entry is None else (entry,)
    made = folded(lines=ways, entries=entries, room=room, mirror=mirror)
    sides: tuple[list[float], list[float]] = ([*made.entries], [])
    for place, frame in enumerate(made.frames):
        sides[place >= UP].extend((frame.across, frame.across + frame.width))
    rows = [row for _, row in bulges if row != BOTTOM]
    for row, path in zip(rows, made.paths[6:]):
        sides[row >= UP].extend(x for x, _ in path.points)
    left, right = sides
    assert min(right) - max(left) == pytest.approx(MIN_SIDE_DISTANCE)
    assert made.width == pytest.approx(max(right) + PAD)
    free = [min(left) - PAD - room.beside, *(at - clear for at in made.entries)]
    assert min(free) == pytest.approx(0.0)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_lanes_between_the_sides(count: int) -> None:
    """One for each tensor, a track apart; the sides make room for many of them."""
    lines = [((20.0 + n, 40.0), (20.0 + n, 180.0)) for n in range(count)]
    others = [CutEdge(6 + n, 6 + n, OUTER, LAST, 40.0, 160.0) for n in range(count)]
    made = folded(lines=lines, others=others)
    left, right = made.frames[OUTER].across + 40.0, made.frames[LAST].across
    assert right - left == pytest.approx(
        max(MIN_SIDE_DISTANCE, 2 * SIDE_MARGIN + TRACK_PITCH * (count - 1))
    )
    for number, path in enumerate(made.paths[6:]):
        begin, away, (lane, out), (same, into), turn, end = path.points
        assert lane == same == pytest.approx(left + SIDE_MARGIN + TRACK_PITCH * number)
        assert begin == (away[0], made.frames[OUTER].end) and away[1] == out
        assert end == (turn[0], made.frames[LAST].end) and turn[1] == into
        place = count - 1 - number  # the rightmost turns first
        assert out == pytest.approx(begin[1] + TRACK_MARGIN + TRACK_PITCH * place)
    below = [path.points[3][1] - made.frames[LAST].end for path in made.paths[6:]]
    assert below == pytest.approx([APART + TRACK_PITCH * n for n in range(count)])


@pytest.mark.parametrize("opened", [(), (OUTER,), (LAST,), (OUTER, LAST)])
def test_a_level_with_one_tensor_twice(opened: Sequence[int]) -> None:
    """Both lines are drawn, side by side, wherever they leave and enter."""
    pair = OVER._replace(path=6, trunk=6), OVER._replace(path=7, trunk=6)
    lines = [((15.0, 40.0), (at, 180.0)) for at in (10.0, 25.0)]
    scope = chain(lines=lines, opened=opened)
    tall = Frame(0.0, 20.0, 40.0, 20.0 + TRACK_PITCH), Frame(0.0, 180.0, 40.0, 20.0 + TRACK_PITCH)
    scope = scope._replace(frames=(tall[0], *scope.frames[1:-1], tall[1]))
    shape = UShape(BELOW, (pair, (UNDER,)), (THROUGH,))
    made = u_shape(scope, shape, HeaderSpace(), risen=True, mirror=False)
    assert made is not None
    one, other = (
        {y for (_, y), (_, to_y) in zip(path.points, path.points[1:]) if y == to_y}
        for path in made.paths[6:]
    )
    assert len(one) == len(other) == 1 and max(other) - max(one) == pytest.approx(TRACK_PITCH)
    crossed = {path.points[-1] for path in made.paths[6:]}
    assert len(crossed) == 2


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("height", [20.0, 25.0, 26.0, 35.0, 36.0])
def test_other_lines_at_the_sides_of_boxes(height: float, mirror: bool) -> None:
    """In the order of their other ends, beside the level, which is in the middle if all find room
    so. Without room for all of them, a box has only the level at its side."""
    boxes = {INNER: Frame(0.0, 60.0, 40.0, height), LAST: Frame(0.0, 180.0, 40.0, height)}
    ways = [((10.0, 60.0 + height), (10.0, 180.0)), ((15.0, 120.0), (15.0, 180.0))]
    scope = chain(lines=ways)
    frames = tuple(boxes.get(place, frame) for place, frame in enumerate(scope.frames))
    scope = scope._replace(frames=frames, height=180.0 + height + 20.0)
    under = UNDER._replace(leaves=60.0 + height)
    others = [
        CutEdge(6, 6, INNER, LAST, 60.0 + height, 160.0), CutEdge(7, 7, BOTTOM, LAST, BELOW, 160.0)
    ]
    shape = UShape(BELOW, ((OVER,), (under,)), (THROUGH, *others))
    made = u_shape(scope, shape, HeaderSpace(), risen=True, mirror=mirror)
    assert made is not None
    one, other = (path.points for path in made.paths[6:])
    inner, last = made.frames[INNER], made.frames[LAST]
    if height < 26.0:
        assert one[0][0] == inner.across + (40.0 if height == 25.0 else 10.0)
        assert one[-1][1] == other[-1][1] == last.end
        return
    over, level = (made.paths[line].points for line in LEVELS)
    assert one[0] == (level[0][0], level[0][1] - TRACK_PITCH)
    assert [one[-1][1] - over[-1][1], other[-1][1] - over[-1][1]] == [TRACK_PITCH, 2 * TRACK_PITCH]
    assert one[-1][0] == other[-1][0] == last.across
    assert over[-1][1] - last.along - height / 2 == (0.0 if height == 36.0 else -TRACK_PITCH)
    assert crossings(made) == 1  # only the line from the bottom and the inner level


def test_lines_of_one_tensor_share_a_lane() -> None:
    """And the track on which they leave; each has its own track where it arrives."""
    lines = [((20.0, 40.0), (20.0, 180.0)), ((20.0, 40.0), (25.0, 180.0))]
    others = [CutEdge(6 + n, 6, OUTER, LAST, 40.0, 160.0) for n in range(2)]
    one, other = (path.points for path in folded(lines=lines, others=others).paths[6:])
    assert one[:3] == other[:3]
    assert abs(one[3][1] - other[3][1]) == pytest.approx(TRACK_PITCH)


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("ends", [(10.0, 35.0), (35.0, 10.0)])
def test_lines_turn_by_where_they_enter_a_box(mirror: bool, ends: tuple[float, float]) -> None:
    """What enters further to the right runs past the end of the other, wherever it comes from."""
    lines = [((20.0 + n, 40.0), (end, 180.0)) for n, end in enumerate(ends)]
    others = [CutEdge(6 + n, 6 + n, OUTER, LAST, 40.0, 160.0) for n in range(2)]
    made = folded(lines=lines, others=others, mirror=mirror)
    left, right = sorted(path.points[-2] for path in made.paths[6:])
    assert right[1] - left[1] == pytest.approx(TRACK_PITCH)


@pytest.mark.parametrize("tensors", [1, 2, 3, 4])
def test_what_comes_in_for_the_other_side(tensors: int) -> None:
    """It turns off below the title and above the first box, which makes room if it has none."""
    lines = [((25.0, 0.0), (25.0, 180.0)) for _ in range(tensors)]
    others = [CutEdge(6 + n, 6 + n, OUTSIDE, LAST, 12.0, 160.0) for n in range(tensors)]
    made = folded(lines=lines, others=others, entries=(25.0,), room=HeaderSpace(before=12.0))
    for number, path in enumerate(made.paths[6:]):
        begin, away, (lane, out), *_ = path.points
        assert begin == (made.entries[0], 0.0) and away == (begin[0], out) and lane > away[0]
        assert out == pytest.approx(12.0 + TRACK_MARGIN + TRACK_PITCH * number)
    first, last = made.frames[OUTER].along, made.paths[-1].points[1][1]
    assert first == pytest.approx(max(12.0 + APART, last + 8.0))
    assert first == made.frames[LAST].along


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_what_runs_by_the_bottom(parts: int) -> None:
    """Below all boxes of both sides, each tensor on its track; the scope ends a bit below."""
    lines = [((20.0 + n, BELOW), (20.0 + n, 140.0)) for n in range(1, parts)]
    others = [THROUGH._replace(path=5 + n, trunk=5 + n) for n in range(1, parts)]
    made = folded(lines=lines, others=others)
    lowest = max(frame.end for frame in made.frames)
    levels = []
    for path in (made.paths[2], *made.paths[6:]):
        begin, away, turn, end = path.points
        assert begin[1] == made.frames[BOTTOM].end and end[1] == made.frames[UP].end
        assert away[1] == turn[1] and (away[0], turn[0]) == (begin[0], end[0])
        levels.append(turn[1])
    tracks = [lowest + TRACK_MARGIN + TRACK_PITCH * n for n in range(parts)]
    assert levels == pytest.approx(tracks[::-1])  # the rightmost turns first
    assert made.height == pytest.approx(max(levels) + PAD)


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("ends", [(10.0, 35.0), (35.0, 10.0)])
def test_lines_of_one_level_do_not_cross(mirror: bool, ends: tuple[float, float]) -> None:
    """What ends nearer to the other side runs above: there it turns in first."""
    lines, into = [((25.0, 40.0), (ends[1], 180.0))], ((15.0, 40.0), (ends[0], 180.0))
    pair = OVER._replace(path=5, trunk=5), OVER._replace(path=6, trunk=6)
    made = folded(lines=lines, into=into, skips=[pair, [UNDER]], mirror=mirror)
    one, other = (path.points for path in made.paths[5:7])
    nearer = (ends[0] < ends[1]) != mirror
    assert other[-2][1] - one[-2][1] == pytest.approx(TRACK_PITCH if nearer else -TRACK_PITCH)
    assert (one[-1][0] < other[-1][0]) == nearer
    assert one[-1][1] == other[-1][1] == made.frames[LAST].end


@pytest.mark.parametrize(
    "opened, outer, inner, right",
    [
        ([LAST, UP], 35.0, 35.0, True), ([LAST, UP], 5.0, 5.0, False),
        ([LAST, UP], 35.0, 5.0, False), ([LAST, UP], 5.0, 35.0, False),
        ([LAST], 35.0, 5.0, True), ([UP], 35.0, 5.0, False), ([], 35.0, 35.0, False),
    ],
)
def test_whether_levels_enter_from_the_right(
    opened: Sequence[int], outer: float, inner: float, right: bool
) -> None:
    """Beside the other lines into most of the open boxes."""
    lines = [((30.0, 40.0), (outer, 180.0)), ((30.0, 80.0), (inner, 140.0))]
    over, under = OVER._replace(path=6, trunk=6), UNDER._replace(path=7, trunk=7)
    skips = ((over,), (under,))
    scope = chain(lines=lines, opened=opened)
    scope = scope._replace(paths=tuple(  # the levels of the plain chain are at 90 and 95
        path._replace(points=tuple((x + 60.0, y) for x, y in path.points)) if place < 2 else path
        for place, path in enumerate(scope.paths)
    ))
    assert comes_from_right(scope, UShape(BELOW, skips, (THROUGH,))) == right


def test_a_level_leaves_an_open_box_where_it_did_whatever_it_enters() -> None:
    """It runs down from there, and turns to the other side only then."""
    over = OVER._replace(path=6, trunk=6)
    made = folded(lines=[((35.0, 40.0), (5.0, 180.0))], skips=[[over], [UNDER]], opened=[OUTER])
    (x, y), (turned, level), _ = made.paths[6].points
    assert (x - made.frames[OUTER].across, y) == (35.0, made.frames[OUTER].end)
    assert turned == x and level == y + TRACK_MARGIN


@pytest.mark.parametrize("source", LEVELS)
def test_a_level_leaves_an_open_box_where_it_did(source: int) -> None:
    """Below it, as far from its left side as in the scope."""
    made = folded(opened=[source], room=HeaderSpace(clear=50.0), entries=(20.0,))
    (x, y), (turned, _) = made.paths[source].points[:2]
    frame = made.frames[source]
    assert (x - frame.across, y) == (30.0, frame.end) and turned == x


def test_a_u_that_nothing_leaves_ends_beside_its_right_side() -> None:
    """No room is kept for lines that leave."""
    made = folded(risen=False)
    right = max(frame.across + frame.width for frame in made.frames)
    assert made.width == pytest.approx(right + PAD)


def test_what_enters_the_first_box_of_the_right_side_from_afar() -> None:
    """It has a track between that box and the line through the bottom, and does not touch it."""
    others = [CutEdge(6, 6, OUTER, UP, 40.0, BELOW)]
    made = folded(lines=[((20.0, 40.0), (25.0, 140.0))], others=others)
    box, into, through = made.frames[UP], made.paths[6].points[-2], made.paths[2].points[1]
    assert box.end < into[1] < through[1]
    assert into[1] - box.end >= APART - TRACK_MARGIN and through[1] - into[1] >= TRACK_PITCH
    assert made.height == pytest.approx(through[1] + PAD)


@pytest.mark.parametrize(
    "opened, first", [((), TRACK_MARGIN), ((OUTER,), TRACK_MARGIN + TRACK_PITCH)]
)
def test_lines_to_the_right_side_where_one_side_is_longer(
    opened: Sequence[int], first: float
) -> None:
    """On the first free track below the box that they leave, and on the nearest to the one that
    they enter; also where the left side begins further down."""
    lines = [((25.0, 40.0), (25.0, 180.0)), ((20.0, 200.0), (20.0, 220.0))]
    others = [CutEdge(6, 6, OUTER, LAST, 40.0, 160.0)]
    made = folded(lines=lines, others=others, opened=opened, risen=False)
    begin, (_, out), _, (_, into), _, end = made.paths[6].points
    assert begin[1] == made.frames[OUTER].end and (made.frames[OUTER].along > 20.0) == (not opened)
    assert out == pytest.approx(begin[1] + first)
    assert into == pytest.approx(end[1] + APART) and end[1] == made.frames[LAST].end


def test_lines_enter_a_stretched_side_on_the_nearest_track() -> None:
    """More of them leave the left side than enter the right one at this level."""
    lines = [((25.0, 40.0), (25.0, 180.0)), ((26.0, 40.0), (26.0, 140.0))]
    others = [CutEdge(6, 6, OUTER, LAST, 40.0, 160.0), CutEdge(7, 7, OUTER, UP, 40.0, BELOW)]
    made = folded(lines=lines, others=others)
    assert made.frames[UP].along - made.frames[LAST].end > 20.0 + TRACK_MARGIN
    assert made.paths[6].points[-2][1] == pytest.approx(made.frames[LAST].end + APART)


@pytest.mark.parametrize("risen", [True, False])
@pytest.mark.parametrize("mirror", [True, False])
def test_what_leaves_runs_level_and_upright(risen: bool, mirror: bool) -> None:
    """From where it leaves its box to where it leaves the scope: at the top, or else below."""
    ways = [((20.0, 200.0), (20.0, 207.0), (at, 207.0), (at, 220.0)) for at in (30.126, 5.0)]
    made = folded(lines=ways, risen=risen, mirror=mirror)
    box = made.frames[LAST]
    for path in made.paths[6:]:
        for (x, y), (to_x, to_y) in zip(path.points, path.points[1:]):
            assert x == to_x or y == to_y
        assert path.points[0] == (box.across + 20.0, box.along)
        assert path.points[-1][1] == (0.0 if risen else made.height)
    right = max(frame.across + frame.width for frame in made.frames)
    lanes = sorted(path.points[-1][0] - right for path in made.paths[6:])
    assert risen or lanes == pytest.approx([SIDE_MARGIN, SIDE_MARGIN + TRACK_PITCH])
