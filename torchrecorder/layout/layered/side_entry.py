"""Side entries: a line that comes from aside enters a circle at its side.

Rows are laid out with all lines coming from before them. Around a residual block that takes four
bends, and pushes the line through the block aside. Where nothing is in the way, the line from
aside has two bends instead, and what remains comes straight.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from torchrecorder.layout.layered.place import Drawn
from torchrecorder.layout.layered.positions import Point

Way = tuple[Point, ...]

FREE = 12.0
"""Points of a line, at least, beside the circle that it enters."""

CLEAR = 3.0
"""Points between such a line and anything else, at least."""

NEAR = 0.45
"""Lines meet a circle no further from its middle than this share of its radius."""

CELL = 60.0
"""Points along the flow in which pieces of lines are looked up together."""


class Piece(NamedTuple):
    """A straight piece of a line: across the flow from left to right, along it from top to end."""

    line: Hashable
    left: float
    right: float
    top: float
    end: float

    def meets(self, other: Piece) -> bool:
        """Whether they are not clear of each other."""
        return (
            self.left - CLEAR < other.right
            and other.left - CLEAR < self.right
            and self.top - CLEAR < other.end
            and other.top - CLEAR < self.end
        )


def side_entries(
    ways: Sequence[Way],
    carried: Sequence[Hashable],
    circles: Mapping[int, Drawn],
    boxes: Sequence[Drawn],
    upright: bool,
) -> list[Way]:
    """*ways* with lines from aside that enter circles at their sides.

    Args:
        ways: The corners of each line.
        carried: What each line carries: those that carry the same may meet.
        circles: The circle that a line enters, by the index of the line.
        boxes: All boxes and frames.
        upright: Whether the flow runs down or up, not sideways.
    """
    if not circles:
        return list(ways)
    turn = _as_it_is if upright else _turned
    found = [tuple(turn(point) for point in way) for way in ways]
    search = _Search(found, carried, [_area(box, turn) for box in boxes])
    entering: dict[int, list[int]] = {}
    for number, box in circles.items():
        entering.setdefault(box.item, []).append(number)
    for numbers in entering.values():
        circle = _area(circles[numbers[0]], turn)
        aside = {number: way for number in numbers if (way := search.from_aside(number, circle))}
        sides = [way[-1] for way in aside.values()]
        if len(numbers) > 1 and aside and len(set(sides)) == len(sides):
            for number, way in aside.items():
                search.replace(number, way)
            rest = [number for number in numbers if number not in aside]
            if len(rest) == 1:
                search.replace(rest[0], _straight(search.ways[rest[0]], circle))
    return [tuple(turn(point) for point in way) for way in search.ways]


class _Search:
    """Knows what is where."""

    def __init__(
        self, ways: list[Way], carried: Sequence[Hashable], boxes: Sequence[Piece]
    ) -> None:
        self.ways, self.carried = ways, carried
        self.cells: dict[int, list[Piece]] = {}
        for box in boxes:
            self._note(box)
        for number in range(len(ways)):
            self._note_way(number)

    def from_aside(self, number: int, circle: Piece) -> Way | None:
        """The way of a line into the side of its circle; None if it has to stay as it is."""
        way = self.ways[number]
        if len(way) < 4 or way[-3][1] != way[-2][1] or way[-4][0] != way[-3][0]:
            return None
        across, middle = (circle.left + circle.right) / 2, (circle.top + circle.end) / 2
        at, track = way[-3]
        side = circle.right if at > across else circle.left
        if abs(at - side) < FREE or abs(at - across) < abs(side - across):
            return None
        pieces = self._pieces(number, ((at, track), (at, middle), (side, middle)))
        if any(self._is_blocked(piece, circle) for piece in pieces):
            return None
        return (*way[:-3], (at, middle), (side, middle))

    def replace(self, number: int, way: Way) -> None:
        """The line goes this way."""
        self.ways[number] = way
        self._note_way(number)

    def _is_blocked(self, piece: Piece, circle: Piece) -> bool:
        return any(
            piece.meets(other)
            for cell in _cells(piece)
            for other in self.cells.get(cell, ())
            if other.line != piece.line and not _holds(other, circle)
        )

    def _note_way(self, number: int) -> None:
        for piece in self._pieces(number, self.ways[number]):
            self._note(piece)

    def _pieces(self, number: int, way: Way) -> list[Piece]:
        """The straight pieces of a way of a line."""
        return [
            Piece(self.carried[number], min(x, to_x), max(x, to_x), min(y, to_y), max(y, to_y))
            for (x, y), (to_x, to_y) in zip(way, way[1:])
        ]

    def _note(self, piece: Piece) -> None:
        for cell in _cells(piece):
            self.cells.setdefault(cell, []).append(piece)


def _straight(way: Way, circle: Piece) -> Way:
    """The only line that comes from before a circle: straight if it can, else to its middle."""
    if len(way) < 4 or way[-3][1] != way[-2][1]:
        return way
    across = (circle.left + circle.right) / 2
    if abs(way[-3][0] - across) <= NEAR * (circle.right - across):
        return (*way[:-3], (way[-3][0], way[-1][1]))
    return (*way[:-2], (across, way[-2][1]), (across, way[-1][1]))


def _holds(box: Piece, circle: Piece) -> bool:
    """Whether a box or frame is the circle, or around it; no line is."""
    return box.line is None and box.left <= circle.left and circle.right <= box.right and (
        box.top <= circle.top and circle.end <= box.end
    )


def _cells(piece: Piece) -> range:
    return range(int((piece.top - CLEAR) // CELL), int((piece.end + CLEAR) // CELL) + 1)


def _area(box: Drawn, turn: Callable[[Point], Point]) -> Piece:
    if turn is _turned:
        return Piece(None, box.y, box.y + box.height, box.x, box.x + box.width)
    return Piece(None, box.x, box.x + box.width, box.y, box.y + box.height)


def _as_it_is(point: Point) -> Point:
    return point


def _turned(point: Point) -> Point:
    return point[1], point[0]
