"""torchrecorder merge: join saved recordings of several processes into one run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from torchrecorder.checks import check_one, whole_number
from torchrecorder.integrations.commands.command import Command
from torchrecorder.integrations.drawing_arguments import (
    add_drawing_arguments, add_output_argument, check, drawing_options, report_written, write,
)
from torchrecorder.integrations.progress import Progress
from torchrecorder.ranks.merge import merge
from torchrecorder.ranks.ranks import Ranks


class MergeCommand(Command):
    """Join the recordings of several processes: communication, late ranks, mismatches.

    examples:
      torchrecorder merge run/rank*.json.gz
      torchrecorder merge run/rank*.json.gz -o step.svg -o step.html
      torchrecorder merge run/rank*.json.gz --exit-code
      torchrecorder merge run/rank*.json.gz --json

    Each file is the recording of one process (recording.save). Without -o, tables are printed:
    groups of equal processes, and communication by module. Collectives that do not match are
    listed with rank, module and line, with -o on standard error.
    """

    name = "merge"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", help="saved recordings, or patterns of their names")
        add_ranks_arguments(parser)

    def run(self, options: argparse.Namespace) -> int:
        return show(lambda: merge(options.files), options, "reading")


_OF_COLLECTIVES = ("order", "path", "bytes", "backward", "ranks", "waited", "last")


def add_ranks_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that `show` reads."""
    parser.add_argument("-n", type=int, default=20, help="maximum number of modules to list (20)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--exit-code", action="store_true", help="exit with 1 if there are problems"
    )
    add_output_argument(parser)
    add_drawing_arguments(parser)


def show(make: Callable[[], Ranks], options: argparse.Namespace, doing: str) -> int:
    """Write figures of the run that *make* returns, or print tables; returns the exit code."""
    chosen = drawing_options(options)
    check(options.output or [], chosen)
    check_one("-n", options.n, whole_number(1))
    with Progress() as progress:
        progress.now(doing)
        run = make()
        report_written(write(run, options.output or [], chosen, progress), on_stderr=options.json)
    if options.json:
        print(json.dumps(_as_data(run), indent=2))
    elif not options.output:
        print(run.summary(options.n))
    else:
        for problem in run.problems:
            print(f"torchrecorder: {problem}", file=sys.stderr)
    return int(options.exit_code and bool(run.problems))


def _as_data(run: Ranks) -> dict[str, Any]:
    """Lanes, collectives and problems as JSON data."""
    return {
        "name": run.name,
        "ranks": run.ranks,
        "world": run.world,
        "assumed": run.assumed,
        "lanes": [
            {name: getattr(lane, name) for name in ("ranks", "differs", "slowest")}
            for lane in run.lanes
        ],
        "collectives": [
            {"name": item.name, "group": item.group.name}
            | {name: getattr(item, name) for name in _OF_COLLECTIVES}
            for item in run.collectives
        ],
        "problems": run.problems,
    }
