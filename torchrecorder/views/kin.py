"""Kin: siblings that are repeats of each other."""

from __future__ import annotations

import re
from functools import lru_cache

from torchrecorder.events import ScopeId
from torchrecorder.graph.nodes import Scope
from torchrecorder.graph.recording import Recording


def kin(recording: Recording, item: str) -> tuple[str, str] | None:
    """What repeats have in common: their structure, and their names but for numbers.

    None for what is no scope. ``fc1`` and ``fc2`` may be kin, ``query`` and ``key`` are not.
    """
    scope = recording.scopes.get(ScopeId(item))
    if scope is None:
        return None
    return recording.structures[scope.id], without_numbers(scope.name)


def loose_kin(recording: Recording, item: str) -> tuple[object, ...] | None:
    """What repeats have in common where sizes, wiring and optional parts may differ.

    Their class, and their names but for numbers; None for what is no scope.
    """
    scope = recording.scopes.get(ScopeId(item))
    if scope is None:
        return None
    return scope.kind, scope.cls, without_numbers(scope.name), scope.failed, scope.recompute


@lru_cache(maxsize=4096)
def without_numbers(text: str) -> str:
    """*text* with a zero for each number in it."""
    return re.sub(r"\d+", "0", text)


def enough(recording: Recording, item: str) -> int:
    """How many repeats are worth a fold: two, or three of what has no scopes inside."""
    children = recording.children[ScopeId(item)]
    return 2 if any(isinstance(child, Scope) for child in children) else 3
