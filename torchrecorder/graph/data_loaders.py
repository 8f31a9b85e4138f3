"""Data loaders: their calls, and the batches that they return."""

from __future__ import annotations

from collections.abc import Mapping

from torchrecorder.events import OF_WEIGHTS, ScopeId, ScopeKind, ValueId
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.relations import Tables


def calls_of_kind(scopes: Mapping[ScopeId, Scope], *kinds: ScopeKind) -> dict[ScopeId, ScopeId]:
    """The scopes in an outermost scope of these *kinds*, itself included, mapped to that scope.

    Scopes in which a module runs are not considered, such as an optimizer step with a closure; but
    scopes of these kinds inside them are.
    """
    if not any(scope.kind in kinds for scope in scopes.values()):
        return {}
    running: set[ScopeId | None] = {None}
    for scope in scopes.values():
        around = scope.id if scope.kind is ScopeKind.MODULE else None
        while around not in running:
            running.add(around)
            around = scopes[around].parent if around is not None else None
    found: dict[ScopeId, ScopeId] = {}
    for scope in scopes.values():
        if scope.parent in found:
            found[scope.id] = found[scope.parent]
        elif scope.kind in kinds and (scope.id not in running or scope.kind in OF_WEIGHTS):
            found[scope.id] = scope.id
    return found


class DataLoaders:
    """The calls of data loaders in a recording; those that run modules are left out.

    Attributes:
        calls: The call around each scope in one, itself included.
        batches: The values that each call computes and that operations outside of it read.
    """

    def __init__(self, recording: Tables) -> None:
        self.calls = calls_of_kind(recording.scopes, ScopeKind.DATA_LOADER)
        self.batches: dict[ScopeId, dict[ValueId, None]] = {
            call: {} for call in self.calls.values()
        }
        for op in recording.ops.values() if self.calls else ():
            for slot in op.inputs:
                producer = recording.values[slot.value].producer
                made_in = self.call_of(recording.ops[producer]) if producer is not None else None
                if made_in is not None and made_in != self.call_of(op):
                    self.batches[made_in].setdefault(slot.value)

    def call_of(self, op: Op) -> ScopeId | None:
        """The call that ran *op*."""
        return self.calls.get(op.scope) if op.scope is not None else None

    def is_within(self, op: Op, value: ValueId) -> bool:
        """Whether only operations in the same call read *value*, a result of *op*."""
        call = self.call_of(op)
        return call is not None and value not in self.batches[call]
