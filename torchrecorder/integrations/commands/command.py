"""Command: the protocol of a subcommand."""

from __future__ import annotations

import argparse
from typing import Protocol


class Command(Protocol):
    """A subcommand. The first paragraph of its docstring is its help, the rest its epilog.

    With ``takes_rest = True``, the arguments after ``--`` are in ``options.rest``.
    """

    @property
    def name(self) -> str:
        """Its name on the command line."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its arguments."""

    def run(self, options: argparse.Namespace) -> int:
        """Run it, and return the exit code."""
