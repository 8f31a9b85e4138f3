"""torchrecorder render: draw a model or a saved recording."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchrecorder.errors import TorchRecorderError
from torchrecorder.export.exporter import by_suffix, check_place
from torchrecorder.graph.recording import Recording
from torchrecorder.integrations.finding import ModelFailed
from torchrecorder.integrations.progress import Progress
from torchrecorder.integrations.targets import add_target_arguments, settings_of, target_of
from torchrecorder.options import drawing

_FLAGS = ("depth", "direction", "theme", "fontname", "fontsize", "dpi", "timeout")
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


@dataclass(frozen=True)
class Render:
    """Draw a model: run it once and write a figure of what ran.

    examples:
      torchrecorder render torchvision.models:resnet18 --eval --shape 1,3,224,224
      torchrecorder render nets:TextNet --set layers=2 --shape ids=1,16:int64:0-999 -o net.pdf
      torchrecorder render nets.py:make --device meta -o net.svg -o net.png --depth 2
      torchrecorder render run.json -o run.svg --theme dark --direction LR

    A factory may give a model, or a pair of a model and its inputs.
    If the model raises, what ran until then is drawn, and the exit code is 1.
    """

    name: str = "render"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its arguments."""
        add_target_arguments(parser)
        drawn = parser.add_argument_group("drawing it")
        drawn.add_argument(
            "-o",
            "--output",
            action="append",
            type=Path,
            metavar="FILE",
            help="where; the suffix is the format (svg, pdf, png, dot ...); again for more",
        )
        drawn.add_argument("-d", "--depth", type=int, help="levels of modules that are open")
        drawn.add_argument("--direction", choices=("TB", "LR", "BT", "RL"), help="of the flow")
        drawn.add_argument("--theme", help="light, dark or print")
        for name, said in _ON.items():
            drawn.add_argument(f"--{name}", action="store_true", default=None, help=said)
        for name, said in _OFF.items():
            drawn.add_argument(f"--no-{name}", dest=name, action="store_false", help=said)
        parser.set_defaults(**dict.fromkeys((*_ON, *_OFF)))
        drawn.add_argument("--fontname", metavar="FONT", help="font family")
        drawn.add_argument("--fontsize", type=float, help="in points")
        drawn.add_argument("--dpi", type=float, help="of .png")
        drawn.add_argument("--timeout", type=float, help="seconds for the layout")
        drawn.add_argument(
            "--option",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="any other option of Recording.render",
        )

    def run(self, options: argparse.Namespace) -> int:
        """Record and write."""
        target = target_of(options)
        _check(options)
        with Progress() as progress:
            try:
                recording = target.recording(progress)
            except ModelFailed as error:
                if error.recording is not None and error.recording.scopes:
                    _write_what_ran(error.recording, options, progress)
                raise
            written = _write(recording, options, progress)
        for path in written:
            print(path)
        return 0


def _check(options: argparse.Namespace) -> None:
    """Find what cannot be written or drawn before the model runs, which may take long."""
    chosen = _options(options)
    for path in options.output or [Path("a.svg")]:
        drawing(by_suffix(path.name), **_fitting(chosen, path))
        check_place(path)


def _write(recording: Recording, options: argparse.Namespace, progress: Progress) -> list[Path]:
    from torchrecorder.api import file_name

    paths = options.output or [Path(f"{file_name(recording.name)}.svg")]
    chosen = _options(options)
    written = []
    for path in paths:
        progress.now(f"drawing {path}")
        written.append(recording.render(path, **_fitting(chosen, path)))
    return written


def _write_what_ran(
    recording: Recording, options: argparse.Namespace, progress: Progress
) -> None:
    """Draw a run that failed; what goes wrong with that is said, and no more."""
    try:
        for path in _write(recording, options, progress):
            print(f"torchrecorder: what ran until then is drawn in {path}", file=sys.stderr)
    except (TorchRecorderError, OSError) as error:
        print(f"torchrecorder: what ran until then cannot be drawn: {error}", file=sys.stderr)


def _options(options: argparse.Namespace) -> dict[str, Any]:
    """What was asked for; what was not is left to the defaults."""
    asked = {name: getattr(options, name) for name in (*_FLAGS, *_ON, *_OFF)}
    given = {name: value for name, value in asked.items() if value is not None}
    return {**given, **settings_of(options.option)}


def _fitting(chosen: dict[str, Any], path: Path) -> dict[str, Any]:
    """Without the resolution and time limit that this format has no use for."""
    known = type(by_suffix(path.name)).__dataclass_fields__  # type: ignore[attr-defined]
    only = [name for name in ("dpi", "timeout") if name in chosen and name not in known]
    return {name: value for name, value in chosen.items() if name not in only}
