"""Parts of one scope: which lines take lanes, what runs through it, and where a U turns back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.layout.test_u_shape import Net, _chain, drawn
from torchrecorder.layout.layered import Item, Link, plan
from torchrecorder.layout.layered.compound import compose
from torchrecorder.layout.layered.ports import OUTSIDE, End, scope_nets
from torchrecorder.layout.layered.positions import HeaderSpace
from torchrecorder.layout.layered.scope_layout import (
    BOX_WEIGHT, DUMMY_WEIGHT, END_WEIGHT, LAYERS_PER_BOX, MAX_PASSED, ScopeLayout,
)
from torchrecorder.layout.layered.template import Branch, ClosedChild, Template, Trunk


def lanes(boxes: int, skips: Sequence[tuple[int, int]]) -> set[int]:
    """How many boxes those lines of a chain pass that run in a lane, without the others."""
    items = [Item(str(number), -1, 40, 20) for number in range(boxes)]
    links = [Link(number, number + 1, "x") for number in range(boxes - 1)]
    links += [Link(one, other, f"skip{number}") for number, (one, other) in enumerate(skips)]
    planned = plan(items, links)
    (template,) = planned.templates
    trunks = dict(zip(planned.carried[0], template.trunks))
    found = {
        other - one - 1
        for number, (one, other) in enumerate(skips)
        if any(stem.across < 0 for stem in trunks[one, f"skip{number}"].stems)
    }
    assert bool(found) == bool(template.lanes)
    return found


@pytest.mark.parametrize("passed, takes", [(MAX_PASSED, False), (MAX_PASSED + 1, True)])
def test_a_line_past_many_boxes_takes_a_lane(passed: int, takes: bool) -> None:
    """However few other lines there are."""
    assert lanes(40, [(0, 2), (3, 5), (3, passed + 4)]) == ({passed} if takes else set())


@pytest.mark.parametrize("boxes", [6, 20, 30])
@pytest.mark.parametrize("each", [2, 3])
def test_so_many_short_lines_that_all_pass_boxes_beside_them(boxes: int, each: int) -> None:
    """As long as there is room: `LAYERS_PER_BOX` for each box, 60 in a small scope. Lines that pass
    one box or two never take a lane."""
    room = max(60, LAYERS_PER_BOX * boxes)
    within = [(number % (boxes - each - 1), number % (boxes - each - 1) + each + 1)
              for number in range(room // each)]
    assert lanes(boxes, within) == set()
    assert lanes(boxes, [*within, (0, each + 1)]) == ({3} if each == 3 else set())


def test_the_longest_lines_take_lanes_where_there_are_too_many() -> None:
    """Those as long as the one that had no room; the shorter ones stay."""
    short = [(number, number + 3) for number in range(10)]
    middle = [(number, number + 6) for number in range(6)]
    long = [(number, number + 11) for number in range(3)]
    assert lanes(14, [*short, *middle]) == set()
    assert lanes(14, [*long, *middle, *short]) == {10}
    assert lanes(14, [*middle, *middle, *short]) == {5}
    shorter = [(number, number + 10) for number in range(4)]
    assert lanes(14, [*long, *shorter, *short]) == {10}


@pytest.mark.parametrize("fan", [None, 0, 1])
def test_where_a_tensor_enters_is_above_where_one_leaves(fan: int | None) -> None:
    """So chains of modules are in line: the first that leaves below the first that enters, or the
    first that is read twice."""
    places = (20.0, 120.0, 300.0, 400.0)
    rows = (0, 0, 1, 1)
    children = tuple(ClosedChild(at, row, 40.0, 20.0, row) for at, row in zip(places, rows))
    joins = [[End(OUTSIDE, 0), End(0, 0)], [End(OUTSIDE, 1), End(1, 0)],
             [End(2, 0), End(OUTSIDE, 0)], [End(3, 0), End(OUTSIDE, 1)]]
    if fan is not None:
        joins[fan].append(End(fan, 1))
    trunks = tuple(
        Trunk(source, (), tuple(Branch(sink, ()) for sink in sinks)) for source, *sinks in joins
    )
    scope = Template(children, 2, places[:2], places[2:], trunks, 0)
    made = compose(scope, {}, HeaderSpace())
    assert made.exits[0] == made.entries[fan or 0]
    only_in = compose(scope._replace(trunks=trunks[:2], exits=()), {}, HeaderSpace())
    only_out = compose(scope._replace(trunks=trunks[2:], entries=()), {}, HeaderSpace())
    for ports, frames in ((only_in.entries, only_in.frames), (only_out.exits, only_out.frames[2:])):
        middles = [frame.across + frame.width / 2 for frame in frames]
        assert fan is not None or list(ports) == middles[:2]


def left(net: Net) -> int:
    """How many boxes of a chain stand on the left of a U."""
    _, boxes = drawn(net)
    chain = [boxes[number] for number, item in enumerate(net.items) if item.parent == 1]
    return sum(box.x < chain[0].x + chain[0].width for box in chain)


@pytest.mark.parametrize("before, after", [(0, 0), (2, 0), (0, 2)])
def test_a_u_turns_back_in_its_middle(before: int, after: int) -> None:
    """In that of what lies in the innermost level, not in that of all boxes."""
    level = [(before, before + 8), (before + 1, before + 7)]
    assert left(_chain(9 + before + after, level)) in (before + 4, before + 5)


@pytest.mark.parametrize("inner, turns", [((6, 11), (9,)), ((2, 7), (5, 6))])
def test_the_innermost_level_decides_where_a_u_turns_back(
    inner: tuple[int, int], turns: tuple[int, ...]
) -> None:
    """Where it is not in the middle of the others."""
    assert left(_chain(14, [(0, 13), inner])) in turns


@pytest.mark.parametrize("inside, turns", [((1, 4), 5), ((4, 7), 4)])
def test_a_u_turns_back_where_few_lines_cross(inside: tuple[int, int], turns: int) -> None:
    """Not between two boxes that a line joins that is none of the levels."""
    assert left(_chain(9, [(0, 8), (1, 7), inside])) == turns


def weights(links: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """For each piece of the lines between six boxes the weight of its alignment."""
    items = [Item(str(number), -1, 40, 20) for number in range(6)]
    found = scope_nets(items, [Link(one, other, str(one)) for one, other in links])
    return {(one, other): weight for one, other, weight in ScopeLayout(
        found[-1], items, [0] * len(items), False
    ).grid.edges}


def test_what_is_to_be_in_line() -> None:
    """A box and what alone reads it in the next row most; then the middle of a long line."""
    chain = [(number, number + 1) for number in range(5)]
    assert set(weights(chain).values()) == {BOX_WEIGHT}
    fork = weights([(0, 1), (0, 2), (1, 3), (2, 3)])
    assert fork == {
        (0, 1): DUMMY_WEIGHT,
        (0, 2): DUMMY_WEIGHT,
        (1, 3): BOX_WEIGHT,
        (2, 3): BOX_WEIGHT,
    }
    passed = weights([*chain, (0, 4)])
    assert passed.pop((0, 1)) == BOX_WEIGHT
    assert sorted(passed.values()) == sorted(
        [BOX_WEIGHT] * 4 + [DUMMY_WEIGHT] * 2 + [END_WEIGHT] * 2
    )
    shared = weights([*chain, (0, 3), (0, 5)])
    assert sorted(shared.values()) == sorted(
        [BOX_WEIGHT] * 5 + [DUMMY_WEIGHT] * 3 + [END_WEIGHT] * 3
    )


@pytest.mark.parametrize("passed", [1, 2, 5])
def test_a_line_that_passes_boxes_is_beside_these(passed: int) -> None:
    """From the gap below its source to that above its sink, and in no other row."""
    items = [Item(str(number), -1, 40, 20) for number in range(passed + 4)]
    links = [Link(number, number + 1, "x") for number in range(passed + 3)]
    planned = plan(items, [*links, Link(1, passed + 2, "skip")])
    trunk = dict(zip(planned.carried[0], planned.templates[0].trunks))[1, "skip"]
    gaps = [gap for stem in trunk.stems for gap in range(stem.begin, stem.end)]
    assert gaps == list(range(2, passed + 2))
