"""The main flow stays straight where boxes that read nothing, such as weights, join it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from torchrecorder.layout.layered import Item, Link, place, plan
from torchrecorder.layout.layered.constants import MIN_PORT_PITCH, PORT_MARGIN
from torchrecorder.layout.layered.coordinate_assignment import _aside
from torchrecorder.layout.layered.tracks import slots

HEADER = (50.0, 12.0)


def middles(items: Sequence[Item], links: Sequence[Link], name: str) -> set[float]:
    """The positions of the boxes of a name across the flow, with everything open."""
    boxes = place(plan(items, links)).boxes
    return {round(box.x + box.width / 2, 2) for box in boxes if items[box.item].id == name}


def weighted(modules: int, nested: bool) -> tuple[list[Item], list[Link]]:
    """Operations in a row, in modules of their own or not, each with two weights."""
    items, links, last = [Item("x", -1, 40, 20, first=True)], [], 0
    for _ in range(modules):
        around = -1
        if nested:
            around = len(items)
            items.append(Item("module", -1, 60, 30, HEADER))
        here = len(items)
        items += [Item("weight", around, 60, 20), Item("bias", around, 50, 20)]
        items.append(Item("op", around, 50, 20))
        links += [Link(each, here + 2, "v") for each in (last, here, here + 1)]
        last = here + 2
    return items, links


@pytest.mark.parametrize("nested", [True, False])
def test_weights_do_not_move_the_main_flow(nested: bool) -> None:
    """However many modules have some, all that runs is below the input."""
    items, links = weighted(5, nested)
    assert middles(items, links, "op") == middles(items, links, "x")


@pytest.mark.parametrize("steps", [2, 3, 6])
@pytest.mark.parametrize("length", [1, 2])
def test_chains_that_depend_on_no_input_do_not_move_the_main_flow(steps: int, length: int) -> None:
    """Shorter ones that feed it, as batches feed training steps, in whatever order."""
    items = [Item("x", -1, 40, 20, first=True), *[Item("op", -1, 60, 20)] * (length + 1)]
    links, last = [Link(each, each + 1, "v") for each in range(length + 1)], length + 1
    for step in range(steps):
        main, batch = len(items), len(items) + 2
        items += [Item("op", -1, 60, 20), Item("op", -1, 60, 20)]
        items += [Item("batch", -1, 70, 20) for _ in range(length + 1)]
        links += [Link(each, each + 1, "v") for each in range(batch, batch + length)]
        feeds = [Link(batch + length, main, "v"), Link(last, main, "w")]
        links += [*feeds[:: 1 if step % 2 else -1], Link(main, main + 1, "v")]
        last = main + 1
    assert middles(items, links, "op") == middles(items, links, "x")


def test_of_branches_of_equal_length_none_is_aside() -> None:
    """Both bend, and what joins them is between them or below one of them."""
    items = [Item("x", -1, 40, 20, first=True), Item("a", -1, 60, 20), Item("b", -1, 60, 20)]
    items.append(Item("sum", -1, 40, 20))
    links = [Link(0, 1, "v"), Link(0, 2, "v"), Link(1, 3, "v"), Link(2, 3, "v")]
    template = plan(items, links).templates[0]
    assert _aside(template) == (set(), {})


@pytest.mark.parametrize("steps", [0, 1, 4])
@pytest.mark.parametrize("nested", [True, False])
def test_the_main_flow_is_that_of_the_data(steps: int, nested: bool) -> None:
    """Masks and positions join it from the side, also after more operations than the data."""
    items = [Item(name, -1, 40, 20, first=True) for name in ("data", "mask")]
    around = 2 if nested else -1
    items += [Item("module", -1, 60, 30, HEADER)] * nested
    first = len(items)
    items += [Item("op", around, 60, 20), Item("join", around, 60, 20), Item("end", around, 60, 20)]
    items += [Item("side", around, 90, 24)] * (steps + 1)
    chain = [1, *range(first + 3, first + 4 + steps), first + 1]
    links = [Link(0, first, "v"), Link(first, first + 1, "v"), Link(first + 1, first + 2, "v")]
    sides = [Link(one, other, "v", side=True) for one, other in zip(chain, chain[1:])]
    flow = middles(items, links + sides, "data")
    assert all(middles(items, links + sides, name) == flow for name in ("op", "join", "end"))
    sides = [link._replace(side=False) for link in sides]
    assert (middles(items, links + sides, "join") == flow) == (not steps)


def masked(ops: int, masks: int, first: bool) -> tuple[list[Item], list[Link]]:
    """Data through operations, and a mask that is made of them, before or after these."""
    chain, mask = ["op"] * ops, ["mask"] * masks
    names = ["data", "fork", *(mask + chain if first else chain + mask), "join", "end"]
    items = [Item(name, -1, 60, 20, first=name == "data") for name in names]
    flow = [number for number, name in enumerate(names) if name != "mask"]
    side = [1, *(number for number, name in enumerate(names) if name == "mask"), len(names) - 2]
    links = [Link(one, other, "v") for one, other in zip(flow, flow[1:])]
    links += [Link(one, other, "v", side=one != 1) for one, other in zip(side, side[1:])]
    return items, links


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("ops, masks", [(0, 1), (0, 3), (1, 1), (1, 4), (3, 2)])
def test_what_makes_a_mask_of_the_data_does_not_move_the_main_flow(
    ops: int, masks: int, first: bool
) -> None:
    """Whichever of the readers of the data comes first, and however many operations they are."""
    items, links = masked(ops, masks, first)
    middle = middles(items, links, "data")
    assert all(middles(items, links, name) == middle for name in ("fork", "join", "end"))
    assert not middle & middles(items, links, "mask")


def test_a_mask_is_below_what_nothing_else_reads() -> None:
    """Then no data are beside it."""
    items, links = masked(1, 1, True)
    links = [link for link in links if (link.tail, link.head) != (1, 3)]
    assert (1, 2) not in _aside(plan(items, links).templates[0])[0]


def test_what_reads_only_boxes_that_read_nothing_is_below_them() -> None:
    """There is no other flow to be in line with."""
    items = [Item("a", -1, 40, 20), Item("b", -1, 40, 20), Item("sum", -1, 40, 20)]
    links = [Link(0, 2, "v"), Link(1, 2, "v"), Link(0, 2, "w")]
    assert middles(items, links, "sum") <= middles(items, links, "a") | middles(items, links, "b")


@pytest.mark.parametrize("others", [[80.0], [80.0, 140.0], [-30.0], [-90.0, -30.0]])
@pytest.mark.parametrize("aside", [0.0, 2.0, -3.0])
def test_lines_from_the_side_do_not_bend_the_one_that_is_straight(
    others: Sequence[float], aside: float
) -> None:
    """They come closer to each other, where the box is narrow."""
    width = 52.0
    straight, *rest = slots([50.0 + aside, *others], 50.0, width)
    assert straight == 50.0 + aside
    places = sorted([straight, *rest])
    assert all(after - before >= MIN_PORT_PITCH for before, after in zip(places, places[1:]))
    assert (
        50 - width / 2 + PORT_MARGIN - 0.01
        <= places[0]
        <= places[-1]
        <= 50 + width / 2 - PORT_MARGIN + 0.01
    )


def test_many_lines_share_a_side_that_has_no_room_for_a_straight_one() -> None:
    """They are as far apart as they can be."""
    places = slots([50.0, 90.0, 100.0, 110.0], 50.0, 42.0)
    assert places == pytest.approx([35.0, 45.0, 55.0, 65.0])


@pytest.mark.parametrize("count", [3, 5])
def test_many_inputs_of_a_module_stand_on_both_sides_of_its_entries(count: int) -> None:
    """The line in their middle is straight, whichever of them came first."""
    items = [Item(f"x{at}", -1, 90, 20, first=True) for at in range(count)]
    items += [Item("module", -1, 60, 30, HEADER), Item("op", count, 60, 20)]
    links = [Link(at, count + 1, "v") for at in range(count)]
    picture = place(plan(items, links))
    boxes = {box.item: box for box in picture.boxes}
    straight = [
        section.tail for section in picture.sections
        if section.scope < 0 and len({x for x, _ in section.points}) == 1
    ]
    order = sorted(range(count), key=lambda item: boxes[item].x)
    assert straight == [order[count // 2]]


def test_sources_beside_the_main_flow_do_not_move_a_module_that_is_open() -> None:
    """However many they are: the line of what runs is straight through it."""
    items = [Item("x", -1, 40, 20, first=True), Item("op", -1, 60, 20)]
    items += [Item("source", -1, 60, 20) for _ in range(4)]
    items += [Item("module", -1, 60, 30, HEADER), Item("op", 6, 60, 20)]
    links = [Link(0, 1, "v"), *(Link(at, 7, "v") for at in range(2, 6)), Link(1, 7, "v")]
    picture = place(plan(items, links))
    ways = [section.points for section in picture.sections if section.tail == 1]
    assert ways and all(len({x for x, _ in way}) == 1 for way in ways)
