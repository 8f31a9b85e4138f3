"""Figure -> svg, pdf, png through the embedded Graphviz."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from torchrecorder.errors import InvalidArgument
from torchrecorder.export.centring import centred
from torchrecorder.export.dot import dot_text
from torchrecorder.export.families import with_fallbacks
from torchrecorder.export.nested import PAINTER, nested_text
from torchrecorder.export.titles import with_tooltips
from torchrecorder.layout import engine
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Figure, Group, Line, Shape
from torchrecorder.style.style import Style
from torchrecorder.views.view import View

Layout = Literal["auto", "dot", "nested"]
"""Who places the boxes: Graphviz all at once, or scope by scope."""

PAINT = frozenset(
    """
    URL bgcolor class color colorscheme fillcolor fontcolor gradientangle href id pad penwidth
    stylesheet target tooltip edgetooltip labeltooltip headtooltip tailtooltip
    """.split()
)
"""Graphviz attributes that leave sizes and places alone."""


@dataclass(frozen=True)
class Dot:
    """The figure in the DOT language."""

    suffix: ClassVar[str] = ".dot"
    binary: ClassVar[bool] = False

    def export(self, view: View, style: Style) -> str:
        """DOT text."""
        return dot_text(draw(view, style))


@dataclass(frozen=True)
class Gv(Dot):
    """The figure in the DOT language, under Graphviz's own suffix."""

    suffix: ClassVar[str] = ".gv"


@dataclass(frozen=True)
class Svg:
    """A figure for documents and browsers.

    Attributes:
        timeout: Seconds that the layout may take.
        layout: ``"nested"`` lays out each scope on its own, at any size; ``"dot"`` leaves it
            all to Graphviz. ``"auto"`` is nested unless Graphviz attributes are given that
            have a say in sizes or places (``ranksep``, ``shape`` ...).
    """

    suffix: ClassVar[str] = ".svg"
    binary: ClassVar[bool] = True
    timeout: float = engine.TIMEOUT
    layout: Layout = "auto"

    def __post_init__(self) -> None:
        _check_layout(self.layout)

    def export(self, view: View, style: Style) -> bytes:
        """SVG."""
        return _painted(draw(view, style), "svg", self.layout, self.timeout)


@dataclass(frozen=True)
class Pdf:
    """A figure for papers.

    Attributes:
        timeout: Seconds that the layout may take.
        layout: ``"nested"`` lays out each scope on its own, at any size; ``"dot"`` leaves it
            all to Graphviz. ``"auto"`` is nested unless Graphviz attributes are given that
            have a say in sizes or places (``ranksep``, ``shape`` ...).
    """

    suffix: ClassVar[str] = ".pdf"
    binary: ClassVar[bool] = True
    timeout: float = engine.TIMEOUT
    layout: Layout = "auto"

    def __post_init__(self) -> None:
        _check_layout(self.layout)

    def export(self, view: View, style: Style) -> bytes:
        """PDF."""
        return _painted(draw(view, style), "pdf", self.layout, self.timeout)


@dataclass(frozen=True)
class Png:
    """A bitmap, for where vectors cannot go.

    Attributes:
        dpi: Pixels per inch.
        timeout: Seconds that the layout may take.
        layout: ``"nested"`` lays out each scope on its own, at any size; ``"dot"`` leaves it
            all to Graphviz. ``"auto"`` is nested unless Graphviz attributes are given that
            have a say in sizes or places (``ranksep``, ``shape`` ...).
    """

    suffix: ClassVar[str] = ".png"
    binary: ClassVar[bool] = True
    dpi: float = 144.0
    timeout: float = engine.TIMEOUT
    layout: Layout = "auto"

    def __post_init__(self) -> None:
        _check_layout(self.layout)

    def export(self, view: View, style: Style) -> bytes:
        """PNG, on white unless the style says otherwise: viewers show what is clear as black.

        Raises:
            LayoutFailed: It would have more pixels than a bitmap can hold.
        """
        figure = draw(view, style)
        if style.background is None and figure.background == "transparent":
            figure = replace(figure, background="#ffffff")
        resolution = {"dpi": f"{self.dpi:g}"}
        return _painted(figure, "png", self.layout, self.timeout, resolution)


def is_nested(figure: Figure, layout: Layout) -> bool:
    """Whether a figure is laid out scope by scope."""
    return layout == "nested" or (layout == "auto" and not set(_given(figure)) - PAINT)


def _given(figure: Figure) -> Iterator[str]:
    """The Graphviz attributes that a user has set."""
    yield from figure.attributes
    parts: list[Shape | Group | Line] = [*figure.shapes, *figure.groups, *figure.lines]
    for part in parts:
        yield from part.look.attributes


def _check_layout(layout: str) -> None:
    if layout not in ("auto", "dot", "nested"):
        raise InvalidArgument(f"layout must be 'auto', 'dot' or 'nested', not {layout!r}")


def _painted(
    figure: Figure,
    format: str,
    layout: Layout,
    timeout: float,
    attributes: Mapping[str, str] | None = None,
) -> bytes:
    if is_nested(figure, layout):
        text, program = nested_text(figure, timeout=timeout), PAINTER
    else:
        text, program = dot_text(figure), "dot"
    return rendered(text, format, program, timeout=timeout, attributes=attributes)


def rendered(
    source: str,
    format: str,
    program: str = "dot",
    *,
    timeout: float = engine.TIMEOUT,
    attributes: Mapping[str, str] | None = None,
) -> bytes:
    """A DOT text as Graphviz draws it, SVG made fit for other fonts and for hovering."""
    picture = engine.run(source, format, program=program, timeout=timeout, attributes=attributes)
    return with_fallbacks(with_tooltips(centred(picture))) if format == "svg" else picture
