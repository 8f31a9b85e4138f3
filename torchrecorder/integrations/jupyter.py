"""Notebooks: what a recording shows as the last line of a cell."""

from __future__ import annotations

import time
import warnings
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from torchrecorder.errors import LayoutFailed

if TYPE_CHECKING:
    from torchrecorder.graph.recording import Recording
    from torchrecorder.views.view import View

_PATIENCE = 15.0
"""Seconds that all layouts of one cell may take together."""

_SHARE = 2 / 3
"""Part of what is left of them that one layout gets; the simpler ones need less."""

_BOXES = 5_000
"""Nothing larger is tried: it would not be laid out in time, nor be smooth in a notebook."""


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
    """The figure at its default depth, or closed further if that takes too long."""
    from torchrecorder.export.graphviz import Svg
    from torchrecorder.style.style import Style

    deadline = time.monotonic() + _PATIENCE
    whole = True
    for view in _views(recording):
        left = max(deadline - time.monotonic(), 1.0)
        try:
            if len(view.boxes) <= _BOXES:
                picture = Svg(timeout=left * _SHARE).export(view, Style())
                _say_if_closed(recording, whole)
                return picture.decode()
        except LayoutFailed:
            pass
        whole = False
    return None


def _views(recording: Recording) -> Iterator[View]:
    """The view at its default depth, then what is simpler: each with fewer boxes."""
    from torchrecorder.views.plan import ViewOptions, make_view

    fewest = None
    for depth in (None, 1, 0):
        view = make_view(recording, ViewOptions(depth=depth))
        if fewest is None or len(view.boxes) < fewest:
            fewest = len(view.boxes)
            yield view


def _say_if_closed(recording: Recording, whole: bool) -> None:
    """A figure that shows less than the usual says so."""
    if not whole:
        warnings.warn(
            f"{recording.name} is too large to be drawn in a notebook at its usual depth and "
            "is shown closed; recording.render('model.svg', depth=..., timeout=...) draws more",
            stacklevel=2,
        )
