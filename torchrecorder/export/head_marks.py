"""Head marks: names of arguments at the heads of lines, and their positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product
from typing import NamedTuple

from torchrecorder.export.legend import SMALL_TEXT
from torchrecorder.graph.mappings import grouped
from torchrecorder.layout.layered.positions import PlanePoint
from torchrecorder.layout.measure import text_width
from torchrecorder.style.argument_marks import SHORT
from torchrecorder.style.figure import Figure, Line

MARK_OFFSET = 3.5
"""Distance between a line and the mark beside its head, in points."""

BACK = 5.0
"""Distance from the tip of a line back to the middle of its mark, in points."""

SPARE = 1.5
"""Free space on the left and right of a long mark, in points."""

HIGH = 1.15
"""The height of a mark above a horizontal line, with the free space around it, as a multiple of its
font size."""

MIN_ROOM = 20.0
"""The minimum distance, in points, between a horizontal line and a box or another line for a mark
to fit between them."""

STRIP = 100.0
"""Height in points of the horizontal strips by which lines and boxes are indexed."""

Rectangle = tuple[float, float, float, float]
"""Left, top, right and bottom."""


class HeadMark(NamedTuple):
    """The name of an argument, and the center of that text, in points."""

    text: str
    at: PlanePoint


def head_marks(
    figure: Figure, routes: Sequence[Sequence[PlanePoint]], outlines: Sequence[Rectangle] = ()
) -> dict[int, HeadMark]:
    """The marks that are drawn, by the index of the line. *routes* are the corners of each line,
    *outlines* the rectangles of boxes and open groups."""
    obstacles = _Obstacles(routes, outlines)
    marked = {line.head for line in figure.lines if line.mark}
    leaving = grouped((line.tail, number) for number, line in enumerate(figure.lines))
    entering = grouped(
        (line.head, number) for number, line in enumerate(figure.lines) if line.head in marked
    )
    upright = figure.direction in ("TB", "BT")
    found: dict[int, HeadMark] = {}
    for numbers in entering.values():
        tip = {number: routes[number][-1][0 if upright else 1] for number in numbers}
        numbers.sort(key=tip.__getitem__)
        shown, tips = [figure.lines[number] for number in numbers], sorted(tip.values())
        if not _in_order(shown):
            texts = list(_texts(figure, shown, tips, upright))
        else:
            texts = [line.mark if line.place < 0 else "" for line in shown]
        for seat, (number, text) in enumerate(zip(numbers, texts)):
            if text:
                beside = [routes[each] for each in leaving[figure.lines[number].tail]]
                if upright:
                    other = _is_left(seat, tips, beside, routes[number][-1])
                else:
                    other = 0 < seat == len(tips) - 1 and tips[seat] - tips[seat - 1] < MIN_ROOM
                if " = " in text:
                    text, other = obstacles.clear(figure, text, number, other)
                found[number] = HeadMark(text, _spot(figure, text, routes[number], other))
    return found


class _Obstacles:
    """The lines and outlines that a long mark must not cross."""

    def __init__(
        self, routes: Sequence[Sequence[PlanePoint]], outlines: Sequence[Rectangle]
    ) -> None:
        self.routes = routes
        self.outlines = outlines

    def clear(self, figure: Figure, text: str, number: int, other: bool) -> tuple[str, bool]:
        """A text and a side for the mark of line *number*: the first that crosses nothing.

        *text* and the side *other* come first, then the opposite side, then shorter texts.
        """
        names = [SHORT.get(name, name) for name in text.split(" = ")]
        texts = (text, " = ".join(names), " ".join(names), "".join(names))
        for written, side in product(texts, (other, not other)):
            x, y = _spot(figure, written, self.routes[number], side)
            half = text_width(written, figure.fontsize * SMALL_TEXT) / 2 + SPARE
            high = figure.fontsize * SMALL_TEXT / 2
            if not self._is_crossed((x - half, y - high, x + half, y + high)):
                return written, side
        return texts[-1], other

    def _is_crossed(self, room: Rectangle) -> bool:
        """Whether a line or outline crosses *room*."""
        strips = _strips(room[1], room[3])
        near = {piece for strip in strips for piece in self._segments.get(strip, ())}
        boxes = {box for strip in strips for box in self._boxes.get(strip, ())}
        return any(self._overlaps(piece, room) for piece in near) or any(
            max(room[0], left) < min(room[2], right) and max(room[1], top) < min(room[3], bottom)
            and not (left < room[0] and room[2] < right and top < room[1] and room[3] < bottom)
            for left, top, right, bottom in boxes
        )

    def _overlaps(self, piece: tuple[int, int], room: Rectangle) -> bool:
        (x, y), (other_x, other_y) = self.routes[piece[0]][piece[1] : piece[1] + 2]
        across = max(room[0], min(x, other_x)) <= min(room[2], max(x, other_x))
        return across and max(room[1], min(y, other_y)) <= min(room[3], max(y, other_y))

    @cached_property
    def _segments(self) -> dict[int, list[tuple[int, int]]]:
        """The segments of lines in each strip, as the index of the line and of the segment."""
        return grouped(
            (strip, (number, place))
            for number, route in enumerate(self.routes)
            for place, ((_, y), (_, other)) in enumerate(zip(route, route[1:]))
            for strip in _strips(min(y, other), max(y, other))
        )

    @cached_property
    def _boxes(self) -> dict[int, list[Rectangle]]:
        """The outlines in each strip."""
        outlines = self.outlines
        return grouped((strip, one) for one in outlines for strip in _strips(one[1], one[3]))


def _strips(top: float, bottom: float) -> range:
    """The strips that overlap an extent along the y axis."""
    return range(int(top // STRIP), int(bottom // STRIP) + 1)


def _is_left(
    seat: int, tips: Sequence[float], beside: Sequence[Sequence[PlanePoint]], tip: PlanePoint
) -> bool:
    """Whether a mark is on the left of a vertical arrow *tip*: the side without other lines.

    *seat* is the index of the arrow among the *tips* of all arrows into the box, from left to
    right; *beside* are the routes of the lines from the same tail.
    """
    if len(tips) > 1:
        return seat == 0
    level = [
        (one[0], other[0])
        for route in beside
        for one, other in zip(route, route[1:])
        if one[1] == other[1] and abs(one[1] - tip[1]) < MIN_ROOM
    ]
    right = any(max(piece) > tip[0] + MARK_OFFSET for piece in level)
    return right and not any(min(piece) < tip[0] - MARK_OFFSET for piece in level)


def _in_order(lines: Sequence[Line]) -> bool:
    places = [line.place for line in lines if line.place >= 0]
    return places == sorted(places)


def _texts(
    figure: Figure, lines: Sequence[Line], tips: Sequence[float], upright: bool
) -> Iterator[str]:
    """The text of each mark: the name of the argument; its number if lines are too close for names;
    or none if they are too close even for numbers, which are as high."""
    names = [line.mark for line in lines]
    if _fit(figure, names, tips, upright):
        yield from names
        return
    numbers = [str(line.place + 1) if line.place >= 0 and line.mark else "" for line in lines]
    shown, fit = (numbers, _fit(figure, numbers, tips, True)) if upright else (names, False)
    for seat, line in enumerate(lines):
        outer = seat in (0, len(lines) - 1)
        yield line.mark if line.place < 0 else shown[seat] if fit or outer else ""


def _fit(figure: Figure, texts: Sequence[str], tips: Sequence[float], upright: bool) -> bool:
    """Whether each of the inner marks fits between its line and the next one; beside a vertical
    line, above a horizontal one."""
    inner = range(1, len(texts) - 1)
    size = figure.fontsize * SMALL_TEXT
    if not upright:
        high = size * HIGH
        return all(tips[seat] - tips[seat - 1] >= high for seat in inner if texts[seat])
    return all(
        text_width(texts[seat], size) <= tips[seat + 1] - tips[seat] - MARK_OFFSET
        for seat in inner
    )


def _spot(figure: Figure, text: str, route: Sequence[PlanePoint], other: bool) -> PlanePoint:
    """The center of a mark: right of a vertical line, above a horizontal one, or on the *other*
    side."""
    (before_x, before_y), (x, y) = route[-2], route[-1]
    half = text_width(text, figure.fontsize * SMALL_TEXT) / 2
    if abs(y - before_y) > abs(x - before_x):
        back = BACK if y > before_y else -BACK
        return x + (-1 if other else 1) * (MARK_OFFSET + half), y - back
    back = half + 2 if x > before_x else -half - 2
    return x - back, y + (1 if other else -1) * figure.fontsize * SMALL_TEXT * 0.7
