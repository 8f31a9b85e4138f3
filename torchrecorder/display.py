"""Notebooks: the display of a recording as the last line of a cell.

A front end uses the richest format that it can show. JupyterLab, Notebook, VS Code and Colab use
HTML: the page, in a sandboxed iframe that may only run scripts and save files. If iframes are
removed (GitHub, an untrusted notebook), the figure behind it is visible. Converters to PDF use the
PDF, because they would need Inkscape for an SVG; terminals use the text.
"""

from __future__ import annotations

import base64
import html
import re
import time
import warnings
from collections.abc import Container, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from torchrecorder.errors import LayoutFailed

if TYPE_CHECKING:
    from torchrecorder.graph.recording import RecordedRun
    from torchrecorder.style.style import Style
    from torchrecorder.views.view import View

_PATIENCE = 15.0
"""Time limit in seconds of all layouts of one cell together."""

_SHARE = 2 / 3
"""The share of the remaining time that one layout gets; the simpler views after it need less."""

_BOXES = 5_000
"""Figures with more boxes are not tried: layout takes too long, and the notebook becomes slow."""

_OPS = 20_000
"""Recordings with more ops get no page in a notebook: it takes too long to make."""

_LARGEST = 2_500_000
"""Maximum length of a page in characters; the page is saved with the notebook."""

_BEHIND = 300_000
"""Maximum length of the figure behind the frame."""

_DRAWN = ("text/html", "image/svg+xml", "application/pdf")
"""MIME types for which the figure is laid out."""

_TALLEST = 600
"""Maximum height of the frame in pixels; the reader can enlarge it."""

_LOWEST = 360
"""Minimum height of the frame in pixels: the panel of a small model needs it."""

_AROUND = 110
"""Height in pixels of the bar and margins around the picture in the frame."""

_FRAME = "torchrecorder-page"

_THEMES = {
    "dark": (
        ".vscode-dark",
        ".vscode-high-contrast",
        '[data-jp-theme-light="false"]',
        "[theme=dark]",
    ),
    "light": (
        ".vscode-light",
        ".vscode-high-contrast-light",
        '[data-jp-theme-light="true"]',
        "[theme=light]",
    ),
}
"""CSS selectors of elements around an output in VS Code, JupyterLab and Colab, by theme; later ones
have precedence."""


def mimebundle(
    recording: RecordedRun,
    include: Container[str] | None = None,
    exclude: Container[str] | None = None,
) -> dict[str, str]:
    """The formats in which a notebook can show *recording*, by MIME type."""
    bundle = {"text/plain": repr(recording)}
    wanted = {kind for kind in _DRAWN if _wanted(kind, include, exclude)}
    svg, pdf = _figure(recording, "application/pdf" in wanted) if wanted else (None, None)
    if "text/html" in wanted and len(recording.ops) <= _OPS:
        page = _page(recording)
        if page is not None and len(page) <= _LARGEST:
            bundle["text/html"] = framed(page, repr(recording), svg)
    if svg is not None:
        bundle["image/svg+xml"] = svg
    if pdf is not None:
        bundle["application/pdf"] = base64.b64encode(pdf).decode()
    return {kind: data for kind, data in bundle.items() if _wanted(kind, include, exclude)}


def display_page(page: str, text: str) -> None:
    """Show *page* in a frame below the cell of a notebook that runs now.

    Args:
        page: A whole HTML document.
        text: A short description of the page.
    """
    data = {"text/plain": text, "text/html": framed(page, text, None)}
    import_module("IPython.display").display(data, raw=True)


def is_in_notebook() -> bool:
    """Whether IPython runs, or another notebook shows what IPython displays, as marimo does."""
    display = import_module("IPython.display").display
    running = import_module("IPython").get_ipython() is not None
    return running or not display.__module__.startswith("IPython.")


class ShownPath(type(Path())):  # type: ignore[misc]
    """The path of a page that a notebook cell shows.

    If it is also the last line of that cell, IPython shows nothing more.
    """

    cell: int | None = None

    def _ipython_display_(self) -> None:
        if self.cell is None or self.cell != _running_cell():
            raise NotImplementedError  # IPython shows it like any other path


def shown_path(path: Path) -> ShownPath:
    """*path*, which the running cell does not show."""
    shown = ShownPath(path)
    shown.cell = _running_cell()
    return shown


def _running_cell() -> int | None:
    """The number of the cell that runs; None outside of IPython."""
    shell = import_module("IPython").get_ipython()
    return shell.execution_count if shell is not None else None


def framed(page: str, text: str, svg: str | None) -> str:
    """*page* in a frame, on top of the content for front ends that remove frames.

    Args:
        page: A whole HTML document.
        text: A short description of the page.
        svg: The figure to show instead.
    """
    text = html.escape(text)
    full = "position:absolute;left:0;top:0;width:100%;height:calc(100% - 12px)"
    place = f"{full};box-sizing:border-box;border:1px solid #8885;border-radius:6px"
    around = f"position:relative;height:{_height(svg)}px;resize:vertical;overflow:hidden"
    return (
        f'<div style="{around}"><style>{_following()}</style>'
        f'<div style="height:calc(100% - 20px);overflow:auto" tabindex="-1">{_instead(text, svg)}'
        f'</div><iframe class="{_FRAME}" title="{text}" style="{place}"'
        f" sandbox=\"allow-scripts allow-downloads\" srcdoc='{_quoted(page)}'></iframe></div>"
    )


def _instead(text: str, svg: str | None) -> str:
    """The content for front ends that remove frames: the figure, or text if it is large."""
    if svg is None or len(svg) > _BEHIND:
        return f"<p>{text}</p>"
    data = base64.b64encode(svg.encode()).decode()
    fitting = "display:block;max-width:calc(100% - 8px);margin:4px"
    return f'<img alt="{text}" style="{fitting}" src="data:image/svg+xml;base64,{data}">'


def _following() -> str:
    """CSS that gives the frame, and so the page in it, the color scheme of the notebook."""
    return "".join(
        ",".join(f"{place} .{_FRAME}" for place in places) + f"{{color-scheme:{theme}}}"
        for theme, places in _THEMES.items()
    )


def _quoted(page: str) -> str:
    """*page* escaped for an attribute in single quotes, because it contains far more double
    quotes."""
    return page.replace("&", "&amp;").replace("<", "&lt;").replace("'", "&#39;")


def _height(svg: str | None) -> int:
    """Height in pixels of a frame that holds the figure."""
    height = re.search(r'<svg[^>]* height="([\d.]+)mm"', svg or "")
    wanted = float(height[1]) / 25.4 * 96 + _AROUND if height else _TALLEST
    return round(min(max(wanted, _LOWEST), _TALLEST))


def _page(recording: RecordedRun) -> str | None:
    """The page; None if it cannot be laid out in time."""
    from torchrecorder.export.html import Html
    from torchrecorder.style.style import Style
    from torchrecorder.views.page_view import page_view

    try:
        return Html(timeout=_PATIENCE).export(page_view(recording), Style())
    except LayoutFailed:
        return None


def _wanted(kind: str, include: Container[str] | None, exclude: Container[str] | None) -> bool:
    return (not include or kind in include) and not (exclude and kind in exclude)


def _figure(recording: RecordedRun, pdf: bool) -> tuple[str | None, bytes | None]:
    """The figure at its default depth, or closed further if that takes too long.

    Returns:
        The SVG, and the PDF if it is wanted and the figure is not large.
    """
    from torchrecorder.export.graphviz import Pdf, Svg
    from torchrecorder.style.style import Style

    style = Style(fit="cell", min_fontsize=0)
    deadline = time.monotonic() + _PATIENCE
    whole = True
    for view in _views(recording, style):
        left = max(deadline - time.monotonic(), 1.0)
        try:
            if len(view.boxes) <= _BOXES:
                svg = Svg(timeout=left * _SHARE).export(view, style).decode()
                if not whole:
                    warnings.warn(
                        f"{recording.name} is too large to be drawn in a notebook at its default "
                        "depth and is drawn with fewer levels; recording.render('model.svg', "
                        "depth=..., timeout=...) shows more",
                        stacklevel=2,
                    )
                small = pdf and len(svg) <= _BEHIND
                return svg, Pdf(timeout=left).export(view, style) if small else None
        except LayoutFailed:
            pass
        whole = False
    return None, None


def _views(recording: RecordedRun, style: Style) -> Iterator[View]:
    """The view at its default depth, then simpler views, each with fewer boxes."""
    from torchrecorder.export.readable import readable_view
    from torchrecorder.views.pipeline import ViewOptions

    fewest = None
    for depth in (None, 1, 0):
        view = readable_view(recording, ViewOptions(depth=depth), style, None)
        if fewest is None or len(view.boxes) < fewest:
            fewest = len(view.boxes)
            yield view
