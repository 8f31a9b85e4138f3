"""Graphviz: a figure as SVG, PDF or PNG. Graphviz paints them, except the SVG of a nested
layout."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, Protocol, runtime_checkable

from torchrecorder.checks import above_0, one_of, warn
from torchrecorder.errors import LayoutFailed, Notice
from torchrecorder.export import paper_pdf
from torchrecorder.export.dot import dot_text
from torchrecorder.export.exporter import timeout_option
from torchrecorder.export.nested import PAINTER, nested_text, smallest
from torchrecorder.export.plain_svg import plain_svg
from torchrecorder.export.shorter_lines import fitted
from torchrecorder.export.svg import centered, finished, names_of, on_page, size_of
from torchrecorder.layout import engine
from torchrecorder.layout.fonts import stand_in
from torchrecorder.option_table import Checked, documented, option
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Figure, Group, Line, Shape
from torchrecorder.style.paper import Paper
from torchrecorder.style.style import Style
from torchrecorder.views.view import View

Layout = Literal["auto", "dot", "nested"]
"""The layouts: the whole figure by Graphviz, or scope by scope."""

PAINT = frozenset(
    """
    URL bgcolor class color colorscheme fillcolor fontcolor gradientangle href id pad penwidth
    stylesheet target tooltip edgetooltip labeltooltip headtooltip tailtooltip
    """.split()
)
"""Graphviz attributes that do not affect sizes and positions."""


@dataclass(frozen=True)
class Dot:
    """The figure in the DOT language."""

    suffix: ClassVar[str] = ".dot"

    def export(self, view: View, style: Style) -> str:
        return dot_text(draw(view, style))


@dataclass(frozen=True)
class Gv(Dot):
    """The figure in the DOT language, under Graphviz's own suffix."""

    suffix: ClassVar[str] = ".gv"


@runtime_checkable
class LaidOut(Protocol):
    """A format with positions; the size of the paper decides which view it shows.

    Attributes:
        layout: How boxes are laid out.
        timeout: The time limit of the layout in seconds.
    """

    @property
    def layout(self) -> Layout: ...

    @property
    def timeout(self) -> float: ...


@dataclass(frozen=True, kw_only=True)
class Painted(Checked):
    """Options of formats that Graphviz paints."""

    suffix: ClassVar[str]
    timeout: float = timeout_option()
    layout: Layout = option(
        "How boxes are laid out: module by module (nested), or all at once (dot). ``\"auto\"`` "
        "is nested, unless Graphviz attributes are given that affect sizes or positions "
        "(``ranksep``, ``shape`` ...), which only Graphviz itself, \"dot\", can follow.",
        one_of("auto", "dot", "nested"),
        default="auto",
    )

    def export(self, view: View, style: Style) -> bytes:
        figure = draw(view, style)
        try:
            return self._painted(figure)
        except LayoutFailed:
            if engine.available():
                raise
        return self._painted(figure)  # Graphviz has turned out to be missing

    def _painted(self, figure: Figure, attributes: Mapping[str, str] | None = None) -> bytes:
        """The contents of the file; *attributes* of the graph are passed to Graphviz."""
        format, nested = self.suffix[1:], is_nested(figure, self.layout)
        if nested and format == "svg" and not (any(_given(figure)) and engine.available()):
            figure, placed = fitted(figure, self.timeout)
            return _on_paper(finished(plain_svg(figure, placed), names_of(figure)), figure)
        engine.require()
        if format != "svg":
            _warn_if_replaced(figure.fontname)
        if nested:
            figure, placed = fitted(figure, self.timeout)
            text = nested_text(figure, placed)
        else:
            text = dot_text(replace(figure, paper=Paper()))
        program = PAINTER if nested else "dot"
        paint = partial(
            rendered, text, program=program, timeout=self.timeout, names=names_of(figure)
        )
        if format == "svg":
            return _on_paper(paint("svg"), figure)
        if not figure.paper:
            return paint(format, attributes=attributes)
        if format == "pdf":
            picture = paint("pdf", attributes=attributes)
            fit = figure.paper.fit(*paper_pdf.size_of(picture), smallest(figure))
            return paper_pdf.on_page(picture, fit, figure.background)
        fit = figure.paper.fit(*size_of(paint("svg")), smallest(figure))
        window = f"{fit.width:.4f},{fit.height:.4f},{fit.scale:.6f}"
        return paint(format, attributes={**(attributes or {}), "viewport": window})


@documented
@dataclass(frozen=True)
class Svg(Painted):
    """A figure for documents and browsers."""

    suffix: ClassVar[str] = ".svg"


@documented
@dataclass(frozen=True)
class Pdf(Painted):
    """A figure for papers."""

    suffix: ClassVar[str] = ".pdf"


@documented
@dataclass(frozen=True)
class Png(Painted):
    """A bitmap, where vector graphics cannot be used."""

    suffix: ClassVar[str] = ".png"
    dpi: float = option(
        "Pixels per inch of a PNG.",
        above_0("a number of pixels per inch"),
        default=144.0,
    )

    def export(self, view: View, style: Style) -> bytes:
        """PNG, on white by default, because viewers show transparent areas as black.

        Raises:
            LayoutFailed: It would have too many pixels for a bitmap.
        """
        figure = draw(view, style)
        if style.background is None and figure.background == "transparent":
            figure = replace(figure, background="#ffffff")
        return _with_resolution(self._painted(figure, {"dpi": f"{self.dpi:g}"}), self.dpi)


def _with_resolution(png: bytes, dpi: float) -> bytes:
    """*png* with its resolution set to *dpi* pixels per inch."""
    head = 33  # bytes of the signature and of the first chunk with width and height
    per_meter = round(dpi / 0.0254)
    chunk = b"pHYs" + struct.pack(">IIB", per_meter, per_meter, 1)
    density = struct.pack(">I", 9) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return png[:head] + density + png[head:]


def is_nested(figure: Figure, layout: Layout) -> bool:
    """Whether a figure is laid out scope by scope."""
    return layout == "nested" or (layout == "auto" and not set(_given(figure)) - PAINT)


def _given(figure: Figure) -> Iterator[str]:
    """The Graphviz attributes that a user has set."""
    yield from figure.attributes
    parts: list[Shape | Group | Line] = [*figure.shapes, *figure.groups, *figure.lines]
    for part in parts:
        yield from part.look.attributes


def _warn_if_replaced(fontname: str) -> None:
    """Warn if a font is not installed on this machine, so that the figure is painted with another
    one."""
    instead = stand_in(fontname)
    if instead is not None:
        warn(
            f"fontname={fontname!r} is not installed on this machine: the figure is written with "
            f"{instead!r}. fc-list lists the installed fonts",
            Notice,
        )


def _on_paper(svg: bytes, figure: Figure) -> bytes:
    """*svg* unchanged, or on a page of exact size."""
    if not figure.paper:
        return svg
    fit = figure.paper.fit(*size_of(svg), smallest(figure))
    return on_page(svg, fit, figure.background)


def rendered(
    source: str,
    format: str,
    program: str = "dot",
    *,
    timeout: float = engine.TIMEOUT,
    attributes: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
) -> bytes:
    """A DOT text painted by Graphviz; SVG is adapted for other fonts and tooltips.

    With *names* of boxes and clusters, SVG is sorted into layers.
    """
    picture = engine.run(source, format, program=program, timeout=timeout, attributes=attributes)
    if format == "pdf":
        return paper_pdf.undated(picture)
    if format != "svg":
        return picture
    return finished(centered(picture.decode()), names)
