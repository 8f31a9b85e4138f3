"""The page lays out as `torchrecorder.layout.layered` does, number by number."""

from __future__ import annotations

import random
from typing import Any

import pytest

from torchrecorder.layout.layered import Item, Link, Plan, constants, place, plan

pytestmark = pytest.mark.page

PLACED = (
    "([data, open]) => { const { width, height, boxes, lines } ="
    " createLayout(data).place(new Set(open)); return [[width, height],"
    " boxes.map(box => [box.item, box.x, box.y, box.w, box.h]),"
    " lines.map(line => line.points.flat())]; }"
)


def random_tree(seed: int) -> tuple[list[Item], list[Link]]:
    """Items in each other, most feeding one further on; each seed gives another."""
    chance = random.Random(seed)
    parents = [-1]
    for number in range(30):
        parents.append(chance.randint(-1, number))
    inner = set(parents)
    items = [
        Item(
            f"i{number}",
            parent,
            round(chance.uniform(20, 120), 1),
            round(chance.uniform(15, 60), 1),
            (round(chance.uniform(20, 90), 1), 24.0) if number in inner else None,
            chance.random() < 0.1,
        )
        for number, parent in enumerate(parents)
    ]
    for number in inner - {-1}:
        if number % 2:
            items[number] = items[number]._replace(in_one=(60.0 + 5 * number, 12.0))
    leaves = [number for number in range(len(items)) if number not in inner]
    pairs = [(chance.choice(leaves), chance.choice(leaves)) for _ in range(50)]
    links = [
        Link(a, b, chance.choice("ab"), side=chance.random() < 0.3)
        for a, b in pairs if a < b or a > b + 20
    ]
    return items, links


def dense() -> tuple[list[Item], list[Link]]:
    """Each of forty boxes feeds all that follow: lanes, and boxes that many lines meet."""
    items = [Item(str(number), -1, 40.0, 20.0) for number in range(40)]
    return items, [Link(a, b, "x") for a in range(40) for b in range(a + 1, 40)]


def blocked(forks: int) -> tuple[list[Item], list[Link]]:
    """A branch of an Inception block that forks, and cannot move for the others."""
    items = [Item("x", -1, 60.0, 20.0, first=True)]
    items += [Item(str(number), -1, 60.0, 20.0) for number in range(30)]
    pairs, last, count = [(0, 1), (0, 2), (0, 3)], 2, 4
    ends = [1, 3]
    for _ in range(forks):
        pairs += [(last, count), (last, count + 1), (count, count + 2), (count + 1, count + 2)]
        pairs += [(end, count + number) for end, number in zip(ends, (3, 4))]
        pairs += [(count + number, count + number + 2) for number in (3, 4)]
        ends, last, count = [count + 5, count + 6], count + 2, count + 7
    pairs += [(end, count) for end in (ends[0], last, ends[1])] + [(count, count + 1)]
    return items[: count + 2], [Link(one, other, "v") for one, other in pairs]


def branching(seed: int) -> tuple[list[Item], list[Link]]:
    """Chains with forks to branches, many of them equal; some of their boxes can open."""
    chance = random.Random(seed)
    items = [Item("x", -1, 50.0, 20.0, first=True)]
    links: list[Link] = []

    def grown(around: int, source: int, depth: int) -> int:
        """The end of a chain from a box in an item."""
        if depth and chance.random() < 0.4:
            opened = len(items)
            items.append(Item(f"i{opened}", around, 70.0, 20.0, (40.0, 12.0)))
            return grown(opened, grown(opened, source, depth - 1), depth - 1)
        items.append(Item(f"i{len(items)}", around, chance.choice([40.0, 60.0]), 20.0))
        links.append(Link(source, len(items) - 1, "v", side=chance.random() < 0.05))
        return len(items) - 1

    last = 0
    for _ in range(6):
        begin = len(items)
        ends, count, shape = [], chance.choice([1, 2, 2, 3, 4]), chance.random()
        for _ in range(count):
            state = chance.getstate()
            if chance.random() < 0.8:  # as the branch before
                chance.seed(shape)
            ends.append(grown(-1, grown(-1, last, 2), 1))
            chance.setstate(state)
            chance.random()
        if chance.random() < 0.8:
            items.append(Item("join", -1, 40.0, 20.0))
            links += [Link(end, len(items) - 1, "v") for end in ends]
            if chance.random() < 0.2:
                links.append(Link(last, len(items) - 1, "v"))
        last = len(items) - 1 if chance.random() < 0.9 else begin
        if items[last].header is not None:
            last = ends[-1]
    return items, links


def as_data(planned: Plan) -> dict[str, Any]:
    """What the page is given of a plan."""
    return {
        "direction": planned.direction,
        "layout": constants.to_json(),
        "items": {
            "parent": [item.parent for item in planned.items],
            "template": planned.template[1:],
            "header_size": [
                item.header and (*item.header, *(item.in_one or ())) for item in planned.items
            ],
        },
        "templates": [each.to_json() for each in planned.templates],
        "root": planned.template[0],
        "carried": planned.carried,
    }


def forest(seed: int, trees: int) -> tuple[list[Item], list[Link]]:
    """Many small trees of items side by side: one plan lays all of them out."""
    chance = random.Random(seed)
    items: list[Item] = []
    links: list[Link] = []
    for _ in range(trees):
        start = len(items)
        parents = [-1]
        for number in range(chance.randint(1, 14)):
            parents.append(chance.randint(max(number - 6, 0), number) if number % 3 else 0)
        inner = set(parents)
        for number, parent in enumerate(parents):
            size = [round(chance.uniform(15, 120), 1) for _ in range(3)]
            header = (size[2], chance.choice([12.0, 24.0])) if number in inner else None
            around = parent + start if parent >= 0 else -1
            first = chance.random() < 0.1
            items.append(Item(f"i{start + number}", around, size[0], size[1], header, first))
        leaves = [start + number for number in range(len(parents)) if number not in inner]
        for _ in range(chance.randint(0, 2 * len(leaves))):
            tail, head = chance.choice(leaves), chance.choice(leaves)
            if tail < head or (tail != head and chance.random() < 0.1):
                links.append(_link(items, tail, head, chance))
    return items, links


def _link(items: list[Item], tail: int, head: int, chance: random.Random) -> Link:
    """A link; some share a trunk with others outside of an item around their tail."""
    bundles: tuple[tuple[int, str], ...] = ()
    around = items[tail].parent
    if around >= 0 and around not in _around(items, head) and chance.random() < 0.3:
        bundles = ((around, f"bundle:{head}"),)
    return Link(tail, head, chance.choice("ab"), bundles, (tail + head) % 3 == 0)


def _around(items: list[Item], item: int) -> list[int]:
    found = []
    while item >= 0:
        found.append(item)
        item = items[item].parent
    return found


def assert_equal_places(evaluate: Any, planned: Plan, opened: list[int]) -> None:
    """The page puts every box and every corner of a line where Python does."""
    size, boxes, lines = evaluate(PLACED, [as_data(planned), opened])
    picture = place(planned, opened)
    assert size == pytest.approx([picture.width, picture.height])
    expected = [[box.item, *box[1:5]] for box in picture.boxes]
    assert sum(boxes, []) == pytest.approx(sum(expected, []))
    ways = [[at for point in piece.points for at in point] for piece in picture.sections]
    assert [len(line) for line in lines] == [len(way) for way in ways]
    assert sum(lines, []) == pytest.approx(sum(ways, []))


@pytest.mark.parametrize("direction", ["TB", "LR", "BT", "RL"])
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5, None])
def test_page_and_figure_have_everything_in_one_place(
    flat: Any, seed: int | None, direction: str
) -> None:
    """Boxes and the corners of lines, with nothing, something and all of it open."""
    given = dense() if seed is None else random_tree(seed)
    planned = plan(*given, direction)  # type: ignore[arg-type]
    can = [number for number, item in enumerate(planned.items) if item.header is not None]
    for opened in ([], can[::2], can):
        assert_equal_places(flat, planned, opened)


@pytest.mark.parametrize("direction", ["TB", "LR"])
def test_many_inputs_enter_a_module_alike(flat: Any, direction: str) -> None:
    """With the module open, and closed."""
    items = [Item(f"x{at}", -1, 90.0, 20.0, first=True) for at in range(5)]
    items += [Item("module", -1, 60.0, 30.0, (50.0, 12.0)), Item("op", 5, 60.0, 20.0)]
    links = [Link(at, 6, "v") for at in range(5)]
    planned = plan(items, links, direction)  # type: ignore[arg-type]
    for opened in ([5], []):
        assert_equal_places(flat, planned, opened)


@pytest.mark.parametrize("direction", ["TB", "LR"])
def test_forks_and_joins_of_equal_branches_are_centered_alike(flat: Any, direction: str) -> None:
    """With all open, and some of it."""
    centered = 0
    for given in (blocked(1), blocked(2), *map(branching, range(40))):
        planned = plan(*given, direction)  # type: ignore[arg-type]
        centered += sum(len(template.branches) for template in planned.templates)
        can = [number for number, item in enumerate(planned.items) if item.header is not None]
        for opened in (can, can[::2]):
            assert_equal_places(flat, planned, opened)
    assert centered > 40


@pytest.mark.parametrize("direction", ["TB", "LR", "BT", "RL"])
def test_thousands_of_random_nestings_are_laid_out_alike(flat: Any, direction: str) -> None:
    """250 trees in each direction, each with four random choices of open items."""
    planned = plan(*forest(ord(direction[0]), 250), direction)  # type: ignore[arg-type]
    assert len(planned.templates) > 250
    can = [number for number, item in enumerate(planned.items) if item.header is not None]
    chance = random.Random(direction)
    for share in (0.3, 0.6, 0.9, 1.0):
        opened = [number for number in can if chance.random() <= share]
        assert_equal_places(flat, planned, opened)
