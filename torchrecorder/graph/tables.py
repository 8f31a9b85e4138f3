"""Tables: the types of the tables of a recording, by which type checkers accept any text as an id.

The ids in rows have types of their own, so that no code confuses those of ops and values. Users
write them as text: ``recording.ops["o0"]``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar, overload

from torchrecorder.events import FunctionCall, FunctionId, GradId, ModuleId, OpId, ScopeId, ValueId
from torchrecorder.graph.nodes import GradNode, Module, Op, Scope, Value
from torchrecorder.graph.recording import RecordedRun

TableIdT = TypeVar("TableIdT", bound=str)
TableRowT = TypeVar("TableRowT")
DefaultT = TypeVar("DefaultT")


class IdTable(Mapping[TableIdT, TableRowT]):
    """Rows by id, in order."""

    if TYPE_CHECKING:

        @abstractmethod
        def __getitem__(self, name: str, /) -> TableRowT: ...

        @overload
        def get(self, name: str, /) -> TableRowT | None: ...

        @overload
        def get(self, name: str, default: TableRowT | DefaultT, /) -> TableRowT | DefaultT: ...

        @abstractmethod
        def get(self, name: str, default: object = None, /) -> object: ...


class RecordedTables(RecordedRun):
    """A recorded run with the types of its tables."""

    scopes: IdTable[ScopeId, Scope]
    modules: IdTable[ModuleId, Module]
    ops: IdTable[OpId, Op]
    values: IdTable[ValueId, Value]
    grad_nodes: IdTable[GradId, GradNode]
    function_calls: IdTable[FunctionId, FunctionCall]

    def __hash__(self) -> int:
        return hash((self.name, len(self.ops), len(self.values)))

    if TYPE_CHECKING:
        consumers: IdTable[ValueId, tuple[OpId, ...]]
        owned: IdTable[OpId, tuple[GradNode, ...]]
        structures: IdTable[ScopeId, str]

        def within(self, scope: str | None) -> tuple[ScopeId, ...]: ...
