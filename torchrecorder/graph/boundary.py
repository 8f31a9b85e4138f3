"""Boundaries: what flows into scopes and out of them, as their operations read and make it."""

from __future__ import annotations

from collections.abc import Collection

from torchrecorder.events import STORED, Role, ScopeId, Slot, ValueId
from torchrecorder.graph.recording import RecordedRun

_STAYS = (*STORED, Role.CONSTANT)
"""Parameters, buffers and constants stand with what reads them."""


class Boundaries:
    """The inputs and outputs of some scopes, found in one pass over the operations.

    Args:
        recording: What ran.
        wanted: The scopes.
    """

    def __init__(self, recording: RecordedRun, wanted: Collection[ScopeId]) -> None:
        self.recording = recording
        self._around: dict[ScopeId | None, tuple[ScopeId, ...]] = {None: ()}
        for scope in recording.scopes.values():
            outer = self._around[scope.parent]
            self._around[scope.id] = (*outer, scope.id) if scope.id in wanted else outer
        self._read: dict[ScopeId, dict[ValueId, str]] = {scope: {} for scope in wanted}
        self._given: dict[ScopeId, dict[ValueId, None]] = {scope: {} for scope in wanted}
        for op in recording.ops.values():
            for slot in op.inputs:
                self._flow(slot.value, slot.name, self._around[op.scope])
        for slot in recording.outputs:
            self._flow(slot.value, slot.name, ())

    def _flow(self, value: ValueId, name: str, into: tuple[ScopeId, ...]) -> None:
        """Something in the scopes *into* reads a value."""
        seen = self.recording.values[value]
        producer = self.recording.ops.get(seen.producer) if seen.producer is not None else None
        out_of = self._around[producer.scope] if producer is not None else ()
        if producer is not None or seen.role not in _STAYS:
            for scope in into:
                if scope not in out_of:
                    self._read[scope].setdefault(value, name)
        for scope in out_of:
            if scope not in into:
                self._given[scope][value] = None

    def inputs(self, scope: ScopeId) -> tuple[Slot, ...]:
        """What its operations read that is made outside, by the name of the first argument."""
        return tuple(Slot(name, value) for value, name in self._read[scope].items())

    def outputs(self, scope: ScopeId) -> tuple[Slot, ...]:
        """What is made in it and read outside, in the order in which it is read."""
        return tuple(Slot(str(place), value) for place, value in enumerate(self._given[scope]))
