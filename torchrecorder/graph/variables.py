"""The variables of a program outside of calls: those that it reads, such as ``y`` in
``cross_entropy(model(x), y)``, and those that it has at the end, such as ``image`` in
``image = sample(model)``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from torchrecorder.events import (
    MODES, NO_STORAGE, STORED, OpId, OpKind, Role, ScopeId, ScopeKind, ValueId, names_gradient,
)
from torchrecorder.graph.nodes import Op, Scope, Value

KEPT = frozenset(("clone", "data", "detach"))
"""Ops that return the same data: kept for later, or used for its shape or device."""

_INLINE = (*MODES, ScopeKind.CHECKPOINT)
"""Scopes whose results the code around them has."""


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
    if not any(value.role is Role.CONSTANT and value.names for value in values.values()):
        return []
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


def results_held(
    ops: Mapping[OpId, Op],
    values: Mapping[ValueId, Value],
    scopes: Mapping[ScopeId, Scope],
    held: Set[ValueId],
) -> list[ValueId]:
    """The results of ops outside of calls that the program has at the end, as the *held* values
    say, if nothing goes on from a result of that op: other ops at most compute something from it
    that the program drops, as a check whether a loop is over does.

    Not those of a line of code of which an earlier iteration dropped the result: the last one only
    waits to be overwritten. Copies of `KEPT` are made to look at later, and a tensor that no op
    made from others, such as a seed, is no result; nor is what is written to parameters, or to
    memory from before the run. A move or cast that changes nothing returns what it reads.
    """
    if not held:
        return []
    around: set[ScopeId | None] = {None}
    for scope in scopes.values():
        if scope.kind in _INLINE and scope.parent in around and not scope.recompute:
            around.add(scope.id)
    read = _read(ops, around, held)
    state = {NO_STORAGE} | {
        value.storage for value in values.values()
        if value.producer is None or value.kind == "Parameter"
    }
    idle = [
        op for op in ops.values()
        if op.scope in around and op.inputs and op.kind is not OpKind.PASS
        and op.name not in KEPT and read.isdisjoint(op.outputs)
        and state.isdisjoint(values[value].storage for value in op.writes)
    ]
    dropped = {(op.source, op.name) for op in idle if held.isdisjoint(op.outputs)}
    return [
        value for op in idle if (op.source, op.name) not in dropped for value in op.outputs
        if value in held and values[value].role is Role.INNER and not values[value].names
    ]


def _read(
    ops: Mapping[OpId, Op], around: Set[ScopeId | None], held: Set[ValueId]
) -> Set[ValueId]:
    """The values that Python reads as numbers, or from which something else is computed than what
    the program drops in one of the scopes *around*."""
    read, numbers = set[ValueId](), set[ValueId]()
    for op in reversed([*ops.values()]):
        values = {slot.value for slot in op.inputs}
        if not op.outputs:
            numbers |= values if op.kind is not OpKind.PASS else set()
        elif (
            op.scope not in around or op.writes or op.kind is OpKind.PASS
            or any(value in held or value in read for value in op.outputs)
        ):
            read |= values
    return read | numbers


def _memory(value: Value) -> object:
    """What *value* has in common with those that are written to its place: its storage, or its
    names without one."""
    return value.names if value.storage == NO_STORAGE else value.storage
