"""Wrapped: a module of one run that is inside a wrapper in the other run.

Examples are models in ``DistributedDataParallel`` or ``torch.compile``, and layers with adapters.
The module is recognized by its class and contents, whatever the wrapper calls it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from torchrecorder.events import ScopeId
from torchrecorder.graph.nodes import Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import scopes_inside


class InnerModules:
    """Finds modules in the scopes around them; *leaves*: equal for equal innermost ones."""

    def __init__(self, recording: RecordedRun, leaves: Mapping[ScopeId, Hashable]) -> None:
        self.recording = recording
        self.leaves = leaves

    def full_class(self, scope: Scope) -> str:
        """The class of a scope with its Python module: adapters are also called ``Linear``."""
        module = self.recording.module_of(scope)
        return module.qualname if module is not None else scope.cls

    def parts(self, scope: Scope) -> dict[str, str]:
        """The classes of the modules directly in a scope, by their names."""
        inside = self.recording.children[scope.id]
        return {step.name: step.cls for step in inside if isinstance(step, Scope)}

    def names(self, scope: Scope) -> set[str]:
        """The names of the modules in a scope; with their classes if they are only numbered."""
        parts = self.parts(scope).items()
        return {f"{name}: {cls}" if name.isdigit() else name for name, cls in parts}

    def twin(self, around: Scope, scope: Scope, other: InnerModules) -> Scope | None:
        """The first of the outermost modules in *around* that resemble *scope* of *other*."""
        def place(found: Scope) -> tuple[int, int]:
            return len(self.recording.within(found.id)), found.index

        return min(self._twins(around, scope, other), key=place, default=None)

    def _twins(self, around: Scope, scope: Scope, other: InnerModules) -> Iterator[Scope]:
        for inner in scopes_inside(self.recording, [around.id]):
            found = self.recording.scopes[inner]
            if found.cls == scope.cls and inner != around.id:
                if self._is_like(found, scope, other):
                    yield found

    def _is_like(self, found: Scope, scope: Scope, other: InnerModules) -> bool:
        """Whether two modules of one class have many common modules, or none and equal weights."""
        own, names = self.names(found), other.names(scope)
        if own and names:
            return 2 * len(names & own) >= min(len(names), len(own))
        leaf = other.leaves.get(scope.id)
        return not names and leaf is not None and self.leaves.get(found.id) == leaf

    def is_renamed(self, scope: Scope, twin: Scope, other: InnerModules) -> bool:
        """Whether a module of *other* in the same place is this one, maybe with another name."""
        if unwrapped(scope, twin, self, other) != (scope, twin):
            return True
        return scope.cls == twin.cls and bool(self.names(scope)) and (
            self._is_like(scope, twin, other)
        )


def unwrapped(a: Scope, b: Scope, left: InnerModules, right: InnerModules) -> tuple[Scope, Scope]:
    """The corresponding modules of a pair: one of the two may be a wrapper of the other."""
    if left.full_class(a) == right.full_class(b) or are_alike(a, b, left, right):
        return a, b
    in_a, in_b = left.twin(a, b, right), right.twin(b, a, left)
    if (in_a is None) == (in_b is None):
        return a, b
    return (in_a, b) if in_a is not None else (a, in_b or b)


def are_alike(a: Scope, b: Scope, left: InnerModules, right: InnerModules) -> bool:
    """Whether many modules directly in both have equal names and classes, unlike in a wrapper."""
    parts, others = left.parts(a).items(), right.parts(b).items()
    return bool(parts and others) and 2 * len(parts & others) >= min(len(parts), len(others))
