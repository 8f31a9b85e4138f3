"""Differences: the differences between two compared runs in their joint recording."""

from __future__ import annotations

from collections.abc import Mapping

from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.relations import Relations


def with_inner(recording: Relations) -> Mapping[str, tuple[str, ...]]:
    """The differences of each node; a scope has those of all its contents, at any depth."""
    own, scopes = recording.own_differences, recording.scopes
    found: dict[str, set[str]] = {node: {text} for node, text in own.items()}
    for op in recording.ops.values():
        if op.scope is not None and op.id in found:
            found.setdefault(op.scope, set()).update(found[op.id])
    for scope in reversed(list(scopes.values())):  # inner ones come later
        if scope.parent is not None and scope.id in found:
            found.setdefault(scope.parent, set()).update(found[scope.id])
    return {node: tuple(sorted(texts)) for node, texts in found.items()}


def changed_inside(recording: Relations) -> frozenset[str]:
    """The scopes in which something differs; quiet differences do not count.

    Scopes whose whole contents only one run has are left out: they are no further difference.
    """
    quiet, found = recording.quiet_differences, set[str]()
    own = {node: text for node, text in recording.own_differences.items() if node not in quiet}
    steps: list[Scope | Op] = [*recording.ops.values(), *recording.scopes.values()]
    for step in steps:
        around = step.scope if isinstance(step, Op) else step.parent
        if step.id in own and around is not None and own[step.id] != own.get(around):
            found.update(recording.within(around))
    return frozenset(found)
