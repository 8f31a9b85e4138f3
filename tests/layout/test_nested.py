"""Nested layout: boxes apart, inside each other, in order; lines beside them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings, strategies as st

from torchrecorder.layout.layered import Item, Link, Picture, PlacedBox, Plan, place, plan
from torchrecorder.layout.layered.constants import LAYER_GAP, PAD, SEPARATION
from torchrecorder.layout.layered.edge_routing import Trunks, edge_routes
from torchrecorder.layout.layered.place import EdgeSection
from torchrecorder.layout.layered.positions import PlanePoint

SOME = settings(max_examples=60, deadline=None)
SLACK = 0.05


@st.composite
def trees(draw: st.DrawFn, most: int = 24) -> tuple[list[Item], list[Link]]:
    """Items in each other, and links between those with nothing in them, some in circles."""
    parents = [-1]
    for number in range(draw(st.integers(1, most))):
        parents.append(draw(st.integers(-1, number)))
    inner = set(parents)
    size = st.floats(10, 150).map(lambda number: round(number, 1))
    items = [
        Item(
            f"i{number}",
            parent,
            draw(size),
            draw(size),
            (draw(size), draw(st.sampled_from([10.0, 24.0]))) if number in inner else None,
            draw(st.integers(0, 9)) == 0,
        )
        for number, parent in enumerate(parents)
    ]
    for number in inner - {-1}:
        if (items[number].header or ())[1:] == (24.0,):
            items[number] = items[number]._replace(in_one=(draw(st.floats(10, 300)), 12.0))
    leaves = [number for number in range(len(items)) if number not in inner]
    links = []
    for _ in range(draw(st.integers(0, 2 * most))):
        tail, head = draw(st.sampled_from(leaves)), draw(st.sampled_from(leaves))
        if tail != head and (tail < head or draw(st.integers(0, 12)) == 0):
            links.append(Link(tail, head, draw(st.sampled_from("ab"))))
    return items, links


directions = st.sampled_from(["TB", "LR", "BT", "RL"])


def some_open(data: st.DataObject, items: Sequence[Item]) -> list[int]:
    """A choice of items to open."""
    can = [number for number, item in enumerate(items) if item.header is not None]
    return [number for number in can if data.draw(st.booleans())]


def overlap(one: PlacedBox, other: PlacedBox) -> bool:
    """Whether two boxes have a place in common."""
    return (
        one.x + one.width > other.x + SLACK
        and other.x + other.width > one.x + SLACK
        and one.y + one.height > other.y + SLACK
        and other.y + other.height > one.y + SLACK
    )


def is_on_edge(point: PlanePoint, box: PlacedBox) -> bool:
    """Whether a point is on the outline of a box."""
    x, y = point
    upright = min(abs(x - box.x), abs(x - box.x - box.width)) < SLACK
    level = min(abs(y - box.y), abs(y - box.y - box.height)) < SLACK
    return (
        (upright or level)
        and box.x - SLACK <= x <= box.x + box.width + SLACK
        and box.y - SLACK <= y <= box.y + box.height + SLACK
    )


def crosses(points: Sequence[PlanePoint], box: PlacedBox) -> bool:
    """Whether a line of upright and level pieces runs through the inside of a box."""
    for (ax, ay), (bx, by) in zip(points, points[1:]):
        if (
            max(ax, bx) > box.x + SLACK
            and min(ax, bx) < box.x + box.width - SLACK
            and max(ay, by) > box.y + SLACK
            and min(ay, by) < box.y + box.height - SLACK
        ):
            return True
    return False


def check_levels(ways: Sequence[Sequence[PlanePoint]], links: Sequence[Link]) -> None:
    """No level piece of a line lies on one of another tensor: they could not be told apart."""
    level: dict[float, list[tuple[float, float, tuple[int, str]]]] = {}
    for way, link in zip(ways, links):
        for (ax, ay), (bx, by) in zip(way, way[1:]):
            if abs(ay - by) < SLACK < abs(ax - bx):
                piece = min(ax, bx), max(ax, bx), (link.tail, link.value)
                level.setdefault(round(ay, 1), []).append(piece)
    for pieces in level.values():
        for number, (begin, end, tensor) in enumerate(pieces):
            others = (other for other in pieces[number + 1 :] if other[2] != tensor)
            assert all(min(end, right) - max(begin, left) < 1 for left, right, _ in others)


def check(picture: Picture, planned: Plan) -> None:
    """Boxes are apart and inside each other; lines end on boxes and run through none."""
    boxes = {box.item: box for box in picture.boxes}
    siblings: dict[int, list[PlacedBox]] = {}
    for box in picture.boxes:
        siblings.setdefault(planned.items[box.item].parent, []).append(box)
    paper = PlacedBox(-1, 0.0, 0.0, picture.width, picture.height, True)
    for parent, inside in siblings.items():
        around = boxes.get(parent, paper)
        assert [box.item for box in inside] == sorted(box.item for box in inside)
        for number, box in enumerate(inside):
            assert box.x >= around.x - SLACK and box.y >= around.y - SLACK
            assert box.x + box.width <= around.x + around.width + SLACK
            assert box.y + box.height <= around.y + around.height + SLACK
            assert not any(overlap(box, other) for other in inside[number + 1 :])
    for way in picture.sections:
        if way.tail >= 0:
            assert is_on_edge(way.points[0], boxes[way.tail])
        if way.head >= 0:
            assert is_on_edge(way.points[-1], boxes[way.head])
        for box in siblings[way.scope]:
            assert not crosses(way.points, box)
        around = boxes.get(way.scope, paper)
        item = planned.items[way.scope] if way.scope >= 0 else Item("paper", -1, 0, 0)
        header = item.in_one if around.in_one else item.header
        if header is not None and planned.direction == "TB":
            title = around._replace(x=around.x + PAD, width=header[0], height=header[1])
            assert not crosses(way.points, title)
        for x, y in way.points:
            assert around.x - SLACK <= x <= around.x + around.width + SLACK
            assert around.y - SLACK <= y <= around.y + around.height + SLACK


@SOME
@given(trees(), directions, st.data())
def test_boxes_and_lines_keep_apart(
    tree: tuple[list[Item], list[Link]], direction: str, data: st.DataObject
) -> None:
    """No two boxes overlap, none sticks out, no line crosses one, whatever is open."""
    planned = plan(*tree, direction)  # type: ignore[arg-type]
    for _ in range(3):
        check(place(planned, some_open(data, tree[0])), planned)
    check(place(planned), planned)


@SOME
@given(trees(), st.data())
def test_opening_keeps_the_order(tree: tuple[list[Item], list[Link]], data: st.DataObject) -> None:
    """Who stands left of a sibling beside it, or begins above one, still does when it opens."""
    planned = plan(*tree)
    opened = some_open(data, tree[0])
    before = {box.item: box for box in place(planned, []).boxes}
    after = {box.item: box for box in place(planned, opened).boxes}
    for one in before.values():
        for other in before.values():
            if planned.items[one.item].parent != planned.items[other.item].parent:
                continue
            here, there = after[one.item], after[other.item]
            if one.y + one.height <= other.y:
                assert here.y <= there.y + SLACK
            elif one.x + one.width <= other.x and one.y < other.y + other.height:
                assert here.x + here.width <= there.x + SLACK


@SOME
@given(trees(), st.data())
def test_whole_lines_go_from_box_to_box(
    tree: tuple[list[Item], list[Link]], data: st.DataObject
) -> None:
    """Each link is one line from its tail to its head, and through no other box without parts."""
    items, links = tree
    planned = plan(items, links)
    picture = place(planned)
    boxes = {box.item: box for box in picture.boxes}
    ways = list(edge_routes(picture, links))
    assert len(ways) == len(links)
    for link, points in zip(links, ways):
        assert is_on_edge(points[0], boxes[link.tail])
        assert is_on_edge(points[-1], boxes[link.head])
        for box in boxes.values():
            assert box.open or not crosses(points, box)
    _check_order(picture, planned)


@SOME
@given(trees())
def test_lines_drawn_once_cover_all(tree: tuple[list[Item], list[Link]]) -> None:
    """What is left of lines that share a trunk still covers every corner of every one."""
    items, links = tree
    picture = place(plan(items, links))
    trunks = Trunks()
    drawn: dict[tuple[int, str], list[tuple[PlanePoint, ...]]] = {}
    for link, points in zip(links, edge_routes(picture, links)):
        key = (link.tail, link.value)
        drawn.setdefault(key, []).append(trunks.fresh(key, points))
        assert drawn[key][-1][-1] == points[-1]
        for corner in points:
            assert any(_passes(each, corner) for each in drawn[key])


def _check_order(picture: Picture, planned: Plan) -> None:
    """Lines to a closed box do not cross each other below the last box above it."""
    parents = [item.parent for item in planned.items]
    boxes = {box.item: box for box in picture.boxes}
    entering: dict[int, list[EdgeSection]] = {}
    for piece in picture.sections:
        if piece.head >= 0 and not boxes[piece.head].open and not piece.exits:
            entering.setdefault(piece.head, []).append(piece)
    for head, pieces in entering.items():
        siblings = [box for box in boxes.values() if parents[box.item] == parents[head]]
        bottoms = [box.y + box.height for box in siblings]
        above = max((bottom for bottom in bottoms if bottom <= boxes[head].y), default=0.0)
        ends = [(_across(piece.points, above), piece.points[-1][0]) for piece in pieces]
        for one, other in combinations(ends, 2):
            assert (one[0] - other[0]) * (one[1] - other[1]) >= 0


def _across(points: Sequence[PlanePoint], height: float) -> float:
    """Where a line goes down past that height, or where it is highest."""
    highest = min(y for _, y in points)
    return [x for x, y in points if y <= max(height, highest)][0 if height < highest else -1]


def _passes(points: Sequence[PlanePoint], point: PlanePoint) -> bool:
    x, y = point
    return any(
        min(ax, bx) - SLACK <= x <= max(ax, bx) + SLACK
        and min(ay, by) - SLACK <= y <= max(ay, by) + SLACK
        for (ax, ay), (bx, by) in zip(points, points[1:])
    )


def test_equal_scopes_share_a_template() -> None:
    """Scopes with equal boxes and wiring are laid out once."""
    items = [Item("in", -1, 40, 20, first=True)]
    links = []
    for block in range(50):
        number = len(items)
        items.append(Item(f"block{block}", -1, 60, 30, (50.0, 12.0)))
        items += [Item(f"{block}.{each}", number, 40, 20) for each in "ab"]
        links += [Link(max(number - 1, 0), number + 1, "x"), Link(number + 1, number + 2, "x")]
    planned = plan(items, links)
    assert len(planned.templates) == 3  # the paper, a block, and the last, which nothing leaves
    assert len(place(planned).boxes) == len(items)


def test_a_tensor_used_twice_enters_twice() -> None:
    """``x * x`` has two lines that meet the box in different places."""
    items = [Item("x", -1, 40, 20), Item("mul", -1, 40, 20)]
    one, other = place(plan(items, [Link(0, 1, "x"), Link(0, 1, "x")])).sections
    assert one.points[-1] != other.points[-1]


def test_a_tensor_used_twice_inside_a_module_enters_it_once() -> None:
    """There its two lines part."""
    items = [Item("x", -1, 40, 20), Item("square", -1, 60, 30, (50.0, 12.0))]
    items.append(Item("mul", 1, 40, 20))
    pieces = place(plan(items, [Link(0, 2, "x"), Link(0, 2, "x")])).sections
    assert [(piece.scope, piece.head) for piece in pieces] == [(-1, 1), (1, 2), (1, 2)]
    assert len({piece.points[-1] for piece in pieces[1:]}) == 2


def test_a_line_from_a_box_to_itself_runs_around_it() -> None:
    """Up beside it, as other lines that run back do."""
    items = [Item("x", -1, 40, 20), Item("y", -1, 40, 20)]
    planned = plan(items, [Link(0, 1, "x"), Link(1, 1, "y")])
    picture = place(planned)
    check(picture, planned)
    box, way = picture.boxes[1], picture.sections[1].points
    assert way[0][1] == box.y + box.height and way[-1][1] == box.y
    assert max(x for x, _ in way) > box.x + box.width


def test_a_long_line_takes_a_lane() -> None:
    """In a dense net the lines that pass many boxes run beside all of them."""
    items = [Item(str(number), -1, 40, 20) for number in range(40)]
    links = [Link(a, b, "x") for a in range(40) for b in range(a + 1, 40)]
    planned = plan(items, links)
    picture = place(planned)
    check(picture, planned)
    right = max(box.x + box.width for box in picture.boxes)
    assert any(max(x for x, _ in way.points) > right for way in picture.sections)


def test_a_dense_net_of_many_boxes_stays_small() -> None:
    """Lines that all run the same way are bands: each further box adds the same height."""

    def height(count: int) -> float:
        items = [Item(str(number), -1, 80, 30) for number in range(count)]
        links = [Link(a, b, "x") for a in range(count) for b in range(a + 1, count)]
        planned = plan(items, links)
        picture = place(planned)
        if count == 64:
            check(picture, planned)
        assert picture.width < 640
        return picture.height

    assert height(128) - height(96) == pytest.approx(height(96) - height(64), rel=0.02)


def chain_beside_a_block() -> tuple[list[Item], list[Link]]:
    """A chain of four boxes beside a module with a chain of eight in it; one box reads both."""
    items = [Item("x", -1, 40, 20, first=True), Item("block", -1, 60, 30, (50.0, 12.0))]
    items += [Item(f"inside{each}", 1, 40, 20) for each in range(8)]
    items += [Item(f"beside{each}", -1, 40, 20) for each in range(4)]
    items.append(Item("add", -1, 40, 20))
    links = [Link(0, 2, "x"), Link(0, 10, "x"), Link(9, 14, "y"), Link(13, 14, "y")]
    links += [Link(n, n + 1, "y") for n in (*range(2, 9), *range(10, 13))]
    return items, links


def test_a_chain_beside_an_open_box_need_not_wait_for_its_end() -> None:
    """The open box fills the rows beside the chain, which keeps its usual distances."""
    planned = plan(*chain_beside_a_block())
    opened = place(planned)
    check(opened, planned)
    boxes = {box.item: box for box in opened.boxes}
    assert boxes[1].y + boxes[1].height > boxes[13].y
    apart = [boxes[each + 1].y - boxes[each].y - 20 for each in range(10, 13)]
    assert apart == pytest.approx([LAYER_GAP] * 3)


def test_what_is_around_an_open_box_comes_back_to_its_lines() -> None:
    """A wide open box does not keep apart what stands above and below it."""
    items = [Item("in", -1, 40, 20, first=True), Item("block", -1, 60, 30, (50.0, 12.0))]
    items += [Item(f"wide{each}", 1, 200, 20) for each in range(3)]
    items += [Item("left", -1, 40, 20), Item("right", -1, 40, 20)]
    links = [Link(0, 2, "x"), Link(0, 3, "x"), Link(0, 4, "x"), Link(3, 5, "y"), Link(3, 6, "y")]
    boxes = {box.item: box for box in place(plan(items, links)).boxes}
    assert abs(boxes[5].x - boxes[6].x) == pytest.approx(40 + SEPARATION[True, True])


@pytest.mark.parametrize("ends", ["inputs", "outputs"])
def test_inputs_and_outputs_stand_as_their_module_has_them(ends: str) -> None:
    """Lines between a module and what only it is joined to do not cross each other."""
    items = [Item("block", -1, 60, 30, (50.0, 12.0))]
    items += [Item(f"inside{each}", 0, 40, 20) for each in range(5)]
    items += [Item(f"outside{each}", -1, 40, 20, first=ends == "inputs") for each in range(5)]
    order = [3, 0, 4, 1, 2]
    links = [Link(each + 1, each + 2, "chain") for each in range(4)]
    for each, other in enumerate(order):
        inside, outside = each + 1, other + 6
        pair = (outside, inside) if ends == "inputs" else (inside, outside)
        links.append(Link(*pair, f"v{each}"))
    picture = place(plan(items, links))
    ways = [piece.points for piece in picture.sections if piece.scope == -1]
    inner = [points[-1 if ends == "inputs" else 0][0] for points in ways]
    outer = [points[0 if ends == "inputs" else -1][0] for points in ways]
    assert sorted(range(5), key=inner.__getitem__) == sorted(range(5), key=outer.__getitem__)


def test_a_long_chain_is_linear_work() -> None:
    """A chain is laid out in pieces that stay in line."""
    items = [Item(str(number), -1, 40, 20) for number in range(1500)]
    picture = place(plan(items, [Link(n, n + 1, "x") for n in range(1499)]))
    assert len({round(box.x) for box in picture.boxes}) == 1


def test_without_graphviz_in_time_lines_still_do_not_cross(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A layout that does not end in time costs little: boxes are ordered without it."""
    from torchrecorder.errors import LayoutFailed
    from torchrecorder.layout import engine

    def late(*_: object, **__: object) -> list[bytes]:
        raise LayoutFailed("too late")

    monkeypatch.setattr(engine, "run_many", late)
    items = [Item(f"i{number}", -1, 40, 20) for number in range(30)]
    planned = plan(items, [Link(number, 29 - number, "x") for number in range(15)])
    picture = place(planned)
    check(picture, planned)
    above, below = picture.boxes[:15], picture.boxes[:14:-1]
    orders = [sorted(range(15), key=lambda n: row[n].x) for row in (above, below)]
    assert orders[0] == orders[1]
