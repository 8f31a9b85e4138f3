"""The command line: render, summary; one small class per subcommand."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torchrecorder
from torchrecorder.errors import TorchRecorderError
from torchrecorder.graph.recording import Recording
from torchrecorder.integrations import targets
from torchrecorder.integrations.progress import Progress

OK, MODEL_FAILED, MISUSED = 0, 1, 2

_TARGETS = """\
A TARGET is an import path such as package.module:name, a file such as net.py:Net, or a saved
recording (run.json). The name is a model, or a class or factory that makes one.

exit status: 0 done, 1 the model failed, 2 wrong usage or nothing could be written
"""


class _ModelFailed(Exception):
    """The user's code raised; the cause is their exception."""


class Command(Protocol):
    """A subcommand: its name, its arguments, what it does."""

    name: str
    help: str
    example: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""

    def run(self, given: argparse.Namespace, progress: Progress) -> None:
        """Do it."""


class Render:
    """Draw a model."""

    name = "render"
    help = "record one run of a model and draw it"
    example = "torchrecorder render package.module:Net --shape 1,3,224,224 -o net.svg --depth 2"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        _add_target(parser)
        parser.add_argument(
            "-o", "--output", type=Path, help="file to write; its suffix is the format"
        )
        look = parser.add_argument_group("the figure")
        look.add_argument("--depth", type=int, help="levels of modules that are open")
        look.add_argument("--theme", help="light, dark or print")
        look.add_argument("--direction", help="TB (downwards) or LR (to the right)")
        look.add_argument(
            "--option",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="any other option of the figure, such as parameters=True; repeatable",
        )

    def run(self, given: argparse.Namespace, progress: Progress) -> None:
        """Record and draw."""
        options = dict(targets.parse_setting(each) for each in given.option)
        for name in ("depth", "theme", "direction"):
            if getattr(given, name) is not None:
                options[name] = getattr(given, name)
        recording = _recording(given, progress)
        output = given.output or Path(f"{recording.name}.svg")
        progress.say(f"drawing {output.name}")
        print(recording.render(output, **options))


class Summary:
    """Print a table."""

    name = "summary"
    help = "record one run of a model and print a table by module"
    example = "torchrecorder summary package.module:Net --shape 1,3,224,224 --depth 2"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        _add_target(parser)
        parser.add_argument("--depth", type=int, help="levels of modules that are listed")

    def run(self, given: argparse.Namespace, progress: Progress) -> None:
        """Record and print."""
        print(_recording(given, progress).summary(depth=given.depth))


COMMANDS: tuple[Command, ...] = (Render(), Summary())


def _add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="what to record; see below")
    run = parser.add_argument_group("the run")
    run.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="[NAME=]SIZES[:DTYPE]",
        help="an input, such as 1,3,224,224 or ids=1,16:int64; repeatable",
    )
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an argument of the class or factory, such as num_classes=10; repeatable",
    )
    mode = run.add_mutually_exclusive_group()
    mode.add_argument("--eval", action="store_true", help="switch to evaluation mode first")
    mode.add_argument("--train", action="store_true", help="switch to training mode first")
    run.add_argument("--no-grad", action="store_true", help="run without gradients")
    run.add_argument("--fake", action="store_true", help="shapes only: no compute, no memory")
    run.add_argument("--device", help="make the model on this device, such as meta or cuda")
    run.add_argument("--name", help="name of the recording; the class name if not given")


def _recording(given: argparse.Namespace, progress: Progress) -> Recording:
    """What the arguments ask for: loaded, or recorded now."""
    if targets.is_saved(given.target):
        progress.say(f"loading {given.target}")
        return targets.load_recording(given.target)
    progress.say(f"importing {given.target}")
    import torch

    from torchrecorder.capture.run import record

    try:
        with torch.device(given.device) if given.device else contextlib.nullcontext():
            model: Any = targets.make(targets.find(given.target), given.set)
        if given.eval or given.train:
            model.train(given.train)
        args, kwargs = targets.inputs(given.shape, model)
        progress.say(f"running {given.target}")
        with torch.no_grad() if given.no_grad else contextlib.nullcontext():
            return record(model, args, kwargs, name=given.name, fake=given.fake)
    except TorchRecorderError:
        raise
    except Exception as error:
        raise _ModelFailed from error


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    form = argparse.RawDescriptionHelpFormatter
    whole = argparse.ArgumentParser(
        prog="torchrecorder",
        description="See a PyTorch model: record one run, draw it.",
        epilog=_TARGETS,
        formatter_class=form,
    )
    whole.add_argument(
        "--version", action="version", version=f"torchrecorder {torchrecorder.__version__}"
    )
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        one = commands.add_parser(
            command.name,
            help=command.help,
            description=f"{command.help[0].upper()}{command.help[1:]}.",
            epilog=f"example:\n  {command.example}\n\n{_TARGETS}",
            formatter_class=form,
        )
        command.add_arguments(one)
        one.add_argument("--traceback", action="store_true", help="show where an error came from")
        one.set_defaults(do=command)
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    given = parser().parse_args(arguments)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        with Progress() as progress:
            given.do.run(given, progress)
    except _ModelFailed as error:
        assert error.__cause__ is not None
        return _complain(error.__cause__, given.traceback, MODEL_FAILED)
    except (TorchRecorderError, OSError) as error:
        return _complain(error, given.traceback, MISUSED)
    return OK


def _complain(error: BaseException, whole: bool, status: int) -> int:
    """Say what went wrong, in a line or two unless *whole* is asked for."""
    if whole:
        traceback.print_exception(error)
        return status
    name = f"{type(error).__name__}: " if status == MODEL_FAILED else ""
    print(f"torchrecorder: {name}{error}", file=sys.stderr)
    for note in getattr(error, "__notes__", ()):
        print(note, file=sys.stderr)
    return status
