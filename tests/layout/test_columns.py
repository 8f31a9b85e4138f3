"""Columns: long scopes cut to fit a sheet, with boxes and lines still apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, strategies as st

from tests.layout.test_nested import SLACK, SOME, check, check_levels, crosses, directions, trees
from torchrecorder.layout.layered import Item, Link, Picture, PlacedBox, place, plan
from torchrecorder.layout.layered.constants import STRAIGHT_TOLERANCE
from torchrecorder.layout.layered.edge_routing import edge_routes
from torchrecorder.layout.layered.place import Sheet, _Placing
from torchrecorder.layout.layered.positions import PlanePoint


def sheet(width: float, height: float, enough: float = 1.0) -> Sheet:
    """A sheet of this size."""
    return Sheet(lambda wide, high: min(1.0, width / wide, height / high), enough)


def in_columns(planned, limit: float) -> Picture:  # type: ignore[no-untyped-def]
    """Everything open, in columns of about this length."""
    placing = _Placing(planned, None)
    return placing._spread(placing._all(limit))


@SOME
@given(trees(), directions, st.floats(60, 800))
def test_boxes_and_lines_keep_apart_in_columns(
    tree: tuple[list[Item], list[Link]], direction: str, limit: float
) -> None:
    """Whatever is cut, all holds that holds without columns."""
    planned = plan(*tree, direction)  # type: ignore[arg-type]
    picture = in_columns(planned, limit)
    check(picture, planned)
    boxes = {box.item: box for box in picture.boxes}
    assert set(boxes) == {box.item for box in place(planned).boxes}
    ways = list(edge_routes(picture, tree[1]))
    if direction in ("TB", "BT"):
        check_levels(ways, tree[1])
    for points in ways:
        assert not any(crosses(points, box) for box in boxes.values() if not box.open)
        for (ax, ay), (bx, by) in zip(points, points[1:]):
            assert min(abs(ax - bx), abs(ay - by)) < STRAIGHT_TOLERANCE + SLACK  # moved since


@SOME
@given(trees(), st.floats(100, 800), st.floats(100, 800), st.floats(1, 1.5), st.floats(0.1, 1))
def test_a_larger_sheet_never_makes_a_picture_smaller(
    tree: tuple[list[Item], list[Link]], width: float, height: float, more: float, enough: float
) -> None:
    """Nor does one on which text can be read become one on which it cannot."""
    planned = plan(*tree)
    plain = place(planned)
    scales = []
    for times in (1.0, more):
        wanted = sheet(width * times, height * times, enough)
        picture = place(planned, sheet=wanted)
        scales.append(wanted.scale(picture.width, picture.height))
        assert scales[-1] >= wanted.scale(plain.width, plain.height) - 1e-9
    assert scales[1] >= enough or scales[0] < enough


def _chain(count: int, wide: float = 100, high: float = 40) -> tuple[list[Item], list[Link]]:
    """Boxes in an open module, each of which reads the one before."""
    items = [Item("model", -1, 60, 30, (50.0, 12.0))]
    items += [Item(str(number), 0, wide, high) for number in range(count)]
    return items, [Link(number, number + 1, "x") for number in range(1, count)]


def test_a_long_chain_stands_in_columns_on_a_sheet() -> None:
    """It begins at the top left, goes on at the top of the next column, and is much larger."""
    planned = plan(*_chain(40))
    picture = place(planned, sheet=sheet(500.0, 750.0))
    check(picture, planned)
    assert place(planned).height > 2000 and picture.height < 750 and picture.width < 600
    boxes = {box.item: box for box in picture.boxes}
    starts = [n for n in range(2, 41) if boxes[n].y < boxes[n - 1].y]
    assert len(starts) == 3 and len({round(boxes[n].y) for n in starts}) == 1
    assert all(boxes[n].x > boxes[n - 1].x + 100 for n in starts)


@pytest.mark.parametrize("title", [12.0, 100.0, 200.0])
def test_a_tall_title_counts_as_part_of_the_columns(title: float) -> None:
    """With it they are no more than two boxes longer than what was asked for."""
    items, links = _chain(20)
    items[0] = items[0]._replace(header=(50.0, title))
    assert in_columns(plan(items, links), 500.0).height < 600


@pytest.mark.parametrize("chains", [1, 3])
def test_any_ratio_can_be_filled(chains: int) -> None:
    """A chain, and three modules with a chain each, are about as wide and high as what they fit."""
    items, links = _chain(40)
    for more in range(1, chains):
        first = len(items)
        items += [each._replace(parent=each.parent if each.parent < 0 else first)
                  for each in _chain(40)[0]]
        links += [Link(one + first, other + first, "x") for one, other, *_ in _chain(40)[1]]
        links.append(Link(first - 1, first + 1, "x"))
    planned = plan(items, links)
    for wide, high in ((300.0, 400.0), (400.0, 300.0), (400.0, 200.0)):
        picture = place(planned, sheet=sheet(wide, high))
        check(picture, planned)
        assert 0.6 < (picture.height / picture.width) / (high / wide) < 1.67


def _ways(items: list[Item], links: list[Link], limit: float) -> tuple[
    dict[int, PlacedBox], list[tuple[PlanePoint, ...]]
]:
    picture = in_columns(plan(items, links), limit)
    return {box.item: box for box in picture.boxes}, list(edge_routes(picture, links))


def _upright(points: Sequence[PlanePoint]) -> Iterator[tuple[float, float]]:
    """How far each upright piece of a line goes, downwards, and where it is."""
    for (ax, ay), (bx, by) in zip(points, points[1:]):
        if abs(ax - bx) < STRAIGHT_TOLERANCE:
            yield by - ay, ax


def test_no_line_runs_down_a_column_and_back_up() -> None:
    """What two boxes of the first column give turns off below them, and passes above others."""
    items, links = _chain(30)
    links += [Link(1, 25, "skip"), Link(2, 30, "skip")]
    boxes, ways = _ways(items, links, 350)
    columns = sorted({round(box.x) for item, box in boxes.items() if item})
    assert len(columns) > 3
    for link, points in zip(links, ways):
        if link.value == "skip":
            tail, head = boxes[link.tail], boxes[link.head]
            down = [far for far, _ in _upright(points) if far > 0]
            assert max(down) <= head.y - boxes[0].y
            assert all(far < 30 for far, x in _upright(points) if x <= tail.x + tail.width)
            passed = [box for item, box in boxes.items() if item and tail.x < box.x < head.x]
            below = [point for point in points if point[0] < head.x - 50]
            assert not any(
                box.x - 5 < x < box.x + box.width + 5 and y > box.y for x, y in below
                for box in passed
            )


def test_a_line_turns_off_beside_a_longer_box() -> None:
    """What stands on the right of a long module need not wait for its end."""
    items, links = _chain(6)
    items += [Item(name, -1, 40, 20, first=name == "from") for name in ("from", "one", "other")]
    items += [Item(f"e{number}", -1, 100, 40) for number in range(6)]
    links += [Link(7, each, "x") for each in (9, 1, 8)]
    links += [Link(one, one + 1, "x") for one in range(10, 15)]
    links += [Link(6, 10, "x"), Link(8, 14, "aside"), Link(9, 15, "aside")]
    boxes, ways = _ways(items, links, 450)
    long = boxes[0]
    beside = [box for box in (boxes[8], boxes[9]) if box.x > long.x + long.width]
    assert boxes[10].x > long.x + long.width and beside
    for link, points in zip(links, ways):
        if link.value == "aside":
            lowest = max(y for x, y in points if x < boxes[10].x)
            assert (lowest < long.y + 60) == (boxes[link.tail] in beside)


def test_there_are_at_most_12_columns() -> None:
    """However short they are asked to be."""
    boxes, _ = _ways(*_chain(13 * 12), 1)
    assert len({round(box.x) for item, box in boxes.items() if item}) == 12


def test_a_column_of_little_is_none() -> None:
    """An output below a long box stays there: a column of its own would save next to nothing."""
    items = [Item("a", -1, 100, 400), Item("b", -1, 50, 20)]
    boxes, _ = _ways(items, [Link(0, 1, "x")], 200)
    assert boxes[1].y > boxes[0].y + boxes[0].height - SLACK


def test_tensors_enter_and_leave_by_their_columns() -> None:
    """What comes in for a later column goes there above all; what leaves goes straight down."""
    items, links = _chain(20)
    items += [Item("in", -1, 50, 20, first=True), Item("out", -1, 50, 20)]
    links += [Link(21, 1, "in"), Link(21, 18, "in"), Link(3, 22, "early")]
    boxes, ways = _ways(items, links, 350)
    named = {(link.tail, link.head): points for link, points in zip(links, ways)}
    highest = min(box.y for item, box in boxes.items() if 0 < item < 21)
    late = named[21, 18]
    assert max(y for x, y in late if x < boxes[18].x - 30) < highest
    early = named[3, 22]
    assert all(far >= 0 for far, _ in _upright(early))


@pytest.mark.parametrize("enough", [0.3, 1.0])
def test_the_simplest_of_almost_equal_pictures(enough: float) -> None:
    """Columns are not cut for a few percent, unless the text can only then be read."""
    planned = plan(*_chain(12))
    plain = place(planned)
    scale = Sheet(lambda wide, high: 0.97 if high == plain.height else 1.0, enough)
    columns = {round(box.x) for box in place(planned, sheet=scale).boxes if box.item}
    assert (len(columns) > 1) == (enough == 1.0)
