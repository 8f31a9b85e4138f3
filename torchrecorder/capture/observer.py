"""Observer: what an instrument of the optional kind is told of while the model runs."""

from __future__ import annotations

from typing import Any, Union

from torch import Tensor

from torchrecorder.capture.scope import OpenScope
from torchrecorder.events import GradId, OpId, ValueId

Given = tuple[Union[Tensor, None], ...]
"""Gradients as PyTorch hands them to a hook."""


class Observer:
    """Told of everything, does nothing; subclasses listen to what they need.

    Nothing that is shown may be kept or changed. Observers work on the recorder's time,
    and for grad nodes in whichever thread runs them.
    """

    def op_begins(self, op: OpId) -> None:
        """A call is about to run."""

    def op_ended(self, op: OpId) -> None:
        """A call has run."""

    def op_made(self, op: OpId, name: str, made: list[tuple[ValueId, Tensor]]) -> None:
        """What a call of the function of this name made or wrote."""

    def scope_entered(self, scope: OpenScope) -> None:
        """A module call begins."""

    def scope_left(self, scope: OpenScope, outputs: list[tuple[str, Tensor]]) -> None:
        """A module call ended, and gave these results."""

    def node_met(self, grad: GradId, node: Any) -> None:
        """A backward run that may reach this grad node begins."""

    def node_begins(self, grad: GradId, run: int, given: Given) -> None:
        """A grad node is about to run, on these gradients."""

    def node_ended(self, grad: GradId, run: int) -> None:
        """A grad node has run; never told of accumulations."""

    def finish(self) -> None:
        """The run is over; what is still to be written is to be written now."""
