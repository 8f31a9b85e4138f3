"""Data flow: which values carry the data of a model, and which only masks, positions and the like.

Data are inputs in floating point, embeddings of inputs, such as the ids of tokens, and all that is
computed from these. What is computed from parameters alone is data, too, such as learned queries,
unless it only joins data: as a summand or factor, or as another argument than the first, such as
positions that are learned and weights that are normalized.
"""

from __future__ import annotations

from collections.abc import Iterable

from torchrecorder.events import Role, ValueId
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.relations import Relations

EMBEDDINGS = frozenset(("embedding", "embedding_bag"))
POSITIONS = frozenset(("cumsum",))
"""Operations that compute positions from masks."""
SYMMETRIC = frozenset(("add", "mul", "cat"))
"""Operations whose first argument is like the others."""


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
