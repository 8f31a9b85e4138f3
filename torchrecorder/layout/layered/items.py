"""Items: the boxes and edges that the nested layout places."""

from __future__ import annotations

from typing import NamedTuple


class Item(NamedTuple):
    """A box that can be drawn.

    Attributes:
        id: Its name; unique.
        parent: The number of the item around it; -1 at the top. It comes earlier in the list.
        width: Width when closed, in points.
        height: Height when closed, in points.
        header: Width and height of the text in its corner when it is open; None without
            children.
        first: Whether it is in the first row, as inputs are.
        module: Whether it is a module, open or closed.
        in_one: The size of its header with the title in one line, if `header` breaks it in two.
    """

    id: str
    parent: int
    width: float
    height: float
    header: tuple[float, float] | None = None
    first: bool = False
    module: bool = False
    in_one: tuple[float, float] | None = None


class Link(NamedTuple):
    """An edge between two items without children.

    Attributes:
        tail: Number of the item it leaves.
        head: Number of the item it enters.
        value: The tensor it carries: edges with the same tail and value share a trunk.
        bundles: Items around the tail outside of which it shares a trunk with other edges, each
            with the name of that trunk.
        side: Whether its tensor carries no data, but a mask, positions or the like.
    """

    tail: int
    head: int
    value: str
    bundles: tuple[tuple[int, str], ...] = ()
    side: bool = False
