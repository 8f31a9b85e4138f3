"""The ops that ran in scopes and in calls of functions, and in what is inside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchrecorder.events import FunctionCall, OpId, ScopeId
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


def ops_of_function(recording: RecordedRun, call: FunctionCall) -> Iterator[OpId]:
    """The ids of all ops that ran in *call*: in the functions and modules that it called, too."""
    inside = {call.id}
    for later in recording.function_calls.values():
        if later.id == call.id or later.parent in inside:
            inside.add(later.id)
            yield from later.ops
            yield from ops_inside(recording, later.scopes)
