"""Drawings of the command line: the arguments of a figure, and writing it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from torchrecorder.errors import InvalidArgument
from torchrecorder.export.exporter import check_place
from torchrecorder.export.formats import by_suffix
from torchrecorder.integrations.progress import Progress
from torchrecorder.integrations.targets import settings_of
from torchrecorder.options import drawing

_FLAGS = (
    "depth", "direction", "theme", "fontname", "fontsize", "width", "height", "min_fontsize",
    "layout", "dpi", "timeout",
)
_ON = {
    "legend": "what colours and outlines mean",
    "parameters": "parameters as boxes",
    "tensors": "tensors as boxes",
}
_OFF = {
    "parameters": "no parameter as a box",
    "shapes": "no tensor shapes on arrows",
    "reshapes": "no operations that only reshape",
    "fold": "every repeated block on its own",
}


class Drawn(Protocol):
    """What can be drawn: a recording, or a comparison of two."""

    def render(self, path: str | Path, **options: Any) -> Path:
        """Write a figure, and return its path."""


def add_drawing_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `drawing_options` reads."""
    drawn = parser.add_argument_group("drawing it")
    drawn.add_argument("-d", "--depth", type=int, help="levels of modules that are open")
    drawn.add_argument(
        "--fold", choices=("similar",), help="repeats in one box whatever differs between them"
    )
    drawn.add_argument("--direction", choices=("TB", "LR", "BT", "RL"), help="of the flow")
    drawn.add_argument("--theme", help="light, dark or print")
    for name, said in _ON.items():
        drawn.add_argument(f"--{name}", action="store_true", default=None, help=said)
    for name, said in _OFF.items():
        drawn.add_argument(f"--no-{name}", dest=name, action="store_false", help=said)
    parser.set_defaults(**dict.fromkeys((*_ON, *_OFF)))
    drawn.add_argument("--fontname", metavar="FONT", help="font family")
    drawn.add_argument("--fontsize", type=float, help="in points")
    drawn.add_argument("--width", metavar="LENGTH", help="exact width of the page, as in 85mm")
    drawn.add_argument("--height", metavar="LENGTH", help="exact height of the page")
    drawn.add_argument(
        "--min-fontsize", type=float, metavar="SIZE", help="on that page, in points"
    )
    _add_names(drawn)
    drawn.add_argument(
        "--layout",
        choices=("auto", "nested", "dot"),
        help="scope by scope (nested), or all boxes at once (dot)",
    )
    drawn.add_argument("--dpi", type=float, help="of .png")
    drawn.add_argument("--timeout", type=float, help="seconds for the layout")
    drawn.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other option of Recording.render",
    )


def _add_names(drawn: argparse._ArgumentGroup) -> None:
    drawn.add_argument(
        "--rename",
        action="append",
        default=[],
        metavar="NAME=TEXT",
        help="another name for modules, by path, name or class, or for operations; again for more",
    )
    drawn.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="TEXT=NAME,...",
        help="siblings under a made-up name, as in Stem=conv1,bn1; again for more",
    )


def add_output_argument(parser: argparse.ArgumentParser) -> None:
    """Declare where to write."""
    parser.add_argument(
        "-o",
        "--output",
        action="append",
        type=Path,
        metavar="FILE",
        help="where; the suffix is the format (svg, pdf, png, html, dot ...); again for more",
    )


def drawing_options(options: argparse.Namespace) -> dict[str, Any]:
    """What was asked for; what was not is left to the defaults."""
    asked = {name: getattr(options, name) for name in (*_FLAGS, *_ON, *_OFF)}
    asked.update(rename=pairs_of(options.rename) or None, group=pairs_of(options.group) or None)
    given = {name: value for name, value in asked.items() if value is not None}
    return {**given, **settings_of(options.option)}


def pairs_of(texts: Sequence[str]) -> dict[str, str]:
    """``["a=b"]`` as ``{"a": "b"}``.

    Raises:
        InvalidArgument: There is no equals sign, or nothing before it.
    """
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InvalidArgument(f"cannot read {text!r}: write NAME=TEXT")
        pairs[name.strip()] = value.strip()
    return pairs


def check(paths: Sequence[Path], chosen: Mapping[str, Any]) -> None:
    """Find what cannot be written or drawn before the model runs, which may take long."""
    for path in paths:
        drawing(by_suffix(path.name), **_fitting(chosen, path))
        check_place(path)


def write(
    drawn: Drawn, paths: Sequence[Path], chosen: Mapping[str, Any], progress: Progress
) -> list[Path]:
    """Write a figure to each of *paths*."""
    written = []
    for path in paths:
        progress.now(f"drawing {path}")
        written.append(drawn.render(path, **_fitting(chosen, path)))
    return written


def _fitting(chosen: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Without the layout, resolution and time limit that this format has no use for."""
    known = type(by_suffix(path.name)).__dataclass_fields__  # type: ignore[attr-defined]
    only = [name for name in ("layout", "dpi", "timeout") if name in chosen and name not in known]
    return {name: value for name, value in chosen.items() if name not in only}
