"""torchrecorder summary: a table by module."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from torchrecorder.integrations.progress import Progress
from torchrecorder.integrations.targets import add_target_arguments, target_of


@dataclass(frozen=True)
class Summary:
    """List a model: modules, shapes and parameters as a table.

    examples:
      torchrecorder summary torchvision.models:resnet18 --shape 1,3,224,224 --depth 2
      torchrecorder summary run.json --column input --column parameters
    """

    name: str = "summary"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its arguments."""
        add_target_arguments(parser)
        listed = parser.add_argument_group("listing it")
        listed.add_argument("-d", "--depth", type=int, help="levels of modules that are listed")
        listed.add_argument("--ops", action="store_true", help="list every operation too")
        listed.add_argument(
            "--fold",
            nargs="?",
            const=True,
            default=False,
            choices=("similar",),
            help="one line for what repeats; similar: whatever differs",
        )
        listed.add_argument(
            "--column",
            action="append",
            metavar="NAME",
            help="input, output, or a number known of the run (parameters, flops ...)",
        )

    def run(self, options: argparse.Namespace) -> int:
        """Record and print."""
        with Progress() as progress:
            recording = target_of(options).recording(progress)
            progress.now("listing the modules")
            chosen = {"columns": tuple(options.column)} if options.column else {}
            asked = {"ops": options.ops, "fold": options.fold, **chosen}
            table = recording.summary(depth=options.depth, **asked)
        print(table)
        return 0
