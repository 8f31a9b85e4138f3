"""DOT -> svg, pdf, png through the embedded Graphviz."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from torchrecorder.export.centring import centred
from torchrecorder.export.dot import dot_text
from torchrecorder.export.families import with_fallbacks
from torchrecorder.export.titles import with_tooltips
from torchrecorder.layout import engine
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.views.view import View


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
    """

    suffix: ClassVar[str] = ".svg"
    binary: ClassVar[bool] = True
    timeout: float = engine.TIMEOUT

    def export(self, view: View, style: Style) -> bytes:
        """SVG."""
        return rendered(dot_text(draw(view, style)), "svg", timeout=self.timeout)


@dataclass(frozen=True)
class Pdf:
    """A figure for papers.

    Attributes:
        timeout: Seconds that the layout may take.
    """

    suffix: ClassVar[str] = ".pdf"
    binary: ClassVar[bool] = True
    timeout: float = engine.TIMEOUT

    def export(self, view: View, style: Style) -> bytes:
        """PDF."""
        return rendered(dot_text(draw(view, style)), "pdf", timeout=self.timeout)


@dataclass(frozen=True)
class Png:
    """A bitmap, for where vectors cannot go.

    Attributes:
        dpi: Pixels per inch.
        timeout: Seconds that the layout may take.
    """

    suffix: ClassVar[str] = ".png"
    binary: ClassVar[bool] = True
    dpi: float = 144.0
    timeout: float = engine.TIMEOUT

    def export(self, view: View, style: Style) -> bytes:
        """PNG, on white unless the style says otherwise: viewers show what is clear as black.

        Raises:
            LayoutFailed: It would have more pixels than a bitmap can hold.
        """
        figure = draw(view, style)
        if style.background is None and figure.background == "transparent":
            figure = replace(figure, background="#ffffff")
        text = dot_text(figure)
        resolution = {"dpi": f"{self.dpi:g}"}
        return engine.run(text, "png", timeout=self.timeout, attributes=resolution)


def rendered(
    source: str, format: str, program: str = "dot", *, timeout: float = engine.TIMEOUT
) -> bytes:
    """A DOT text as Graphviz draws it, SVG made fit for other fonts and for hovering."""
    picture = engine.run(source, format, program=program, timeout=timeout)
    return with_fallbacks(with_tooltips(centred(picture))) if format == "svg" else picture
