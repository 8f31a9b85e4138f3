"""Depths: how deep a recording goes, and which depth suits its size."""

from __future__ import annotations

from collections import Counter

from torchrecorder.graph.recording import Recording
from torchrecorder.views.collapse import Quiet

ENOUGH = 60
"""The default depth keeps to so many boxes where it can."""


def scope_depths(recording: Recording) -> dict[str | None, int]:
    """How many scopes lie around each scope; -1 stands for the top, under None."""
    depths: dict[str | None, int] = {None: -1}
    for scope in recording.scopes.values():
        depths[scope.id] = depths[scope.parent] + 1
    return depths


def max_depth(recording: Recording) -> int:
    """The depth at which every scope is open and each op has its box."""
    depths = scope_depths(recording)
    shown = (depths[each.id] for each in recording.scopes.values() if not each.recompute)
    return 1 + max(shown, default=-1)


def boxes_at(recording: Recording, quiet: Quiet) -> list[int]:
    """How many scopes and ops are drawn as boxes at depth 0, 1, 2 ..."""
    depths = scope_depths(recording)
    loud = {scope.parent for scope in recording.scopes.values()}
    ops = [op for op in recording.ops.values() if not op.recompute and not quiet(op)]
    loud.update(op.scope for op in ops)
    scopes = [scope for scope in recording.scopes.values() if not scope.recompute]
    at = Counter(depths[scope.id] for scope in scopes)
    stay = Counter(depths[scope.id] + 1 for scope in scopes if scope.id not in loud)
    stay.update(depths[op.scope] + 1 for op in ops)
    counts, below = [], 0
    for depth in range(max_depth(recording) + 1):
        below += stay[depth]
        counts.append(at[depth] + below)
    return counts


def default_depth(recording: Recording, quiet: Quiet = lambda op: False) -> int:
    """The deepest depth, down to ops, that draws at most about 60 boxes; 1 at least."""
    counts = boxes_at(recording, quiet)
    fitting = [depth for depth, count in enumerate(counts) if count <= ENOUGH]
    return max([min(1, len(counts) - 1), *fitting])
