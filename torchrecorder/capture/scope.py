"""OpenScope: the state of a call or region that is running."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torchrecorder.events import ScopeId
from torchrecorder.graph.nodes import Scope

Called = Callable[[Any, tuple[Any, ...], Mapping[str, Any], ScopeId], None]
"""Called for every call, with the callee, its arguments and its scope."""


class OpenScope:
    """A scope that is running."""

    inputs: tuple[Any, ...] = ()
    key: object = None
    begun = 0  # position in the run after the arguments were read
    results_unseen = False  # nothing is known about what the call returns
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
