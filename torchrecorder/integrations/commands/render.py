"""torchrecorder render, html, open: draw a model or a saved recording."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from torchrecorder.errors import TorchRecorderError
from torchrecorder.integrations.commands.command import Command
from torchrecorder.integrations.drawing_arguments import (
    STDOUT, add_drawing_arguments, add_format_argument, add_output_argument, check, outputs,
    report_written, to_draw, write,
)
from torchrecorder.integrations.import_target import ModelFailed
from torchrecorder.integrations.progress import Progress
from torchrecorder.integrations.targets import add_target_arguments
from torchrecorder.recording import Recording


class RenderCommand(Command):
    """Draw a model: run it once and write a figure of what ran.

    examples:
      torchrecorder render torchvision.models:resnet18 --eval --shape 1,3,224,224
      torchrecorder render nets:TextNet --set layers=2 --shape ids=1,16:int64:0-999 -o net.pdf
      torchrecorder render nets.py:make --device meta -o net.svg -o net.png --depth 2
      torchrecorder render nets:Net --shape 1,64 --color-by backward_time --numbers flops
      torchrecorder render run.json -o run.svg --theme dark --direction LR
      torchrecorder render run.json -o - --format dot | tee net.dot | dot -Tx11

    A factory may return a model, or a pair of a model and its inputs.
    Numbers are measured as needed: --color-by backward_time runs the backward pass. If the
    model raises, the run until then is drawn, and the exit code is 1.
    """

    name = "render"
    format = "svg"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_target_arguments(parser)
        add_output_argument(parser, self.format)
        add_drawing_arguments(parser)

    def run(self, options: argparse.Namespace) -> int:
        target, chosen = to_draw(options)
        check(outputs(options, "a"), chosen, options.format)
        with Progress() as progress:
            try:
                recording = target.recording(progress)
            except ModelFailed as error:
                if error.recording is not None and error.recording.scopes:
                    _write_what_ran(error.recording, options, chosen, progress)
                raise
            written, paths = _write(recording, options, chosen, progress)
        report_written(written, on_stderr=STDOUT in paths)
        return 0


def _write(
    recording: Recording, options: argparse.Namespace, chosen: dict[str, Any], progress: Progress
) -> tuple[list[Path], list[Path]]:
    """Write the files; returns their paths, and the requested paths."""
    from torchrecorder.drawing import file_name

    paths = outputs(options, file_name(recording.name))
    return write(recording, paths, chosen, progress, options.format), paths


def _write_what_ran(
    recording: Recording, options: argparse.Namespace, chosen: dict[str, Any], progress: Progress
) -> None:
    """Draw a run that failed; if that fails too, print another message."""
    try:
        for path in _write(recording, options, chosen, progress)[0]:
            print(f"torchrecorder: the run until the failure is drawn in {path}", file=sys.stderr)
    except (TorchRecorderError, OSError) as error:
        print(f"torchrecorder: the run until the failure cannot be drawn: {error}", file=sys.stderr)


class HtmlCommand(RenderCommand):
    """Write a page: the whole model in one file, to open, search and explore in a browser.

    examples:
      torchrecorder html torchvision.models:resnet18 --eval --shape 1,3,224,224
      torchrecorder html nets.py:make --device meta --backward -o net.html --theme dark
      torchrecorder html run.json.gz -o run.html

    The page needs no server and no network. It is named after the model if -o is not given.
    """

    name = "html"
    format = "html"


class OpenCommand(Command):
    """Open a model in the browser: as a page to explore, or as a figure.

    examples:
      torchrecorder open torchvision.models:resnet18 --eval --shape 1,3,224,224
      torchrecorder open run.json.gz -o run.html
      torchrecorder open nets.py:make --format svg --depth 2
      torchrecorder open run.json --no-browser

    Without -o it is written to a temporary folder, which is not removed. Its path is printed.
    """

    name = "open"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_target_arguments(parser)
        parser.add_argument(
            "-o", "--output", type=Path, metavar="FILE",
            help="output file; the suffix is the format",
        )
        add_format_argument(parser, "html")
        parser.add_argument(
            "--no-browser", dest="browser", action="store_false", help="do not open a browser"
        )
        add_drawing_arguments(parser)

    def run(self, options: argparse.Namespace) -> int:
        from torchrecorder import drawing

        target, chosen = to_draw(options)
        check([options.output or Path(f"a.{options.format.lstrip('.')}")], chosen)
        with Progress() as progress:
            recording = target.recording(progress)
            progress.now("drawing it")
            path = options.output or drawing.temporary(recording.name, options.format)
            written = drawing.show(recording, path, browser=options.browser, **chosen)
        print(written)
        return 0
