"""Command: the base class of subcommands."""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar


class Command(ABC):
    """A subcommand. The first paragraph of its docstring is its help, the rest its epilog."""

    name: ClassVar[str]
    takes_rest: ClassVar[bool] = False  # arguments after ``--``, in ``options.rest``
    not_taken: ClassVar[Mapping[str, str]] = {}  # why not, by flag that other commands have

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments, if there are any."""

    @abstractmethod
    def run(self, options: argparse.Namespace) -> int:
        """Run the command, and return the exit code."""
