"""Subcommands of the command line, all listed here."""

from __future__ import annotations

from torchrecorder.integrations.commands.command import Command
from torchrecorder.integrations.commands.compare import CompareCommand
from torchrecorder.integrations.commands.completion import CompletionCommand
from torchrecorder.integrations.commands.doctor import DoctorCommand
from torchrecorder.integrations.commands.merge import MergeCommand
from torchrecorder.integrations.commands.plan import PlanCommand
from torchrecorder.integrations.commands.render import HtmlCommand, OpenCommand, RenderCommand
from torchrecorder.integrations.commands.run import RunCommand
from torchrecorder.integrations.commands.serve import ServeCommand
from torchrecorder.integrations.commands.summary import SummaryCommand, TopCommand

COMMANDS: tuple[Command, ...] = (
    RenderCommand(),
    HtmlCommand(),
    OpenCommand(),
    ServeCommand(),
    RunCommand(),
    SummaryCommand(),
    TopCommand(),
    CompareCommand(),
    MergeCommand(),
    PlanCommand(),
    DoctorCommand(),
    CompletionCommand(),
)
"""Every subcommand, in the order in which ``--help`` lists them."""
