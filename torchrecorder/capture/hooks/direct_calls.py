"""DirectCalls: record calls of ``forward`` that bypass the hooks of a module.

``self.layer.forward(x)`` runs no hooks, nor does a module whose class overrides ``__call__``. Such
a call is found like a region: by the frame of ``forward`` around an op. Its arguments are read from
the frame; its results are unknown.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import FrameType
from typing import Any

from torch import Tensor
from torch.nn import Module

from torchrecorder.capture.hooks.source import Region, Sources
from torchrecorder.capture.internals.access import current_graph_task
from torchrecorder.capture.module_registry import ModuleRegistry, RegisteredModule
from torchrecorder.capture.scope import OpenScope
from torchrecorder.capture.tensors.describe import tensors_in
from torchrecorder.events import ModuleId, SourceLine


class DirectCalls:
    """Opens the scopes of module calls."""

    def __init__(self, sources: Sources, registry: ModuleRegistry) -> None:
        self.tape = registry.tape
        self.sources = sources
        self.registry = registry

    def open(
        self, entry: RegisteredModule, module: Module, source: SourceLine | None, state: Any
    ) -> OpenScope:
        """Open the scope of a call of *module*, whose entry in the registry is *entry*."""
        if not entry.written:
            self.registry.begin(module)
        path, name = self.registry.path(entry, *self._around())
        return self.tape.enter(
            entry.kind,
            name,
            path,
            entry.cls,
            entry.module,
            entry.count_call(),
            source,
            state,
            current_graph_task() != -1,
        )

    def _around(self) -> tuple[str, ModuleId | None]:
        """The path and id of the innermost running module."""
        for opened in reversed(self.tape.stack):
            if opened.event.module is not None:
                return opened.event.path, opened.event.module
        return "", None

    def enter(self, region: Region, source: SourceLine | None, state: Any) -> OpenScope:
        """Open the scope of a direct call of ``forward``."""
        module = region.module
        assert region.forward is not None and module is not None
        entry = self.registry.find(module)
        inputs = self.registry.values.slots_of(_arguments(region.forward))
        opened = self.open(entry, module, source, state)
        opened.inputs = inputs
        opened.results_unseen = True
        self.registry.complete(module)
        return opened

    def without_known(self, regions: Sequence[Region]) -> list[Region]:
        """*regions* without direct calls of a module whose hooks have opened a scope."""
        found = []
        for region in regions:
            if region.module is not None and self._is_open(region.module):
                self.sources.ignore(region)
            else:
                found.append(region)
        return found

    def _is_open(self, module: Module) -> bool:
        entry = self.registry.entries.get(id(module))
        for opened in reversed(self.tape.stack):
            if opened.key is None:
                return entry is not None and opened.event.module == entry.module
        return False


def _arguments(frame: FrameType) -> list[tuple[str, Tensor]]:
    """The tensors in the arguments of the function that runs in *frame*, without ``self``."""
    names, starred, mapping, held = inspect.getargvalues(frame)
    names = [*names[1:], *(name for name in (starred, mapping) if name is not None)]
    return [found for name in names if name in held for found in tensors_in(held[name], name)]
