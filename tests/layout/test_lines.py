"""Ways of lines: order, distance, and nothing twice."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain, pairwise

import networkx as nx
import pytest
from hypothesis import assume, given, strategies as st

from tests.layout.test_layering import Pairs, flows
from tests.layout.test_nested import SOME
from tests.layout.test_steps import box
from tests.work import growth
from torchrecorder.layout.layered import Item, Link, place, plan
from torchrecorder.layout.layered.compaction import Segment, compact
from torchrecorder.layout.layered.constants import (
    BORDER_MARGIN, CORNER_RADIUS, MAX_BEND_EDGES, PAD, PORT_MARGIN,
)
from torchrecorder.layout.layered.edge_routing import Trunks, corners, edge_routes, rounded, toward
from torchrecorder.layout.layered.layering import rows
from torchrecorder.layout.layered.ordering import MAX_NODES_PER_JOB, Grid, _cut, _highest
from torchrecorder.layout.layered.positions import Frame, FramesAlong, PlanePoint
from torchrecorder.layout.layered.tracks import NetExtent, _order, height, slots, tracks

extents = st.lists(st.tuples(*[st.integers(0, 60)] * 3).map(sorted), max_size=9)


@SOME
@given(extents)
def test_no_two_lines_lie_on_each_other_in_a_gap(found: list[list[int]]) -> None:
    """Those that run sideways have tracks of their own where they meet; others have none."""
    runs = {net: NetExtent(*map(float, (middle, low, high)))
            for net, (low, middle, high) in enumerate(found)}
    track = tracks(runs)
    assert set(track) == {net for net, run in runs.items() if run.right > run.left}
    assert set(track.values()) == set(range(len(set(track.values()))))
    for one in track:
        for other in track:
            if one < other and track[one] == track[other]:
                apart = max(runs[one].left, runs[other].left) - min(
                    runs[one].right, runs[other].right
                )
                assert apart > 2


@SOME
@given(extents)
def test_each_line_is_below_all_that_it_meets(found: list[list[int]]) -> None:
    """Directly below the lowest of those that come before it."""
    runs = {net: NetExtent(*map(float, (middle, low, high)))
            for net, (low, middle, high) in enumerate(found)}
    placed: dict[int, int] = {}
    for net, at in sorted(tracks(runs).items(), key=lambda item: _order(runs[item[0]], item[0])):
        met = [placed[other] for other in placed
               if runs[other].right >= runs[net].left - 2
               and runs[other].left <= runs[net].right + 2]
        placed[net] = max(met, default=-1) + 1
        assert placed[net] == at


def test_lines_from_both_sides_have_tracks_in_proportion() -> None:
    """Those from the right are not compared with all from the left, which are on other tracks."""
    def placing(number: int) -> Callable[[], object]:
        end = 8.0 * number
        left = (NetExtent(at, at, end / 4) for at in range(number))
        right = (NetExtent(end - at, end / 2, end - at) for at in range(number))
        runs = dict(enumerate(chain(left, right)))
        return lambda: tracks(runs)

    assert growth(placing, 30) < 2.2


def test_lines_to_the_same_side_do_not_cross() -> None:
    """What comes from further right turns off above what comes from its left, and mirrored."""
    right = {0: NetExtent(0.0, 0.0, 50.0), 1: NetExtent(10.0, 10.0, 60.0)}
    left = {0: NetExtent(50.0, 0.0, 50.0), 1: NetExtent(60.0, 10.0, 60.0)}
    assert tracks(right) == {1: 0, 0: 1} and tracks(left) == {0: 0, 1: 1}
    assert height(tracks(right)) > height({0: 0}) > 0


@SOME
@given(extents, st.integers(0, 900))
def test_tracks_are_the_same_further_right(found: list[list[int]], far: int) -> None:
    """Only how far lines run to each side counts, and which begins first."""
    def at(start: int) -> dict[int, NetExtent]:
        return {net: NetExtent(*(float(start + each) for each in (middle, low, high)))
                for net, (low, middle, high) in enumerate(found)}

    assert tracks(at(far)) == tracks(at(0))


@SOME
@given(
    st.lists(st.floats(-80, 80), min_size=1, max_size=7), st.floats(-40, 40), st.floats(20, 160)
)
def test_lines_meet_a_side_in_their_order(
    wanted: list[float], center: float, width: float
) -> None:
    """Inside of it, and equally far from each other unless some of them come straight."""
    found = slots(wanted, center, width)
    room = max(width / 2 - PORT_MARGIN, 1.0) + 1e-6
    assert all(abs(at - center) <= room for at in found)
    order = sorted(range(len(wanted)), key=lambda number: (wanted[number], number))
    places = [found[number] for number in order]
    assert places == sorted(places)
    bent = {here for here, at in zip(found, wanted) if abs(here - at) > 1e-9}
    if bent and len(found) > 1:
        apart = [after - before for before, after in pairwise(places)]
        assert min(apart) > 0
        assert max(apart) == pytest.approx(min(apart)) or len(bent) < len(found)


def test_lines_that_can_come_straight_do() -> None:
    """All of them where they are apart, around the middle; else one."""
    assert slots([-20.0, 0.0, 20.0], 0.0, 100.0) == [-20.0, 0.0, 20.0]
    assert slots([], 0.0, 100.0) == []
    assert slots([-10.0, 0.0, 10.0], 0.0, 100.0) == [-10.0, 0.0, 10.0]
    close = slots([-1.0, 0.0, 1.0], 0.0, 100.0)
    assert close[1] == 0.0 and close[2] - close[0] > 4
    assert slots([90.0], 0.0, 100.0) == [0.0]
    assert slots([PORT_MARGIN - 20.0, 20.0 - PORT_MARGIN], 0.0, 40.0) == [
        PORT_MARGIN - 20.0,
        20.0 - PORT_MARGIN,
    ]
    assert slots([PORT_MARGIN - 20.5, 20.5 - PORT_MARGIN], 0.0, 40.0)[1] < 20.0 - PORT_MARGIN
    assert slots([PORT_MARGIN - 21.0, 0.0], 0.0, 40.0)[0] > PORT_MARGIN - 20.0


def test_lines_beside_one_that_comes_straight_come_straight_where_they_are_apart() -> None:
    """On both sides of it, as far as the others still have their places; the rest keep theirs."""
    assert slots([0.0, 9.0, 90.0], 0.0, 100.0) == [0.0, 9.0, 24.0]
    assert slots([-90.0, -9.0, 0.0], 0.0, 100.0) == [-24.0, -9.0, 0.0]
    assert slots([0.0, 9.0, 17.0, 90.0], 0.0, 100.0) == [0.0, 9.0, 17.0, 36.0]
    assert slots([0.0, 7.5, 90.0], 0.0, 100.0) == [0.0, 12.0, 24.0]
    assert slots([0.0, 13.0, 90.0], 0.0, 100.0) == [0.0, 12.0, 24.0]


steps = st.lists(st.tuples(st.booleans(), st.integers(-9, 9)), max_size=12)


def walk(found: list[tuple[bool, int]]) -> list[PlanePoint]:
    """The points of a way of upright and level pieces."""
    points = [(0.0, 0.0)]
    for upright, far in found:
        x, y = points[-1]
        points.append((x, y + far) if upright else (x + far, y))
    return points


def way(points: list[PlanePoint]) -> list[PlanePoint]:
    """*points* with all whole numbers between them."""
    found = [points[0]]
    for (ax, ay), (bx, by) in pairwise(points):
        count = int(max(abs(ax - bx), abs(ay - by)))
        found += [
            (ax + (bx - ax) * at / count, ay + (by - ay) * at / count)
            for at in range(1, count + 1)
        ]
    return found


@SOME
@given(steps)
def test_corners_are_where_a_line_turns(found: list[tuple[bool, int]]) -> None:
    """The way stays as it is, also where it turns back; no corner could be left out."""
    points = walk(found)
    kept = list(corners(points))
    assert way(kept) == way(points)
    for before, here, after in zip(kept, kept[1:], kept[2:]):
        ahead = (after[0] - here[0], after[1] - here[1])
        back = (here[0] - before[0], here[1] - before[1])
        assert ahead[0] * back[0] + ahead[1] * back[1] <= 0


@SOME
@given(steps)
def test_round_corners_stay_near_their_line(found: list[tuple[bool, int]]) -> None:
    """A spline begins and ends with it, each piece where the one before ended."""
    points = list(corners(walk(found)))
    if len(points) < 2:
        return
    spline = rounded(points)
    assert (spline[0], spline[-1]) == (points[0], points[-1])
    assert len(spline) == 1 + 3 * (2 * len(points) - 3)
    for number, corner in enumerate(points[1:-1]):
        start, end = spline[6 * number + 3], spline[6 * number + 6]
        before, after = points[number], points[number + 2]
        shorter = min(math.dist(corner, before), math.dist(corner, after))
        far = min(CORNER_RADIUS, shorter / 2)
        for near, other in ((start, before), (end, after)):
            assert math.dist(near, toward(corner, other, far)) < 1e-6
        bend = [math.dist(spline[6 * number + at], corner) for at in (4, 5)]
        assert abs(bend[0] - bend[1]) < 1e-6 and bend[0] < far
        for at, near in zip((4, 5), (start, end)):
            assert math.dist(spline[6 * number + at], toward(corner, near, bend[0])) < 1e-6


@pytest.mark.parametrize(("far", "point"), [(-1, (1, 1)), (2, (1, 3)), (4, (1, 5)), (9, (1, 5))])
def test_a_point_on_a_way(far: float, point: PlanePoint) -> None:
    """Not before its beginning, and not behind its end."""
    assert toward((1, 1), (1, 5), far) == point
    assert toward((1, 1), (1, 1), far) == (1, 1)


@SOME
@given(st.lists(steps, min_size=1, max_size=4))
def test_what_lines_have_in_common_is_drawn_once(found: list[list[tuple[bool, int]]]) -> None:
    """All of each is drawn in the end, and each piece begins on what is drawn, or where it did."""
    trunks = Trunks()
    drawn: set[PlanePoint] = set()
    for line in found:
        points = list(corners(walk(line)))
        fresh = trunks.fresh("x", points)
        assert fresh[-1] == points[-1]
        assert not drawn or len(points) < 2 or min(
            math.dist(fresh[0], point) for point in drawn) < 1
        drawn |= set(way(list(points)))
    other = trunks.fresh("y", points)
    assert list(other) == points or len(points) < 2


@pytest.mark.parametrize("points", [
    [(0, 40), (0, 0), (30, 0)], [(0, 0), (0, 40), (30, 40)], [(0, 20), (0, 40), (30, 40)],
    [(0, 20), (0, 0), (-30, 0)],
])
def test_a_line_on_another_begins_where_it_leaves_it(points: list[PlanePoint]) -> None:
    """A corner before that, to both sides; wherever on it it begins, at its very end too."""
    trunks = Trunks()
    trunks.fresh("x", [(0, 0), (0, 40)])
    fresh = trunks.fresh("x", points)
    assert fresh == (toward(points[1], points[0], CORNER_RADIUS), *points[1:])


def test_what_also_reads_an_input_stays_up() -> None:
    """A box that reads one that floats, and one that does not, is not moved to its reader."""
    chain = [(0, 2), (1, 2), (2, 6), (0, 3), (3, 4), (4, 5), (5, 6)]
    for pairs in (chain, [(1, 2), (0, 2), *chain[2:]]):
        found = rows(7, pairs, [True, *[False] * 6])
        assert found[2] == 1 and found[1] == 0 and found[6] == 4
    alone = rows(7, [pair for pair in chain if pair != (0, 2)], [True, *[False] * 6])
    assert alone[2] == 3 and alone[1] == 2


def test_lines_to_both_sides_are_on_tracks_of_those_to_the_right() -> None:
    """As far to the right as to the left is to the right."""
    left = [NetExtent(5.0, start, 10.0) for start in (0.0, 1.0)]
    assert [_order(net, 3) for net in left] == [(0, -5.0, 3)] * 2
    assert _order(NetExtent(5.0, 0.0, 9.0), 3) == (1, 5.0, 3)


@pytest.mark.parametrize("far", [0, 100, -100])
@pytest.mark.parametrize("back", [False, True])
def test_a_line_that_goes_on_begins_where_the_other_ends(far: int, back: bool) -> None:
    """A corner before, down and up, wherever both are."""
    def way(*along: int) -> list[PlanePoint]:
        return [(7, far - at if back else far + at) for at in along]

    trunks = Trunks()
    trunks.fresh("x", way(0, 40))
    assert list(trunks.fresh("x", way(20, 90))) == way(40 - CORNER_RADIUS, 90)


def test_a_line_that_shares_several_pieces_begins_on_the_last_of_them() -> None:
    """The corners before are not drawn again."""
    trunks = Trunks()
    trunks.fresh("x", [(0, 0), (0, 40), (30, 40), (30, 80)])
    fresh = trunks.fresh("x", [(0, 0), (0, 40), (60, 40), (60, 80)])
    assert fresh == ((30 - CORNER_RADIUS, 40), (60, 40), (60, 80))


CORNERS = st.tuples(st.integers(-9, 9), st.integers(-9, 9))


@SOME
@given(steps, CORNERS, CORNERS)
def test_a_way_through_a_box(
    found: list[tuple[bool, int]], one: tuple[int, int], other: tuple[int, int]
) -> None:
    """Is one that has a point inside it: along its sides it runs past."""
    (left, right), (top, end) = (sorted(pair) for pair in zip(one, other))
    assume(left < right and top < end and len(walk(found)) > 1)  # a box has a size, a way a length
    frame = Frame(left, top, right - left, end - top)
    halves = way([(2 * x, 2 * y) for x, y in walk(found)])
    inside = any(2 * left < x < 2 * right and 2 * top < y < 2 * end for x, y in halves)
    assert FramesAlong([frame]).are_hit(walk(found)) == inside


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_box_does_not_move_for_nothing(order: tuple[int, int]) -> None:
    """In line with one of two readers, it stays there, whichever comes first."""
    both = [Segment(0, 0.0, 1, 0.0, 4), Segment(0, 0.0, 2, 0.0, 4)]
    for start in (0.0, 60.0):
        at = compact([box(0), box(1), box(1)], [start, 0.0, 60.0], [both[one] for one in order])
        assert at[0] == start


def test_a_module_is_as_wide_as_its_title() -> None:
    """Where what is in it is narrower; with the room that everything in it has."""
    for title, width in ((200.0, 200.0 + 2 * PAD), (20.0, 40.0 + 2 * PAD)):
        items = [Item("module", -1, 60, 30, (title, 12.0)), Item("inside", 0, 40, 20)]
        (outer, _) = place(plan(items, [])).boxes
        assert outer.width == pytest.approx(width)


def test_a_line_beside_the_boxes_has_room_in_its_module() -> None:
    """As much as a box has."""
    items = [Item("module", -1, 60, 30, (20.0, 12.0))]
    items += [Item(str(number), 0, 40, 20) for number in range(3)]
    links = [Link(1, 2, "x"), Link(2, 3, "x"), Link(1, 3, "y")]
    picture = place(plan(items, links))
    outer = picture.boxes[0]
    for piece in picture.sections:
        for x, _ in piece.points:
            assert outer.x + PAD / 2 <= x <= outer.x + outer.width - PAD / 2


@pytest.mark.parametrize(("leaves", "room"), [(True, BORDER_MARGIN), (False, PAD)])
def test_a_gap_at_the_edge_is_high_where_lines_pass_it(leaves: bool, room: float) -> None:
    """Below a box whose result leaves its module there is more room than below another one."""
    items = [Item("x", -1, 40, 20), Item("module", -1, 60, 30, (20.0, 12.0))]
    items += [Item("inside", 1, 40, 20), Item("y", -1, 40, 20)]
    links = [Link(0, 2, "x"), *([Link(2, 3, "y")] if leaves else [])]
    boxes = {drawn.item: drawn for drawn in place(plan(items, links)).boxes}
    below = boxes[1].y + boxes[1].height - boxes[2].y - boxes[2].height
    assert below == pytest.approx(room)


def test_lines_of_one_tensor_run_back_together() -> None:
    """To two boxes of one row, on one way beside the others."""
    items = [Item(str(number), -1, 40.0, 20.0) for number in range(3)]
    links = [Link(0, 2, "x"), Link(1, 2, "x"), Link(2, 0, "back"), Link(2, 1, "back")]
    picture = place(plan(items, links))
    ways = dict(zip(links, edge_routes(picture, links)))
    rightmost = {max(x for x, _ in ways[link]) for link in links[2:]}
    assert len(rightmost) == 1
    assert rightmost.pop() > max(drawn.x + drawn.width for drawn in picture.boxes)


@pytest.mark.parametrize("step", [1, 2, 5])
def test_of_many_lines_the_median_counts_in_any_order(step: int) -> None:
    """The box stands over the reader in the middle, whichever line comes first."""
    count = MAX_BEND_EDGES + 1 + MAX_BEND_EDGES % 2
    segments = [Segment(0, 0.0, 1 + number * step % count, 0.0, 2) for number in range(count)]
    start = [0.0, *(100.0 * number for number in range(count))]
    at = compact([box(0), *(box(1) for _ in range(count))], start, segments)
    assert at[0] == pytest.approx(at[1 + count // 2])


@SOME
@given(flows())
def test_each_part_hangs_on_a_node_of_its_first_row(flow: Pairs) -> None:
    """One node of each part whose nodes lines join, in the highest row that it has."""
    count, pairs, anchored = flow
    row = rows(count, pairs, anchored)
    grid = Grid([1.0] * count, row, [(*pair, 1) for pair in pairs])
    graph = nx.Graph(pairs)
    graph.add_nodes_from(range(count))
    found = list(_highest(grid, range(count), grid.edges))
    parts = list(nx.connected_components(graph))
    assert len(found) == len(parts)
    for part in parts:
        (node,) = part & set(found)
        assert row[node] == min(row[other] for other in part)


@pytest.mark.parametrize("off", [0.004, -0.004])
@pytest.mark.parametrize("order", [1, -1])
def test_pieces_that_meet_but_for_rounding_are_one(off: float, order: int) -> None:
    """A line over both of them begins where it leaves the second, whichever was drawn first."""
    trunks = Trunks()
    for way in ([(0.0, 0.0), (0.0, 40.0)], [(0.0, 40.0 + off), (0.0, 80.0)])[::order]:
        trunks.fresh("x", way)
    first, *rest = trunks.fresh("x", [(0.0, 0.0), (0.0, 80.0), (30.0, 80.0)])
    assert first[0] == 0.0 and 70.0 < first[1] < 80.0 and rest == [(0.0, 80.0), (30.0, 80.0)]


@SOME
@given(st.lists(st.integers(1, MAX_NODES_PER_JOB + 40), min_size=1, max_size=8))
def test_large_scopes_are_cut_between_rows(lengths: list[int]) -> None:
    """Each piece has as many rows as there is room for, in their order."""
    rows = [row for row, length in enumerate(lengths) for _ in range(length)]
    pieces = _cut(Grid([1.0] * len(rows), rows))
    assert [node for piece in pieces for node in piece] == list(range(len(rows)))
    found = [sorted({rows[node] for node in piece}) for piece in pieces]
    for piece, members in zip(pieces, found):
        assert len(piece) == sum(lengths[row] for row in members)
        assert len(piece) <= MAX_NODES_PER_JOB or len(members) == 1
    for piece, after in zip(pieces, found[1:]):
        assert len(piece) + lengths[after[0]] > MAX_NODES_PER_JOB
