"""Effects: what operations do beside returning results, and calls that do nothing that is read."""

from __future__ import annotations

from torchrecorder.events import MODES, OpId, ScopeId, ScopeKind
from torchrecorder.graph.mappings import reached
from torchrecorder.graph.nodes import Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import (
    is_alias, maker_of, ops_inside, replacements, scopes_inside,
)
from torchrecorder.views.branches import MIN_SHARE, kind_of
from torchrecorder.views.quiet_ops import is_identity

PLAIN = (*MODES, ScopeKind.FUNCTION)
"""The kinds of scopes that only group operations."""


def lasting(recording: RecordedRun) -> frozenset[str]:
    """The ops, and scopes that communicate, that have an effect if nothing reads their results:
    they write in place, return no tensor, run a backward pass, communicate or fail, or compute an
    output of the run or the new value of a buffer.

    Ops that only the first of two compared runs has are included: another op is read instead.
    """
    kept = {*recording.stored, *(slot.value for slot in recording.outputs)}
    calls = {run.op for run in recording.backward_runs}
    found = frozenset[str](
        op.id for op in recording.ops.values()
        if op.writes or not (op.outputs or is_identity(op)) or op.id in calls
        or op.id in recording.former
        or not kept.isdisjoint(op.outputs)
    ) | {sent.scope for sent in recording.communications if sent.scope and sent.op is None}
    return found | recording.failed


def idle_calls(recording: RecordedRun) -> frozenset[ScopeId]:
    """Calls of functions, and regions such as ``no_grad``, that have no effect and compute nothing
    that is read, not even by Python. They are in a scope that does have an effect.

    Those that call a module are left out, and so are all if together they are a large part of the
    run. Calls of one function are alike: in the last iteration of a loop, nothing may read what
    the other iterations pass on.
    """
    scopes = recording.scopes.values()
    if not any(scope.kind in PLAIN for scope in scopes):
        return frozenset()
    used = _used(recording)
    homes = {recording.ops[op].scope for op in used}
    around = {outer for home in homes for outer in (None, *recording.within(home))}
    busy = {_alike(recording, scope) for scope in scopes if scope.id in around}
    found = frozenset(
        scope.id for scope in scopes
        if scope.kind in PLAIN and scope.parent in around
        and _alike(recording, scope) not in busy
        and all(recording.scopes[one].kind in PLAIN for one in scopes_inside(recording, [scope.id]))
    )
    inside = {*ops_inside(recording, found)}
    return found if len(inside) < MIN_SHARE * len(recording.ops) else frozenset()


def _alike(recording: RecordedRun, scope: Scope) -> object:
    """A key that is equal for the calls of a function, or of a region at one line of code."""
    line = None if scope.kind is ScopeKind.FUNCTION else scope.source
    return kind_of(recording, scope.id), line


def _used(recording: RecordedRun) -> frozenset[OpId]:
    """The ops that have an effect, or whose results are read by such ops, directly or not."""
    ops, values, effects = recording.ops, recording.values, lasting(recording)
    lasting_in = {one for one in recording.scopes if not effects.isdisjoint(recording.within(one))}
    given = replacements(recording)
    starts = (
        op.id for op in ops.values()
        if op.id in effects or op.recompute or op.scope in lasting_in
        or is_alias(op) and values[op.outputs[0]].names  # kept, such as ``weight.grad``
        or not given.isdisjoint(op.outputs)
    )
    return frozenset(reached(starts, lambda op: (
        maker.id for slot in ops[op].inputs if (maker := maker_of(recording, slot.value))
    )))
