"""The parts of an SVG chart that all charts share: colours, the paper and the grid."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

INK, QUIET, FAINT, PAPER = "#1b1f24", "#5b6470", "#d5d9de", "#ffffff"
FONT_SIZE = 11


def paper(width: int, height: int, left: int, title: str) -> Iterator[str]:
    """The start of the file, the paper, and the title over the left end of the axis."""
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" '
        f'font-size="{FONT_SIZE}" fill="{INK}">'
    )
    yield f'<rect width="{width}" height="{height}" fill="{PAPER}"/>'
    yield f'<text x="{left}" y="20" font-size="13">{escape(title)}</text>'


def grid_line(left: int, right: int, y: float, label: str) -> Iterator[str]:
    """A horizontal line of the grid, with its label at the left."""
    yield f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="{FAINT}"/>'
    yield f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>'
