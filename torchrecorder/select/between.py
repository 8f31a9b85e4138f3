"""Between: operations that only pass tensors from one member of a group to another."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from torchrecorder.events import OpId, ScopeId
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import ops_inside, readers_of


def between(
    recording: RecordedRun,
    parent: ScopeId | None,
    items: Sequence[Scope | Op],
    others: Collection[str],
) -> Iterator[Op]:
    """The ops directly in *parent* that read a result of *items*, or of such an op, and whose
    results only *items* and such ops read. *others* are not moved."""
    inside = {
        *ops_inside(recording, (item.id for item in items if isinstance(item, Scope))),
        *(item.id for item in items if isinstance(item, Op)),
    }
    given = {slot.value for slot in recording.outputs}
    ops = [
        op for op in recording.ops.values()
        if op.scope == parent and not op.recompute
        and op.id not in inside and op.id not in others and given.isdisjoint(op.outputs)
    ]
    ahead = set[OpId]()
    for op in reversed(ops):
        readers = {reader.id for reader in readers_of(recording, op) if not reader.recompute}
        if readers and readers <= inside | ahead:
            ahead.add(op.id)
    for op in ops:
        before = {recording.values[slot.value].producer for slot in op.inputs}
        if op.id in ahead and not inside.isdisjoint(before):
            inside.add(op.id)
            yield op
