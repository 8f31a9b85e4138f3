"""Small facts of columns, U shapes and trunks, each in a scope made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.layout.test_column_parts import EARLY, HIGH, LATE, LONG, ROW, cut
from tests.layout.test_settled import box
from tests.layout.test_side_entry import ASIDE, CIRCLE, MAIN
from tests.layout.test_u_parts import BELOW, OVER, THROUGH, UNDER, chain
from torchrecorder.errors import LayoutFailed
from torchrecorder.layout import engine
from torchrecorder.layout.engine import Job
from torchrecorder.layout.layered import Item, Link, place, plan
from torchrecorder.layout.layered.compaction import Segment, compact
from torchrecorder.layout.layered.constants import PAD, SEPARATION, TRACK_MARGIN, TRACK_PITCH
from torchrecorder.layout.layered.edge_routing import Trunks
from torchrecorder.layout.layered.multi_column import EXIT_GAP, cut_before
from torchrecorder.layout.layered.ordering import DUMMY_WIDTH
from torchrecorder.layout.layered.ports import OUTSIDE, End, scope_nets
from torchrecorder.layout.layered.positions import BranchPath, Frame, HeaderSpace, PlacedScope
from torchrecorder.layout.layered.scope_layout import MAX_PASSED, ScopeLayout
from torchrecorder.layout.layered.side_by_side import CutEdge, UShape, _u_shape
from torchrecorder.layout.layered.side_entry import side_entries
from torchrecorder.layout.layered.u_shape import comes_from_right
from torchrecorder.layout.measure import label_size

# Columns ----------------------------------------------------------------------------------


def test_a_line_that_is_read_straight_below_turns_off_there() -> None:
    """Not before the row that reads it, whether or not it turns to the box."""
    frames = tuple(Frame(0.0, ROW * row + HIGH, wide, HIGH)
                   for row, wide in enumerate([80.0, 40.0, 80.0, 40.0]))
    down = ((60.0, 40.0), (60.0, 100.0))
    away = ((60.0, 40.0), (60.0, 90.0), (90.0, 90.0), (90.0, 136.0), (30.0, 136.0), (30.0, 140.0))
    paths = BranchPath(0, 0, down), BranchPath(0, 1, away)
    scope = PlacedScope(120.0, 180.0, (), (), frames, paths, {})
    made = cut_before(scope, [140.0], HeaderSpace())
    assert made is not None
    right = made.frames[3].across
    lowest = max(y for x, y in made.paths[1].points if x < right)
    assert lowest == made.frames[1].end + TRACK_MARGIN


def test_a_line_does_not_turn_off_where_one_comes_from_the_right() -> None:
    """Its level piece is in the way wherever it goes on."""
    other = (80.0, ROW), (80.0, EARLY), (15.0, EARLY), (15.0, ROW * 2)
    made = cut(6, [4], [(0, [5], 60.0)], boxes=[LONG], ways=[other])
    moved = made.frames[0].along - HIGH
    assert max(y for x, y in made.paths[0].points if 0 < x <= 60.0) > EARLY + moved


@pytest.mark.parametrize(("end", "level"), [(104.0, 108.0), (106.0, LATE)])
def test_a_line_turns_off_above_the_end_of_a_row_or_below_it(end: float, level: float) -> None:
    """With room for what turns off below it."""
    made = cut(6, [4], [(0, [5], 60.0)], boxes=[LONG, Frame(70.0, 45.0, 10.0, end - 45.0)])
    moved = made.frames[0].along - HIGH
    assert max(y for x, y in made.paths[0].points if 0 < x <= 60.0) == level + moved


@pytest.mark.parametrize(("left", "straight"), [
    (30 + EXIT_GAP, True), (29 + EXIT_GAP, False), (20 - EXIT_GAP, True), (21 - EXIT_GAP, False),
])
def test_a_way_down_keeps_clear_of_boxes(left: float, straight: bool) -> None:
    """On both sides; else it is as it was."""
    boxes = [Frame(left, 130.0, 10.0, 9.0), Frame(300.0, 130.0, 10.0, 20.0)]
    made = cut(6, [3], [(0, [3], 90.0)], boxes=boxes)
    points = made.paths[0].points
    down = points[next(n for n, (_, y) in enumerate(points) if y == min(y for _, y in points)) :]
    assert (len({x for x, _ in down[1:]}) == 1) == straight


def test_a_scope_ends_below_the_lines_below_its_longest_column() -> None:
    """As many as turn off there."""
    for count in (1, 2, 3):
        lines = [(3, [5], 60.0 + 10 * number) for number in range(count)]
        made = cut(6, [4], [*lines, (0, [5], 100.0), (0, [5], 110.0)])
        lowest = made.frames[3].end + TRACK_MARGIN + TRACK_PITCH * (count - 1)
        assert max(y for path in made.paths for _, y in path.points) == lowest
        assert made.height == lowest + PAD


# Boxes ------------------------------------------------------------------------------------


def test_nothing_is_settled_where_nothing_is() -> None:
    """Nor is it an error."""
    assert compact([], [], []) == []


@pytest.mark.parametrize("side", [1, -1])
def test_what_is_alone_comes_back_to_the_largest_group(side: int) -> None:
    """On its side of it, wherever that is."""
    apart = 20 + SEPARATION[True, True]
    down = [Segment(0, 0.0, 1, 0.0, 4), Segment(1, 0.0, 2, 0.0, 4)]
    bodies = [box(0), box(1), box(2), box(0)]
    for middle in (100.0, -100.0):
        at = [middle, middle, middle, middle + 3 * side * apart]
        assert compact(bodies, at, down) == [middle, middle, middle, middle + side * apart]


def test_space_below_a_box_that_can_open_is_kept_free() -> None:
    """In the rows before its first reader; below others, and further down, a line is narrow."""
    for header, widths in (((20.0, 12.0), [60.0, DUMMY_WIDTH]), (None, [DUMMY_WIDTH] * 2)):
        items = [Item("in", -1, 40, 20, first=True), Item("module", -1, 60, 30, header)]
        items += [Item(str(number), -1, 40, 20) for number in range(4)]
        links = [Link(0, number, "x") for number in (1, 2)]
        links += [Link(number, number + 1, "x") for number in (2, 3, 4)]
        links += [Link(1, 4, "y"), Link(1, 5, "z")]
        if header is not None:
            items.append(Item("inside", 1, 40, 20))
            links = [link._replace(tail=6) if link.tail == 1 else link for link in links]
            links[0] = Link(0, 6, "x")
        made = ScopeLayout(scope_nets(items, links)[-1], items, [0] * len(items), False)
        assert made.row == [0, 1, 1, 2, 3, 4]
        passing = list(zip(made.grid.row[6:], made.grid.widths[6:]))
        assert passing == [(2, widths[0]), (2, DUMMY_WIDTH), (3, widths[1])]


@pytest.mark.parametrize("far", [0.0, 2000.0])
def test_a_line_from_the_left_enters_a_circle_at_its_left(far: float) -> None:
    """Wherever on the paper that is."""
    aside = [(100.0 - x + far, y) for x, y in ASIDE]
    main = [(x + far, y) for x, y in MAIN]
    circle = CIRCLE._replace(x=CIRCLE.x + far)
    ways = side_entries(
        [tuple(main), tuple(aside)], ["a", "b"], {0: circle, 1: circle}, [circle], True
    )
    assert ways[1][-1] == (circle.x, 110.0)


# A U --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("leaves", "is_u"), [(80.0, True), (100.0, False)])
def test_the_innermost_level_of_a_u_is_above_its_bottom(leaves: float, is_u: bool) -> None:
    """Something lies below it."""
    lines = [CutEdge(0, 0, 0, 9, 20.0, 180.0), CutEdge(1, 1, 1, 8, leaves, 160.0),
             CutEdge(2, 2, 4, 5, 100.0, 100.0)]
    depends: Any = SimpleNamespace(
        encloses=lambda outer, inner: True, reaches=lambda one, other: True, inputs=()
    )
    assert (_u_shape(depends, lines, 100.0) is not None) == is_u


def test_only_lines_into_a_box_tell_from_which_side_a_level_comes() -> None:
    """Others may end further right."""
    lines = [((60.0, 40.0), (35.0, 180.0)), ((60.0, 80.0), (35.0, 140.0)),
             ((39.0, 40.0), (39.0, 60.0))]
    skips = (OVER._replace(path=6, trunk=6),), (UNDER._replace(path=7, trunk=7),)
    scope = chain(lines=lines, opened=[3, 4])
    ways = [path.points[-1][0] + 60.0 for path in scope.paths[:2]]
    scope = scope._replace(paths=tuple(
        path._replace(points=(path.points[0], (at, path.points[-1][1])))
        for path, at in zip(scope.paths, ways)
    ) + scope.paths[2:])
    assert comes_from_right(scope, UShape(BELOW, skips, (THROUGH,)))


# Trunks and attributes --------------------------------------------------------------------


@pytest.mark.parametrize(("bundles", "trunks"), [((), 2), (((0, "all"),), 1)])
def test_lines_share_a_trunk_outside_of_a_module(
    bundles: tuple[tuple[int, str], ...], trunks: int
) -> None:
    """If they are said to; inside each is its own, and what reads them is joined once."""
    items = [Item("module", -1, 60, 30, (20.0, 12.0))]
    items += [Item(str(number), 0, 40, 20) for number in range(2)]
    items.append(Item("read", -1, 40, 20))
    found = scope_nets(items, [Link(1, 3, "x", bundles), Link(2, 3, "y", bundles)])
    assert (len(found[0].nets), len(found[-1].nets)) == (2, trunks)
    assert len(found[0].exits) == trunks


def test_each_try_has_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one as much as each that may come after."""
    limits: list[float] = []

    def tried(jobs: Any, cheaper: Any, limit: float) -> Any:
        limits.append(limit)
        return ([b"picture"], None) if len(limits) > 1 else ([], LayoutFailed("crashed"))

    monkeypatch.setattr(engine, "_attempt", tried)
    monkeypatch.setattr(engine.time, "monotonic", lambda: 100.0)
    assert engine.run_many([Job("digraph {}")], timeout=30.0) == [b"picture"]
    tries = len(engine.EFFORTS)
    assert limits == [30.0 / tries, 30.0 / (tries - 1)]


def test_a_tensor_leaves_a_module_once() -> None:
    """However many read it outside."""
    items = [Item("module", -1, 60, 30, (20.0, 12.0)), Item("made", 0, 40, 20)]
    items += [Item(str(number), -1, 40, 20) for number in range(2)]
    found = scope_nets(items, [Link(1, 2, "x"), Link(1, 3, "x")])
    (net,) = found[0].joined()
    assert net.sinks == [End(OUTSIDE, 0)]
    (outside,) = found[-1].joined()
    assert [sink.child for sink in outside.sinks] == [1, 2]


def test_what_lies_between_two_drawn_pieces_is_not_drawn() -> None:
    """A line there is drawn from its beginning."""
    trunks, way = Trunks(), [(0.0, 40.0), (0.0, 60.0), (30.0, 60.0)]
    for begin in (0.0, 90.0):
        trunks.fresh("x", [(0.0, begin), (0.0, begin + 10.0)])
    assert trunks.fresh("x", way) == tuple(way)


def test_nothing_is_open_that_is_not_asked_for() -> None:
    """Of two modules, one."""
    items = [Item(str(number), -1, 60, 30, (20.0, 12.0)) for number in range(2)]
    items += [Item(f"in {number}", number, 40, 20) for number in range(2)]
    planned = plan(items, [Link(2, 3, "x")])
    for opened in ([], [0], [1], [0, 1]):
        assert [box.item for box in place(planned, opened).boxes if box.open] == opened


def test_the_longest_branch_decides_whether_a_line_takes_a_lane() -> None:
    """Also where another is short."""
    items = [Item(str(number), -1, 40, 20) for number in range(MAX_PASSED + 5)]
    links = [Link(number, number + 1, "x") for number in range(MAX_PASSED + 4)]
    links += [Link(1, 4, "skip"), Link(1, MAX_PASSED + 4, "skip")]
    made = ScopeLayout(scope_nets(items, links)[-1], items, [0] * len(items), False)
    assert made.lanes == [(2, MAX_PASSED + 4)]


def test_an_answer_that_breaks_off() -> None:
    """What is whole of it is read."""
    assert list(engine._fields(b"4\ndone9\npart")) == [b"done"]
    assert list(engine._fields(b"4\ndone4\npart")) == [b"done", b"part"]


def test_values_of_attributes_may_hold_any_sign() -> None:
    """Also that between a name and its value."""
    made = engine.run("digraph { a }", attributes={"label": "one=two=three"})
    assert b"one=two=three" in made


def test_a_child_that_ends_without_a_word() -> None:
    """That is said; else its last words are told."""
    assert "it said nothing" in str(engine._breakdown(1, " \n"))
    assert str(engine._breakdown(1, "first\nlast\n")).endswith("child process: last")


def test_no_text_has_no_size() -> None:
    """Neither width nor height."""
    assert label_size((), 10.0) == (0.0, 0)
