"""Data flow: which values carry the data of a model, and which only masks, positions and the like.

Data are inputs in floating point, embeddings of inputs, such as the ids of tokens, and all that is
computed from these or from parameters alone.
"""

from __future__ import annotations

from torchrecorder.events import Role, ValueId
from torchrecorder.graph.relations import Relations

EMBEDDINGS = frozenset(("embedding", "embedding_bag"))
POSITIONS = frozenset(("cumsum",))
"""Operations that compute positions from masks."""


def side_values(recording: Relations) -> frozenset[ValueId]:
    """The values that carry no data."""
    values, stored = recording.values, recording.stored
    inputs = {value.id for value in values.values() if value.role is Role.INPUT}
    data = {value for value in inputs if "float" in values[value].dtype}
    masks = {value.id for value in values.values() if value.dtype == "bool"}
    ids, looked_up = inputs - data - masks, set[ValueId]()
    weights = {value for value, role in stored.items() if role is Role.PARAMETER}
    for op in recording.ops.values():
        given = {slot.value for slot in op.inputs}
        read = given - weights
        if op.name in EMBEDDINGS and read & ids:
            looked_up |= read & ids
            data.update(op.outputs)
        elif read & data or given and not read:
            data.update(op.outputs)
        elif read and read <= ids | masks and op.name not in POSITIONS:
            ids.update(value for value in op.outputs if value not in masks)
    for op in reversed([*recording.ops.values()]):
        if not looked_up.isdisjoint(op.outputs):
            looked_up.update(slot.value for slot in op.inputs if slot.value in ids)
    return frozenset(values.keys() - data - weights - looked_up)
