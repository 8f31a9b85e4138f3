"""Live: weak access to recorded modules, and stand-ins for recorded tensors."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.nn import Module

from torchrecorder.events import ModuleId
from torchrecorder.graph.recording import RecordedRun


class Live:
    """Finds the module behind a scope while it still exists."""

    def __init__(self, modules: dict[ModuleId, weakref.ref[Module]]) -> None:
        self._modules = modules

    def fn(self, recording: RecordedRun, node: str) -> Any:
        """The module of a scope, a meta tensor like a value; None if neither is to be had."""
        scopes: Any = recording.scopes
        values: Any = recording.values
        if node in scopes:
            reference = self._modules.get(scopes[node].module)
            return reference() if reference is not None else None
        if node in values:
            value = values[node]
            dtype = getattr(torch, value.dtype, None)
            if dtype is not None and min(value.shape, default=0) >= 0:
                return torch.empty(value.shape, dtype=dtype, device="meta")
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        """A copied or pickled recording has no live objects."""
        return (Live, ({},))
