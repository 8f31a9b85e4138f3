"""The variables that a program reads outside of calls: ``y`` in ``cross_entropy(model(x), y)``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from torchrecorder.events import NO_STORAGE, STORED, Role, ScopeId, ValueId, names_gradient
from torchrecorder.graph.nodes import Op, Value


def variables_read(
    ops: Iterable[Op],
    values: Mapping[ValueId, Value],
    around: Set[ScopeId | None],
    holders: Set[str],
) -> list[Value]:
    """The constants that ops in the scopes *around* read from a variable, or from inside one of
    *holders*, as ``batch.y``.

    What an op writes is state, and what belongs to weights, such as a mask for each, is none of
    them: it has the shape of a weight or its gradient, or of what is computed from these alone, and
    an op combines both.
    """
    of_weights = {
        value.id
        for value in values.values()
        if value.role in STORED or value.names and names_gradient(value.names)
    }
    read: dict[ValueId, None] = {}
    beside_weights: set[ValueId] = set()
    written: set[object] = set()
    for op in ops:
        constants: list[ValueId] = []
        shapes: set[tuple[int, ...]] = set()
        others: set[ValueId] = set()
        for slot in op.inputs:
            if slot.value in values:
                value = values[slot.value]
                if value.role is Role.CONSTANT:
                    constants.append(value.id)
                if value.id in of_weights:
                    shapes.add(value.shape)
                else:
                    others.add(value.id)
        if shapes and others.issubset(constants):
            beside = {known for known in constants if values[known].shape in shapes}
            if beside == others:
                beside_weights |= beside
                of_weights.update(op.outputs)
        if constants and op.scope in around:
            read.update(dict.fromkeys(constants))
        for known in op.writes:
            if known in values:
                written.add(_memory(values[known]))
    return [
        value
        for value in map(values.__getitem__, read)
        if value.names and value.id not in beside_weights and _memory(value) not in written
        and (value.names[0].isidentifier() or value.names[0].partition(".")[0] in holders)
    ]


def _memory(value: Value) -> object:
    """What *value* has in common with those that are written to its place: its storage, or its
    names without one."""
    return value.names if value.storage == NO_STORAGE else value.storage
