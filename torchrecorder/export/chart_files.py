"""Chart files: writes a chart in the format of the suffix.

Graphviz writes bitmaps and PDF, from a graph with the shapes of the chart as its background.
"""

from __future__ import annotations

import xml.etree.ElementTree as tree
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from torchrecorder.checks import path_of
from torchrecorder.errors import UnknownFormat
from torchrecorder.files import write_file
from torchrecorder.graph.flat import printable
from torchrecorder.layout import engine

SUFFIXES = (".svg", ".pdf", ".png", ".html")
_DPI = 144
_CLEAR = "#00000000"
_MAX_STRING = 4000
"""The maximum length of a string in the DOT language; longer ones are split and joined."""


def write_chart(svg: str, path: str | Path) -> Path:
    """Write a chart to *path*, as SVG, PDF, PNG or a page.

    Raises:
        UnknownFormat: The suffix is another one.
        LayoutFailed: Graphviz did not write it.
        OSError: The file cannot be written.
    """
    target = path_of(path)
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise UnknownFormat(
            f"a chart is written as {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, "
            f"not as {target.name!r}"
        )
    write_file(target, _in_format(svg, suffix))
    return target


def write_page(title: str, svgs: Iterable[str], notes: Iterable[str], path: str | Path) -> Path:
    """Write a page with *notes* and charts.

    Raises:
        UnknownFormat: The suffix is not ``.html``.
        OSError: The file cannot be written.
    """
    target = path_of(path)
    if target.suffix.lower() != ".html":
        raise UnknownFormat(f"a page is written as .html, not as {target.name!r}")
    write_file(target, _page(title, svgs, notes))
    return target


def _page(title: str, svgs: Iterable[str], notes: Iterable[str] = ()) -> str:
    style = "body{margin:24px;background:#fff;color:#1b1f24;font:14px Helvetica,Arial,sans-serif}"
    style += "svg{display:block;max-width:100%;height:auto;margin-bottom:16px}"
    texts = "".join(f"<p>{escape(printable(note))}</p>\n" for note in notes)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}'
        f"</title><style>{style}</style></head>\n<body>\n{texts}{''.join(svgs)}</body></html>\n"
    )


def _in_format(svg: str, suffix: str) -> bytes:
    if suffix == ".svg":
        return svg.encode()
    root = tree.fromstring(svg)
    if suffix == ".html":
        title = next((item.text or "" for item in root.iter() if _kind(item) == "text"), "")
        return _page(title, [svg]).encode()
    drawn = engine.run(
        _as_graph(root), suffix[1:], program="nop2",
        attributes={"dpi": str(_DPI)} if suffix == ".png" else {},
    )
    if suffix == ".pdf":
        from torchrecorder.export.paper_pdf import undated

        return undated(drawn)
    return drawn


def _as_graph(root: tree.Element) -> str:
    """An empty graph with the shapes of a chart as its background."""
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    font_size = float(root.get("font-size", "11"))
    drawn = _GraphvizDrawing(height, root.get("fill", "#000000"), font_size)
    shapes = " ".join(part for element in root for part in drawn.shape(element))
    background = '" + "'.join(
        shapes[at : at + _MAX_STRING].replace("\\", "\\\\").replace('"', '\\"')
        for at in range(0, len(shapes), _MAX_STRING)
    )
    unseen = 'style=invis label="" width=0.001 height=0.001'
    return (
        f'graph {{ graph [pad=0 margin=0 _background="{background}"]\n'
        f'a [pos="0,0" {unseen}]\nb [pos="{width},{height}" {unseen}] }}\n'
    )


class _GraphvizDrawing:
    """Converts shapes of an SVG to Graphviz's drawing instructions, whose y axis points up."""

    def __init__(self, height: float, ink: str, size: float) -> None:
        self.height = height
        self.ink = ink
        self.size = size

    def shape(self, element: tree.Element) -> Iterator[str]:
        """The instructions of one element."""
        kind = _kind(element)
        fill = element.get("fill", self.ink)
        if kind == "text":
            yield from self._text(element, fill)
            return
        yield _word("S", f"setlinewidth({element.get('stroke-width', '1')})")
        yield _word("c", element.get("stroke", _CLEAR))
        if kind == "circle":
            x, y, radius = (float(element.get(name, "0")) for name in ("cx", "cy", "r"))
            yield f"{_word('C', fill)} E {x:g} {self.height - y:g} {radius:g} {radius:g}"
            return
        yield _word("C", fill)
        points = [f"{x:g} {self.height - y:g}" for x, y in _points(kind, element)]
        form = "P" if kind in ("rect", "polygon") else "L"
        yield f"{form} {len(points)} {' '.join(points)}"

    def _text(self, element: tree.Element, fill: str) -> Iterator[str]:
        size = float(element.get("font-size", self.size))
        yield f"F {size:g} 9 -Helvetica {_word('c', fill)}"
        x, y = float(element.get("x", "0")), self.height - float(element.get("y", "0"))
        side = {"start": -1, "middle": 0, "end": 1}[element.get("text-anchor", "start")]
        yield _word(f"T {x:g} {y:g} {side} 0", element.text or "")


def _kind(element: tree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _points(kind: str, element: tree.Element) -> Iterator[tuple[float, float]]:
    """The corners of a line or polygon."""
    if kind == "rect":
        x, y, width, height = (
            float(element.get(name, "0")) for name in ("x", "y", "width", "height")
        )
        yield from ((x, y), (x + width, y), (x + width, y + height), (x, y + height))
    elif kind == "line":
        for end in "12":
            yield float(element.get(f"x{end}", "0")), float(element.get(f"y{end}", "0"))
    else:
        given = element.get("points") or element.get("d", "").replace("M", "").replace("L", "")
        for pair in given.split():
            x_, _, y_ = pair.partition(",")
            yield float(x_), float(y_)


def _word(instruction: str, text: str) -> str:
    """An instruction with a text, prefixed by its length in bytes."""
    return f"{instruction} {len(text.encode())} -{text}"
