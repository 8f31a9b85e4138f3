"""Owned: the parameters and buffers that stand behind scopes, tied ones once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from torchrecorder.events import ModuleId, ScopeId, ValueId
from torchrecorder.graph.nodes import Module
from torchrecorder.graph.recording import Recording


@dataclass(frozen=True)
class Owned:
    """What the modules of a recording own."""

    recording: Recording

    @cached_property
    def _below(self) -> dict[str, dict[ModuleId, None]]:
        """For each dotted path, the modules there and below it, called or not."""
        below: dict[str, dict[ModuleId, None]] = {}
        for module in self.recording.modules.values():
            for name in module.names:
                for path in around(name):
                    below.setdefault(path, {})[module.id] = None
        return below

    def modules(self, module: ModuleId) -> Iterable[ModuleId]:
        """A module and all below it, those never called included."""
        names = self.recording.modules[module].names
        return self._below[names[0]] if names else (module,)

    def by_module(self, module: ModuleId) -> dict[ValueId, None]:
        """What a module and all below it own."""
        owned: dict[ValueId, None] = {}
        for each in self.modules(module):
            owned.update(own(self.recording.modules[each]))
        return owned

    def within(self, members: Iterable[str]) -> dict[str, None]:
        """*members*, and what the modules among them, or called by them, own."""
        found: dict[str, None] = dict.fromkeys(members)
        covered: set[ModuleId] = set()
        for module in filter(None, map(self._module, list(found))):
            if module not in covered:
                covered.update(self.modules(module))
                found.update(dict.fromkeys(map(str, self.by_module(module))))
        return found

    def _module(self, member: str) -> ModuleId | None:
        """The module that a scope is a call of, or the module itself."""
        scope = self.recording.scopes.get(ScopeId(member))
        if scope is not None:
            return scope.module
        return ModuleId(member) if member in self.recording.modules else None

    @cached_property
    def tied(self) -> frozenset[ValueId]:
        """Parameters that several modules own."""
        seen: set[ValueId] = set()
        twice: set[ValueId] = set()
        for module in self.recording.modules.values():
            for value in {slot.value: None for slot in module.parameters}:
                (twice if value in seen else seen).add(value)
        return frozenset(twice)


def own(module: Module) -> dict[ValueId, None]:
    """What a module itself owns, without its children."""
    return {slot.value: None for slot in module.stored}


def around(path: str) -> Iterator[str]:
    """A dotted path and all paths around it: ``a.b`` gives ``a.b``, ``a`` and the root."""
    while path:
        yield path
        path = path.rpartition(".")[0]
    yield ""
