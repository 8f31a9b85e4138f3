"""Unseen results: the outputs of calls that run no hooks, from what is read of their values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from torchrecorder.events import ScopeId, Slot
from torchrecorder.graph.nodes import Op, Scope, Value
from torchrecorder.graph.relations import Boundaries, Tables, is_held_alias

Made = tuple[Op, Value]
"""An operation, and a value that it made."""


def unseen_results(
    recording: Tables, unseen: Collection[ScopeId]
) -> Mapping[ScopeId, tuple[Slot, ...]]:
    """The outputs of the calls *unseen*, innermost first: the values that are read outside, in the
    order in which they were made.

    Calls of one module that ran the same ops return the same results, also where nothing reads
    one, such as the state after the last iteration of a loop. If nothing is read of any, these are
    the results of the last op or call inside. Values with a name, such as updated buffers, are no
    outputs, and neither are aliases of memory from before the run.
    """
    ends, values, ops = Boundaries(recording, unseen), recording.values, recording.ops
    made, last = _made_in(recording, unseen), _last_steps(recording)
    held = {op.outputs[0] for op in ops.values() if is_held_alias(op, values)}
    places: dict[tuple[Any, ...], set[int]] = {}  # of results, by what a call ran
    kinds: dict[ScopeId, tuple[Any, ...]] = {}
    for scope in unseen:
        facts = [(op.qualname, value.shape) for op, value in made[scope]]
        kinds[scope] = recording.scopes[scope].module, *facts
        read = {slot.value for slot in ends.outputs(scope)}
        found = {at for at, (_, value) in enumerate(made[scope]) if value.id in read}
        places.setdefault(kinds[scope], set()).update(found)
    outputs: dict[ScopeId, tuple[Slot, ...]] = {}
    for scope, kind in kinds.items():
        given = [made[scope][at][1] for at in sorted(places[kind])]
        results = [value.id for value in given if not (value.id in held or value.names)]
        if not results and scope in last:
            step = last[scope]
            inner = outputs.get(step.id, step.outputs) if isinstance(step, Scope) else ()
            results = [*step.outputs] if isinstance(step, Op) else [slot.value for slot in inner]
        outputs[scope] = tuple(Slot(str(at), value) for at, value in enumerate(results))
    return outputs


def _made_in(recording: Tables, scopes: Collection[ScopeId]) -> Mapping[ScopeId, list[Made]]:
    """The values that ops in each of *scopes* made, at any depth, in order."""
    made: dict[ScopeId, list[Made]] = {scope: [] for scope in scopes}
    for value in recording.values.values():
        op = recording.ops.get(value.producer) if value.producer is not None else None
        around = op.scope if op is not None else None
        while op is not None and around is not None:
            if around in made:
                made[around].append((op, value))
            around = recording.scopes[around].parent
    return made


def _last_steps(recording: Tables) -> Mapping[ScopeId | None, Op | Scope]:
    """The last op or call directly in each scope."""
    steps: list[Op | Scope] = [*recording.ops.values(), *recording.scopes.values()]
    return {
        step.scope if isinstance(step, Op) else step.parent: step
        for step in sorted(steps, key=lambda step: step.index)
    }
