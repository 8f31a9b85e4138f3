"""render_network: record a model and draw it, in one call."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchrecorder.checks import TEXT, check_one, path_of
from torchrecorder.drawing import file_name, render
from torchrecorder.errors import ArgumentMismatch


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
