"""view, figure, render, show, make_dot: draw a recording."""

from __future__ import annotations

import sys
import tempfile
import webbrowser
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchrecorder.checks import FLAG, check_one, path_of, warn
from torchrecorder.display import display_page, is_in_notebook, shown_path
from torchrecorder.errors import InvalidArgument
from torchrecorder.export import by_suffix
from torchrecorder.export.json import Json
from torchrecorder.export.readable import readable_view
from torchrecorder.files import check_place, write_file
from torchrecorder.graph.gc_pause import without_gc
from torchrecorder.graph.recording import RecordedRun, check_recording
from torchrecorder.option_table import no_effect
from torchrecorder.options import Drawing, drawing
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Figure
from torchrecorder.style.renaming import Renaming
from torchrecorder.views.pipeline import ViewOptions
from torchrecorder.views.view import View

if TYPE_CHECKING:
    import graphviz  # type: ignore[import-untyped]
    from typing_extensions import Unpack

    from torchrecorder.signatures import DrawingOptions


def file_name(name: str) -> str:
    """*name* as a file name, without characters that file systems refuse."""
    kept = "".join(item if item.isalnum() or item in " -_.+()" else "_" for item in name)
    return kept.strip()[:100] or "model"


def render(
    recording: RecordedRun, path: str | Path, **options: Unpack[DrawingOptions]
) -> Path:
    """Write *recording* to *path* in the format that its suffix names; see `Recording.render`."""
    target = path_of(path)
    chosen = drawing(by_suffix(target.name), **options)
    check_place(target)
    return write(recording, target, chosen)


def write(recording: RecordedRun, target: Path, chosen: Drawing) -> Path:
    """Write *recording* to *target* as *chosen*."""
    with without_gc():
        content = _content(recording, chosen)
    write_file(target, content)
    return target


def _content(recording: RecordedRun, chosen: Drawing) -> str | bytes:
    """The content of the file; everything else that was made is gone when this returns."""
    assert chosen.exporter is not None
    if isinstance(chosen.exporter, Json):  # all of the recording, whatever the options select
        check_recording(recording)
        if chosen.view != ViewOptions() or chosen.style.rename or chosen.style.colors:
            chosen_view(recording, chosen)  # refuses options, and warns about names
        _warn_of_unused(chosen.view, chosen.exporter.suffix)
        return chosen.exporter.written(recording)
    return chosen.exporter.export(chosen_view(recording, chosen), chosen.style)


def _warn_of_unused(options: ViewOptions, suffix: str) -> None:
    usual = ViewOptions()
    names = [one.name for one in fields(usual)]
    given = [name for name in names if getattr(options, name) != getattr(usual, name)]
    if given:
        warn(f"{no_effect(given)} on {suffix}, which has all of the recording")


def show(
    recording: RecordedRun,
    path: str | Path | None = None,
    *,
    browser: bool,
    inline: bool = False,
    **options: Unpack[DrawingOptions],
) -> Path:
    """Write *recording*, as a page unless *path* has another suffix, and open it in a browser.

    Raises:
        InvalidArgument: *inline* is set for a format other than a page, or without IPython.
    """
    check_one("browser", browser, FLAG)
    check_one("inline", inline, FLAG)
    target = temporary(recording.name, "html") if path is None else path_of(path)
    if inline:
        _check_inline(target)
    written = render(recording, target, **options).resolve()
    if inline:
        display_page(written.read_text(encoding="utf-8"), repr(recording))
        return shown_path(written)
    if browser and not webbrowser.open(written.as_uri()):
        print(f"torchrecorder: no browser was found to open {written}", file=sys.stderr)
    return written


def _check_inline(target: Path) -> None:
    if target.suffix.lower() != ".html":
        raise InvalidArgument(f"inline=True shows a page, and {target.name} does not end in .html")
    if find_spec("IPython") is None:
        raise InvalidArgument("inline=True needs a notebook, and IPython is not installed")
    if not is_in_notebook():
        raise InvalidArgument("inline=True needs a notebook: without it, a browser shows the page")


def temporary(name: str, fmt: str) -> Path:
    """A path in a new temporary folder, for a file named after *name*."""
    folder = tempfile.mkdtemp(prefix="torchrecorder-")
    return Path(folder) / f"{file_name(name)}.{fmt.lstrip('.')}"


def view(recording: RecordedRun, **options: Unpack[DrawingOptions]) -> View:
    """The view with these *options*: boxes, arrows and clusters over *recording*."""
    return chosen_view(recording, drawing(**options))


def chosen_view(recording: RecordedRun, chosen: Drawing) -> View:
    """The view of *recording* for the options *chosen*; warns about unmatched names in
    ``rename=`` and ``colors=``."""
    view = readable_view(recording, chosen.view, chosen.style, chosen.exporter)
    for name in ("rename", "colors"):
        Renaming(getattr(chosen.style, name)).check(name, recording, view.recording)
    return view


def figure(recording: RecordedRun, **options: Unpack[DrawingOptions]) -> Figure:
    """The figure: all texts and colors, independent of the file format."""
    chosen = drawing(**options)
    return draw(chosen_view(recording, chosen), chosen.style)


def make_dot(
    recording: RecordedRun, depth: int | None = None, *, styler_cls: Any = None, **options: Any
) -> graphviz.Digraph:
    """The figure as a ``graphviz.Digraph``, to style further, nest or render.

    Its ``render``, ``pipe`` and notebook display work without a ``dot`` program.

    Args:
        recording: The recording to draw.
        depth: The number of levels of scopes that are open (``render_depth`` in 1.x).
        styler_cls: A subclass of `GraphvizStyler`, which may change all attributes. Tensors are
            boxes unless ``tensors=False`` is given.
        **options: See `Recording.render`.

    Example:
        >>> import torch, torchrecorder
        >>> recording = torchrecorder.record(torch.nn.Linear(4, 2), input_shapes=(1, 4))
        >>> "linear" in torchrecorder.make_dot(recording, depth=1).source
        True
    """
    from torchrecorder.export.styler import own_arguments, to_digraph

    if depth is not None:
        options["depth"] = depth
    if styler_cls is not None:
        options.setdefault("tensors", True)
    own = own_arguments(styler_cls, options)
    chosen = drawing(**{name: value for name, value in options.items() if name not in own})
    shown = chosen_view(recording, chosen)
    return to_digraph(shown, chosen.style, styler_cls, own)
