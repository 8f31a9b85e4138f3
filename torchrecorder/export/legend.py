"""The legend: a small box for each entry, in the outline and colours that it explains."""

from __future__ import annotations

from collections.abc import Iterator

from torchrecorder.layout.measure import label_size
from torchrecorder.style.color import mix
from torchrecorder.style.figure import Figure, Shape, Text

SMALL = 0.8
"""Font size of small text, relative to that of titles."""

GAP = 3.0
"""Points between two entries."""

MARGIN = 6.0
"""Points between the entries and the frame."""

BESIDE = 14.0
"""Points between a figure and its legend."""

ON_ITS_OWN = {"pack": f"{BESIDE:g}", "packmode": "array_t"}
"""An attribute that lets Graphviz lay out the legend separately from the boxes beside it."""


def shapes(figure: Figure) -> tuple[Shape, ...]:
    """A box for each entry, with its explanation as label."""
    return tuple(
        Shape(f"legend:{number}", "legend", (Text(entry.text, "title"),), entry.look)
        for number, entry in enumerate(figure.legend)
    )


def entry_height(figure: Figure) -> float:
    """The height of an entry, in points."""
    return 2.0 * figure.fontsize * SMALL


def widths(figure: Figure, columns: int = 1) -> list[float]:
    """The width of the entries in each column, in points."""
    small = figure.fontsize * SMALL
    wide = [label_size(shape.label, small, fontname=figure.fontname)[0] for shape in shapes(figure)]
    return [max(wide[column::columns]) + 2.0 * small for column in range(columns)]


def columns_in(figure: Figure, width: float) -> int:
    """The number of columns of the legend that fit in *width* points."""
    most = len(figure.legend)
    wanted = range(most, 1, -1)
    fitting = next((item for item in wanted if size(figure, item)[0] <= width), 1)
    return -(-most // -(-most // fitting))  # as many as make full rows


def size(figure: Figure, columns: int = 1) -> tuple[float, float]:
    """Width and height of the frame of the legend, in points."""
    rows, room = -(-len(figure.legend) // columns), 2 * MARGIN - GAP
    wide = sum(widths(figure, columns)) + columns * GAP
    return wide + room, rows * (entry_height(figure) + GAP) + room


def places(figure: Figure, columns: int = 1) -> Iterator[tuple[float, float, float]]:
    """The centre of each entry, relative to the upper left corner of the frame, and its width."""
    height, wide = entry_height(figure), widths(figure, columns)
    for number in range(len(figure.legend)):
        row, column = divmod(number, columns)
        x, y = sum(wide[:column]) + column * GAP, row * (height + GAP)
        yield MARGIN + x + wide[column] / 2, MARGIN + y + height / 2, wide[column]


def edge(figure: Figure) -> str:
    """The colour of the frame."""
    return mix(figure.legend[0].look.text, "#808080", 0.7)
