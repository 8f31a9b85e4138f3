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
    return recording.structures[scope.id], _without_numbers(scope.name)


@lru_cache(maxsize=4096)
def _without_numbers(name: str) -> str:
    return re.sub(r"\d+", "0", name)


def enough(recording: Recording, item: str) -> int:
    """How many repeats are worth a fold: two, or three of what has no scopes inside."""
    children = recording.children[ScopeId(item)]
    return 2 if any(isinstance(child, Scope) for child in children) else 3


def repeated(recording: Recording) -> frozenset[str]:
    """Scopes that follow enough kin under the same parent, and all that lies in them."""
    rows: dict[str | None, list[list[ScopeId]]] = {}
    last: dict[str | None, object] = {}
    for scope in recording.scopes.values():
        found = kin(recording, scope.id)
        if found == last.get(scope.parent):
            rows[scope.parent][-1].append(scope.id)
        else:
            rows.setdefault(scope.parent, []).append([scope.id])
        last[scope.parent] = found
    gone: set[str] = set()
    for row in (row for found in rows.values() for row in found):
        if len(row) >= enough(recording, row[0]):
            gone.update(row[1:])
    for scope in recording.scopes.values():
        if scope.parent in gone:
            gone.add(scope.id)
    return frozenset(gone)
