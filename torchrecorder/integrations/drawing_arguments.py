"""Drawing arguments: the arguments for a figure on the command line, and writing it."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from torchrecorder.checks import setting, warn
from torchrecorder.errors import InvalidArgument
from torchrecorder.export import by_suffix, known
from torchrecorder.files import check_place
from torchrecorder.integrations.flags import add_flags, given_options
from torchrecorder.integrations.progress import Progress
from torchrecorder.integrations.targets import Target, measuring, target_of
from torchrecorder.option_table import no_effect
from torchrecorder.options import FORMAT, OPTIONS, STYLE, VIEW, drawing, fitting, shown_numbers

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from torchrecorder.signatures import DrawingOptions

STDOUT = Path("-")
"""The name of standard output."""


class Drawable(Protocol):
    """An object that can be drawn: a recording, or a comparison of two."""

    def render(self, path: str | Path, **options: Unpack[DrawingOptions]) -> Path:
        """Write a figure, and return its path."""


def add_drawing_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that `drawing_options` reads."""
    add_flags(parser.add_argument_group("what is drawn"), VIEW.values())
    add_flags(parser.add_argument_group("how it looks"), STYLE.values())
    written = parser.add_argument_group("how it is written")
    add_flags(written, FORMAT.values())
    written.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE",
        help="an attribute of Graphviz, such as ranksep=0.5; can be repeated",
    )


def add_output_argument(parser: argparse.ArgumentParser, format: str = "") -> None:
    """Declare the output argument; with a *format*, it can be standard output."""
    more = "; - is standard output" if format else ""
    parser.add_argument(
        "-o", "--output", action="append", type=Path, metavar="FILE",
        help=f"output file; the suffix is the format (svg, pdf, dot ...); can be repeated{more}",
    )
    if format:
        add_format_argument(parser, format)


def add_format_argument(parser: argparse.ArgumentParser, format: str) -> None:
    """Declare the format for output without a file name."""
    action = parser.add_argument(
        "--format", default=format, metavar="SUFFIX",
        help=f"the format without a file name ({format}): svg, pdf, png, html, dot ...",
    )
    action.offered = tuple(suffix.lstrip(".") for suffix in known())  # type: ignore[attr-defined]


def drawing_options(options: argparse.Namespace) -> dict[str, Any]:
    """The options of the figure in the command."""
    chosen = given_options(options, OPTIONS)
    for text in options.option:
        chosen.update(setting(text))
    return chosen


def to_draw(options: argparse.Namespace) -> tuple[Target, dict[str, Any]]:
    """The target, set to measure the numbers in the figure, and the options of the figure."""
    chosen = drawing_options(options)
    return measuring(target_of(options), shown_numbers(chosen)), chosen


def outputs(options: argparse.Namespace, name: str) -> list[Path]:
    """The files to write; by default one called *name*."""
    return options.output or [Path(f"{name}.{options.format.lstrip('.')}")]


def check(paths: Sequence[Path], chosen: Mapping[str, Any], format: str = "") -> None:
    """Check paths and options before the model runs, which may take long."""
    used: set[str] = set()
    for path in paths:
        name = _name(path, format)
        own = fitting(chosen, name)
        used.update(own)
        drawing(by_suffix(name), **own)
        if path != STDOUT:
            check_place(path)
    unused = [f"--{OPTIONS[key].spelled}" for key in chosen if key not in used]
    if paths and unused:
        suffixes = dict.fromkeys(by_suffix(_name(path, format)).suffix for path in paths)
        warn(f"{no_effect(unused)} on {', '.join(suffixes)}")


def write(
    drawn: Drawable,
    paths: Sequence[Path],
    chosen: Mapping[str, Any],
    progress: Progress,
    format: str = "",
) -> list[Path]:
    """Write a figure to each of *paths*; returns the paths of files."""
    written = []
    for path in paths:
        name = _name(path, format)
        progress.now(f"drawing {name}")
        own = fitting(chosen, name)
        if path == STDOUT:
            _to_stdout(rendered(drawn, name, **own))
        else:
            written.append(drawn.render(path, **own))
    return written


def rendered(drawn: Drawable, name: str, **options: Any) -> bytes:
    """The contents of a figure with this file name."""
    with tempfile.TemporaryDirectory(prefix="torchrecorder-") as folder:
        return drawn.render(Path(folder) / name, **options).read_bytes()


def report_written(written: Sequence[Path], *, on_stderr: bool) -> None:
    """Print the written paths, on stderr if something else is on stdout."""
    for path in written:
        print(path, file=sys.stderr if on_stderr else sys.stdout)


def _name(path: Path, format: str) -> str:
    if path != STDOUT:
        return path.name
    if not format:
        raise InvalidArgument("-o - cannot be used here: standard output has other text")
    return f"stdout.{format.lstrip('.')}"


def _to_stdout(contents: bytes) -> None:
    """Write bytes, or text if the stream does not accept bytes."""
    sys.stdout.flush()
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.buffer.write(contents)
    else:
        sys.stdout.write(contents.decode())
