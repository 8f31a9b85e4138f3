"""The state that gradient scalers create in their first call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torchrecorder.events import OpId, ScopeKind, ValueId
from torchrecorder.graph.data_loaders import LoadedRun

SCALE = "GradScaler.scale"
"""The region that multiplies the loss by the scale."""


class ScaledRun(LoadedRun, Protocol):
    """The part of a recording that the state of gradient scalers depends on."""

    @property
    def consumers(self) -> Mapping[ValueId, tuple[OpId, ...]]: ...


def scaler_state(recording: ScaledRun) -> frozenset[OpId]:
    """The ops that make the scale and the growth tracker of a gradient scaler from numbers.

    ``torch.amp.GradScaler`` runs them in its first call of ``scale``. Empty if no other call
    follows: then there are no rounds from which the first would differ.
    """
    calls = {
        scope.id for scope in recording.scopes.values()
        if scope.kind is ScopeKind.SCALER and scope.name == SCALE
    }
    if len(calls) < 2:
        return frozenset()
    return frozenset(
        op.id for op in recording.ops.values()
        if op.scope in calls and not op.inputs and any(map(recording.consumers.get, op.outputs))
    )
