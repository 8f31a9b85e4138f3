"""Depths: how deep a recording goes, and which depth suits its size."""

from __future__ import annotations

from collections import Counter

from torchrecorder.events import ScopeKind
from torchrecorder.graph.recording import Recording
from torchrecorder.views.collapse import Quiet
from torchrecorder.views.hide import bookkeeping, is_pass, is_query, is_reshape

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


def plain_modules(recording: Recording, quiet: Quiet) -> frozenset[str]:
    """Modules that stand for at most one op, such as a convolution or an activation.

    Opening one shows nothing that its box does not say. Ops that only reshape, ask or keep
    count do not make a module less plain.
    """
    kept = bookkeeping(recording)
    work: Counter[str | None] = Counter()
    for op in recording.ops.values():
        if not (op.id in kept or quiet(op) or is_pass(op) or is_reshape(op) or is_query(op)):
            work[op.scope] += 1
    composed = {scope.parent for scope in recording.scopes.values()}
    return frozenset(
        scope.id
        for scope in recording.scopes.values()
        if scope.kind is ScopeKind.MODULE
        and scope.parent is not None
        and scope.id not in composed
        and work[scope.id] <= 1
    )


def boxes_at(recording: Recording, quiet: Quiet) -> list[int]:
    """How many boxes depth 0, 1, 2 ... draws of scopes and ops, plain modules closed."""
    depths = scope_depths(recording)
    plain = plain_modules(recording, quiet)
    ops = [
        op
        for op in recording.ops.values()
        if not op.recompute and not quiet(op) and op.scope not in plain
    ]
    scopes = [scope for scope in recording.scopes.values() if not scope.recompute]
    open_able = {scope.parent for scope in scopes} | {op.scope for op in ops}
    at = Counter(depths[scope.id] for scope in scopes)
    stay = Counter(depths[scope.id] + 1 for scope in scopes if scope.id not in open_able)
    stay.update(depths[op.scope] + 1 for op in ops)
    counts, below = [], 0
    for depth in range(max_depth(recording) + 1):
        below += stay[depth]
        counts.append(at[depth] + below)
    return counts


def default_depth(recording: Recording, quiet: Quiet = lambda op: False) -> int:
    """The deepest depth that draws at most about 60 boxes, plain modules closed; 1 at least."""
    counts = boxes_at(recording, quiet)
    fitting = [depth for depth, count in enumerate(counts) if count <= ENOUGH]
    return max([min(1, len(counts) - 1), *fitting])
