"""An encoder and a decoder, each one module, as the two sides of a U."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings, strategies as st

from tests.layout.test_columns import sheet
from tests.layout.test_nested import SLACK, check_levels, crosses, is_on_edge, trees
from tests.work import growth
from torchrecorder.layout.layered import Item, Link, Picture, PlacedBox
from torchrecorder.layout.layered.edge_routing import edge_routes
from torchrecorder.layout.layered.encoder_decoder import encoder_decoder, laid_out

Net = tuple[list[Item], list[Link]]
SIZE = st.tuples(st.floats(30, 120), st.floats(20, 80)).map(
    lambda size: (round(size[0], 1), round(size[1], 1))
)
ENCODER, DECODER = 2, 3


def net(sizes: Sequence[tuple[float, float]], opened: bool = False) -> Net:
    """A model with an encoder of as many boxes as there are *sizes*, a decoder that reads all of
    these, the last one first, and a head; the boxes of the decoder may be open modules."""
    items = [
        Item("x", -1, 60, 20, first=True), Item("model", -1, 80, 30, (50.0, 12.0)),
        Item("encoder", 1, 80, 30, (60.0, 12.0), module=True),
        Item("decoder", 1, 80, 30, (60.0, 24.0), module=True),
    ]
    links, last, down = [], 0, []
    for number, size in enumerate(sizes):
        items.append(Item(f"down{number}", ENCODER, *size, module=True))
        links.append(Link(last, len(items) - 1, "y"))
        last = len(items) - 1
        down.append(last)
    for number, (width, height) in enumerate(sizes):
        items.append(Item(f"up{number}", DECODER, height + 20, width, module=True))
        reads = len(items) - 1
        if opened:
            items[-1] = items[-1]._replace(header=(25.0, 12.0))
            items.append(Item(f"cat{number}", reads, height, width / 2))
            reads += 1
        links.append(Link(last, reads, "y"))
        if number:
            links.append(Link(down[-1 - number], reads, "y"))
        last = len(items) - 1
    items += [Item("head", 1, 50, 20), Item("out", -1, 50, 20)]
    links += [Link(last, len(items) - 2, "y"), Link(len(items) - 2, len(items) - 1, "y")]
    return items, links


def drawn(items: Sequence[Item], links: Sequence[Link]) -> tuple[Picture, dict[str, PlacedBox]]:
    """The picture as a U, with its boxes by name."""
    picture = encoder_decoder(items, links, None, 60.0)
    assert picture is not None and picture.shaped
    assert picture == encoder_decoder(items, links, None, 60.0)
    return picture, {items[box.item].id: box for box in picture.boxes}


def _holds(box: PlacedBox, other: PlacedBox) -> bool:
    across = box.x < other.x and other.x + other.width < box.x + box.width
    return across and box.y < other.y and other.y + other.height < box.y + box.height


@settings(max_examples=25, deadline=None)
@given(st.lists(SIZE, min_size=3, max_size=6), st.booleans())
def test_levels_stand_side_by_side(sizes: list[tuple[float, float]], opened: bool) -> None:
    """In two frames, with level lines from frame to frame, and the head above the decoder."""
    items, links = net(sizes, opened)
    picture, boxes = drawn(items, links)
    for box in picture.boxes:
        around = items[box.item].parent
        assert around < 0 or _holds(boxes[items[around].id], box)
    encoder, decoder = boxes["encoder"], boxes["decoder"]
    assert encoder.x + encoder.width < decoder.x and decoder.up and not encoder.up
    for frame, first in ((encoder, "down0"), (decoder, f"up{len(sizes) - 1}")):
        header = items[frame.item].header
        assert header is not None and boxes[first].y > frame.y + header[1]
    assert boxes["head"].y + boxes["head"].height < decoder.y
    routes = list(edge_routes(picture, links))
    check_levels(routes, links)
    closed = [box for box in picture.boxes if not box.open]
    assert not any(crosses(route, box) for route in routes for box in closed)
    middle = (encoder.x + encoder.width + decoder.x) / 2
    for link, route in zip(links, routes):
        for end, point in ((link.tail, route[0]), (link.head, route[-1])):
            assert is_on_edge(point, boxes[items[end].id])
        over = [
            (ay, by) for (ax, ay), (bx, by) in zip(route, route[1:])
            if min(ax, bx) < middle < max(ax, bx)
        ]
        joins = items[link.tail].id[:4] == "down" and items[link.head].id[:4] != "down"
        assert len(over) == joins and all(abs(ay - by) < SLACK for ay, by in over)


@pytest.mark.parametrize(
    "tail, head", [("x", "down1"), ("x", "up0"), ("down0", "head"), ("up0", "head")]
)
def test_other_lines_join_neither(tail: str, head: str) -> None:
    """The line of a second tensor to or from one of both makes no U."""
    items, links = net([(60, 40)] * 4)
    number = {item.id: at for at, item in enumerate(items)}
    links.append(Link(number[tail], number[head], "other"))
    assert encoder_decoder(items, links, None, 60.0) is None


@pytest.mark.parametrize("head", ["up1", "up3", "head"])
def test_the_input_may_be_read_further_on(head: str) -> None:
    """By the decoder, or beside both; its line runs through no box, and not through the frame of
    the encoder."""
    items, links = net([(60, 40)] * 4)
    number = {item.id: at for at, item in enumerate(items)}
    links.append(Link(0, number[head], "y"))
    picture, boxes = drawn(items, links)
    *_, route = routes = list(edge_routes(picture, links))
    check_levels(routes, links)
    assert not crosses(route, boxes["encoder"])
    closed = [box for box in picture.boxes if not box.open]
    assert not any(crosses(each, box) for each in routes for box in closed)


def test_two_levels_are_no_u() -> None:
    """Two tensors from module to module may be a result and its shape."""
    assert encoder_decoder(*net([(60, 40)] * 2), None, 60.0) is None


def test_in_other_directions_the_flow_stays_as_asked_for() -> None:
    """Only from top to bottom the second half may run up."""
    items, links = net([(60, 40)] * 4)
    assert laid_out(items, links, "TB", None, 60.0).shaped
    assert not laid_out(items, links, "LR", None, 60.0).shaped


def test_on_a_sheet_that_is_too_low() -> None:
    """The figure has columns, and says that it would be a U elsewhere."""
    items, links = net([(60, 40)] * 6)
    whole = laid_out(items, links, "TB", None, 60.0)
    low = laid_out(items, links, "TB", sheet(3000, whole.height / 2), 60.0)
    assert low.cut and not low.shaped and low.height < whole.height
    assert len(low.boxes) == len(whole.boxes) == len(items)


@settings(max_examples=25, deadline=None)
@given(trees())
def test_any_graph_is_drawn(tree: Net) -> None:
    """With all of its boxes and lines."""
    items, links = tree
    picture = laid_out(items, links, "TB", None, 60.0)
    assert len(picture.boxes) == len(items)
    assert len(list(edge_routes(picture, links))) == len(links)


def test_many_levels_are_in_proportion() -> None:
    """The time for the frames grows as that for the rest."""
    def placing(levels: int) -> Callable[[], object]:
        items, links = net([(60, 40)] * levels)
        return lambda: encoder_decoder(items, links, None, 60.0)

    assert growth(placing, 12) < 2.4
