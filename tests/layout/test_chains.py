"""Chains of open modules: they stay in line."""

from __future__ import annotations

from torchrecorder.layout.layered import Item, Link, place, plan
from torchrecorder.layout.layered.constants import SEPARATION

HEADER = (50.0, 12.0)


def middles(items: list[Item], links: list[Link], names: str) -> list[float]:
    """Where the boxes of a name are, with everything open."""
    boxes = place(plan(items, links)).boxes
    found = [box for box in boxes if items[box.item].id.startswith(names)]
    return [round(box.x + box.width / 2, 1) for box in found]


def test_modules_of_several_branches_stay_in_line() -> None:
    """What goes into all branches comes in above what joins them, if it can choose."""
    items, links, last = [Item("x", -1, 40, 20)], [], 0
    for block in range(6):
        items.append(Item(f"block{block}", -1, 60, 30, HEADER))
        around, ends = len(items) - 1, []
        for branch in range(4):
            for step in range((1, 2, 3, 1)[branch]):
                items.append(Item(f"b{branch}.{step}", around, 60, 20))
                links.append(Link(len(items) - 2 if step else last, len(items) - 1, "v"))
            ends.append(len(items) - 1)
        items.append(Item(f"cat{block}", around, 40, 20))
        links += [Link(end, len(items) - 1, "v") for end in ends]
        last = len(items) - 1
    items.append(Item("y", -1, 40, 20))
    links.append(Link(last, len(items) - 1, "v"))
    assert len(set(middles(items, links, "cat"))) == 1


def test_what_runs_beside_a_chain_does_not_pull_it_aside() -> None:
    """Blocks that hand on more than their result stand below each other, but for the width of the
    two lines beside them."""
    items, links = [Item("x", -1, 40, 20)], []
    before = [0, 0, 0]
    for block in range(4):
        items.append(Item(f"block{block}", -1, 60, 30, HEADER))
        around = len(items) - 1
        steps = []
        for step in range(3):
            items.append(Item(f"step{step}", around, 80, 20))
            steps.append(len(items) - 1)
        links += [Link(one, other, "v") for one, other in zip(steps, steps[1:])]
        links.append(Link(before[2], steps[0], "v"))
        links += [Link(end, step, "bias") for end, step in zip(before, steps) if block]
        before = steps
    found = middles(items, links, "step")
    assert max(found) - min(found) <= 2 * SEPARATION[False, False]


def test_blocks_with_a_weight_beside_them_stay_in_line() -> None:
    """Where what would be best for a box is out of reach, it takes the best that is not."""
    items, links, last = [Item("x", -1, 40, 20)], [], 0
    for block in range(4):
        items.append(Item(f"block{block}", -1, 60, 30, HEADER))
        around = len(items) - 1
        inside = [("f", 60.0), ("scale", 50.0), ("mul", 40.0), ("depth", 110.0), ("add", 40.0)]
        items += [Item(f"{name}{block}", around, wide, 20) for name, wide in inside]
        f, scale, mul, depth, add = range(around + 1, around + 6)
        pairs = [(last, f), (f, mul), (scale, mul), (mul, depth), (depth, add), (last, add)]
        links += [Link(one, other, "v") for one, other in pairs]
        last = add
    assert len(set(middles(items, links, "add"))) == 1
