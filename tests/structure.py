"""Structure: what must hold for every recording, whatever was run.

Nothing is compared with another account of the run, and numpy need not be installed.
"""

from __future__ import annotations

from collections.abc import Iterator

from torchrecorder.graph.consistency import problems
from torchrecorder.graph.nodes import Op
from torchrecorder.recording import Recording


def structure(recording: Recording) -> list[str]:
    """What does not hold, in words; empty is right."""
    unseen = [note for note in recording.run.notes if note.startswith("not seen")]
    found = [*_ids(recording), *_order(recording), *_scopes(recording)]
    return [*problems(recording), *unseen, *found]


def _ids(recording: Recording) -> Iterator[str]:
    values, ops = recording.values, recording.ops
    for op in ops.values():
        for value in [*(slot.value for slot in op.inputs), *op.outputs, *op.writes]:
            if value not in values:
                yield f"{op.id} {op.name}: {value} is no value"
        for value in op.outputs:
            if value in values and values[value].producer != op.id:
                yield f"{op.id} {op.name} gives {value}, which names {values[value].producer}"
        for value in op.writes:
            if value not in op.outputs:
                yield f"{op.id} {op.name} writes {value}, which is not among its outputs"
    for value in values.values():
        if value.producer is not None and value.producer not in ops:
            yield f"{value.id} names {value.producer}, which is no op"
        elif value.producer is not None and value.id not in ops[value.producer].outputs:
            producer = ops[value.producer]
            yield f"{value.id} names {producer.id} {producer.name}, which does not give it"
    for grad in recording.grad_nodes.values():
        for edge in grad.next:
            if edge is not None and edge.grad not in recording.grad_nodes:
                yield f"{grad.id} leads to {edge.grad}, which is no grad node"


def _order(recording: Recording) -> Iterator[str]:
    for op in recording.ops.values():
        for slot in op.inputs:
            producer = recording.values[slot.value].producer
            if producer is not None and recording.ops[producer].index >= op.index:
                yield f"{op.id} {op.name} reads {slot.value} before it is made"


def _scopes(recording: Recording) -> Iterator[str]:
    for item in [*recording.scopes.values(), *recording.ops.values()]:
        parent = item.parent if not isinstance(item, Op) else item.scope
        if parent is not None and recording.scopes[parent].index >= item.index:
            yield f"{item.id} lies in {parent}, which begins later"
    for scope in recording.scopes.values():
        for slot in [*scope.inputs, *scope.outputs]:
            if slot.value not in recording.values:
                yield f"{scope.id} {scope.path}: {slot.value} is no value"
