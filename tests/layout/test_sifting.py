"""Sifting: lines on the better side of what they run beside, and arguments in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given, strategies as st

from tests.layout.test_nested import SOME
from tests.work import lines_run
from torchrecorder.layout.layered import Item, Link, place, plan
from torchrecorder.layout.layered.nested_order import positions
from torchrecorder.layout.layered.ordering import NODE_GAP, Grid
from torchrecorder.layout.layered.port_order import PortGroup
from torchrecorder.layout.layered.scope_layout import ScopeLayout
from torchrecorder.layout.layered.sifting import PortOrder, _Sifting, sifted

HEADER = (50.0, 12.0)


def grid(rows: Sequence[int], pairs: Sequence[tuple[int, int]]) -> Grid:
    """Nodes of one width in these rows; what joins a node is given in the order of arguments."""
    found = Grid([20.0] * len(rows), list(rows))
    for one, other in pairs:
        number = len(found.edges)
        found.edges.append((one, other, 1))
        found.entering[number] = sum(head == other for _, head in pairs[:number])
        found.leaving[number] = sum(tail == one for tail, _ in pairs[:number])
    return found


def order(given_: Grid, across: Sequence[float], ports: PortOrder | None = None) -> list[list[int]]:
    """The nodes of each row from left to right."""
    at = sifted(given_, across, ports or {})
    rows = range(min(given_.row), max(given_.row) + 1)
    nodes = range(len(given_.row))
    return [sorted((n for n in nodes if given_.row[n] == row), key=at.__getitem__) for row in rows]


def crossings(given_: Grid, at: Sequence[float], ports: PortOrder) -> int:
    """The number of crossings between rows, with the ports of open nodes."""
    ends = []
    for number, (one, other, _) in enumerate(given_.edges):
        begin = ports[one][0][given_.leaving[number]] if one in ports else 0
        end = ports[other][1][given_.entering[number]] if other in ports else 0
        ends.append((given_.row[other], (at[one], begin), (at[other], end)))
    return sum(
        row == gap and (upper < begin and end < lower)
        for row, upper, lower in ends for gap, begin, end in ends
    )


def test_a_whole_line_moves_to_the_other_side() -> None:
    """One that passes two rows crosses nothing on the side of its source."""
    given_ = grid([0, 0, 1, 1, 2, 2, 3], [(0, 2), (1, 3), (2, 4), (3, 5), (4, 6), (5, 6)])
    assert order(given_, [40, 0, 0, 40, 0, 40, 20]) == [[0, 1], [2, 3], [4, 5], [6]]


def test_what_moves_is_compared_only_with_what_it_passes() -> None:
    """However many inputs, and lines between two rows, there are."""
    def moving(count: int) -> Callable[[], int]:
        nodes = range(count)
        given_ = grid([0] * count + [1] * count, [(node, count + node) for node in nodes])
        given_.inputs += nodes
        made = _Sifting(given_, [*nodes, *nodes], {})
        return lambda: made._reordered({0: 1.5}) + made._change({0: 1.5})

    assert moving(20)() == 2
    assert lines_run(moving(20)) == lines_run(moving(200))


def test_inputs_keep_their_order_where_that_costs_a_crossing() -> None:
    """In the place where they join; two crossings are too many."""
    pairs = [(0, 2), (1, 3), (2, 4), (3, 5), (4, 6), (5, 6)]
    ports = {6: ((), (1, 0))}
    given_ = grid([0, 0, 1, 1, 2, 2, 3], pairs)
    assert order(given_, [0, 40] * 3 + [20], ports)[0] == [1, 0]
    given_.inputs = [0, 1]
    assert order(given_, [0, 40] * 3 + [20], ports)[0] == [0, 1]
    more = grid([0, 0, 1, 1, 2, 2, 3, 2, 3], [*pairs, (2, 7), (7, 8)])
    more.inputs = [0, 1]
    assert order(more, [0, 40] * 3 + [20, 80, 80], ports)[0] == [1, 0]


def test_arguments_come_in_their_order_where_no_more_lines_cross() -> None:
    """A weight to the right of what it is multiplied with; not if a line would be crossed."""
    pairs = [(0, 2), (1, 2)]
    assert order(grid([0, 0, 1], pairs), [40, 0, 20]) == [[0, 1], [2]]
    beside = grid([0, 0, 1, 1], [*pairs, (0, 3)])
    assert order(beside, [40, 0, 20, 60]) == [[1, 0], [2, 3]]


def test_what_moves_past_the_last_box_is_beside_it() -> None:
    """Not on it: there is a gap between their borders."""
    first, second, _ = sifted(grid([0, 0, 1], [(0, 2), (1, 2)]), [40.0, 0.0, 20.0])
    assert second - first == 20.0 + NODE_GAP


def test_arguments_stay_that_are_in_order() -> None:
    """Nothing moves for nothing."""
    given_ = grid([0, 0, 0, 1], [(0, 3), (1, 3), (2, 3)])
    assert sifted(given_, [10.0, 50.0, 90.0, 50.0]) == [10.0, 50.0, 90.0, 50.0]


@pytest.mark.parametrize("entries", [(0, 1), (1, 0)])
def test_lines_into_a_module_come_in_the_order_of_its_entries(entries: tuple[int, int]) -> None:
    """Whatever the order of its arguments, as the lines go on inside."""
    found = order(grid([0, 0, 1], [(0, 2), (1, 2)]), [40, 0, 20], {2: ((), entries)})
    assert found[0] == ([0, 1] if entries == (0, 1) else [1, 0])


@pytest.mark.parametrize("exits", [(0, 1), (1, 0)])
def test_lines_out_of_a_module_do_not_cross(exits: tuple[int, int]) -> None:
    """What reads the result on the right is on the right; arguments have the second place."""
    given_ = grid([0, 1, 1, 2], [(0, 1), (0, 2), (1, 3), (2, 3)])
    found = order(given_, [20, 0, 40, 20], {0: (exits, ())})
    assert found[1] == ([1, 2] if exits == (0, 1) else [2, 1])


def test_lines_into_lanes_on_the_right_are_crossed_too() -> None:
    """So what runs beside a box that feeds a lane is on the left of it, argument or not."""
    given_ = grid([0, 0, 1, 1, 2], [(0, 2), (1, 3), (2, 4), (3, 4)])
    given_.detours.append((1, 0))
    assert order(given_, [0, 40, 0, 40, 20]) == [[1, 0], [3, 2], [4]]


def test_outputs_come_in_their_order() -> None:
    """A mirror image costs no crossing, so two results of a box are in the order of the program."""
    pairs = [(0, 1), (0, 2), (1, 3), (2, 4)]
    given_ = grid([0, 1, 1, 2, 2], pairs)
    assert order(given_, [20, 40, 0, 40, 0]) == [[0], [2, 1], [4, 3]]
    given_.outputs = [3, 4]
    assert order(given_, [20, 40, 0, 40, 0]) == [[0], [1, 2], [3, 4]]


def test_outputs_in_different_rows_are_not_compared() -> None:
    """An early result may be anywhere beside what follows."""
    given_ = grid([0, 1, 1, 2], [(0, 1), (0, 2), (2, 3)])
    given_.outputs = [1, 3]
    assert order(given_, [20, 40, 0, 0]) == [[0], [2, 1], [3]]


def test_no_mirror_image_that_exchanges_inputs() -> None:
    """Inputs that are in order stay so, whatever the outputs are."""
    given_ = grid([0, 0, 1, 1, 1], [(0, 4), (0, 3), (1, 2)])
    given_.outputs = [2, 3, 4]
    assert order(given_, [0, 60, 60, 30, 0]) == [[1, 0], [2, 3, 4]]
    given_.inputs = [0, 1]
    assert order(given_, [0, 60, 60, 30, 0]) == [[0, 1], [4, 3, 2]]


def test_every_line_between_two_modules_counts() -> None:
    """Two lines between one pair of modules have ports of their own, and cross if those do."""
    pairs = [(0, 1), (0, 1), (0, 2)]
    given_ = grid([0, 1, 1], pairs)
    ports = {0: ((0, 2, 1), ()), 1: ((), (0, 1))}
    cost = _Sifting(given_, [20, 0, 40], ports).cost()
    assert cost == crossings(given_, [20, 0, 40], ports) == 1


@st.composite
def grids(draw: st.DrawFn) -> tuple[Grid, list[float], PortOrder]:
    """Nodes in some rows, edges between neighboring ones, and nodes that can open."""
    rows = [draw(st.integers(0, 4)) for _ in range(draw(st.integers(1, 14)))]
    nodes = range(len(rows))
    near = [(one, other) for one in nodes for other in nodes if rows[other] == rows[one] + 1]
    pairs = draw(st.lists(st.sampled_from(near), unique=True, max_size=20)) if near else []
    ports: Mapping[int, tuple[list[int], list[int]]] = {
        node: tuple(draw(st.permutations(range(len(pairs)))) for _ in "ab")
        for node in draw(st.sets(st.sampled_from(nodes)))
    }
    across = draw(st.permutations([40.0 * node + 10 for node in nodes]))
    return grid(rows, pairs), list(across), ports


@SOME
@given(grids())
def test_never_more_lines_cross(each: tuple[Grid, list[float], PortOrder]) -> None:
    """All nodes are at places of their own, from the left border on."""
    given_, across, ports = each
    found = sifted(given_, across, ports)
    assert crossings(given_, found, ports) <= crossings(given_, across, ports)
    assert _Sifting(given_, found, ports).cost() == crossings(given_, found, ports)
    assert len({*zip(given_.row, found)}) == len(found)
    assert min(found) == 10.0


def test_equal_steps_look_equal() -> None:
    """What skips a step runs on the same side of each of them."""
    items, links, last = [Item("x", -1, 40, 20, first=True)], [], 0
    for step in range(6):
        items += [Item(f"f{step}", -1, 40, 20), Item(f"g{step}", -1, 40, 20)]
        items.append(Item(f"sum{step}", -1, 40, 20))
        f, g, total = range(len(items) - 3, len(items))
        links += [Link(last, f, "v"), Link(f, g, "v"), Link(g, total, "v"), Link(last, total, "v")]
        last = total
    sides = set()
    picture = place(plan(items, links))
    boxes = {box.item: box for box in picture.boxes}
    for piece in picture.sections:
        if items[piece.head].id.startswith("sum") and not items[piece.tail].id.startswith("g"):
            middle = boxes[piece.head].x + boxes[piece.head].width / 2
            sides.add(piece.points[-1][0] > middle)
    assert sides == {True}


def test_outputs_keep_their_places_where_another_order_has_as_many_crossings() -> None:
    """Here a line to the second row would cross what runs beside the module twice."""
    given_ = grid([0, 0, 1, 1, 1, 2, 2], [(0, 2), (0, 4), (1, 3), (2, 5), (3, 6)])
    given_.inputs = [0, 1]
    groups = [PortGroup(0, True, ((0, (2, 5)), (1, (4,))))]
    layout = cast(ScopeLayout, SimpleNamespace(grid=given_, port_groups=groups))
    at = [20.0, 60.0, 0.0, 60.0, 120.0, 0.0, 60.0]
    found = positions(layout, at, {0: ((1, 0), ())})
    assert found[2] < found[3] < found[4]
    given_.edges[3:] = []  # without the second row
    groups[:] = [PortGroup(0, True, ((0, (2,)), (1, (4,))))]
    found = positions(layout, at, {0: ((1, 0), ())})
    assert found[4] < found[3] < found[2]


def module_with_outputs(count: int) -> tuple[list[Item], list[Link]]:
    """A module whose outputs leave it in the reverse of their order, and fill two rows."""
    items = [Item("module", -1, 60, 30, HEADER), Item("makes", 0, 400, 20)]
    items += [Item(f"step{number}", 0, 40, 20) for number in range(count)]
    items += [Item("ends", 0, 400, 20), *(Item(f"y{at}", -1, 40, 20) for at in range(count))]
    links = [Link(1, 2 + at, f"x{at}") for at in range(count)]
    for at in range(count):
        links += [Link(2 + at, 2 + count, "z"), Link(2 + at, len(items) - 1 - at, "y")]
    return items, links


def test_outputs_in_two_rows_are_in_the_order_in_which_they_leave_the_module() -> None:
    """No line of one crosses that of another on its way to the second row."""
    items, links = module_with_outputs(8)
    picture = place(plan(items, links))
    placed = {box.item: box for box in picture.boxes}
    outputs = range(len(items) - 8, len(items))
    assert len({placed[item].y for item in outputs}) == 2
    ways = [section.points for section in picture.sections if section.scope < 0]
    level = [(a, b, way) for way in ways for a, b in zip(way, way[1:]) if a[1] == b[1]]
    upright = [(a, b, way) for way in ways for a, b in zip(way, way[1:]) if a[0] == b[0]]
    assert not any(
        way is not other and min(a[0], b[0]) < x < max(a[0], b[0]) and top < a[1] < end
        for a, b, way in level for (x, top), (_, end), other in upright
    )
