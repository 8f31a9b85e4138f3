"""Subcommands of the command line, all listed here."""

from __future__ import annotations

from torchrecorder.integrations.commands.command import Command
from torchrecorder.integrations.commands.compare import Compare
from torchrecorder.integrations.commands.completion import Completion
from torchrecorder.integrations.commands.doctor import Doctor
from torchrecorder.integrations.commands.merge import Merge
from torchrecorder.integrations.commands.open import Open
from torchrecorder.integrations.commands.plan import Plan
from torchrecorder.integrations.commands.render import Html, Render
from torchrecorder.integrations.commands.run import Run
from torchrecorder.integrations.commands.serve import Serve
from torchrecorder.integrations.commands.summary import Summary
from torchrecorder.integrations.commands.top import Top

COMMANDS: tuple[Command, ...] = (
    Render(),
    Html(),
    Open(),
    Serve(),
    Run(),
    Summary(),
    Top(),
    Compare(),
    Merge(),
    Plan(),
    Doctor(),
    Completion(),
)
"""Every subcommand, in the order in which ``--help`` lists them."""
