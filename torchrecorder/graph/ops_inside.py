"""The ops that ran in scopes, and in the scopes inside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchrecorder.events import OpId, ScopeId
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun


def ops_inside(recording: RecordedRun, scopes: Iterable[ScopeId]) -> Iterator[OpId]:
    """The ids of all ops in *scopes*, at any depth; scope by scope, not in run order."""
    waiting = list(scopes)
    while waiting:
        for child in recording.children[waiting.pop()]:
            if isinstance(child, Op):
                yield child.id
            else:
                waiting.append(child.id)
