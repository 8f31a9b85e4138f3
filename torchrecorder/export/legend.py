"""Legend: a small box for each entry, with the outline and colors that it explains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

from torchrecorder.layout.measure import label_size
from torchrecorder.style.color import mix
from torchrecorder.style.figure import Figure, LegendEntry, Shape, Text

SMALL_TEXT = 0.8
"""Font size of small text, relative to that of titles."""

GAP = 3.0
"""Distance between two entries, in points."""

MARGIN = 6.0
"""Distance between the entries and the frame, in points."""

LEGEND_GAP = 14.0
"""Distance between a figure and its legend, in points."""

ON_ITS_OWN = {"pack": f"{LEGEND_GAP:g}", "packmode": "array_t"}
"""Attributes with which Graphviz lays out the legend separately from the boxes beside it."""


def shapes(figure: Figure) -> tuple[Shape, ...]:
    """A box for each entry, with its explanation as label."""
    return tuple(
        Shape(f"legend:{number}", "legend", (Text(entry.text, "title"),), entry.look)
        for number, entry in enumerate(figure.legend)
    )


def entry_height(figure: Figure) -> float:
    """The height of an entry, in points."""
    return 2.0 * figure.fontsize * SMALL_TEXT


def widths(figure: Figure) -> list[float]:
    """The width of each entry, in points."""
    small = figure.fontsize * SMALL_TEXT
    room = {"plain": small / 2, "scale": small}
    found = []
    for entry, shape in zip(figure.legend, shapes(figure)):
        text, _ = label_size(shape.label, small, fontname=figure.fontname)
        found.append(text + room.get(entry.look.outline, room.get(entry.part, 2.0 * small)))
    steps = [wide for wide, entry in zip(found, figure.legend) if _is_step(entry)]
    return [max(steps) if _is_step(entry) else wide for wide, entry in zip(found, figure.legend)]


def _is_step(entry: LegendEntry) -> bool:
    return entry.part == "scale" and entry.look.outline != "plain"


class LegendSpot(NamedTuple):
    """The center of an entry, relative to the upper left corner of the frame, and its width."""

    x: float
    y: float
    width: float


class LegendFrame(NamedTuple):
    """The size of the frame, and the positions of the entries in it."""

    width: float
    height: float
    spots: tuple[LegendSpot, ...]


def laid_out(figure: Figure, width: float = 0.0) -> LegendFrame:
    """The legend with a width of *width* points, or of its longest entry if that is more; without
    *width*, one entry below the other."""
    wide, high = widths(figure), entry_height(figure)
    spots, right, y = [], 0.0, MARGIN
    for row in _rows(figure.legend, wide, max(width - 2 * MARGIN, *wide) if width else 0.0):
        ends = [*accumulate(wide[number] + GAP for number in row)]
        for number, end in zip(row, ends):
            x = MARGIN + end - GAP - wide[number] / 2
            spots.append(LegendSpot(x, y + high / 2, wide[number]))
        right, y = max(right, ends[-1] - GAP), y + high + GAP
    return LegendFrame(right + 2 * MARGIN, y - GAP + MARGIN, tuple(spots))


def _rows(
    entries: Sequence[LegendEntry], wide: Sequence[float], room: float
) -> Iterator[list[int]]:
    """The entries of each row, by their numbers."""
    for part, found in groupby(range(len(entries)), key=lambda number: entries[number].part):
        numbers = [*found]
        titled = part in ("scale", "number") and entries[numbers[0]].look.outline == "plain"
        if part == "total":
            yield from ([number] for number in numbers)
        elif titled and len(_filled(numbers, wide, room)) > 1:
            yield numbers[:1]
            yield from _balanced(numbers[1:], wide, room)
        else:
            yield from _balanced(numbers, wide, room)


def _balanced(numbers: Sequence[int], wide: Sequence[float], room: float) -> list[list[int]]:
    """The smallest number of rows, none much longer than the others."""
    fewest = _filled(numbers, wide, room)
    lengths = sorted(
        sum(wide[number] + GAP for number in numbers[begin:end]) - GAP
        for end in range(1, len(numbers) + 1)
        for begin in range(end)
    )
    tried = (_filled(numbers, wide, length) for length in lengths if length <= room)
    return next((rows for rows in tried if len(rows) == len(fewest)), fewest)


def _filled(numbers: Sequence[int], wide: Sequence[float], room: float) -> list[list[int]]:
    """Rows with as many entries as fit."""
    rows: list[list[int]] = []
    taken = room  # the first entry begins a row
    for number in numbers:
        taken += GAP + wide[number]
        if taken > room:
            rows.append([])
            taken = wide[number]
        rows[-1].append(number)
    return rows


def edge(figure: Figure) -> str:
    """The color of the frame."""
    return mix(figure.legend[0].look.text, "#808080", 0.7)
