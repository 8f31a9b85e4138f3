"""render_network, summary: record a model, and draw it or list its modules, in one call."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from torchrecorder.annotations import flags_for
from torchrecorder.annotations.annotation import Annotation
from torchrecorder.checks import LIST, TEXT, check_names, check_one, inputs_together, path_of
from torchrecorder.drawing import file_name, write
from torchrecorder.errors import ArgumentMismatch
from torchrecorder.export import by_suffix
from torchrecorder.export.table.text import DEFAULT, check_listing, numbers_in, summary as listed
from torchrecorder.files import check_place
from torchrecorder.options import drawing, shown_numbers

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from torchrecorder.capture.record import InputOptions
    from torchrecorder.signatures import DrawingOptions, NetworkOptions


@overload
def render_network(
    model: Any,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[NetworkOptions],
) -> Path: ...


@overload
def render_network(
    model: Any,
    *,
    input_shapes: Sequence[Any] | Mapping[str, Any],
    dtypes: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[NetworkOptions],
) -> Path: ...


@overload
def render_network(
    model: Any,
    *,
    input_data: Any,
    kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[NetworkOptions],
) -> Path: ...


@inputs_together
def render_network(
    model: Any,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    input_shapes: Any = None,
    dtypes: Any = None,
    directory: str | Path | None = None,
    filename: str | None = None,
    fmt: str = "svg",
    input_data: Any = None,
    fake: bool = False,
    autograd: bool = False,
    **options: Unpack[DrawingOptions],
) -> Path:
    """Run *model* once, and write a figure of the run.

    Args:
        model: An ``nn.Module``, or any function or method that works on tensors.
        args: A tuple of positional arguments; a mapping of keyword arguments; or the one
            positional argument.
        kwargs: Keyword arguments of the model.
        name: Name of the figure, and of the file if *filename* is not given; by default the
            class name.
        input_shapes: Instead of *args*, for random inputs: a shape, a list of shapes, or a mapping
            from argument name to shape.
        dtypes: Dtypes of *input_shapes*; see `record`.
        directory: The folder of the file; by default the current one.
        filename: Name of the file; its suffix, if it has one, sets the format.
        fmt: Format of a file name without a suffix: ``"svg"``, ``"pdf"``, ``"png"``,
            ``"html"``, ``"dot"`` ...
        input_data: The 1.x spelling of *args*.
        fake: Run on fake tensors: shapes only; nothing is computed or allocated.
        autograd: Also record the autograd graph of a frozen model.
        **options: See `Recording.render`. Numbers that ``numbers`` and ``color_by`` need are
            measured.

    Returns:
        The path of the file.

    Raises:
        TorchRecorderError: The arguments do not fit the model, or the figure cannot be written.
        Exception: Any exception of the model, with a note that names the module and operation.
    """
    __tracebackhide__ = True
    from torchrecorder.capture.record import record

    refuse_others(render_network, record, options)
    if "path" in options:
        raise ArgumentMismatch(
            "render_network() does not take 'path': filename='model.svg' names the file, and "
            "directory=... its folder"
        )
    folder = path_of("." if directory is None else directory, "directory")
    check_one("filename", filename, TEXT.or_none())
    check_one("fmt", fmt, TEXT)
    check_one("name", name, TEXT.or_none())
    more: dict[str, Any] = dict(input_shapes=input_shapes, dtypes=dtypes, input_data=input_data)
    more |= dict.fromkeys(flags_for(shown_numbers(options)), True)
    place = partial(_place, folder, filename, fmt)
    target = place(name or type(model).__name__)
    chosen = drawing(by_suffix(target.name), _OWN, **options)  # raises before the model runs
    check_place(target)
    recording = record(model, args, kwargs, name=name, fake=fake, autograd=autograd, **more)
    return write(recording, place(recording.name), chosen)


_OWN = inspect.getfullargspec(inspect.unwrap(render_network)).kwonlyargs
"""The options of `render_network` that are not those of a drawing."""


def _place(folder: Path, filename: str | None, fmt: str, name: str) -> Path:
    """The path of a figure that is called *name*, unless it has a file name."""
    if filename and Path(filename).suffix:
        return folder / filename
    return folder / f"{filename or file_name(name)}.{fmt.lstrip('.')}"


@inputs_together
def summary(
    model: Any,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    depth: int | Literal["ops"] | None = None,
    columns: Sequence[str | Annotation] = DEFAULT,
    ops: bool = False,
    fold: bool | Literal["similar"] = True,
    **options: Unpack[InputOptions],
) -> str:
    """Run *model* once, and return a table of its modules, shapes and parameters.

    Args:
        model: An ``nn.Module``, or any function or method that works on tensors.
        args: A tuple of positional arguments; a mapping of keyword arguments; or the one
            positional argument.
        kwargs: Keyword arguments of the model.
        depth: Levels of scopes that are listed; see `Recording.summary`.
        columns: ``"input"``, ``"output"``, or names of annotations, which are measured where
            necessary.
        ops: List every op too.
        fold: One line for equal repeated blocks; ``"similar"``: also for blocks that differ in
            sizes.
        **options: See `record`: ``input_shapes``, ``dtypes``, ``fake`` ...

    Returns:
        The table, a string that a Python prompt or a notebook shows without `print`.

    Raises:
        TorchRecorderError: The arguments do not fit the model.
        Exception: Any exception of the model, with a note that names the module and operation.

    Example:
        >>> import torch, torchrecorder
        >>> torchrecorder.summary(torch.nn.Linear(4, 2), input_shapes=(1, 4), columns=["output"])
        Scope   Output
        ──────────────
        Linear  1×2
        ──────────────
        Total params             10
        Trainable params         10
        Non-trainable params      0
        Input size             16 B
        Forward pass size       8 B
        Params size            40 B
    """
    __tracebackhide__ = True
    from torchrecorder.capture.record import record

    check_names("summary", options, [*inspect.signature(record).parameters, *_LISTED])
    check_one("columns", columns, LIST)
    check_listing(depth, ops=ops, fold=fold)  # before the model runs
    measured: dict[str, Any] = dict.fromkeys(flags_for(numbers_in(columns)), True)
    recording = record(model, args, kwargs, **{**measured, **options})
    return listed(recording, depth, columns, ops=ops, fold=fold)


_LISTED = inspect.getfullargspec(inspect.unwrap(summary)).kwonlyargs
"""The options of `summary` that are not those of `record`."""


def refuse_others(function: Any, instead: Any, options: Mapping[str, Any]) -> None:
    """Raise an error if *options* of *function* have names of arguments of *instead*."""
    for name in options:
        if name in inspect.signature(instead).parameters:
            raise ArgumentMismatch(
                f"{function.__name__}() does not take {name!r}: "
                f"{instead.__name__}(model, ..., {name}=...).render(path) does"
            )
