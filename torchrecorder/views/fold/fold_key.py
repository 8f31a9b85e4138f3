"""Fold keys: equal for siblings that may be repeats of each other."""

from __future__ import annotations

from torchrecorder.events import ScopeId
from torchrecorder.graph.nodes import Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.structural_hash import without_numbers


def fold_key(recording: RecordedRun, item: str) -> tuple[str, str] | None:
    """The common facts of equal repeats: structure, and names without their numbers.

    None if *item* is not a scope. ``fc1`` and ``fc2`` may fold, ``query`` and ``key`` may not.
    """
    scope = recording.scopes.get(ScopeId(item))
    if scope is None:
        return None
    return recording.structures[scope.id], without_numbers(scope.name)


def loose_fold_key(recording: RecordedRun, item: str) -> tuple[object, ...] | None:
    """The common facts of similar repeats: class, and names without their numbers.

    Sizes, wiring and optional parts may differ. None if *item* is not a scope.
    """
    scope = recording.scopes.get(ScopeId(item))
    if scope is None:
        return None
    return scope.kind, scope.cls, without_numbers(scope.name), scope.failed, scope.recompute


def enough(recording: RecordedRun, item: str) -> int:
    """The minimum number of repeats that fold: two, or three if no scopes are inside."""
    children = recording.children[ScopeId(item)]
    return 2 if any(isinstance(child, Scope) for child in children) else 3
