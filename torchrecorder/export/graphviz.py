"""DOT -> svg, pdf, png through the embedded Graphviz, and a Digraph that needs no dot."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import graphviz

from torchrecorder.errors import LayoutFailed
from torchrecorder.export.centring import centred
from torchrecorder.export.dot import dot_text
from torchrecorder.export.exporter import write_file
from torchrecorder.export.titles import with_tooltips
from torchrecorder.layout import engine
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.views.view import View

PNG_LIMIT = 32767
"""Pixels a side that Graphviz's bitmap can hold (a limit of cairo)."""


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
        return _finished(engine.run(dot_text(draw(view, style)), "svg", timeout=self.timeout))


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
        return engine.run(dot_text(draw(view, style)), "pdf", timeout=self.timeout)


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
        """PNG.

        Raises:
            LayoutFailed: It would have more pixels than a bitmap can hold.
        """
        text = dot_text(draw(view, style))
        return png(text, dpi=self.dpi, timeout=self.timeout)


def png(text: str, *, dpi: float, timeout: float) -> bytes:
    """A DOT text as PNG, after a look at how large it would be."""
    placed = json.loads(engine.run(text, "json0", timeout=timeout))
    left, bottom, right, top = (float(each) for each in placed["bb"].split(","))
    width, height = ((right - left) * dpi / 72, (top - bottom) * dpi / 72)
    if max(width, height) > PNG_LIMIT:
        raise LayoutFailed(
            f"the figure would be {width:.0f} × {height:.0f} pixels, and a PNG holds "
            f"{PNG_LIMIT} a side: write .svg or .pdf, or choose dpi below "
            f"{dpi * PNG_LIMIT / max(width, height):.0f} or a smaller depth",
            final=True,
        )
    opened = text.index("{") + 1
    return engine.run(f"{text[:opened]}\n\tdpi={dpi:g};{text[opened:]}", "png", timeout=timeout)


class Digraph(graphviz.Digraph):  # type: ignore[misc]
    """A ``graphviz.Digraph`` whose rendering and display need no ``dot`` program."""

    def pipe(
        self,
        format: str | None = None,
        renderer: str | None = None,
        formatter: str | None = None,
        neato_no_op: bool | int | None = None,
        quiet: bool = False,
        *,
        engine: str | None = None,
        encoding: str | None = None,
    ) -> Any:
        """The rendered graph; bytes, or text if *encoding* is given."""
        data = _rendered(self.source, format or self.format, engine or self.engine)
        return data if encoding is None else data.decode(encoding)

    def render(
        self,
        filename: Any = None,
        directory: Any = None,
        view: bool = False,
        cleanup: bool = False,
        format: str | None = None,
        renderer: str | None = None,
        formatter: str | None = None,
        neato_no_op: bool | int | None = None,
        quiet: bool = False,
        quiet_view: bool = False,
        *,
        outfile: Any = None,
        engine: str | None = None,
        raise_if_result_exists: bool = False,
        overwrite_source: bool = False,
    ) -> str:
        """Write the source beside the rendered graph, and return the path of the latter."""
        wanted = format or (Path(outfile).suffix.lstrip(".") if outfile else "") or self.format
        source = Path(directory or self.directory or ".") / (filename or self.filename)
        target = Path(outfile) if outfile else source.with_name(f"{source.name}.{wanted}")
        if raise_if_result_exists and target.exists():
            raise graphviz.FileExistsError(f"output file exists: {str(target)!r}")
        target.parent.mkdir(parents=True, exist_ok=True)
        write_file(target, _rendered(self.source, wanted, engine or self.engine))
        if not cleanup and not outfile:
            write_file(source, self.source)
        if view or quiet_view:
            self._view(str(target), format=wanted, quiet=quiet_view)
        return str(target)

    def _repr_image_svg_xml(self) -> str:
        """What a notebook shows; graphviz calls this for its mime bundle."""
        return str(self.pipe(format="svg", encoding="utf-8"))

    _repr_svg_ = None  # the mime bundle is enough


def _rendered(source: str, format: str, program: str | None) -> bytes:
    if format in ("dot", "gv"):
        return source.encode()
    data = engine.run(source, format, program=program or "dot")
    return _finished(data) if format == "svg" else data


def _finished(svg: bytes) -> bytes:
    """Graphviz's SVG, made fit for viewers with other fonts and for hovering."""
    return with_tooltips(centred(svg))
