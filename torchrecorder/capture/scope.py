"""OpenScope: the state of a call or region that is running. Observer: what is told about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Union

from torch import Tensor

from torchrecorder.events import GradId, OpId, ScopeId, ValueId
from torchrecorder.graph.nodes import Scope

Called = Callable[[Any, tuple[Any, ...], Mapping[str, Any], ScopeId], None]
"""Called for every call, with the callee, its arguments and its scope."""


class OpenScope:
    """A scope that is running."""

    inputs: tuple[Any, ...] = ()
    key: object = None
    begun = 0  # position in the run after the arguments were read
    results_unseen = False  # nothing is known about what the call returns
    ends: Callable[[], None] | None = None  # called when a region ends
    around_other = False  # a block of the other grad mode began in this one, and runs

    def __init__(self, event: Scope, state: Any, started: float) -> None:
        self.event = event
        self.scope = event.id
        self.recompute = event.recompute
        self.state = state  # grad mode and other modes at the start
        self.started = started
        self.arguments: dict[int, Any] = {}


def scopes_around(scopes: Mapping[ScopeId, Scope], scope: ScopeId | None) -> Iterator[Scope]:
    """A scope and the scopes around it, innermost first."""
    while scope is not None:
        yield scopes[scope]
        scope = scopes[scope].parent


Given = tuple[Union[Tensor, None], ...]
"""Gradients as PyTorch passes them to a hook."""


class Observer:
    """Base class with empty callbacks; those for an end are called in reverse order.

    Arguments may be neither kept nor changed. The time of observers counts as the recorder's.
    Callbacks of grad nodes come from the thread that runs the node.
    """

    def op_begins(self, op: OpId) -> None:
        """A call is about to run."""

    def op_ended(self, op: OpId) -> None:
        """A call has run."""

    def op_made(self, op: OpId, name: str, made: list[tuple[ValueId, Tensor]]) -> None:
        """An op with this name returned or wrote these tensors."""

    def scope_entered(self, scope: OpenScope) -> None:
        """A module call begins."""

    def scope_left(self, scope: OpenScope, outputs: list[tuple[str, Tensor]]) -> None:
        """A module call ended with these results."""

    def node_met(self, grad: GradId, node: Any) -> None:
        """A backward run that may reach this grad node begins."""

    def node_begins(self, grad: GradId, run: int, given: Given) -> None:
        """A grad node is about to run, on these gradients."""

    def node_runs_inside(self, grad: GradId, run: int, given: Given) -> None:
        """An accumulation is about to run in a pass that another node runs, as part of it."""

    def node_ended(self, grad: GradId, run: int) -> None:
        """A grad node has run; not called for accumulations."""

    def finish(self) -> None:
        """The run is over: write the remaining events."""
