"""Gathered weights: what FSDP gathers from the parts of a weight, or frees, is that weight."""

from __future__ import annotations

from collections.abc import Mapping

from torchrecorder.events import OpId, ScopeId, ScopeKind, ValueId
from torchrecorder.graph.relations import Relations, calls_of_kind, is_alias


def sharding_scopes(recording: Relations) -> Mapping[ScopeId, ScopeId]:
    """The scopes in which FSDP gathers or frees weights; see `calls_of_kind`."""
    return calls_of_kind(recording.scopes, ScopeKind.SHARDING)


def gathered_weights(recording: Relations) -> dict[ValueId, ValueId]:
    """The values that FSDP made of weights by gathering or freeing them, each with the value that
    the program had last given this weight in this process.

    It is the weight of the same name; for a value without one, the only weight that it was made of.
    """
    scopes = sharding_scopes(recording)
    if not scopes:
        return {}
    ops, values, stored = recording.ops, recording.values, recording.stored
    inside: set[OpId | None] = {op.id for op in ops.values() if op.scope in scopes}
    latest, weights = dict[str, ValueId](), dict[ValueId, ValueId]()
    made = set[ValueId]()
    for value in values.values():  # in run order
        op = ops.get(value.producer) if value.producer is not None else None
        name = value.names[0] if value.id in stored else ""
        if op is None or op.id not in inside and not (is_alias(op) and op.inputs[0].value in made):
            if name:
                latest[name] = weights[value.id] = value.id
            continue
        made.add(value.id)
        sources = {weights[slot.value] for slot in op.inputs if slot.value in weights}
        if name in latest:
            weights[value.id] = latest[name]
        elif len(sources) == 1:
            weights[value.id] = sources.pop()
    return {value: weights[value] for value in weights.keys() & made}
