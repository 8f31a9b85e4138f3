"""Live: the modules behind a recording while they exist, and stand-ins afterwards."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.nn import Module

from torchrecorder.capture.stand_in import StandIn
from torchrecorder.events import ModuleId
from torchrecorder.graph.recording import RecordedRun


class Live:
    """Finds the object behind a node of a recording, without strong references."""

    def __init__(
        self, modules: dict[ModuleId, tuple[weakref.ref[Module], StandIn | None]]
    ) -> None:
        self._modules = modules
        self._made: dict[ModuleId, Module] = {}

    def fn(self, recording: RecordedRun, node: str) -> Any:
        """The module of a scope, or a meta tensor like a value; None for anything else.

        A module that no longer exists is replaced by one of the same class, with the same plain
        attributes, and with meta tensors as parameters and buffers.
        """
        scopes: Any = recording.scopes
        if node in scopes:
            return self._module(recording, scopes[node].module)
        return _meta(recording, node)

    def _module(self, recording: RecordedRun, number: ModuleId | None) -> Module | None:
        reference, kept = self._modules.get(number, (None, None))  # type: ignore[arg-type]
        module = reference() if reference is not None else None
        if module is not None or kept is None or number is None:
            return module
        made = self._made.get(number)
        if made is None:
            stored = recording.modules[number].stored
            tensors = {slot.name: _meta(recording, slot.value) for slot in stored}
            made = self._made[number] = kept.make(tensors)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles of a recording have no live objects."""
        return (Live, ({},))


def _meta(recording: RecordedRun, node: str) -> torch.Tensor | None:
    """A meta tensor with the shape and dtype of a recorded value."""
    values: Any = recording.values
    if node not in values:
        return None
    value = values[node]
    dtype = getattr(torch, value.dtype, None)
    if dtype is None or -1 in value.shape:
        return None
    return torch.empty(value.shape, dtype=dtype, device="meta")
