"""Side entries: edges from the side enter a circle at its side.

In the layout, all edges enter a node from the previous layer. An edge around a residual block then
has four bends, and moves the edge through the block away from the center. If the path is free, the
edge around gets two bends instead, and the other edge becomes straight. If the edge from the side
cannot come down where it is, it turns down close to the circle.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from torchrecorder.layout.layered.constants import CORNER_RADIUS
from torchrecorder.layout.layered.place import PlacedBox
from torchrecorder.layout.layered.positions import TOLERANCE, PlanePoint

Route = tuple[PlanePoint, ...]

MIN_FREE = 12.0
"""The minimum length of the last segment of an edge before the circle, in points."""

CLEARANCE = 3.0
"""The minimum distance of such an edge from everything else, in points."""

MAX_SHARE = 0.45
"""The maximum offset of an edge from the center of a circle, as a share of its radius."""

CELL_SIZE = 60.0
"""The size of the cells of the spatial index along the flow, in points."""


class Extent(NamedTuple):
    """A straight segment of an edge, or a box: its extent across the flow and along it."""

    line: Hashable
    left: float
    right: float
    top: float
    end: float

    def overlaps(self, other: Extent) -> bool:
        """Whether the distance to *other* is smaller than `CLEARANCE`."""
        return (
            self.left - CLEARANCE < other.right
            and other.left - CLEARANCE < self.right
            and self.top - CLEARANCE < other.end
            and other.top - CLEARANCE < self.end
        )


def side_entries(
    ways: Sequence[Route],
    carried: Sequence[Hashable],
    circles: Mapping[int, PlacedBox],
    boxes: Sequence[PlacedBox],
    upright: bool,
) -> list[Route]:
    """*ways*, the corners of each edge, with edges from the side into the side of circles.

    Edges that have *carried* the same tensor may touch. *circles* are those that edges enter, by
    the index of the edge; *boxes* are all boxes and frames; *upright*: the flow is vertical.
    """
    if not circles:
        return list(ways)
    found = list(ways) if upright else _transposed(ways)
    routes = _Routes(found, carried, [_area(box, upright) for box in boxes])
    entering: dict[int, list[int]] = {}
    for number, box in circles.items():
        entering.setdefault(box.item, []).append(number)
    for numbers in entering.values():
        circle = _area(circles[numbers[0]], upright)
        entries = {number: way for number in numbers if (way := routes.from_side(number, circle))}
        if not entries and len(numbers) == 2:
            entries = _turned(routes, numbers, circle)
        sides = [way[-1] for way in entries.values()]
        if len(numbers) > 1 and len(set(sides)) == len(sides):
            for number, way in entries.items():
                routes.replace(number, way)
            rest = [number for number in numbers if number not in entries]
            if len(rest) == 1:
                routes.replace(rest[0], _straight(routes.ways[rest[0]], circle))
    return routes.ways if upright else _transposed(routes.ways)


class _Routes:
    """The paths of all edges, with a spatial index of their segments and of all boxes."""

    def __init__(
        self, ways: list[Route], carried: Sequence[Hashable], boxes: Sequence[Extent]
    ) -> None:
        self.ways, self.carried = ways, carried
        self.cells: dict[int, list[Extent]] = {}
        for box in boxes:
            self._note(box)
        for number in range(len(ways)):
            self._note_way(number)

    def from_side(self, number: int, circle: Extent, turned: bool = False) -> Route | None:
        """The path of an edge into the side of its circle; None if it cannot change. *turned*: it
        comes down close to the circle, else where it comes from."""
        way = self.ways[number]
        if len(way) < 4 or not _is_level(way) or abs(way[-4][0] - way[-3][0]) > TOLERANCE:
            return None
        across, middle = (circle.left + circle.right) / 2, (circle.top + circle.end) / 2
        at, track = way[-3]
        side = circle.right if at > across else circle.left
        if max(at - circle.right, circle.left - at) < MIN_FREE:
            return None
        down = at
        if turned:
            down = side + MIN_FREE if at > side else side - MIN_FREE
            if abs(at - down) < 2 * CORNER_RADIUS:
                return None
        new = (at, track), (down, track), (down, middle), (side, middle)
        if any(self._is_blocked(segment, circle) for segment in self._segments(number, new)):
            return None
        return (*way[:-3], *new) if turned else (*way[:-3], *new[2:])

    def replace(self, number: int, way: Route) -> None:
        """Set the path of an edge."""
        self.ways[number] = way
        self._note_way(number)

    def _is_blocked(self, segment: Extent, circle: Extent) -> bool:
        return any(
            segment.overlaps(other)
            for cell in _cells(segment)
            for other in self.cells.get(cell, ())
            if other.line != segment.line and not _holds(other, circle)
        )

    def _note_way(self, number: int) -> None:
        for segment in self._segments(number, self.ways[number]):
            self._note(segment)

    def _segments(self, number: int, way: Route) -> list[Extent]:
        """The segments of the path of an edge."""
        return [
            Extent(self.carried[number], min(x, to_x), max(x, to_x), min(y, to_y), max(y, to_y))
            for (x, y), (to_x, to_y) in zip(way, way[1:])
        ]

    def _note(self, segment: Extent) -> None:
        for cell in _cells(segment):
            self.cells.setdefault(cell, []).append(segment)


def _turned(routes: _Routes, numbers: Sequence[int], circle: Extent) -> dict[int, Route]:
    """One of two edges from the previous layer with its path into the side of the circle, if the
    other one becomes straight."""
    for number, other in (numbers, numbers[::-1]):
        way = routes.ways[other]
        if len(_straight(way, circle)) < len(way):
            found = routes.from_side(number, circle, turned=True)
            if found is not None:
                return {number: found}
    return {}


def _is_level(way: Route) -> bool:
    """Whether the last but one segment of an edge runs across the flow."""
    return abs(way[-3][1] - way[-2][1]) <= TOLERANCE


def _straight(way: Route, circle: Extent) -> Route:
    """The only edge from the previous layer: straight if possible, else to the center."""
    if len(way) < 4 or not _is_level(way):
        return way
    across = (circle.left + circle.right) / 2
    if abs(way[-3][0] - across) <= MAX_SHARE * (circle.right - across):
        return (*way[:-3], (way[-3][0], way[-1][1]))
    return (*way[:-2], (across, way[-2][1]), (across, way[-1][1]))


def _holds(box: Extent, circle: Extent) -> bool:
    """Whether *box* is a box or frame that is or contains the circle."""
    return (
        box.left <= circle.left and circle.right <= box.right
        and box.top <= circle.top and circle.end <= box.end
    )


def _cells(segment: Extent) -> range:
    return range(
        int((segment.top - CLEARANCE) // CELL_SIZE), int((segment.end + CLEARANCE) // CELL_SIZE) + 1
    )


def _area(box: PlacedBox, upright: bool) -> Extent:
    across, along = (box.x, box.x + box.width), (box.y, box.y + box.height)
    return Extent(None, *across, *along) if upright else Extent(None, *along, *across)


def _transposed(ways: Iterable[Route]) -> list[Route]:
    return [tuple((y, x) for x, y in way) for way in ways]
