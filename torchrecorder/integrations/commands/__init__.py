"""Subcommands of the command line: one file each, all listed here."""

from __future__ import annotations

from torchrecorder.integrations.commands.command import Command
from torchrecorder.integrations.commands.compare import Compare
from torchrecorder.integrations.commands.doctor import Doctor
from torchrecorder.integrations.commands.render import Render
from torchrecorder.integrations.commands.summary import Summary

COMMANDS: tuple[Command, ...] = (Render(), Summary(), Compare(), Doctor())
"""Every subcommand, in the order in which ``--help`` lists them."""
