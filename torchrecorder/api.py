"""render_network, show, make_dot, view, figure: joins the layers, decides nothing."""

from __future__ import annotations

import inspect
import json
import sys
import tempfile
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchrecorder.checks import FLAG, TEXT, check_one, path_of
from torchrecorder.comparison.change import Comparison
from torchrecorder.comparison.overlay import overlay
from torchrecorder.errors import ArgumentMismatch
from torchrecorder.export.exporter import by_suffix, write_file
from torchrecorder.graph.recording import Recording
from torchrecorder.options import Drawing, drawing
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Figure
from torchrecorder.style.marked import Marked
from torchrecorder.style.renaming import Renaming
from torchrecorder.views.former import with_former
from torchrecorder.views.plan import make_view
from torchrecorder.views.view import View

if TYPE_CHECKING:
    import graphviz  # type: ignore[import-untyped]


def render_network(
    model: Any,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    input_shapes: Any = None,
    directory: str | Path | None = None,
    filename: str | None = None,
    fmt: str = "svg",
    input_data: Any = None,
    fake: bool = False,
    autograd: bool = False,
    **options: Any,
) -> Path:
    """Run *model* once and write a figure of what ran.

    Args:
        model: An ``nn.Module``, or any function or method that works on tensors.
        args: A tuple of positional arguments; a mapping of keyword arguments; or the one
            positional argument.
        kwargs: Keyword arguments of the model.
        name: Name of the figure and, without *filename*, of the file; the class name if
            not given.
        input_shapes: Instead of *args*: a shape, a list of shapes, or a mapping from
            argument name to shape, for random inputs.
        directory: Where the file goes; the current folder if not given.
        filename: Name of the file; its suffix, if it has one, sets the format.
        fmt: Format of a file whose name does not say it: ``"svg"``, ``"pdf"``, ``"png"``,
            ``"html"``, ``"dot"`` ...
        input_data: The 1.x spelling of *args*.
        fake: Run on fake tensors: shapes only, no compute, no memory.
        autograd: Give a frozen model an autograd graph.
        **options: See `Recording.render`.

    Returns:
        The path of the file.

    Raises:
        TorchRecorderError: The call cannot be made, or the figure cannot be written.
        Exception: Whatever the model raises, with a note of where it happened.
    """
    from torchrecorder.capture.run import record

    refuse_others(render_network, record, options)
    folder = path_of("." if directory is None else directory, "directory")
    check_one("filename", filename, TEXT.or_none())
    check_one("fmt", fmt, TEXT)
    recording = record(
        model,
        args,
        kwargs,
        input_shapes=input_shapes,
        name=name,
        fake=fake,
        autograd=autograd,
        input_data=input_data,
    )
    path = folder / (filename or file_name(recording.name))
    if not filename or not path.suffix:
        path = path.with_name(f"{path.name}.{fmt.lstrip('.')}")
    return render(recording, path, **options)


def refuse_others(asked: Any, instead: Any, options: Mapping[str, Any]) -> None:
    """Refuse arguments of *instead* among the options of *asked*, which does not take them."""
    for name in options:
        if name in inspect.signature(instead).parameters:
            raise ArgumentMismatch(
                f"{asked.__name__}() does not take {name!r}: "
                f"{instead.__name__}(model, ..., {name}=...).render(path) does"
            )


def file_name(name: str) -> str:
    """*name* as the name of a file, without what file systems object to."""
    kept = "".join(each if each.isalnum() or each in " -_.+()" else "_" for each in name)
    return kept.strip()[:100] or "model"


def render(recording: Recording, path: str | Path, **options: Any) -> Path:
    """Write *recording* to *path* in the format that its suffix names.

    Returns:
        The path.

    Raises:
        UnknownFormat: No exporter writes this suffix.
        InvalidArgument: An option is unknown or its value impossible.
        LayoutFailed: Graphviz could not lay the figure out in time.
    """
    target = path_of(path)
    chosen = drawing(by_suffix(target.name), **options)
    assert chosen.exporter is not None
    write_file(target, chosen.exporter.export(_seen(recording, chosen), chosen.style))
    return target


def show(
    recording: Recording, path: str | Path | None = None, *, browser: bool = True, **options: Any
) -> Path:
    """Write *recording*, as a page if *path* does not say otherwise, and open it."""
    check_one("browser", browser, FLAG)
    target = temporary(recording.name, "html") if path is None else path
    written = render(recording, target, **options).resolve()
    if browser and not webbrowser.open(written.as_uri()):
        print(f"torchrecorder: no browser was found to open {written}", file=sys.stderr)
    return written


def temporary(name: str, fmt: str) -> Path:
    """A path in a new temporary folder, for a file named after *name*."""
    folder = tempfile.mkdtemp(prefix="torchrecorder-")
    return Path(folder) / f"{file_name(name)}.{fmt.lstrip('.')}"


def render_comparison(comparison: Comparison, path: str | Path, **options: Any) -> Path:
    """Write both recordings of a comparison, laid over each other; ``.json``: the changes.

    Returns:
        The path.
    """
    target = path_of(path)
    chosen = drawing(by_suffix(target.name), **{"fold": False, **options})
    assert chosen.exporter is not None
    if chosen.exporter.suffix == ".json":
        write_file(target, json.dumps(comparison.json(), indent=1, ensure_ascii=False) + "\n")
        return target
    laid = overlay(comparison)
    marks = {node: kind.value for node, kind in laid.marks.items()}
    seen, gone, new = _seen(laid.recording, chosen), laid.gone, laid.new
    if chosen.exporter.suffix != ".html":  # where modules open and close, it is told by boxes
        seen, turned = with_former(seen, laid.instead)
        gone, new = gone.union((laid.instead[each], each[1]) for each in turned), new | turned
    style = Marked(marks, gone, new, laid.notes, comparison.in_all).style(chosen.style)
    write_file(target, chosen.exporter.export(seen, style))
    return target


def view(recording: Recording, **options: Any) -> View:
    """The view that *options* ask for: boxes, arrows and clusters over *recording*."""
    return _seen(recording, drawing(**options))


def _seen(recording: Recording, chosen: Drawing) -> View:
    """The view of *recording* that was chosen; warns of names that nothing has."""
    view = make_view(recording, chosen.view)
    Renaming(chosen.style.rename).check(recording, view.recording)
    return view


def figure(recording: Recording, **options: Any) -> Figure:
    """What would be drawn: every text and colour decided, no format yet."""
    chosen = drawing(**options)
    return draw(_seen(recording, chosen), chosen.style)


def make_dot(
    recording: Recording, depth: int | None = None, *, styler_cls: Any = None, **options: Any
) -> graphviz.Digraph:
    """The figure as a ``graphviz.Digraph``, to style further, nest or render.

    Its ``render``, ``pipe`` and notebook display work without a ``dot`` program.

    Args:
        recording: What to draw.
        depth: How many levels of scopes are open (``render_depth`` in 1.x).
        styler_cls: A subclass of `GraphvizStyler` with the last word on looks. It sees
            tensors as boxes unless ``tensors=False`` is given.
        **options: See `Recording.render`.

    Example:
        >>> import torch, torchrecorder
        >>> recording = torchrecorder.record(torch.nn.Linear(4, 2), input_shapes=(1, 4))
        >>> "linear" in torchrecorder.make_dot(recording, depth=1).source
        True
    """
    from torchrecorder.export.digraph import Digraph
    from torchrecorder.export.styler import own_arguments, to_digraph

    if depth is not None:
        options["depth"] = depth
    if styler_cls is not None:
        options.setdefault("tensors", True)
    own = own_arguments(styler_cls, options)
    chosen = drawing(**{name: value for name, value in options.items() if name not in own})
    shown = _seen(recording, chosen)
    return to_digraph(shown, chosen.style, styler_cls, own, make=Digraph)
