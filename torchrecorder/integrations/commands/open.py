"""torchrecorder open: show a model in the browser."""

from __future__ import annotations

import argparse
from pathlib import Path

from torchrecorder.integrations.commands.command import Command
from torchrecorder.integrations.drawing_arguments import (
    add_drawing_arguments,
    add_format_argument,
    check,
    to_draw,
)
from torchrecorder.integrations.progress import Progress
from torchrecorder.integrations.targets import add_target_arguments


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
            "-o",
            "--output",
            type=Path,
            metavar="FILE",
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
