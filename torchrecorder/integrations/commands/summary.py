"""torchrecorder summary: a table by module."""

from __future__ import annotations

import argparse

from torchrecorder.annotations import ANNOTATIONS
from torchrecorder.export.table.text import TENSORS, numbers_in
from torchrecorder.integrations.commands.command import Command
from torchrecorder.integrations.progress import Progress
from torchrecorder.integrations.flags import add_flags, given_options
from torchrecorder.integrations.targets import add_target_arguments, measuring, target_of
from torchrecorder.options import VIEW


class SummaryCommand(Command):
    """List a model: modules, shapes and parameters as a table.

    examples:
      torchrecorder summary torchvision.models:resnet18 --shape 1,3,224,224 --depth 2
      torchrecorder summary run.json --column input --column parameters --no-fold

    Repeated modules share a line. Numbers of columns are measured as needed.
    """

    name = "summary"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_target_arguments(parser)
        listed = parser.add_argument_group("listing it")
        add_flags(listed, (VIEW["depth"], VIEW["fold"]))
        listed.add_argument("--ops", action="store_true", help="list every operation too")
        column = listed.add_argument(
            "--column",
            action="append",
            metavar="NAME",
            help="input, output, graphs, or a number of the run (parameters, flops ...);"
            " can be repeated",
        )
        numbers = (one.name for one in ANNOTATIONS)
        column.offered = (*TENSORS, *numbers)  # type: ignore[attr-defined]

    def run(self, options: argparse.Namespace) -> int:
        columns = options.column or ()
        target = measuring(target_of(options), numbers_in(columns))
        listed_options = {**given_options(options, ("depth", "fold")), "ops": options.ops}
        with Progress() as progress:
            recording = target.recording(progress)
            progress.now("listing the modules")
            table = recording.summary(**listed_options, **({"columns": columns} if columns else {}))
        print(table)
        return 0
