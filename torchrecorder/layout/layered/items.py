"""Item, Link: the input of the nested layout."""

from __future__ import annotations

from typing import NamedTuple


class Item(NamedTuple):
    """A box that can be drawn.

    Attributes:
        id: Its name; unique.
        parent: The number of the item around it; -1 at the top. It comes earlier in the list.
        width: Width when closed, in points.
        height: Height when closed, in points.
        header: Width and height of the text in its corner when it is open; None if there is
            nothing in it.
        first: Whether it stands in the first row, as inputs do.
        module: Whether it is a module, open or closed.
    """

    id: str
    parent: int
    width: float
    height: float
    header: tuple[float, float] | None = None
    first: bool = False
    module: bool = False


class Link(NamedTuple):
    """A line between two items that have nothing in them.

    Attributes:
        tail: Number of the item it leaves.
        head: Number of the item it enters.
        value: What it carries: lines with the same tail and value share a trunk.
        bundles: Items around the tail from which on it shares a trunk with others that leave
            them, each with the name of what the trunk carries.
    """

    tail: int
    head: int
    value: str
    bundles: tuple[tuple[int, str], ...] = ()
