"""The legend as a Graphviz table: a swatch and a text for each entry."""

from __future__ import annotations

from collections.abc import Sequence

from torchrecorder.export.quoting import html
from torchrecorder.layout.measure import label_size
from torchrecorder.style.color import mix
from torchrecorder.style.figure import Figure, LegendEntry, Text

SMALL = 0.8
"""Size of small print, as a share of the title's."""


def table(figure: Figure, columns: int = 1) -> str:
    """The label of a node that shows the legend, in so many *columns*."""
    entries = figure.legend
    cells = [_cells(entry, figure) for entry in entries]
    rows = "".join(
        f"<tr>{''.join(cells[start : start + columns])}</tr>"
        for start in range(0, len(cells), columns)
    )
    faint = mix(entries[0].look.text, "#808080", 0.7)
    edge = f'border="1" color="{faint}" style="rounded"'
    return f'<<table {edge} cellborder="0" cellspacing="3" cellpadding="1">{rows}</table>>'


def columns_in(figure: Figure, width: float) -> int:
    """How many columns of the legend stand side by side in *width* points."""
    one, _ = table_size(figure)
    most = len(figure.legend)
    fitting = max(1, min(most, int(width // one)))
    return -(-most // -(-most // fitting))  # as many as make full rows


def table_size(figure: Figure, columns: int = 1) -> tuple[float, float]:
    """About how large the table of the legend is, in points."""
    texts: Sequence[Text] = [Text(entry.text) for entry in figure.legend]
    width, _ = label_size(texts, figure.fontsize, fontname=figure.fontname)
    rows = -(-len(texts) // columns)
    return columns * (width + 36.0), rows * max(figure.fontsize * 1.1 + 4, 15.0) + 4.0


def _cells(entry: LegendEntry, figure: Figure) -> str:
    look = entry.look
    style = [*(["rounded"] if look.outline == "rounded" else []), look.dash]
    swatch = (
        f'<td border="1" width="20" height="11" fixedsize="true" bgcolor="{look.fill}"'
        f' color="{look.stroke}" style="{",".join(style)}"></td>'
    )
    size = f"{figure.fontsize * SMALL:g}"
    text = f'<font point-size="{size}" color="{look.text}">{html(entry.text)}</font>'
    return f'{swatch}<td align="left">{text}</td>'
