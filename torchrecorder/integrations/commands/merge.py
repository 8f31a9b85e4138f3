"""torchrecorder merge: join saved recordings of several processes into one run."""

from __future__ import annotations

import argparse

from torchrecorder.integrations.commands.command import Command
from torchrecorder.integrations.ranks_output import add_ranks_arguments, show
from torchrecorder.ranks.merge import merge


class MergeCommand(Command):
    """Join the recordings of several processes: communication, late ranks, mismatches.

    examples:
      torchrecorder merge run/rank*.json.gz
      torchrecorder merge run/rank*.json.gz -o step.svg -o step.html
      torchrecorder merge run/rank*.json.gz --exit-code
      torchrecorder merge run/rank*.json.gz --json

    Each file is the recording of one process (recording.save). Without -o, tables are printed:
    groups of equal processes, and communication by module. Collectives that do not match are
    listed with rank, module and line.
    """

    name = "merge"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", help="saved recordings, or patterns of their names")
        add_ranks_arguments(parser)

    def run(self, options: argparse.Namespace) -> int:
        return show(lambda: merge(options.files), options, "reading")
