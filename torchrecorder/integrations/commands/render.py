"""torchrecorder render: draw a model or a saved recording."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from torchrecorder.errors import TorchRecorderError
from torchrecorder.integrations.drawings import (
    add_drawing_arguments,
    add_output_argument,
    check,
    drawing_options,
    write,
)
from torchrecorder.integrations.finding import ModelFailed
from torchrecorder.integrations.progress import Progress
from torchrecorder.integrations.targets import add_target_arguments, target_of
from torchrecorder.recording import Recording


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
    suffix: str = ".svg"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its arguments."""
        add_target_arguments(parser)
        add_output_argument(parser)
        add_drawing_arguments(parser)

    def run(self, options: argparse.Namespace) -> int:
        """Record and write."""
        target = target_of(options)
        check(options.output or [Path(f"a{self.suffix}")], drawing_options(options))
        with Progress() as progress:
            try:
                recording = target.recording(progress)
            except ModelFailed as error:
                if error.recording is not None and error.recording.scopes:
                    self._write_what_ran(error.recording, options, progress)
                raise
            written = self._write(recording, options, progress)
        for path in written:
            print(path)
        return 0

    def _write(
        self, recording: Recording, options: argparse.Namespace, progress: Progress
    ) -> list[Path]:
        from torchrecorder.drawing import file_name

        paths = options.output or [Path(f"{file_name(recording.name)}{self.suffix}")]
        return write(recording, paths, drawing_options(options), progress)

    def _write_what_ran(
        self, recording: Recording, options: argparse.Namespace, progress: Progress
    ) -> None:
        """Draw a run that failed; what goes wrong with that is said, and no more."""
        try:
            for path in self._write(recording, options, progress):
                print(f"torchrecorder: what ran until then is drawn in {path}", file=sys.stderr)
        except (TorchRecorderError, OSError) as error:
            print(f"torchrecorder: what ran until then cannot be drawn: {error}", file=sys.stderr)
