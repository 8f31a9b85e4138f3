"""The legend: a small box for each entry, in the outline and colours that it explains."""

from __future__ import annotations

from collections.abc import Iterator

from torchrecorder.layout.measure import label_size
from torchrecorder.style.color import mix
from torchrecorder.style.figure import Figure, Shape, Text

SMALL = 0.8
"""Size of small print, as a share of the title's."""

GAP = 4.0
"""Points between two entries."""

MARGIN = 8.0
"""Points between the entries and the frame."""


def shapes(figure: Figure) -> tuple[Shape, ...]:
    """A box for each entry, with what it stands for in it."""
    return tuple(
        Shape(f"legend:{number}", "legend", (Text(entry.text, "title"),), entry.look)
        for number, entry in enumerate(figure.legend)
    )


def entry_size(figure: Figure) -> tuple[float, float]:
    """Width and height that all entries have, in points."""
    small = figure.fontsize * SMALL
    widths = [label_size(each.label, small, fontname=figure.fontname)[0] for each in shapes(figure)]
    return max(widths) + 2.6 * small, 2.4 * small


def columns_in(figure: Figure, width: float) -> int:
    """How many columns of the legend stand side by side in *width* points."""
    one, most = entry_size(figure)[0] + GAP, len(figure.legend)
    fitting = max(1, min(most, int((width + GAP - 2 * MARGIN) // one)))
    return -(-most // -(-most // fitting))  # as many as make full rows


def size(figure: Figure, columns: int = 1) -> tuple[float, float]:
    """How large the frame of the legend is, in points."""
    (width, height), rows = entry_size(figure), -(-len(figure.legend) // columns)
    room = 2 * MARGIN - GAP
    return columns * (width + GAP) + room, rows * (height + GAP) + room


def places(figure: Figure, columns: int = 1) -> Iterator[tuple[float, float]]:
    """The middle of each entry, from the upper left corner of the frame; row by row."""
    width, height = entry_size(figure)
    for number in range(len(figure.legend)):
        row, column = divmod(number, columns)
        x, y = column * (width + GAP), row * (height + GAP)
        yield MARGIN + x + width / 2, MARGIN + y + height / 2


def edge(figure: Figure) -> str:
    """The colour of the frame."""
    return mix(figure.legend[0].look.text, "#808080", 0.7)
