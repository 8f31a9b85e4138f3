"""Failing node: the grad node to which the failure of a backward pass belongs.

Mostly it is the node that is running. But PyTorch checks the gradients of a node after it has
run: their sizes, and in anomaly mode whether they are NaN.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from torchrecorder.build import Event
from torchrecorder.events import GradId, OpId, ScopeId
from torchrecorder.graph.nodes import GradNode

_CHECKED = re.compile(r"Function '?([\w:]+)'? returned ")
"""The beginning of a message about the gradients that a node gave."""


def node_of_check(
    error: BaseException, latest: Iterable[GradId], events: Sequence[Event]
) -> GradId | None:
    """The node that gave the gradients which *error* is about, if it is among the *latest* ones."""
    message = _CHECKED.match(str(error))
    if message is None:
        return None
    name, found = message[1].rpartition("::")[2], {*latest}
    named = (
        event.id for event in events
        if isinstance(event, GradNode) and event.id in found and event.name == name
    )
    return next(named, None)


def home(grad: GradId, events: Sequence[Event]) -> tuple[OpId | None, ScopeId | None]:
    """The op and scope that created *grad*; for an accumulation, those of its first source."""
    source: tuple[OpId | None, ScopeId | None] = (None, None)
    for event in events:
        if not isinstance(event, GradNode):
            continue
        if event.id == grad and event.owner is not None:
            return event.owner, event.scope
        if source[0] is None and any(edge and edge.grad == grad for edge in event.next):
            source = (event.owner, event.scope)
    return source
