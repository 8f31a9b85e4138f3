"""Data flow: which values carry the data of a model, and which only masks, positions and the like;
and which ops read only parameters, buffers, and tensors computed from these.

Data are inputs in floating point, embeddings of inputs, such as the ids of tokens, and all that is
computed from these. What is computed from parameters alone is data, too, such as learned queries,
unless it only joins data: as a summand or factor, or as another argument than the first, such as
positions that are learned and weights that are normalized.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

from torchrecorder.events import NO_STORAGE, STORED, OpId, Role, ValueId, names_gradient
from torchrecorder.graph.nodes import Op, Value
from torchrecorder.graph.relations import Relations

EMBEDDINGS = frozenset(("embedding", "embedding_bag"))
POSITIONS = frozenset(("cumsum",))
"""Operations that compute positions from masks."""
SYMMETRIC = frozenset(("add", "mul", "cat"))
"""Operations whose first argument is like the others."""

MIN_WEIGHTS = 3
"""The minimum number of weights in a loop over weights."""


def side_values(recording: Relations) -> frozenset[ValueId]:
    """The values that carry no data."""
    values, stored = recording.values, recording.stored
    inputs = {value.id for value in values.values() if value.role is Role.INPUT}
    data = {value for value in inputs if "float" in values[value].dtype}
    masks = {value.id for value in values.values() if value.dtype == "bool"}
    ids, looked_up, learned = inputs - data - masks, set[ValueId](), set[ValueId]()
    weights = {value for value, role in stored.items() if role is Role.PARAMETER}
    for op in recording.ops.values():
        given = {slot.value for slot in op.inputs}
        read = given - weights
        if given and read <= learned:
            learned.update(op.outputs)
            data.update(op.outputs)
        elif op.name in EMBEDDINGS and read & ids:
            looked_up |= read & ids
            data.update(op.outputs)
        elif read & data:
            data.update(op.outputs)
        elif read and read <= ids | masks and op.name not in POSITIONS:
            ids.update(value for value in op.outputs if value not in masks)
    ops = [*reversed([*recording.ops.values()])]
    for op in ops if looked_up else ():
        if not looked_up.isdisjoint(op.outputs):
            looked_up.update(slot.value for slot in op.inputs if slot.value in ids)
    data -= _joining(ops, learned) if learned else set()
    return frozenset(values.keys() - data - weights - looked_up)


def _joining(ops: Iterable[Op], learned: set[ValueId]) -> set[ValueId]:
    """The *learned* values that only join data; *ops* are from the last to the first."""
    joins: dict[ValueId, bool] = {}
    for op in ops:
        later = [joins[value] for value in op.outputs if value in joins]
        if later or not learned.issuperset(op.outputs):
            for place, slot in enumerate(op.inputs):
                if slot.value in learned:
                    joined = all(later) if later else place > 0 or op.name in SYMMETRIC
                    joins[slot.value] = joins.get(slot.value, True) and joined
    return {value for value, only in joins.items() if only}


def stored_roles(values: Collection[Value]) -> dict[ValueId, Role]:
    """The role of each parameter and buffer, also of its values after in-place writes."""
    roles = {name: one.role for one in values if one.role in STORED for name in one.names}
    return {
        one.id: roles[one.names[0]]
        for one in values
        if one.names and one.names[0] in roles and one.role not in (Role.INPUT, Role.CONSTANT)
    }


def bookkeeping(recording: Relations) -> frozenset[OpId]:
    """The ops that read and write nothing but buffers, such as a count of batches."""
    stored = recording.stored
    return frozenset(
        op.id
        for op in recording.ops.values()
        if op.writes and not op.failed
        and all(stored.get(value) is Role.BUFFER for value in op.outputs)
        and all(stored.get(slot.value) is Role.BUFFER for slot in op.inputs)
    )


def weight_loops(recording: Relations) -> frozenset[OpId]:
    """The ops of loops over weights: lines of code that run for each of several weights.

    They read weights, gradients, state that the run writes (such as averages), results of such ops,
    and constants (such as a mask). Examples are the square of each weight, a copy of each, or the
    sum over all. A line that reads the same weight in each iteration of a training loop is no such
    loop, nor is a loop of two iterations, which does not fold.
    """
    ops, values = recording.ops, recording.values
    lines: dict[object, dict[OpId, object]] = {}
    for name, read in _reads(recording).items():
        op = ops[name]
        if op.source is not None:
            shapes = [values[value].shape for value in op.outputs]
            line = lines.setdefault((op.scope, op.source, op.qualname), {})
            line[name] = read, tuple(shapes)
    loops = [line for line in lines.values() if len(set(line.values())) >= MIN_WEIGHTS]
    return frozenset(name for line in loops for name in line)


def _reads(recording: Relations) -> Mapping[OpId, tuple[Hashable, ...]]:
    """The weights that each op reads, for ops that read only weights, constants and results of such
    ops; a result stands for the weight that it is computed from.
    """
    values, found = recording.values, dict[OpId, tuple[Hashable, ...]]()
    origin: dict[ValueId, Hashable] = {}
    weight = _weights(recording)
    for op in recording.ops.values():
        read: list[Hashable] = []
        for slot in op.inputs:
            value = values[slot.value]
            made_of = origin.get(value.id) or weight(value)
            if made_of is None and value.role is not Role.CONSTANT:
                break
            read.append(made_of)
        else:
            if any(read):
                found[op.id] = tuple(read)
                origin.update(dict.fromkeys(op.outputs, next(filter(None, read))))
    return found


def _weights(recording: Relations) -> Callable[[Value], Hashable]:
    """Returns a function that identifies a weight, a gradient, or state that the run writes, by
    name, memory or position; it returns None for other values.
    """
    ops, stored = recording.ops, recording.stored
    passes = [ops[run.op] for run in recording.backward_runs if run.op in ops]
    given = {value: place for op in passes for place, value in enumerate(op.outputs)}
    written = {recording.values[value].storage for op in ops.values() for value in op.writes}
    written.discard(NO_STORAGE)

    def weight(value: Value) -> Hashable:
        if value.id in stored or names_gradient(value.names):
            return value.names[0]
        if value.kind == "Parameter" or value.role is Role.CONSTANT and value.storage in written:
            return ("memory", value.storage)
        return ("gradient", given[value.id]) if value.id in given else None

    return weight
