"""The scopes and ops inside scopes, at any depth, and those that ran again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchrecorder.events import OpId, ScopeId
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.relations import Relations


def scopes_inside(recording: Relations, scopes: Iterable[ScopeId]) -> Iterator[ScopeId]:
    """*scopes* and all scopes in them, at any depth; not in run order."""
    waiting = list(scopes)
    while waiting:
        scope = waiting.pop()
        yield scope
        inner = recording.children.get(scope, ())
        waiting.extend(child.id for child in inner if not isinstance(child, Op))


def ops_inside(recording: Relations, scopes: Iterable[ScopeId]) -> Iterator[OpId]:
    """The ids of all ops in *scopes*, at any depth; scope by scope, not in run order."""
    for scope in scopes_inside(recording, scopes):
        yield from (child.id for child in recording.children[scope] if isinstance(child, Op))


def recomputed(recording: Relations) -> frozenset[OpId]:
    """The ops that a checkpoint or custom function ran again in backward."""
    return frozenset(op.id for op in recording.ops.values() if op.recompute)
