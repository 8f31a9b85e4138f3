"""What stands beside an open module."""

from __future__ import annotations

from torchrecorder.layout.layered import Item, Link, PlacedBox, place, plan

HEADER = (50.0, 12.0)


def chain_beside(*links: Link) -> tuple[PlacedBox, list[PlacedBox]]:
    """A box, an open module of four rows and boxes of two sizes that links may join to both."""
    items = [Item("x", -1, 40, 20), Item("block", -1, 60, 30, HEADER)]
    items += [Item(f"inside{each}", 1, 40, 20) for each in range(4)]
    items += [Item("small", -1, 40, 20), Item("large", -1, 40, 50), Item("sum", -1, 40, 20)]
    inside = [Link(each, each + 1, "v") for each in range(2, 5)]
    ends = [Link(0, 2, "v"), Link(5, 8, "v"), Link(6, 8, "v"), Link(7, 8, "v")]
    boxes = {box.item: box for box in place(plan(items, [*inside, *ends, *links])).boxes}
    return boxes[1], [boxes[6], boxes[7]]


def test_closed_boxes_stand_near_what_they_read() -> None:
    """Not halfway down; those of several sizes stand around one line."""
    block, (small, large) = chain_beside(Link(0, 6, "v"), Link(0, 7, "v"))
    assert large.y == block.y
    assert small.y + small.height / 2 == large.y + large.height / 2


def test_what_reads_nothing_stands_near_its_reader() -> None:
    """At the end of the row, just above."""
    block, (small, large) = chain_beside(Link(0, 6, "v"))
    assert large.y + large.height == block.y + block.height
    assert small.y < block.y + block.height / 2
