"""OpenScope: a call or region that is running, and what is known of it so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torchrecorder.events import ScopeEntered, ScopeId

Called = Callable[[Any, tuple[Any, ...], Mapping[str, Any], ScopeId], None]
"""Told of every call: what is called, its arguments, its scope."""


class OpenScope:
    """A scope that is running."""

    inputs: tuple[Any, ...] = ()
    key: object = None
    begun = 0  # where the run was when the arguments had been read
    cleanup: Callable[[], None] | None = None

    def __init__(self, event: ScopeEntered, state: Any, started: float) -> None:
        self.event = event
        self.scope = event.scope
        self.recompute = event.recompute
        self.state = state  # grad mode and the like, as they were at the door
        self.started = started
        self.arguments: dict[int, Any] = {}
