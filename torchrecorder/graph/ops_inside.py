"""The ops inside scopes and function calls, at any depth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchrecorder.events import FunctionCall, OpId, ScopeId
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun


def scopes_inside(recording: RecordedRun, scopes: Iterable[ScopeId]) -> Iterator[ScopeId]:
    """*scopes* and all scopes in them, at any depth; not in run order."""
    waiting = list(scopes)
    while waiting:
        scope = waiting.pop()
        yield scope
        inner = recording.children.get(scope, ())
        waiting.extend(child.id for child in inner if not isinstance(child, Op))


def ops_inside(recording: RecordedRun, scopes: Iterable[ScopeId]) -> Iterator[OpId]:
    """The ids of all ops in *scopes*, at any depth; scope by scope, not in run order."""
    for scope in scopes_inside(recording, scopes):
        yield from (child.id for child in recording.children[scope] if isinstance(child, Op))


def ops_of_function(recording: RecordedRun, call: FunctionCall) -> Iterator[OpId]:
    """The ids of all ops that ran in *call*: in the functions and modules that it called, too."""
    inside = {call.id}
    for later in recording.function_calls.values():
        if later.id == call.id or later.parent in inside:
            inside.add(later.id)
            yield from later.ops
            yield from ops_inside(recording, later.scopes)
