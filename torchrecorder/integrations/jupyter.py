"""Notebooks: what a recording shows as the last line of a cell."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from torchrecorder.errors import LayoutFailed

if TYPE_CHECKING:
    from torchrecorder.graph.recording import Recording

_PATIENCE = 10.0
"""Seconds that a layout may take before a simpler figure is shown."""


def mimebundle(
    recording: Recording,
    include: Container[str] | None = None,
    exclude: Container[str] | None = None,
) -> dict[str, str]:
    """The forms in which a notebook can show *recording*, as IPython asks for them."""
    bundle = {"text/plain": repr(recording)}
    if _wanted("image/svg+xml", include, exclude):
        svg = _svg(recording)
        if svg is not None:
            bundle["image/svg+xml"] = svg
    return {kind: data for kind, data in bundle.items() if _wanted(kind, include, exclude)}


def _wanted(kind: str, include: Container[str] | None, exclude: Container[str] | None) -> bool:
    return (not include or kind in include) and not (exclude and kind in exclude)


def _svg(recording: Recording) -> str | None:
    """The figure at its default depth; closed to one box if that takes too long."""
    from torchrecorder.export.graphviz import Svg
    from torchrecorder.style.style import Style
    from torchrecorder.views.plan import ViewOptions, make_view

    for depth in (None, 1, 0):
        try:
            view = make_view(recording, ViewOptions(depth=depth))
            contents = Svg(timeout=_PATIENCE).export(view, Style())
            return contents if isinstance(contents, str) else contents.decode()
        except LayoutFailed:
            continue
    return None
