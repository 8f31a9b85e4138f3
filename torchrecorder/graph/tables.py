"""Tables: which facts of a recording are saved, and of what kind each is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torchrecorder.events import (
    GradEdge,
    Gradient,
    OpKind,
    Role,
    ScopeKind,
    Slot,
    SourceLine,
    Statistics,
)
from torchrecorder.graph.kinds import (
    Choice,
    Fields,
    Flag,
    Group,
    Id,
    Kind,
    Many,
    Maybe,
    Node,
    Number,
    Row,
    Seconds,
    Text,
    Whole,
)
from torchrecorder.graph.nodes import BackwardRun, GradNode, GradRun, Module, Op, Scope, Value
from torchrecorder.graph.recording import Failure, RunFacts


@dataclass(frozen=True)
class Table:
    """One part of a recording, saved column by column.

    Attributes:
        name: The field of the recording, and the key in the file.
        make: What a row is.
        columns: What is saved of a row: field name and kind.
    """

    name: str
    make: Callable[..., Any]
    columns: Mapping[str, Kind]

    @property
    def keyed(self) -> bool:
        """Rows have ids, by which the recording maps them."""
        return "id" in self.columns


SLOTS = Many(Group(Slot, (Text(), Row("values"))))
SOURCE = Maybe(Group(SourceLine, (Text(), Whole(), Text())))
GRAD_EDGE = Maybe(Group(GradEdge, (Row("grad_nodes"), Whole())))
GRADIENTS = Many(Maybe(Group(Gradient, (Many(Whole()), Text(), Text(), Whole()))))
ARGUMENTS = Many(Group(lambda *pair: pair, (Text(), Text())))

SCOPES = Table(
    "scopes",
    Scope,
    {
        "id": Id(),
        "parent": Maybe(Row("scopes")),
        "index": Whole(),
        "kind": Choice(ScopeKind),
        "name": Text(),
        "path": Text(),
        "cls": Text(),
        "module": Maybe(Row("modules")),
        "call": Whole(),
        "source": SOURCE,
        "inputs": SLOTS,
        "outputs": SLOTS,
        "seconds": Seconds(),
        "failed": Flag(),
        "recompute": Flag(),
    },
)

MODULES = Table(
    "modules",
    Module,
    {
        "id": Id(),
        "names": Many(Text()),
        "cls": Text(),
        "qualname": Text(),
        "detail": Text(),
        "parameters": SLOTS,
        "buffers": SLOTS,
        "training": Flag(),
        "calls": Many(Row("scopes")),
    },
)

OPS = Table(
    "ops",
    Op,
    {
        "id": Id(),
        "scope": Maybe(Row("scopes")),
        "index": Whole(),
        "kind": Choice(OpKind),
        "name": Text(),
        "qualname": Text(),
        "inputs": SLOTS,
        "outputs": Many(Row("values")),
        "writes": Many(Row("values")),
        "arguments": ARGUMENTS,
        "source": SOURCE,
        "seconds": Seconds(),
        "failed": Flag(),
        "recompute": Flag(),
    },
)

VALUES = Table(
    "values",
    Value,
    {
        "id": Id(),
        "shape": Many(Whole()),
        "dtype": Text(),
        "device": Text(),
        "role": Choice(Role),
        "names": Many(Text()),
        "producer": Maybe(Row("ops")),
        "requires_grad": Flag(),
        "grad": GRAD_EDGE,
        "bytes": Whole(),
        "kind": Text(),
        "trainable": Flag(),
        "storage": Whole(),
    },
)

GRAD_NODES = Table(
    "grad_nodes",
    GradNode,
    {
        "id": Id(),
        "name": Text(),
        "owner": Maybe(Row("ops")),
        "scope": Maybe(Row("scopes")),
        "next": Many(GRAD_EDGE),
        "variable": Maybe(Row("values")),
        "made_by": Maybe(Row("grad_nodes")),
        "failed": Flag(),
    },
)

BACKWARD_RUNS = Table(
    "backward_runs",
    BackwardRun,
    {
        "run": Whole(),
        "op": Row("ops"),
        "seconds": Seconds(),
        "create_graph": Flag(),
        "failed": Flag(),
    },
)

GRAD_RUNS = Table(
    "grad_runs",
    GradRun,
    {
        "grad": Row("grad_nodes"),
        "run": Whole(),
        "order": Whole(),
        "seconds": Seconds(),
        "given": GRADIENTS,
        "gave": GRADIENTS,
        "failed": Flag(),
    },
)

STATISTICS = Table(
    "statistics",
    Statistics,
    {
        "node": Node(),
        "index": Whole(),
        "run": Whole(),
        "count": Whole(),
        "mean": Number(),
        "std": Number(),
        "low": Number(),
        "high": Number(),
        "norm": Number(),
        "zeros": Whole(),
        "nans": Whole(),
        "infs": Whole(),
    },
)

NODE_TABLES = (SCOPES, OPS, VALUES, GRAD_NODES)
"""Those whose rows have numbers and statistics."""

TABLES = (
    SCOPES,
    MODULES,
    OPS,
    VALUES,
    GRAD_NODES,
    BACKWARD_RUNS,
    GRAD_RUNS,
    STATISTICS,
)
"""Every table, in the order in which it is written."""

FAILURE = Fields(
    Failure,
    {
        "error": Text(),
        "message": Text(),
        "scope": Maybe(Row("scopes")),
        "op": Maybe(Row("ops")),
        "backward": Flag(),
        "grad": Maybe(Row("grad_nodes")),
    },
)

RUN = Fields(
    RunFacts,
    {
        "torch_version": Text(),
        "grad_mode": Text(),
        "notes": Many(Text()),
        "failure": Maybe(FAILURE),
        "lost": Whole(),
        "seconds": Seconds(),
        "overhead": Seconds(),
    },
)
