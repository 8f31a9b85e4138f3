"""Weights: how many parameters stand behind a scope, tied ones once."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from torchrecorder.events import ScopeId, ValueId
from torchrecorder.graph.nodes import Scope
from torchrecorder.graph.recording import Recording


class Weights:
    """Counts the parameters of scopes, those of children that were never called included."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.below: dict[str, dict[ValueId, None]] = {}
        for module in recording.modules.values():
            for name in module.names:
                for path in _around(name) if module.parameters else ():
                    owned = self.below.setdefault(path, {})
                    owned.update((slot.value, None) for slot in module.parameters)

    def of(self, scope: ScopeId) -> int:
        """The number of weights of a scope and all that ran in it."""
        values: dict[ValueId, None] = {}
        for found in self._within(self.recording.scopes[scope]):
            if found.module is not None:
                module = self.recording.modules[found.module]
                values.update((slot.value, None) for slot in module.parameters)
                for name in module.names[:1]:
                    values.update(self.below.get(name, {}))
        return sum(prod(self.recording.values[value].shape) for value in values)

    def _within(self, scope: Scope) -> Iterator[Scope]:
        waiting = [scope]
        while waiting:
            found = waiting.pop()
            yield found
            children = self.recording.children[found.id]
            waiting.extend(child for child in children if isinstance(child, Scope))


def _around(path: str) -> Iterator[str]:
    """``a.b`` gives ``a.b``, ``a`` and the root."""
    while path:
        yield path
        path = path.rpartition(".")[0]
    yield ""
