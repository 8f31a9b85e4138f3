"""torchrecorder merge: join saved recordings of several processes into one run."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import Any

from torchrecorder.integrations.drawing_arguments import (
    add_drawing_arguments,
    add_output_argument,
    check,
    drawing_options,
    tell,
    write,
)
from torchrecorder.integrations.progress import Progress
from torchrecorder.ranks.merge import merge
from torchrecorder.ranks.ranks import Ranks


@dataclass(frozen=True)
class Merge:
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

    name: str = "merge"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its arguments."""
        parser.add_argument("files", nargs="+", help="saved recordings, or patterns of their names")
        parser.add_argument("-n", type=int, default=20, help="number of modules in the list (20)")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
        parser.add_argument(
            "--exit-code", action="store_true", help="exit with 1 if something does not match"
        )
        add_output_argument(parser)
        add_drawing_arguments(parser)

    def run(self, options: argparse.Namespace) -> int:
        """Read, and write or print."""
        chosen = drawing_options(options)
        check(options.output or [], chosen)
        with Progress() as progress:
            progress.now("reading")
            run = merge(options.files)
            if options.output:
                tell(write(run, options.output, chosen, progress), options.output)
        if options.json:
            print(json.dumps(_as_data(run), indent=2))
        elif not options.output:
            print(run.summary(options.n))
        return int(options.exit_code and bool(run.problems))


def _as_data(run: Ranks) -> dict[str, Any]:
    """Lanes, collectives and problems, as JSON data."""
    return {
        "name": run.name,
        "ranks": list(run.ranks),
        "world": run.world,
        "lanes": [
            {"ranks": list(lane.ranks), "differs": list(lane.differs), "slowest": lane.slowest}
            for lane in run.lanes
        ],
        "collectives": [
            {
                "name": collective.name,
                "group": collective.group.name,
                "order": collective.order,
                "path": collective.path,
                "bytes": collective.bytes,
                "backward": collective.backward,
                "ranks": [part.rank for part in collective.parts],
                "waited": collective.waited,
                "last": collective.last,
            }
            for collective in run.collectives
        ],
        "problems": list(run.problems),
    }
