"""Repair: adds nodes to which a recording refers but that no instrument recorded.

A tensor without a recorded producer becomes the output of a hidden op, so that every edge has a
source and the gap is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from torchrecorder.checks import plural
from torchrecorder.events import GradId, OpId, OpKind, Role, ValueId
from torchrecorder.graph.consistency import missing
from torchrecorder.graph.nodes import GradNode, Op, Scope, Value
from torchrecorder.graph.recording import RecordedRun, RecordingT

UNKNOWN = "unknown"
"""The name, dtype and device of nodes that no instrument recorded."""


def repaired(recording: RecordingT) -> RecordingT:
    """*recording* if all references are valid; otherwise a copy with the missing parts.

    Missing ops, values and grad nodes are added; references to missing scopes and modules are
    removed. A note of the run says how many parts were missing.
    """
    lost = missing(recording)
    if not lost:
        return recording
    recording = _without_scopes(recording, lost.get("scopes", ()), lost.get("modules", ()))
    made_by = {value: op.id for op in recording.ops.values() for value in op.outputs}
    values = [_value(ValueId(item), made_by.get(ValueId(item))) for item in _sorted(lost, "values")]
    grads = [
        GradNode(GradId(item), UNKNOWN, None, None, (), None)
        for item in _sorted(lost, "grad_nodes")
    ]
    steps = list(_with_hidden(recording, _sorted(lost, "ops")))
    note = "not seen while it ran: " + ", ".join(
        plural(len(ids), table.replace("_", " ").removesuffix("s")) for table, ids in lost.items()
    )
    return replace(
        recording,
        scopes=_by_id(step for step in steps if isinstance(step, Scope)),
        ops=_by_id(step for step in steps if isinstance(step, Op)),
        values=_by_id([*recording.values.values(), *values]),
        grad_nodes=_by_id([*recording.grad_nodes.values(), *grads]),
        run=replace(recording.run, notes=(*recording.run.notes, note)),
    )


def _sorted(lost: Mapping[str, set[str]], table: str) -> list[str]:
    """The ids that *table* does not have, in order."""
    return sorted(lost.get(table, ()), key=lambda name: (len(name), name))


def _by_id(rows: Any) -> Mapping[Any, Any]:
    return {row.id: row for row in rows}


def _value(value: ValueId, producer: OpId | None) -> Value:
    role = Role.CONSTANT if producer is None else Role.INNER
    return Value(
        value, (), UNKNOWN, UNKNOWN, role, (), producer, False, None, 0, "Tensor", False, -1
    )


def _without_scopes(
    recording: RecordingT, scopes: Collection[str], modules: Collection[str]
) -> RecordingT:
    """*recording* without references to these scopes and modules."""
    if not scopes and not modules:
        return recording
    kept: Callable[[Any], Any] = lambda scope: None if scope in scopes else scope
    run = recording.run
    own, lanes = (
        tuple(replace(item, scope=kept(item.scope)) for item in failures)
        for failures in ([run.failure] if run.failure else [], run.lane_failures)
    )
    return replace(
        recording,
        run=replace(run, failure=own[0] if own else None, lane_failures=lanes),
        scopes=_by_id(
            scope.replace(
                parent=kept(scope.parent), module=None if scope.module in modules else scope.module
            )
            for scope in recording.scopes.values()
        ),
        ops=_by_id(op.replace(scope=kept(op.scope)) for op in recording.ops.values()),
        grad_nodes=_by_id(
            grad.replace(scope=kept(grad.scope)) for grad in recording.grad_nodes.values()
        ),
    )


def _with_hidden(recording: RecordedRun, missing_ops: Collection[str]) -> Iterator[Scope | Op]:
    """Scopes and ops in run order; each hidden op comes directly before the first op that reads its
    result."""
    steps: list[Scope | Op] = [*recording.scopes.values(), *recording.ops.values()]
    steps.sort(key=lambda step: step.index)
    outputs: dict[str, list[ValueId]] = {op: [] for op in missing_ops}
    for value in recording.values.values():
        if value.producer in outputs:
            outputs[value.producer].append(value.id)
    before: dict[str | None, list[Op]] = {}
    for op, given in outputs.items():
        reader = _first_reader(recording, given)
        scope = reader.scope if reader is not None else None
        hidden = Op(
            OpId(op), scope, 0, OpKind.HIDDEN, UNKNOWN, UNKNOWN, (), tuple(given), (), (), None,
            None, reader is not None and reader.recompute,
        )
        before.setdefault(reader.id if reader is not None else None, []).append(hidden)
    ordered = [item for step in steps for item in (*before.get(step.id, ()), step)]
    for index, step in enumerate([*ordered, *before.get(None, ())]):
        yield step.replace(index=index) if missing_ops else step


def _first_reader(recording: RecordedRun, values: Collection[ValueId]) -> Op | None:
    readers = (op for value in values for op in recording.consumers.get(value, ()))
    found = [recording.ops[op] for op in readers]
    return min(found, key=lambda op: op.index, default=None)
