"""RanEagerly: compiled functions that ran eagerly because they were recorded."""

from __future__ import annotations

from types import FrameType
from typing import Any

from torch.nn import Module

from torchrecorder.capture.internals.access import compiled_call


class RanEagerly:
    """Collects the names of compiled functions and modules, by backend."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, None]] = {}

    def meet(self, frame: FrameType) -> None:
        """An op runs inside *frame*, which calls a compiled function."""
        function, backend = compiled_call(frame)
        if backend != "eager":  # whose results are the same
            self._names.setdefault(backend, {})[_name_of(function)] = None

    def notes(self) -> list[str]:
        """A sentence per backend."""
        return [
            f"{', '.join(names)} ran eagerly while it was recorded, and not as compiled by "
            f"{backend or 'its backend'}: numbers may differ in their last bits"
            for backend, names in self._names.items()
        ]


def _name_of(function: Any) -> str:
    owner = getattr(function, "__self__", function)
    if isinstance(owner, Module):
        return type(owner).__name__
    return str(getattr(function, "__name__", type(function).__name__))
