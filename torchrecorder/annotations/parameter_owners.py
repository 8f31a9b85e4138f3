"""Owned: the parameters and buffers of scopes and modules, tied ones once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from torchrecorder.events import BYTES_OF_GRADIENT, Gradient, ModuleId, ScopeId, ValueId
from torchrecorder.graph.nodes import Module
from torchrecorder.graph.recording import RecordedRun


@dataclass(frozen=True)
class Owned:
    """What the modules of a recording own."""

    recording: RecordedRun

    @cached_property
    def _listed(self) -> list[tuple[str, ModuleId]]:
        """Modules, called or not, by their dotted paths: those below one come right after it."""
        modules = self.recording.modules.values()
        return sorted((_key(name), module.id) for module in modules for name in module.names)

    @cached_property
    def _places(self) -> dict[ModuleId, int]:
        return {module: place for place, module in enumerate(self.recording.modules)}

    def modules(self, module: ModuleId) -> Iterable[ModuleId]:
        """A module and all below it, those never called included, in the order of the model."""
        names = self.recording.modules[module].names
        if not names:
            return (module,)
        first = bisect_left(self._listed, (_key(names[0]), ModuleId("")))
        last = bisect_left(self._listed, (_key(names[0]) + _AFTER, ModuleId("")))
        below = dict.fromkeys(item for _, item in self._listed[first:last])
        return sorted(below, key=self._places.__getitem__)

    def by_module(self, module: ModuleId) -> dict[ValueId, None]:
        """What a module and all below it own."""
        owned: dict[ValueId, None] = {}
        for item in self.modules(module):
            owned.update(own(self.recording.modules[item]))
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

    @cached_property
    def unreached(self) -> frozenset[ValueId]:
        """Trainable parameters without a gradient, where backward gave others theirs."""
        spread = self.recording.measured.get(BYTES_OF_GRADIENT, {})
        reached = {*given_to_leaves(self.recording), *spread}
        values = self.recording.values.values() if reached else ()
        return frozenset(
            value.id for value in values if value.trainable and value.id not in reached
        ) - run_again(self.recording)


def given_to_leaves(recording: RecordedRun) -> dict[ValueId, Gradient]:
    """For each leaf that a gradient reached, the last one that it was given."""
    found: dict[ValueId, Gradient] = {}
    for ran in recording.grad_runs:
        leaf = recording.grad_nodes[ran.grad].variable
        for gradient in ran.given:
            if leaf is not None and gradient is not None:
                found[leaf] = gradient
    return found


def run_again(recording: RecordedRun) -> frozenset[ValueId]:
    """What is read where backward runs a checkpointed call again, with gradients.

    A reentrant checkpoint has a backward pass of its own there, which is not recorded.
    """
    values = recording.values
    again = {scope.id for scope in recording.scopes.values() if scope.recompute}
    return frozenset(
        slot.value
        for op in (recording.ops.values() if again else ())
        if op.scope in again
        for slot in op.inputs
        if values[slot.value].trainable and any(values[out].requires_grad for out in op.outputs)
    )


def own(module: Module) -> dict[ValueId, None]:
    """What a module itself owns, without its children."""
    return {slot.value: None for slot in module.stored}


_DOT, _AFTER = "\0", "\1"
"""In keys: between the parts of a path; what comes after all that is below one."""


def _key(path: str) -> str:
    """A path, to be sorted by: what is below it comes before what only begins alike."""
    return f"{_DOT}{path}".replace(".", _DOT) if path else ""


def around(path: str) -> Iterator[str]:
    """A dotted path and all paths around it: ``a.b`` gives ``a.b``, ``a`` and the root."""
    while path:
        yield path
        path = path.rpartition(".")[0]
    yield ""
