"""Skeletons: digests of scopes without the shapes of tensors, to find a module in another run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from torchrecorder.comparison.functions import function
from torchrecorder.events import ScopeId
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import RecordedRun


@dataclass(frozen=True, slots=True)
class Skeleton:
    """The structure of one scope, without the shapes of its tensors.

    Attributes:
        digest: Equal for scopes with the same classes, hyperparameters and functions
            inside, in the same order.
        weights: The number of parameters of the modules in it.
        scopes: The number of scopes in it, with itself.
    """

    digest: str
    weights: int
    scopes: int


def skeletons(recording: RecordedRun) -> Mapping[ScopeId, Skeleton]:
    """The skeleton of every scope, computed backwards, because children come later in a run."""
    found: dict[ScopeId, Skeleton] = {}
    for scope in reversed(list(recording.scopes.values())):
        digest = blake2b(digest_size=16)
        for part in _parts(recording, scope, found):
            digest.update(repr(part).encode("utf-8", "backslashreplace"))
        module = recording.module_of(scope)
        weights = len(module.parameters) if module is not None else 0
        steps = recording.children[scope.id]
        inside = [found[child.id] for child in steps if isinstance(child, Scope)]
        weights += sum(child.weights for child in inside)
        scopes = 1 + sum(child.scopes for child in inside)
        found[scope.id] = Skeleton(digest.hexdigest(), weights, scopes)
    return found


def _parts(
    recording: RecordedRun, scope: Scope, skeletons: Mapping[ScopeId, Skeleton]
) -> Iterator[tuple[Any, ...]]:
    module = recording.module_of(scope)
    yield scope.kind.value, scope.cls, module.detail if module is not None else ""
    for step in recording.children[scope.id]:
        if isinstance(step, Op):
            yield step.kind.value, function(step)
        else:
            yield step.name, skeletons[step.id].digest
