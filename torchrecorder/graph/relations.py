"""The parts of a recording that further relations between its parts are computed from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
