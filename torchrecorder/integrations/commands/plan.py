"""torchrecorder plan: record a distributed run on one machine."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torchrecorder.checks import check_one, literal, whole_number
from torchrecorder.errors import InvalidArgument
from torchrecorder.integrations.commands.command import Command
from torchrecorder.integrations.commands.merge import add_ranks_arguments, show
from torchrecorder.integrations.flags import add_flags, given_options
from torchrecorder.integrations.import_target import find, users_code
from torchrecorder.integrations.targets import TARGET_OPTIONS, check_call
from torchrecorder.planning.plan import ALL, plan
from torchrecorder.ranks.ranks import Ranks

SHARED_OPTIONS = ("arg", "set", "name")
"""Options of this command that are options of all targets."""


class PlanCommand(Command):
    """Record a distributed run on one machine, with fake tensors and without GPUs.

    examples:
      torchrecorder plan package.module:factory --mesh dp=8,tp=8 -o plan.html
      torchrecorder plan train.py:parallel --world 64 --mesh dp=8,tp=8 --set layers=80
      torchrecorder plan train.py:pipeline --mesh pp=4,dp=2 --ranks all -o plan.svg
      torchrecorder plan train.py:parallel --mesh dp=8,tp=8 --ranks 0,9,63 --json

    The factory is called with the DeviceMesh and the values of --arg and --set. It returns the
    parallel model and its inputs; or a model and a step, a function without arguments; or a step.
    Without --ranks, the first and the last rank are recorded. If they are equal apart from their
    coordinates in the mesh, the others are assumed to be equal; if not, more are recorded.
    """

    name = "plan"
    not_taken = dict.fromkeys(
        ("--shape", "--inputs"), "the factory makes the inputs, and returns them with the model"
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("target", help="package.module:factory, or file.py:factory")
        run = parser.add_argument_group("what runs")
        run.add_argument(
            "--mesh", required=True, metavar="NAME=SIZE,...", help="mesh dimensions: dp=8,tp=8"
        )
        run.add_argument("--world", type=int, metavar="NUMBER", help="world size, to check --mesh")
        run.add_argument(
            "--ranks", metavar="RANKS", help="ranks to record: all, or numbers such as 0,9,63"
        )
        run.add_argument("--no-backward", action="store_true", help="do not run the backward pass")
        run.add_argument(
            "--num-workers", type=int, metavar="NUMBER", help="ranks recorded in parallel"
        )
        add_flags(run, (TARGET_OPTIONS[name] for name in SHARED_OPTIONS))
        add_ranks_arguments(parser)

    def run(self, options: argparse.Namespace) -> int:
        mesh, ranks = sizes(options.mesh), numbers(options.ranks)
        check_one("--num-workers", options.num_workers, whole_number(1).or_none())
        made = given_options(options, SHARED_OPTIONS)
        factory = ImportedFactory(options.target, made.get("arg", ()), made.get("set", {}))

        def planned() -> Ranks:
            with users_code(f"a plan of {options.target}"):
                return plan(
                    factory, mesh, world=options.world, ranks=ranks, name=made.get("name"),
                    backward=not options.no_backward, num_workers=options.num_workers,
                )

        return show(planned, options, "running the ranks")


@dataclass(frozen=True)
class ImportedFactory:
    """A factory by its import path, which other processes import."""

    path: str
    arguments: tuple[Any, ...]
    settings: Mapping[str, Any]

    def __call__(self, mesh: Any) -> Any:
        """Call the factory."""
        factory = find(self.path)
        if not callable(factory):
            raise InvalidArgument(
                f"{self.path} is an object of type {type(factory).__name__}; plan needs a "
                "function that takes the mesh and returns a model"
            )
        check_call(
            factory, self.path, (mesh, *self.arguments), self.settings,
            "; the first of them is the mesh",
        )
        return factory(mesh, *self.arguments, **self.settings)


def sizes(text: str) -> dict[str, Any]:
    """``"dp=8,tp=8"`` as a dict of sizes by name."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, size = (piece.strip() for piece in part.partition("="))
        if not equals or not name or name in found:
            raise InvalidArgument(f"cannot read --mesh {text!r}: write it as dp=8,tp=8")
        found[name] = literal(size)
    return found


def numbers(text: str | None) -> Any:
    """``"0,9,63"`` as a list of numbers; ``"all"`` and None unchanged."""
    if text is None or text == ALL:
        return text
    return [literal(part.strip()) for part in text.split(",")]
