"""torchrecorder completion: let the shell complete commands, options and values."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from torchrecorder.integrations.completion import SHELLS, script


@dataclass(frozen=True)
class Completion:
    """Print a script that lets the shell complete this command line.

    examples:
      bash:  echo 'eval "$(torchrecorder completion bash)"' >> ~/.bashrc
      zsh:   echo 'eval "$(torchrecorder completion zsh)"' >> ~/.zshrc   (after compinit)
      fish:  torchrecorder completion fish > ~/.config/fish/completions/torchrecorder.fish

    Commands, options, their values and files are completed. Make it again after an update.
    """

    name: str = "completion"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its arguments."""
        parser.add_argument("shell", choices=tuple(SHELLS), help="bash, zsh or fish")

    def run(self, options: argparse.Namespace) -> int:
        """Print it."""
        print(script(options.shell, options.whole_parser), end="")
        return 0
