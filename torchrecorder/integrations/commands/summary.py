"""torchrecorder summary, top: list a model as a table, or rank its parts."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from torchrecorder.annotations import ANNOTATIONS, by_name
from torchrecorder.annotations.annotation import Annotation
from torchrecorder.annotations.results import KINDS, Ranked
from torchrecorder.checks import words
from torchrecorder.errors import InvalidArgument
from torchrecorder.export.table.alignment import Column, table
from torchrecorder.export.table.text import TENSORS, numbers_in
from torchrecorder.graph.codec import json_number
from torchrecorder.graph.nodes import Scope
from torchrecorder.graph.relations import step_of
from torchrecorder.integrations.commands.command import Command
from torchrecorder.integrations.flags import add_flags, given_options
from torchrecorder.integrations.progress import Progress
from torchrecorder.integrations.targets import add_target_arguments, measuring, target_of
from torchrecorder.options import VIEW
from torchrecorder.recording import Recording


class SummaryCommand(Command):
    """List a model: modules, shapes and parameters as a table.

    examples:
      torchrecorder summary torchvision.models:resnet18 --shape 1,3,224,224 --depth 2
      torchrecorder summary run.json --column input,parameters --no-fold

    Repeated modules share a line. Numbers of columns are measured as needed.
    """

    name = "summary"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_target_arguments(parser)
        listed = parser.add_argument_group("listing it")
        add_flags(listed, (VIEW["depth"], VIEW["fold"]))
        listed.add_argument("--ops", action="store_true", help="list every operation too")
        column = listed.add_argument(
            "--column", action="append", metavar="NAME,...",
            help="input, output, graphs, or numbers of the run (parameters, flops ...);"
            " can be repeated",
        )
        numbers = (one.name for one in ANNOTATIONS)
        column.offered = (*TENSORS, *numbers)  # type: ignore[attr-defined]

    def run(self, options: argparse.Namespace) -> int:
        columns = words(",".join(options.column or ()))
        target = measuring(target_of(options), numbers_in(columns))
        listed_options = {**given_options(options, ("depth", "fold")), "ops": options.ops}
        if columns:
            listed_options["columns"] = columns
        with Progress() as progress:
            recording = target.recording(progress)
            progress.now("listing the modules")
            table = recording.summary(**listed_options)
        print(table)
        return 0


class TopCommand(Command):
    """Rank modules or operations by time, memory, weights or work.

    examples:
      torchrecorder top torchvision.models:resnet18 --shape 8,3,224,224 --by backward_time
      torchrecorder top nets:Net --shape 1,64 --by flops --of op -n 20
      torchrecorder top nets:Net --shape 1,64 --by forward_time --repeat 20
      torchrecorder top run.json.gz --by saved_bytes --json

    A module counts without its inner modules. Numbers are measured as needed: --by
    backward_time runs the backward pass.
    """

    name = "top"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_target_arguments(parser)
        ranked = parser.add_argument_group("ranking it")
        by = ranked.add_argument(
            "--by", default="forward_time", metavar="NUMBER",
            help="forward_time (default), backward_time, flops, saved_bytes, parameters ...",
        )
        by.offered = tuple(one.name for one in ANNOTATIONS)  # type: ignore[attr-defined]
        ranked.add_argument("-n", type=int, default=10, help="length of the list (10); 0 for all")
        ranked.add_argument(
            "--of", choices=KINDS, default="module",
            help="modules with all their calls (default), single calls, operations, types of "
            "operations, grad nodes",
        )
        ranked.add_argument("--json", action="store_true", help="print the ranking as JSON")

    def run(self, options: argparse.Namespace) -> int:
        annotation = by_name(options.by)
        if options.n < 0:
            raise InvalidArgument(f"-n must be 0 or more, not {options.n}")
        target = measuring(target_of(options), [annotation])
        with Progress() as progress:
            recording = target.recording(progress)
            progress.now(f"ranking by {options.by}")
            ranked = recording.top(options.by, options.n or sys.maxsize, by=options.of)
        if not ranked:
            raise InvalidArgument(
                f"no {options.of} has a number for {options.by!r}"
            )
        if options.json:
            print(_as_json(ranked, options.by))
        else:
            print(_listed(recording, ranked, annotation))
        return 0


def _listed(recording: Recording, ranked: Sequence[Ranked], annotation: Annotation) -> str:
    columns = [Column(annotation.title, [item.text for item in ranked], right=True)]
    total = recording.annotations[annotation.name].total() if annotation.merge is sum else 0
    if total > 0:
        shares = [f"{100 * item.number / total:.1f} %" for item in ranked]
        columns.append(Column("Share", shares, right=True))
    columns.append(Column("Where", [item.name for item in ranked]))
    columns.append(Column("What", [_what(recording, item.ids) for item in ranked]))
    return "\n".join(table(columns))


def _what(recording: Recording, ids: tuple[str, ...]) -> str:
    """The class of a module and its number of calls; the line that called an op."""
    step = step_of(recording, ids[0])
    if isinstance(step, Scope):
        return f"{step.cls}, {len(ids)} calls" if len(ids) > 1 else step.cls
    return step.source.place if step is not None and step.source else ""


def _as_json(ranked: Sequence[Ranked], by: str) -> str:
    found = [
        {"name": item.name, by: json_number(item.number), "ids": list(item.ids)} for item in ranked
    ]
    return json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False)
