"""The parts of a recording that further relations between its parts are computed from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from torchrecorder.events import OpId, Role, ScopeId, Slot, ValueId
from torchrecorder.graph.nodes import BackwardRun, Module, Op, Scope, Value


class Tables(Protocol):
    """The tables of a recording, also of one that is being built."""

    @property
    def scopes(self) -> Mapping[ScopeId, Scope]: ...

    @property
    def ops(self) -> Mapping[OpId, Op]: ...

    @property
    def values(self) -> Mapping[ValueId, Value]: ...

    @property
    def outputs(self) -> tuple[Slot, ...]: ...


class Relations(Tables, Protocol):
    """The tables, and relations that `RecordedRun` computes."""

    @property
    def backward_runs(self) -> Sequence[BackwardRun]: ...

    @property
    def children(self) -> Mapping[ScopeId | None, tuple[Scope | Op, ...]]: ...

    @property
    def consumers(self) -> Mapping[ValueId, tuple[OpId, ...]]: ...

    @property
    def stored(self) -> Mapping[ValueId, Role]: ...

    @property
    def weight_updates(self) -> Mapping[ScopeId, ScopeId]: ...

    def module_of(self, scope: Scope) -> Module | None: ...
    def within(self, scope: ScopeId | None) -> tuple[ScopeId, ...]: ...


def scopes_inside(recording: Relations, scopes: Iterable[ScopeId]) -> Iterator[ScopeId]:
    """*scopes* and all scopes in them, at any depth; not in run order."""
    waiting = list(scopes)
    while waiting:
        scope = waiting.pop()
        yield scope
        inner = recording.children.get(scope, ())
        waiting.extend(child.id for child in inner if not isinstance(child, Op))


def ops_inside(recording: Relations, scopes: Iterable[ScopeId]) -> Iterator[OpId]:
    """The ids of all ops in *scopes*, at any depth; scope by scope, not in run order."""
    for scope in scopes_inside(recording, scopes):
        yield from (child.id for child in recording.children[scope] if isinstance(child, Op))


def recomputed(recording: Relations) -> frozenset[OpId]:
    """The ops that a checkpoint or custom function ran again in backward."""
    return frozenset(op.id for op in recording.ops.values() if op.recompute)
