"""CLI: the command line, ``torchrecorder render``, ``summary`` ...

Each subcommand is a class in ``commands/``. This module handles errors, the current folder and the
terminal. Neither ``--help`` nor ``--version`` imports torch.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from torchrecorder import __version__
from torchrecorder.checks import guess
from torchrecorder.console import printable
from torchrecorder.errors import LayoutFailed, Notice, TorchRecorderError
from torchrecorder.integrations.commands import COMMANDS
from torchrecorder.integrations.commands.command import Command
from torchrecorder.integrations.flags import in_shell
from torchrecorder.integrations.import_target import ModelFailed
from torchrecorder.integrations.targets import TARGET_OPTIONS
from torchrecorder.options import OPTIONS

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
"""Exit codes other than 0: the model or its drawing failed; wrong usage; Ctrl-C."""

_EPILOG = """\
a target is one of
  package.module:name    a module object, a class, or a function that makes a model
  path/to/file.py:name   the same in a file
  model.pt2              a program that torch.export saved; it needs no --shape
  run.json, run.json.gz  a saved recording; the model is not needed

exit codes: 0 success, 1 the model raised or its layout failed, 2 wrong usage
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    Args:
        arguments: The arguments after the name of the program; by default those of ``sys.argv``.

    Returns:
        The exit code.
    """
    own, rest = parted(sys.argv[1:] if arguments is None else arguments)
    top = parser()
    given = argparse.Namespace(rest=rest, whole_parser=top)
    with printable():
        options, unknown = top.parse_known_args(own, given)
    if unknown:
        options.parser.error(unknown_arguments(unknown, options))
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        with _warned(), contextlib.nullcontext() if options.takes_rest else printable():
            code: int = options.run(options)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the output has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit as error:  # of the user's code, because parsing is done
        failed = ModelFailed("the code of the model", error)
        failed.__cause__ = error
        return _say(failed, options.traceback, _failed(options))
    except (ModelFailed, LayoutFailed) as error:
        return _say(error, options.traceback, _failed(options))
    except (TorchRecorderError, OSError) as error:
        return _say(error, options.traceback, MISUSED)


def _failed(options: argparse.Namespace) -> int:
    """The exit code if the model or the layout failed: with ``--exit-code``, 1 has a meaning."""
    return MISUSED if getattr(options, "exit_code", False) else FAILED


@contextlib.contextmanager
def _warned() -> Iterator[None]:
    """Print each warning on stderr, as a sentence."""
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if not issubclass(category, Notice):
            usual(message, category, *rest)
        elif str(message) not in printed:
            printed.add(str(message))
            print(f"torchrecorder: warning: {_in_shell(str(message))}", file=sys.stderr)

    printed: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("always", Notice)
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def parted(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Split the arguments at ``--``, for commands that pass the rest on."""
    takes = [command.name for command in COMMANDS if command.takes_rest]
    if "--" not in arguments or arguments[0] not in takes:
        return arguments, ()
    place = list(arguments).index("--")
    return arguments[:place], arguments[place + 1 :]


class Parser(argparse.ArgumentParser):
    """A parser whose errors suggest similar names and mention ``--help``."""

    def error(self, message: str) -> NoReturn:
        """Exit with the usage and *message* on stderr."""
        message = re.sub(r"invalid int value: (.*)", r"it must be a whole number, not \1", message)
        message = re.sub(r"invalid float value: (.*)", r"it must be a number, not \1", message)
        # from Python 3.15 on, the message has a suggestion, and another form
        wrong = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        close = guess(wrong[1], re.findall(r"[\w-]+", wrong[2])) if wrong else ""
        super().error(f"{message}{close}; see {self.prog} --help")


def unknown_arguments(unknown: Sequence[str], options: argparse.Namespace) -> str:
    """The error message for unknown arguments."""
    message, name = f"it does not take {' '.join(unknown)}", unknown[0].partition("=")[0]
    known = options.parser._option_string_actions
    if name in options.not_taken:
        return f"{message}: {options.not_taken[name]}"
    if options.takes_rest:
        script = options.script or f"-m {options.module}"
        after = f"put arguments of the script after --: {script} -- {' '.join(unknown)}"
        return f"{message}{guess(name, known)}; {after}"
    return message + (guess(name.replace("_", "-"), known) if name.startswith("-") else "")


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = Parser(
        prog="torchrecorder",
        description="See a PyTorch model: record one run, draw it, list it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"torchrecorder {__version__}")
    below = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        _add(below, command)
    return top


def _add(below: argparse._SubParsersAction[Any], command: Command) -> None:
    brief, _, more = (inspect.getdoc(type(command)) or "").partition("\n\n")
    added = below.add_parser(
        command.name,
        help=brief.rstrip(".")[:1].lower() + brief.rstrip(".")[1:],
        description=brief,
        epilog=more,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(added)
    given = [action.dest.upper() for action in added._positionals._group_actions]
    rest = ["[-- arguments]"] if command.takes_rest else []
    added.usage = " ".join(["torchrecorder", command.name, *given, "[options]", *rest])
    added.add_argument("--traceback", action="store_true", help="show where an error comes from")
    added.set_defaults(run=command.run, parser=added, takes_rest=command.takes_rest)
    added.set_defaults(not_taken=command.not_taken)


def _say(error: Exception, with_traceback: bool, code: int) -> int:
    """Print an error on stderr, as a sentence or with its traceback."""
    cause = error.__cause__ if isinstance(error, ModelFailed) else error
    if with_traceback and cause is not None:
        traceback.print_exception(type(cause), cause, cause.__traceback__)
    print(f"torchrecorder: error: {_message(error)}", file=sys.stderr)
    return code


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error) if isinstance(error, ModelFailed) else _in_shell(str(error))


def _in_shell(message: str) -> str:
    return in_shell(message, {**TARGET_OPTIONS, **OPTIONS})
