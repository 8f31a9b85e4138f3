"""torchrecorder compare: differences between two models or saved recordings."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace

from torchrecorder.annotations import ANNOTATIONS, by_name
from torchrecorder.checks import check_one, literal, whole_number, words
from torchrecorder.errors import InvalidArgument
from torchrecorder.integrations.commands.command import Command
from torchrecorder.integrations.drawing_arguments import (
    add_drawing_arguments, add_output_argument, check, drawing_options, write,
)
from torchrecorder.integrations.flags import add_flags
from torchrecorder.integrations.progress import Progress
from torchrecorder.integrations.targets import (
    TARGET, TARGET_OPTIONS, Target, add_recording_arguments, measuring, target_of,
)
from torchrecorder.options import shown_numbers


class CompareCommand(Command):
    """Compare two models: list what was added, removed, replaced, resized, rewired.

    examples:
      torchrecorder compare run.json nets:Net --shape 1,3,224,224
      torchrecorder compare old.json.gz new.json.gz --times 1.5
      torchrecorder compare nets:Net nets:Net --set layers=2 --then layers=4 --shape 1,64
      torchrecorder compare old.json new.json --number flops --number gradient_norm=2
      torchrecorder compare old.json new.json -o changes.svg -o changes.html -o changes.json

    A figure shows both in one drawing; .json has the changes. Numbers of --number are
    measured, and count as differences. Options for creating and running models apply to both.
    """

    name = "compare"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("before", help=TARGET)
        parser.add_argument("after", help="the target that it is compared with")
        add_recording_arguments(parser)
        compared = parser.add_argument_group("comparing them")
        second = replace(TARGET_OPTIONS["set"], name="then", help="As --set, for the second only.")
        add_flags(compared, [second])
        compared.add_argument(
            "--times", dest="time_factor", type=float, metavar="FACTOR",
            help="also list modules whose time differs by at least this factor",
        )
        number = compared.add_argument(
            "--number", action="append", default=[], metavar="NAME[=FACTOR],...",
            help="also list modules in which flops, saved_bytes, gradient_norm ... differs by "
            "this factor (default: 1.1, counts exactly); can be repeated",
        )
        number.offered = tuple(one.name for one in ANNOTATIONS)  # type: ignore[attr-defined]
        compared.add_argument(
            "--limit", type=int, default=60, help="maximum number of lines (60); 0 for all"
        )
        compared.add_argument("--json", action="store_true", help="every change, as JSON")
        compared.add_argument(
            "--exit-code", action="store_true",
            help="exit with 1 if there are differences, with 2 if a model could not be recorded",
        )
        add_output_argument(parser)
        add_drawing_arguments(parser)

    def run(self, options: argparse.Namespace) -> int:
        from torchrecorder.comparison.compare import FACTOR, compare

        first, second = target_of(options, options.before), target_of(options, options.after)
        if first.is_saved and not second.is_saved:
            first = Target(first.path)  # options for creating and running apply to the other one
        if second.is_saved and not first.is_saved:
            second = Target(second.path)
        check_one("--limit", options.limit, whole_number(0))
        check_one("--times", options.time_factor, FACTOR.or_none())
        paths, chosen = options.output or [], drawing_options(options)
        check(paths, chosen)
        numbers = numbers_of(options.number)
        needed = [*map(by_name, numbers), *shown_numbers(chosen)]
        first, second = (measuring(target, needed) for target in (first, second))
        second = replace(second, set={**second.set, **getattr(options, "then", {})})
        with Progress() as progress:
            before = first.recording(progress)
            after = second.recording(progress)
            progress.now("comparing")
            found = compare(before, after, times=options.time_factor, numbers=numbers)
            write(found, paths, chosen, progress)
        if options.json:
            print(json.dumps(found.json(), indent=1, ensure_ascii=False))
        else:
            print(found.text(options.limit or None))
        return int(options.exit_code and bool(found))


def numbers_of(texts: Sequence[str]) -> dict[str, float]:
    """``["flops,gradient_norm=2"]`` as factors by name; raises for wrong ones."""
    from torchrecorder.comparison.numbers import factors

    found: dict[str, float] = {}
    for text in words(",".join(texts)):
        name, equals, factor = text.partition("=")
        try:
            found.update(factors({name: literal(factor)} if equals else name))
        except InvalidArgument:
            raise InvalidArgument(f"--number {text}: the factor must be at least 1") from None
    return found
