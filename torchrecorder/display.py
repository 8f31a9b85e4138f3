"""Notebooks: what a recording shows as the last line of a cell.

A front end takes the richest form that it can show. JupyterLab, Notebook, VS Code and Colab
take HTML: the page, in a frame that may run its scripts and save files, and no more. Where
frames are stripped (GitHub, a notebook that is not trusted), the figure behind the frame
shows. Converters to PDF take the PDF, as they need Inkscape for an SVG; terminals the text.
"""

from __future__ import annotations

import base64
import html
import re
import time
import warnings
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from torchrecorder.errors import LayoutFailed

if TYPE_CHECKING:
    from torchrecorder.graph.recording import RecordedRun
    from torchrecorder.style.style import Style
    from torchrecorder.views.view import View

_PATIENCE = 15.0
"""Seconds that all layouts of one cell may take together."""

_SHARE = 2 / 3
"""Part of what is left of them that one layout gets; the simpler ones need less."""

_BOXES = 5_000
"""Nothing larger is tried: it would not be laid out in time, nor be smooth in a notebook."""

_OPS = 20_000
"""A larger recording has no page in a notebook: it would take too long to make."""

_LARGEST = 2_500_000
"""Characters that a page in a notebook has at most; they are saved with the notebook."""

_BEHIND = 300_000
"""Bytes that the figure behind the frame has at most."""

_DRAWN = ("text/html", "image/svg+xml", "application/pdf")
"""Forms for which the figure is laid out."""

_TALLEST = 600
"""Pixels; the reader can pull the frame larger."""

_LOWEST = 360
"""Pixels that the panel of a small model needs."""

_AROUND = 110
"""Pixels of a frame that are not for the picture: its bar and margins."""

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
"""What is around an output in VS Code, JupyterLab and Colab; what comes later has precedence."""


def mimebundle(
    recording: RecordedRun,
    include: Container[str] | None = None,
    exclude: Container[str] | None = None,
) -> dict[str, str]:
    """The forms in which a notebook can show *recording*, as IPython asks for them."""
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


def framed(page: str, text: str, svg: str | None) -> str:
    """*page* in a frame, over what is seen where frames are not shown.

    Args:
        page: A whole HTML document.
        said: What it is, in a few words.
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
    """What is seen where frames are not: the figure, unless it is large."""
    if svg is None or len(svg) > _BEHIND:
        return f"<p>{text}</p>"
    data = base64.b64encode(svg.encode()).decode()
    fitting = "display:block;max-width:calc(100% - 8px);margin:4px"
    return f'<img alt="{text}" style="{fitting}" src="data:image/svg+xml;base64,{data}">'


def _following() -> str:
    """Style by which a frame, and so the page in it, has the colours of the notebook."""
    return "".join(
        ",".join(f"{place} .{_FRAME}" for place in places) + f"{{color-scheme:{theme}}}"
        for theme, places in _THEMES.items()
    )


def _quoted(page: str) -> str:
    """*page* as an attribute in single quotes; there are far more double ones in it."""
    return page.replace("&", "&amp;").replace("<", "&lt;").replace("'", "&#39;")


def _height(svg: str | None) -> int:
    """Pixels that a frame needs for what the figure shows."""
    height = re.search(r'<svg[^>]* height="([\d.]+)mm"', svg or "")
    wanted = float(height[1]) / 25.4 * 96 + _AROUND if height else _TALLEST
    return round(min(max(wanted, _LOWEST), _TALLEST))


def _page(recording: RecordedRun) -> str | None:
    """The page, if it can be laid out."""
    from torchrecorder.export.html import Html
    from torchrecorder.style.style import Style
    from torchrecorder.views.pipeline import make_view

    try:
        return Html(timeout=_PATIENCE).export(make_view(recording), Style())
    except LayoutFailed:
        return None


def _wanted(kind: str, include: Container[str] | None, exclude: Container[str] | None) -> bool:
    return (not include or kind in include) and not (exclude and kind in exclude)


def _figure(recording: RecordedRun, pdf: bool) -> tuple[str | None, bytes | None]:
    """The figure at its default depth, or closed further if that takes too long.

    Returns:
        As SVG, and as PDF if that is wanted and the figure is not large.
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
                _say_if_closed(recording, whole)
                small = pdf and len(svg) <= _BEHIND
                return svg, Pdf(timeout=left).export(view, style) if small else None
        except LayoutFailed:
            pass
        whole = False
    return None, None


def _views(recording: RecordedRun, style: Style) -> Iterator[View]:
    """The view at its default depth, then what is simpler: each with fewer boxes."""
    from torchrecorder.export.readable import readable_view
    from torchrecorder.views.pipeline import ViewOptions

    fewest = None
    for depth in (None, 1, 0):
        view = readable_view(recording, ViewOptions(depth=depth), style, None)
        if fewest is None or len(view.boxes) < fewest:
            fewest = len(view.boxes)
            yield view


def _say_if_closed(recording: RecordedRun, whole: bool) -> None:
    """A figure that shows less than the usual says so."""
    if not whole:
        warnings.warn(
            f"{recording.name} is too large to be drawn in a notebook at its usual depth and "
            "is shown closed; recording.render('model.svg', depth=..., timeout=...) draws more",
            stacklevel=2,
        )
