"""Consistency: checks of the invariants of a recording."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from operator import attrgetter
from typing import Any

from torchrecorder.events import Allocation
from torchrecorder.graph.recording import RecordedRun

TABLES = ("scopes", "modules", "ops", "values", "grad_nodes")
"""The parts of a recording that others refer to by id."""


def problems(recording: RecordedRun) -> Iterator[str]:
    """The violated invariants of *recording*, one sentence each."""
    yield from _ids(recording)
    for table, ids in missing(recording).items():
        for name in sorted(ids):
            yield f"{table}: there is no {name!r}, which another part refers to"
    yield from _nesting(recording)
    yield from _calls(recording)
    yield from _functions(recording)
    for statistic in recording.statistics:
        if statistic.node not in (recording.values if statistic.run < 0 else recording.grad_nodes):
            yield f"statistics: {statistic.node!r} has no such numbers"
    for allocation in recording.allocations:
        yield from _allocation(recording, allocation)


def _allocation(recording: RecordedRun, allocation: Allocation) -> Iterator[str]:
    """Problems of an allocation: its size, its times, the nodes that it names."""
    size, begin, end = allocation.bytes, allocation.begin, allocation.end
    if min(size, begin) < 0 or (end is not None and end <= begin):
        yield f"allocations: the one of {size} bytes at {begin} is not possible"
    for node in (allocation.made_in, allocation.freed_in):
        tables = recording.ops, recording.grad_nodes, recording.scopes
        if node and not any(node in table for table in tables):
            yield f"allocations: there is no {node!r}, which another part refers to"


def missing(recording: RecordedRun) -> Mapping[str, set[str]]:
    """For each table, the ids that other tables refer to and that it does not have."""
    found = {table: ids - getattr(recording, table).keys() for table, ids in _used(recording)}
    return {table: ids for table, ids in found.items() if ids}


def _used(recording: RecordedRun) -> Iterator[tuple[str, set[str]]]:
    """For each table, the ids that other tables refer to."""
    scopes, modules = recording.scopes.values(), recording.modules.values()
    ops, values = recording.ops.values(), recording.values.values()
    grads, failures = recording.grad_nodes.values(), recording.run.failures
    sent = recording.communications
    yield "scopes", _ids_in(
        map(attrgetter("parent"), scopes),
        map(attrgetter("scope"), ops),
        map(attrgetter("scope"), grads),
        {item.scope for item in sent},
        {call for module in modules for call in module.calls},
        {item.scope for item in recording.graph_breaks},
        {item.scope for item in recording.function_calls.values()},
        {scope for item in recording.function_calls.values() for scope in item.scopes},
        {failure.scope for failure in failures},
    )
    yield "modules", _ids_in(map(attrgetter("module"), scopes))
    yield "ops", _ids_in(
        map(attrgetter("producer"), values),
        map(attrgetter("owner"), grads),
        {run.op for run in recording.backward_runs},
        {item.op for item in sent},
        {item.op for item in recording.graph_breaks},
        {op for kernel in recording.fused_kernels for op in kernel.ops},
        {op for item in recording.function_calls.values() for op in item.ops},
        {failure.op for failure in failures},
    )
    yield "values", _ids_in(
        _values(ops, "inputs"),
        _values(scopes, "inputs", "outputs"),
        _values(modules, "parameters", "buffers"),
        chain.from_iterable(map(attrgetter("outputs"), ops)),
        chain.from_iterable(map(attrgetter("writes"), ops)),
        {slot.value for slot in (*recording.inputs, *recording.outputs)},
        map(attrgetter("variable"), grads),
        {shard.value for shard in recording.shards},
        {value for part in recording.parameter_parts for value in part},
        {item.value for item in recording.grad_switches},
        {value for run in recording.backward_runs for value in run.replacements},
        {slot.value for run in recording.backward_runs for slot in run.cleared},
    )
    yield "grad_nodes", _ids_in(
        {value.grad.grad for value in values if value.grad is not None},
        {edge.grad for grad in grads for edge in grad.next if edge is not None},
        map(attrgetter("made_by"), grads),
        {ran.grad for ran in recording.grad_runs},
        {item.grad for item in sent},
        {failure.grad for failure in failures},
    )


def _ids_in(*found: Iterable[str | None]) -> set[str]:
    ids: set[Any] = set().union(*found)
    ids.discard(None)
    return ids


def _values(rows: Iterable[Any], *names: str) -> Iterator[str]:
    """The values in the slots of *rows*: in their attributes with these *names*."""
    slots = chain.from_iterable(map(attrgetter(name), rows) for name in names)
    return map(attrgetter("value"), chain.from_iterable(slots))


def _ids(recording: RecordedRun) -> Iterator[str]:
    """Empty and duplicate ids."""
    known: set[str] = set()
    for table in TABLES:
        ids = getattr(recording, table).keys()
        if "" in ids:
            yield f"{table}: a row has no id"
        for name in sorted(known & ids):
            yield f"{table}: {name!r} is also the id of another row"
        known |= ids
    for quantity, amounts in recording.measured.items():
        for name in amounts.keys() - known | amounts.keys() & recording.modules.keys():
            yield f"measured: {quantity!r} was measured for {name!r}, which does not exist"


def _nesting(recording: RecordedRun) -> Iterator[str]:
    """Problems of nesting: scopes before the scope around them, and first runs inside recomputed
    scopes."""
    again: dict[str, bool] = {}
    for scope in recording.scopes.values():
        if scope.parent is not None and scope.parent not in again:
            yield f"scopes: {scope.id!r} comes before the scope around it"
        elif scope.parent is not None and again[scope.parent] and not scope.recompute:
            yield f"scopes: {scope.id!r} is not recomputed, but lies in a recomputed scope"
        again[scope.id] = scope.recompute


def _functions(recording: RecordedRun) -> Iterator[str]:
    """Problems of function calls: a call before the call around it, and an item directly in two
    calls."""
    known: set[str | None] = {None}
    inside: set[str] = set()
    for call in recording.function_calls.values():
        if call.parent not in known:
            yield f"function_calls: {call.id!r} comes before the call around it"
        for item in (*call.ops, *call.scopes):
            if item in inside:
                yield f"function_calls: {item!r} ran in two of them"
            inside.add(item)
        known.add(call.id)


def _calls(recording: RecordedRun) -> Iterator[str]:
    """Contradictions between modules and scopes about calls."""
    calls = {(call, module.id) for module in recording.modules.values() for call in module.calls}
    stated = {(scope.id, scope.module) for scope in recording.scopes.values() if scope.module}
    if calls != stated:
        yield "modules and scopes disagree on the calls of modules"
