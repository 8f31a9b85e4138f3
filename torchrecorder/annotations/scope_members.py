"""Scope members: the members of scopes and ops, to combine their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from torchrecorder.events import OpId, ScopeId, ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import scopes_inside


@dataclass(frozen=True)
class ScopeMembers:
    """Members of the scopes and ops of a recording, by id."""

    recording: RecordedRun

    @cached_property
    def _made(self) -> dict[OpId | None, list[ValueId]]:
        return grouped((value.producer, value.id) for value in self.recording.values.values())

    def of_op(self, op: OpId) -> list[str]:
        """An op, its results, and the grad nodes that it owns."""
        grads = [grad.id for grad in self.recording.owned.get(op, ())]
        return [op, *self._made.get(op, ()), *grads]

    def alone(self, scope: ScopeId) -> list[str]:
        """A scope and the ops directly in it, without its inner scopes."""
        found: list[str] = [scope]
        for child in self.recording.children.get(scope, ()):
            if isinstance(child, Op):
                found.extend(self.of_op(child.id))
        return found

    def of_scope(self, scope: ScopeId) -> list[str]:
        """A scope and all its contents, at any depth."""
        scopes = scopes_inside(self.recording, [scope])
        return [member for item in scopes for member in self.alone(item)]

    def of(self, ids: Iterable[str]) -> list[str]:
        """Scopes with all their contents, and ops with what belongs to them."""
        scopes, found = self.recording.scopes, list[str]()
        for item in ids:
            found += self.of_scope(ScopeId(item)) if item in scopes else self.of_op(OpId(item))
        return found
