"""Forks and joins of equal branches are in the middle between them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from torchrecorder.layout.layered import Item, Link, Picture, place, plan
from torchrecorder.layout.layered.compaction import Body, Segment, compact
from torchrecorder.layout.layered.equal_branches import EqualBranches, structures
from torchrecorder.layout.layered.place import PlacedBox
from torchrecorder.layout.layered.ports import scope_nets
from torchrecorder.layout.layered.side_entry import side_entries
from torchrecorder.layout.layered.tracks import slots

Pairs = Sequence[tuple[int, int]]

HEADER = (30.0, 12.0)


def box(number: int, width: float = 60.0, height: float = 20.0, around: int = -1) -> Item:
    return Item(str(number), around, width, height)


def joined(pairs: Pairs) -> list[Link]:
    return [Link(one, other, "v") for one, other in pairs]


def middles(picture: Picture) -> list[float]:
    """The middle of each box across the flow, for a flow that runs down."""
    found = {each.item: each.x + each.width / 2 for each in picture.boxes}
    return [found[item] for item in sorted(found)]


def of_boxes(pairs: Pairs, changed: dict[int, Item] | None = None) -> list[float]:
    """The middles of boxes that some pairs join; *changed* are those that differ from the rest."""
    items = [box(number) for number in range(max(map(max, pairs)) + 1)]
    for number, item in (changed or {}).items():
        items[number] = item
    return middles(place(plan(items, joined(pairs))))


TWO = [(0, 2), (1, 3), (2, 4), (3, 4), (4, 5)]
"""Two inputs, each with an encoder; what joins them; a head."""


def test_a_join_of_two_equal_branches_is_between_them() -> None:
    """So is what follows it; the inputs are straight above."""
    a, b, one, other, join, head = of_boxes(TWO)
    assert (a, b) == (one, other) and a != b
    assert join == head == pytest.approx((a + b) / 2)


@pytest.mark.parametrize("direction", ["TB", "LR", "BT", "RL"])
def test_names_may_differ(direction: str) -> None:
    """Branches of equal structure need not be equally wide."""
    items = [box(0), box(1, 90.0), box(2, 70.0), box(3, 45.0), box(4), box(5)]
    picture = place(plan(items, joined(TWO), direction))  # type: ignore[arg-type]
    at = {
        each.item: each.x + each.width / 2 if direction in ("TB", "BT")
        else each.y + each.height / 2
        for each in picture.boxes
    }
    assert at[4] == at[5] == pytest.approx((at[2] + at[3]) / 2)
    assert at[2] != at[3]


@pytest.mark.parametrize("count", [2, 4])
def test_a_fork_to_equal_heads_is_between_them(count: int) -> None:
    """The trunk above it, too."""
    heads = range(2, 2 + count)
    pairs = [(0, 1), *((1, head) for head in heads), *((head, head + count) for head in heads)]
    x, trunk, *rest = of_boxes(pairs)
    assert rest[:count] == rest[count:]
    assert x == trunk == pytest.approx(sum(rest) / len(rest))


@pytest.mark.parametrize("length", [1, 2, 3])
def test_the_flow_through_a_fork_and_its_join_is_straight(length: int) -> None:
    """The branches are at equal distances from it, one after another of such forks."""
    pairs, fork = [(0, 1)], 1
    for _ in range(3):
        join = fork + 2 * length + 1
        for side in (0, 1):
            branch = [fork, *range(fork + 1 + side, join, 2), join]
            pairs += zip(branch, branch[1:])
        fork = join
    found = of_boxes(pairs)
    flow = {found[0], *found[1 :: 2 * length + 1]}
    assert max(flow) - min(flow) < 0.01
    for number in range(2, len(found) - 1):
        if (number - 1) % (2 * length + 1):
            assert abs(found[number] - found[0]) == pytest.approx(38.0)


def test_open_branches_count_by_what_is_in_them() -> None:
    """With the same boxes they are equal; the join of others is below one of them."""
    def found(last: int) -> tuple[float, float, float]:
        items = [Item("x", -1, 60, 20, first=True), Item("a", -1, 60, 20, HEADER)]
        items += [box(2, around=1), box(3, around=1), Item("b", -1, 80, 20, HEADER)]
        items += [box(5, around=4), box(6, around=4), box(7)]
        pairs = [(0, 2), (2, 3), (0, 5), (5, last), (3, 7), (last, 7)]
        at = middles(place(plan(items, joined(pairs))))
        return at[3], at[last], at[7]

    one, other, join = found(6)
    assert join == pytest.approx((one + other) / 2)
    items = [Item("a", -1, 60, 20, HEADER), box(1, around=0), box(2, around=0)]
    items += [Item("b", -1, 90, 20, HEADER), box(4, around=3), box(5, around=3)]
    equal = joined([(1, 2), (4, 5)])
    a, _, _, b, _, _ = structures(items, scope_nets(items, equal))
    assert a == b
    a, _, _, b, _, _ = structures(items, scope_nets(items, equal[:1]))
    assert a != b


def inside(pairs: Pairs, children: int) -> tuple[EqualBranches, ...]:
    """The branches in a scope of boxes; the other numbers are boxes outside of it."""
    items = [box(number) for number in range(max(map(max, pairs)) + 1)]
    scope = min(set(range(len(items))) - {each for pair in pairs for each in pair})
    items[scope] = Item(str(scope), -1, 60, 20, HEADER)
    for number in range(scope + 1, scope + 1 + children):
        items[number] = box(number, around=scope)
    planned = plan(items, joined(pairs))
    return planned.templates[planned.template[scope + 1]].branches


def test_branches_that_begin_at_the_entries_of_a_scope() -> None:
    """They have a join in common, and what comes from elsewhere is next to each."""
    assert inside([(0, 3), (1, 4), (3, 5), (4, 5)], 3) == (EqualBranches((2,), (0, 1)),)


def test_branches_that_leave_a_scope_have_no_join_in_it() -> None:
    """Only the entry where they begin."""
    assert inside([(0, 2), (0, 3), (2, 4), (3, 5)], 2) == (EqualBranches((2,), (0, 1)),)


@pytest.mark.parametrize(
    "pairs, changed",
    [
        (TWO, {3: box(3, height=30.0)}),  # another number of lines of text
        ([(0, 1), (1, 2), (1, 3), (3, 4), (2, 5), (4, 5), (5, 6)], {}),  # another length
        ([(0, 1), (1, 2), (1, 3), (1, 4), (2, 4), (3, 4), (4, 5)], {}),  # a residual around both
        ([(0, 1), (1, 2), (1, 3), (1, 5), (2, 4), (3, 4), (4, 5)], {}),  # and around their join
        ([(0, 2), (1, 2), (2, 3)], {}),  # inputs alone
        ([(0, 1), (1, 2), (1, 3)], {}),  # outputs alone
        ([(0, 2), (1, 3), (0, 3), (2, 4), (3, 4), (4, 5)], {}),  # an input of both
        ([*TWO[:4], (2, 5), (3, 5)], {}),  # two readers of both
        # not in the layer below the fork, which is too long for one row
        ([*((0, each) for each in range(2, 32)), (1, 32), (1, 33), (32, 34), (33, 34)], {}),
    ],
)
def test_other_flows_stay_straight(pairs: Pairs, changed: dict[int, Item]) -> None:
    """No branches are found, so all is where it was."""
    items = [box(number) for number in range(max(map(max, pairs)) + 1)]
    for number, item in changed.items():
        items[number] = item
    planned = plan(items, joined(pairs))
    assert not any(template.branches for template in planned.templates)


def test_equal_scopes_have_branches_of_their_own() -> None:
    """Scopes whose closed boxes are equal may differ in what these contain."""
    items: list[Item] = []
    links: list[Link] = []
    for inside in (1, 2):
        around = len(items)
        items += [Item("scope", -1, 60, 20, HEADER), box(1, around=around)]
        for count in (1, inside):
            items.append(Item("branch", around, 60, 20, HEADER))
            first = len(items)
            items += [box(each, around=first - 1) for each in range(count)]
            links += joined([(around + 1, first), (first, first + count - 1)][:count])
        items.append(box(9, around=around))
        ends = [around + 3, len(items) - 2]
        links += joined([(end, len(items) - 1) for end in ends])
    planned = plan(items, links)
    scopes = [number for number, item in enumerate(items) if item.parent < 0]
    found = [planned.templates[planned.template[scope + 1]].branches for scope in scopes]
    assert [len(each) for each in found] == [1, 0]


def test_a_join_that_is_centered_stays_so() -> None:
    """Branches below it that cannot move do not pull it to their middle."""
    rows = [1, 2, 2, 3, 4, 4, 5, 4]
    bodies = [Body(row, row, 30, 30, True) for row in rows]
    segments = [Segment(0, 0, 1, 0, 4), Segment(0, 0, 2, 0, 4), Segment(1, 0, 3, 0, 4)]
    segments += [Segment(2, 0, 3, 0, 4), Segment(3, 0, 4, 0, 4), Segment(3, 0, 5, 0, 4)]
    segments += [Segment(4, 0, 6, 0, 4), Segment(5, 0, 6, 0, 4)]
    at = [0.0, 0.0, 76.0, 0.0, 0.0, 76.0, 0.0, -76.0]
    upper, lower = EqualBranches((0, 3), (1, 2)), EqualBranches((3, 6), (4, 5))
    found = compact(bodies, at, segments, [upper, lower])
    assert found[0] == found[3] == pytest.approx((found[1] + found[2]) / 2)
    assert found == compact(bodies, at, segments, [upper])


def test_a_branch_that_carries_no_data_is_not_equal() -> None:
    """A mask joins the flow of the data from the side."""
    items = [box(number) for number in range(6)]
    links = joined(TWO)
    assert plan(items, links).templates[0].branches == (EqualBranches((4,), (2, 3, 0, 1)),)
    for masked in (1, 3):
        changed = [*links]
        changed[masked] = changed[masked]._replace(side=True)
        assert plan(items, changed).templates[0].branches == ()


def test_a_scope_with_a_straight_flow_keeps_it() -> None:
    """If there is no space for the branches, what a straight line holds does not move either."""
    bodies = [Body(1, 1, 30, 30, True), Body(3, 3, 30, 30, True)]  # the fork and the join
    bodies += [Body(2, 2, 30, 30, True) for _ in range(3)]  # two branches, and what is beside them
    bodies += [Body(-1, -1, 0, 0, False), Body(5, 5, 0, 0, False)]
    segments = [Segment(0, 0, 2, 0, 4), Segment(0, 0, 3, 0, 4), Segment(2, 0, 1, 0, 4)]
    segments += [Segment(3, 0, 1, 0, 4), Segment(5, 0, 6, 0, 0.25), Segment(5, 0, 4, 0, 4)]
    segments += [Segment(1, 0, 6, 0, 4)]
    at = [0.0, 0.0, 0.0, 76.0, -76.0, -76.0, 0.0]
    branches = [EqualBranches((0, 1), (2, 3))]
    found = compact(bodies, at, segments, branches)
    assert found[0] == found[1] == pytest.approx((found[2] + found[3]) / 2)
    held = [*segments, Segment(0, 0, 5, 76.0, 0.5)]
    assert compact(bodies, at, held, branches) == compact(bodies, at, held)


@pytest.mark.parametrize("width", [60.0, 90.0])
@pytest.mark.parametrize("apart", [[50.0], [50.0, 120.0]])
def test_lines_from_equal_distances_enter_at_equal_distances(
    apart: list[float], width: float
) -> None:
    """From the middle of the side, in the order in which they come."""
    wanted = [100.0 - each for each in reversed(apart)] + [100.0 + each for each in apart]
    found = slots(wanted, 100.0, width)
    assert found == sorted(found)
    assert [one + other for one, other in zip(found, reversed(found))] == [200.0] * len(found)
    assert found[len(apart)] - found[len(apart) - 1] == 12.0


def test_lines_enter_a_circle_from_both_sides() -> None:
    """Also if positions that are sums of many distances are not exactly equal."""
    circle = PlacedBox(0, 90.0, 100.0, 20.0, 20.0, False)
    ways = [
        ((at, 0.0), (at + 1e-13, 80.0), (port, 80.0), (port, 100.0))
        for at, port in ((40.0, 94.0), (160.0, 106.0))
    ]
    found = side_entries(ways, ["a", "b"], {0: circle, 1: circle}, [circle], True)
    assert [way[-1] for way in found] == [(90.0, 110.0), (110.0, 110.0)]
