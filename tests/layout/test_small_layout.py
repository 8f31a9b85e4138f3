"""Small facts of the layout, each in a scope made by hand."""

from __future__ import annotations

import sys
from collections.abc import Collection
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from tests.layout.test_column_parts import cut
from tests.layout.test_settled import box
from tests.layout.test_side_entry import CIRCLE, MAIN
from tests.layout.test_steps import groups, net
from tests.layout.test_u_shape import drawn, u_net
from torchrecorder.layout import engine, fonts
from torchrecorder.layout.engine import Job
from torchrecorder.layout.layered import Item, Link, place, plan
from torchrecorder.layout.layered.compaction import Segment, _Compaction, compact
from torchrecorder.layout.layered.constants import (
    CORNER_RADIUS, MAX_PORT_OFFSET, SEPARATION, TRACK_PITCH,
)
from torchrecorder.layout.layered.coordinate_assignment import CrossCoordinates
from torchrecorder.layout.layered.edge_routing import Trunks, rounded
from torchrecorder.layout.layered.multi_column import cut_before, wrapped
from torchrecorder.layout.layered.place import (
    LENGTH_FACTOR, MAX_TRIES, MAX_WORK, MIN_TRIES, Sheet, _Placing,
)
from torchrecorder.layout.layered.ports import OUTSIDE, End, scope_nets
from torchrecorder.layout.layered.positions import BranchPath, Frame, HeaderSpace, PlacedScope
from torchrecorder.layout.layered.scope_layout import MAX_PASSED, ScopeLayout
from torchrecorder.layout.layered.side_by_side import MAX_STRAYS, CutEdge, _u_shape
from torchrecorder.layout.layered.side_entry import side_entries
from torchrecorder.layout.layered.template import Stem


def draft(boxes: int, *skips: tuple[int, int]) -> ScopeLayout:
    """A chain of boxes, with lines past some of them."""
    items = [Item(str(number), -1, 40, 20) for number in range(boxes)]
    links = [Link(number, number + 1, "x") for number in range(boxes - 1)]
    links += [Link(*skip, "skip") for skip in skips]
    return ScopeLayout(scope_nets(items, links)[-1], items, [0] * len(items), False)


# Lines past boxes -------------------------------------------------------------------------


def test_pieces_of_a_line_that_are_in_line_are_one() -> None:
    """Others are not; a new one begins where the last ends."""
    made = draft(5, (0, 4))
    across = [0.0] * 5 + [30.0, 30.0, 50.0]
    trunk = made.routes[-1].trunk(across, [], made.row)
    assert trunk.stems == (Stem(30.0, 1, 3), Stem(50.0, 3, 4))
    assert [branch.stems for branch in trunk.branches] == [(0, 1)]


def test_only_lines_in_lanes_have_ways_to_and_from_them() -> None:
    """A gap and a box at each end."""
    assert [list(route.detours()) for route in draft(5, (0, 4)).routes] == [[]] * 5
    made = draft(MAX_PASSED + 4, (1, MAX_PASSED + 3))
    assert list(made.routes[-1].detours()) == [(2, 1), (MAX_PASSED + 3, MAX_PASSED + 3)]
    back = draft(3, (2, 1))
    assert list(back.routes[-1].detours()) == [(3, 2), (1, 1)]


def test_what_branches_share_is_tied_once() -> None:
    """It holds no more together than a line with one branch."""
    across: Any = object.__new__(CrossCoordinates)
    across._fixed_to, across.bends = (lambda end, exits: (end.child, 0.0)), {}
    branches = [SimpleNamespace(stems=stems, sink=End(sink, 0))
                for stems, sink in (([0], 2), ([0, 1], 3))]
    trunk = SimpleNamespace(source=End(1, 0), branches=branches)
    segments = list(across._net_segments(trunk, [4, 5]))
    assert {off for segment in segments for off in (segment.here, segment.there)} == {0.0}
    assert [(segment.one, segment.other) for segment in segments] == [
        (1, 4),
        (4, 2),
        (4, 5),
        (5, 3),
    ]


@pytest.mark.parametrize(
    ("places", "wanted"),
    [
        ([-50.0, 60.0], 5.0),
        ([60.0, -50.0], 5.0),
        ([60.0, MAX_PORT_OFFSET], MAX_PORT_OFFSET),
        ([60.0, -MAX_PORT_OFFSET], -MAX_PORT_OFFSET),
        ([MAX_PORT_OFFSET + 1], MAX_PORT_OFFSET + 1),
        ([9.0, -1.0], 9.0),
    ],
)
def test_a_line_leaves_its_box_straight_or_between_its_branches(
    places: list[float], wanted: float
) -> None:
    """Straight on to the first that is near the middle; else in the mean of all."""
    across: Any = object.__new__(CrossCoordinates)
    across._fixed = lambda end, exits: None
    across.middle = [0.0, *places]
    branches = [SimpleNamespace(stems=(), sink=SimpleNamespace(child=child))
                for child in range(1, len(places) + 1)]
    trunk: Any = SimpleNamespace(source=SimpleNamespace(child=0), branches=branches)
    assert across._next(0, trunk) == wanted
    across.stems = [places]
    for number, branch in enumerate(branches):
        branch.stems, branch.sink = (number,), None
    assert across._next(0, trunk) == wanted


def test_of_two_lines_that_cannot_both_be_straight_one_is() -> None:
    """Also where the box was kept away from there when it moved first."""
    segments = [Segment(2, -5.0, 0, 0.0, 1), Segment(2, 5.0, 1, 0.0, 1), Segment(3, 0.0, 1, 0.0, 1)]
    found = compact([box(2), box(2), box(0), box(0)], [0.0, 0.0, 120.0, 120.0], segments)
    assert found[1] == pytest.approx(found[3])


def test_a_box_that_is_where_it_wants_to_be_stays() -> None:
    """It is not taken along by what is beside it."""
    bodies = [box(0), box(0), box(1), box(2)]
    segments = [Segment(0, 0.0, 2, 0.0, 4), Segment(1, 0.0, 3, 0.0, 9)]
    compaction = _Compaction(bodies, [0.0, 46.0, 5.0, 66.0], segments)
    compaction.find_limits()
    compaction.pull([[0]])
    assert compaction.at == [5.0, 46.0, 5.0, 66.0]


def test_only_what_is_nearest_is_in_the_way() -> None:
    """Of what stands beside a group, in its several rows."""
    apart = 20 + SEPARATION[True, True]
    bodies = [box(0), box(1), box(0), box(1)]
    compaction = _Compaction(bodies, [0.0, 0.0, apart + 3.0, apart + 8.0], [])
    assert compaction._free_space([0, 1], compaction.after) == (3.0, [2])
    assert compaction._free_space([2, 3], compaction.before) == (3.0, [0])
    assert compaction._free_space([0, 1], compaction.before) == (inf, [])


def test_a_line_with_a_corner_twice_is_rounded_elsewhere() -> None:
    """There it runs through."""
    points = [(0.0, 0.0), (0.0, 40.0), (30.0, 40.0)]
    for twice in range(3):
        spline = rounded([*points[: twice + 1], *points[twice:]])
        assert spline[0] == points[0] and spline[-1] == points[-1]
        assert all(0.0 <= x <= 30.0 and 0.0 <= y <= 40.0 for x, y in spline)


def test_the_middle_of_a_module_that_nothing_enters() -> None:
    """Is aligned with that of its closed box; else the first entry is."""
    scope = PlacedScope(90.0, 40.0, (), (20.0,), (), (), {})
    assert scope.anchor == 45.0 and scope._replace(entries=(10.0, 60.0)).anchor == 10.0


def test_a_slanted_line_does_not_enter_a_circle_at_its_side() -> None:
    """It comes from elsewhere than beside it."""
    slanted = ((95.0, 0.0), (90.0, 90.0), (54.0, 90.0), (54.0, 100.0))
    ways = side_entries([MAIN, slanted], ["a", "b"], {0: CIRCLE, 1: CIRCLE}, [CIRCLE], True)
    assert ways == [MAIN, slanted]


def test_what_is_drawn_anew_begins_just_before_it_turns_off() -> None:
    """Also where what is drawn goes on from there, far from where everything begins."""
    trunks = Trunks()
    trunks.fresh("x", [(0.0, 100.0), (0.0, 300.0)])
    found = trunks.fresh("x", [(0.0, 100.0), (0.0, 150.0), (30.0, 150.0)])
    assert found == ((0.0, 150.0 - CORNER_RADIUS), (0.0, 150.0), (30.0, 150.0))


@pytest.mark.parametrize(("one", "other"), [("TB", "BT"), ("LR", "RL")])
def test_what_runs_the_other_way_is_mirrored(one: str, other: str) -> None:
    """Each corner of each line, and each box."""
    items = [Item(str(number), -1, 40, 20 + 5 * number) for number in range(4)]
    links = [Link(0, 1, "x"), Link(1, 2, "x"), Link(0, 2, "y"), Link(0, 3, "y")]
    directions: Any = one, other
    here, there = (place(plan(items, links, each)) for each in directions)
    wide, high = (0.0, here.height) if one == "TB" else (here.width, 0.0)
    for piece, mirrored in zip(here.sections, there.sections):
        flipped = [(wide - x if wide else x, high - y if high else y) for x, y in piece.points]
        assert [at for point in mirrored.points for at in point] == pytest.approx(
            [at for point in flipped for at in point]
        )


# Boxes with one line ----------------------------------------------------------------------


def test_boxes_that_read_one_port_are_in_its_place() -> None:
    """Those beside them may change places with both."""
    nets = [net((0, 0), (1, 0), (2, 0)), net((0, 1), (3, 0)), net((0, 2), (4, 0))]
    (found,) = groups(nets)
    ends = (0, (1,)), (0, (2,)), (1, (3,)), (2, (4,))
    assert (found.child, found.exits, found.ends) == (0, True, ends)


def test_what_two_boxes_read_is_in_no_order_if_one_reads_more() -> None:
    """Other boxes beside them may change places."""
    nets = [net((0, 0), (1, 0), (2, 0)), net((0, 1), (3, 0)), net((0, 2), (4, 0)),
            net((5, 0), (2, 1))]
    (found,) = groups(nets)
    assert (found.child, found.exits, found.ends) == (0, True, ((1, (3,)), (2, (4,))))


def test_boxes_that_read_something_else_keep_their_places() -> None:
    """They stand below that."""
    nets = [net((OUTSIDE, 0), (0, 0)), net((OUTSIDE, 1), (1, 0)),
            net((0, 0), (2, 0)), net((1, 0), (2, 1))]
    assert groups(nets) == []


def test_scopes_that_differ_do_not_share_a_layout() -> None:
    """Also where what is joined to a module in them is in the same places."""
    items: list[Item] = []
    links: list[Link] = []
    for high in (20.0, 50.0):
        outer = len(items)
        items += [Item("outer", -1, 60, 30, (50.0, 12.0)),
                  Item("inner", outer, 60, 30, (50.0, 12.0))]
        items += [Item("made", outer + 1, 40, 20) for _ in range(2)]
        items += [Item("read", outer, 40, high) for _ in range(2)]
        links += [Link(outer + 2, outer + 5, "x"), Link(outer + 3, outer + 4, "y")]
    boxes = {box.item: box for box in place(plan(items, links)).boxes}
    assert [boxes[number].height for number in (4, 5, 10, 11)] == [20.0, 20.0, 50.0, 50.0]


# Columns ----------------------------------------------------------------------------------


def test_a_line_to_another_column_runs_level_and_upright() -> None:
    """Also where it has moved aside before it turns off."""
    made = cut(6, [3], [(0, [2, 4], 60.0)])
    for path in made.paths:
        for (x, y), (to_x, to_y) in zip(path.points, path.points[1:]):
            assert x == to_x or y == to_y
    away = made.paths[-1].points
    moved = made.frames[0].across
    assert [x - moved for x, _ in away[:4]] == [10.0, 10.0, 60.0, 60.0]


def test_what_comes_in_for_later_columns_keeps_apart() -> None:
    """Also where the first column moved, as the others needed more space than it does."""
    frames = tuple(Frame(200.0 * (row < 2), 40.0 * row + 20, 40.0, 20.0) for row in range(4))
    paths = tuple(
        BranchPath(trunk, 0, ((at, 0.0), (at, 10.0), (20.0 + trunk, 10.0), (20.0 + trunk, end)))
        for trunk, (at, end) in enumerate([(210.0, 100.0), (220.0, 140.0)])
    )
    scope = PlacedScope(300.0, 180.0, (210.0, 220.0), (), frames, paths, {})
    made = cut_before(scope, [100.0], HeaderSpace())
    assert made is not None
    one, other = (path.points[1][1] for path in made.paths)
    assert abs(one - other) == TRACK_PITCH


def test_one_more_column_has_to_save_something() -> None:
    """Compared with one less, not with a single one."""
    frames = (Frame(0.0, 0.0, 40.0, 100.0), Frame(0.0, 110.0, 40.0, 100.0),
              Frame(0.0, 220.0, 40.0, 5.0))
    scope = PlacedScope(60.0, 225.0, (), (), frames, (), {})
    assert wrapped(scope, 2, HeaderSpace()) is not None
    assert wrapped(scope, 3, HeaderSpace()) is None


@pytest.mark.parametrize(("scale", "columns"), [(0.97, False), (0.9, True), (0.5, True)])
def test_columns_make_a_picture_some_percent_larger(scale: float, columns: bool) -> None:
    """Or there are none, if the text can be read without them."""
    items = [Item("model", -1, 60, 30, (50.0, 12.0))]
    items += [Item(str(number), 0, 100, 40) for number in range(12)]
    planned = plan(items, [Link(number, number + 1, "x") for number in range(1, 12)])
    plain = place(planned)
    sheet = Sheet(lambda wide, high: scale if high == plain.height else 1.0, 0.3)
    found = {round(box.x) for box in place(planned, sheet=sheet).boxes if box.item}
    assert (len(found) > 1) == columns


@pytest.mark.parametrize(
    ("count", "tries"),
    [
        (0, MAX_TRIES),
        (10, MAX_TRIES),
        (MAX_WORK // 10, 10),
        (MAX_WORK, MIN_TRIES),
        (MAX_WORK * 9, MIN_TRIES),
    ],
)
def test_large_pictures_are_tried_less_often(count: int, tries: int) -> None:
    """Down to columns of the same length."""
    placing: Any = object.__new__(_Placing)
    placing.plan, placing.turned = SimpleNamespace(items=[None] * count), False
    placing.shaped = False
    limits: list[float] = []

    def made(limit: float) -> dict[int, PlacedScope]:
        limits.append(limit)
        return {-1: PlacedScope(10.0, limit, (), (), (), (), {})}

    placing._all = made
    tall = {-1: PlacedScope(10.0, 1000.0, (), (), (), (), {})}
    assert placing._fitted(tall, Sheet(lambda wide, high: 0.5)) is tall
    assert len(limits) == tries and limits[-1] == pytest.approx(1000.0 * LENGTH_FACTOR**MAX_TRIES)


# A U --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reaches", "through", "tensors", "inputs", "is_u"), [
    (True, True, 0, {4}, True), (True, True, 2 * MAX_STRAYS, {9}, True),
    (True, True, 2 * MAX_STRAYS + 1, {}, False), (False, True, 0, {}, False),
    (True, False, 0, {}, False), (True, True, 0, {0}, False), (True, True, 0, {1}, False),
])
def test_what_crosses_the_bottom_of_a_u(
    reaches: bool, through: bool, tensors: int, inputs: Collection[int], is_u: bool
) -> None:
    """A line from the innermost level through it, and few others; two levels are not of inputs."""
    lines = [CutEdge(0, 0, 0, 9, 20.0, 180.0), CutEdge(1, 1, 1, 8, 40.0, 160.0)]
    lines += [CutEdge(2, 2, 4, 5, 100.0, 100.0)] * through
    lines += [CutEdge(3 + n, 3 + n, OUTSIDE, 7, 0.0, 140.0) for n in range(tensors)]
    depends: Any = SimpleNamespace(
        encloses=lambda outer, inner: True, reaches=lambda one, other: reaches, inputs=inputs
    )
    shape = _u_shape(depends, lines, 100.0)
    assert (shape is not None) == is_u
    if shape is not None:
        assert [pair[0].path for pair in shape.skips] == [0, 1] and shape.strays == tensors


def test_what_is_open_on_the_right_of_a_u_runs_up() -> None:
    """Nothing else does, open or not."""
    made = u_net([(60, 40), (50, 30)], [True, False])
    _, boxes = drawn(made)
    assert {number for number, box in boxes.items() if box.up} == {made.ways[0][1]}
    assert not any(box.up for box in place(plan(made.items, made.links)).boxes)


def test_where_no_u_can_be_made_the_flow_runs_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line would run through a box."""
    made = u_net([(60, 40), (50, 30)], [True, False])
    planned = plan(made.items, made.links)
    monkeypatch.setattr(sys.modules[_Placing.__module__], "u_shape", lambda *given, **named: None)
    assert place(planned, side_by_side=True) == place(planned)


# Graphviz and fonts -----------------------------------------------------------------------


def test_messages_of_the_last_job_are_told_apart() -> None:
    """What it says of one graph is not said of the next."""
    jobs = [Job(f"digraph {{ a [shape={shape}] }}", "plain") for shape in ("first", "second")]
    command = sys.executable, "-I", "-S", str(engine._CHILD), engine.require(), "30"
    code, answer, text = engine._spoken_to(
        list(command), b"".join(engine._request(jobs, {})), {}, 30.0
    )
    assert code == 0 and list(engine._fields(answer))[::2] == [b"done", b"done"]
    assert "second" in text and "first" not in text


def test_fonts_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither without the package, nor where it has no folder."""
    for spec in (None, SimpleNamespace(submodule_search_locations=None)):
        monkeypatch.setattr(fonts.importlib.util, "find_spec", lambda name, spec=spec: spec)
        assert fonts._folder() is None
