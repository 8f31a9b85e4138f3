"""torchrecorder completion: shell completion of commands, options and values."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from torchrecorder.integrations.commands.command import Command

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")


class CompletionCommand(Command):
    """Print a shell script for completion of this command line.

    examples:
      bash:  echo 'eval "$(torchrecorder completion bash)"' >> ~/.bashrc
      zsh:   echo 'eval "$(torchrecorder completion zsh)"' >> ~/.zshrc   (after compinit)
      fish:  torchrecorder completion fish > ~/.config/fish/completions/torchrecorder.fish

    Commands, options, their values and files are completed. Create it again after an update.
    """

    name = "completion"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("shell", choices=SHELLS, help=", ".join(SHELLS))

    def run(self, options: argparse.Namespace) -> int:
        print(script(options.shell, options.whole_parser), end="")
        return 0


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The script with which *shell* completes the arguments of *parser*."""
    import shtab

    for action in _actions(parser):
        offered = getattr(action, "offered", ())
        if offered and len(offered) <= 50:  # not the hundreds of names of colors
            action.choices = offered
        elif action.type is Path or not (action.option_strings or action.choices):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    return f"{shtab.complete(parser, shell)}\n"


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The actions of *parser* and of its subcommands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
