"""Head marks: names of arguments at the heads of lines, and their positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from torchrecorder.export.legend import SMALL
from torchrecorder.layout.layered.positions import Point
from torchrecorder.layout.measure import text_width
from torchrecorder.style.figure import Figure, Line

ASIDE = 3.5
"""Points between a line and the mark beside its head."""

BACK = 5.0
"""Points from the tip of a line back to the middle of its mark."""

NEAR = 20.0
"""Points between a level line and a box, at which a mark there would look squeezed."""


class HeadMark(NamedTuple):
    """The name of an argument, and the middle of it, in points."""

    text: str
    at: Point


def head_marks(figure: Figure, ways: Sequence[Sequence[Point]]) -> dict[int, HeadMark]:
    """The marks that are drawn, by the index of the line; *ways* are the corners of each line."""
    marked = {line.head for line in figure.lines if line.mark}
    entering: dict[str, list[int]] = {}
    for number, line in enumerate(figure.lines):
        if line.head in marked:
            entering.setdefault(line.head, []).append(number)
    leaving: dict[str, list[int]] = {}
    for number, line in enumerate(figure.lines):
        leaving.setdefault(line.tail, []).append(number)
    upright = figure.direction in ("TB", "BT")
    found: dict[int, HeadMark] = {}
    for numbers in entering.values():
        numbers.sort(key=lambda number: ways[number][-1][0 if upright else 1])
        shown = [figure.lines[number] for number in numbers]
        tips = [ways[number][-1][0 if upright else 1] for number in numbers]
        if not _in_order(shown):
            texts = list(_texts(figure, shown, tips, upright))
        else:
            texts = [line.mark if line.place < 0 else "" for line in shown]
        for seat, (number, text) in enumerate(zip(numbers, texts)):
            if text:
                beside = [ways[other] for other in leaving[figure.lines[number].tail]]
                left = upright and _is_left(seat, tips, beside, ways[number][-1])
                found[number] = HeadMark(text, _spot(figure, text, ways[number], left))
    return found


def _is_left(
    seat: int, tips: Sequence[float], beside: Sequence[Sequence[Point]], tip: Point
) -> bool:
    """Whether a mark stands left of an upright tip: away from other lines.

    Args:
        seat: Which of the *tips* at the box it is.
        tips: Where lines enter the box.
        beside: The lines from the same box.
        tip: Its end.
    """
    if len(tips) > 1:
        return seat == 0
    level = [
        (one[0], other[0])
        for way in beside
        for one, other in zip(way, way[1:])
        if one[1] == other[1] and abs(one[1] - tip[1]) < NEAR
    ]
    right = any(max(piece) > tip[0] + ASIDE for piece in level)
    return right and not any(min(piece) < tip[0] - ASIDE for piece in level)


def _in_order(lines: Sequence[Line]) -> bool:
    places = [line.place for line in lines if line.place >= 0]
    return places == sorted(places)


def _texts(
    figure: Figure, lines: Sequence[Line], tips: Sequence[float], upright: bool
) -> Iterator[str]:
    """The marks; where two lines are too close for a name, the numbers of the arguments."""
    inner = range(1, len(lines) - 1) if upright else ()
    named = all(
        text_width(lines[seat].mark, figure.fontsize * SMALL) <= tips[seat + 1] - tips[seat] - ASIDE
        for seat in inner
    )
    for line in lines:
        yield line.mark if named or line.place < 0 or not line.mark else str(line.place + 1)


def _spot(figure: Figure, text: str, way: Sequence[Point], left: bool) -> Point:
    """The middle of a mark: beside an upright line, above a level one."""
    (before_x, before_y), (x, y) = way[-2], way[-1]
    half = text_width(text, figure.fontsize * SMALL) / 2
    if abs(y - before_y) > abs(x - before_x):
        back = BACK if y > before_y else -BACK
        return x + (-1 if left else 1) * (ASIDE + half), y - back
    back = half + 2 if x > before_x else -half - 2
    return x - back, y - figure.fontsize * SMALL * 0.7
