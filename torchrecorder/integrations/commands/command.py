"""Command: the protocol of a subcommand."""

from __future__ import annotations

import argparse
from typing import Protocol


class Command(Protocol):
    """A subcommand. The first paragraph of its docstring is its help, the rest its epilog.

    One that has ``takes_rest = True`` finds what follows ``--`` in ``options.rest``.
    """

    @property
    def name(self) -> str:
        """What is typed."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its arguments."""

    def run(self, options: argparse.Namespace) -> int:
        """Do it, and return the exit code."""
