"""Varying sizes: ops and module calls that run repeatedly on tensors of different sizes.

A language model that generates text reads one more key and value in each step, and batches of
sentences may have different lengths. Such calls of a module, and such ops between them, are
iterations of a loop, although no two have the same shapes. So are the experts of a mixture, each of
which is given the tokens that are routed to it: there, sizes depend on data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, takewhile
from operator import sub
from typing import Optional, TypeVar

from torchrecorder.events import OpId, OpKind, ScopeId, ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.relations import Relations, own_outputs
from torchrecorder.graph.structural_hash import BACKWARD, arguments_without_values

MIN_RUNS = 3
"""The minimum number of runs; most of them must differ from all others."""

Id = TypeVar("Id", bound=str)

_OpShapes = tuple[tuple[int, ...], ...]

_SizedOps = list[tuple[Op, _OpShapes]]
"""Ops that differ only in the shapes of their inputs and outputs."""

_Frames = Mapping[Optional[ScopeId], Optional[ScopeId]]
"""The innermost module call at or around each scope, or None."""


def varying_sizes(recording: Relations) -> frozenset[str]:
    """The ops that run repeatedly with different sizes, and the module calls that contain some.

    In several calls of a module, the n-th ops of one function are compared. Between such calls, in
    the module around them or outside of modules, the ops of one line are compared. See also
    `_sized_by_data`.
    """
    frames = _frames(recording)
    found = {op.id for row in _in_calls(recording, frames) if _vary(row) for op, _ in row}
    around = {
        scope: recording.scopes[frame].module
        for op in found for scope in recording.within(recording.ops[op].scope)
        if (frame := frames[scope]) is not None
    }
    calls = Counter(module for scope, module in around.items() if frames[scope] == scope)
    scopes = {scope for scope, module in around.items() if calls[module] >= MIN_RUNS}
    homes = {frames[recording.scopes[scope].parent] for scope in scopes if frames[scope] == scope}
    beside: set[str] = set()
    for frame, row in _on_lines(recording, frames, homes - scopes):
        # an inner loop, as over the layers of a cache, runs a line several times with equal sizes
        first = [next(run) for _, run in groupby(row, key=lambda sized: sized[1])]
        for op, _ in row if _vary(first) else ():
            inner = takewhile(lambda scope: scope != frame, recording.within(op.scope))
            beside.update((op.id, *inner))
    return frozenset(found | scopes | beside | _sized_by_data(recording))


def _in_calls(recording: Relations, frames: _Frames) -> Iterable[_SizedOps]:
    """The ops at the same position of the same function, in the calls of a module with enough
    calls."""
    called = Counter(scope.module for scope in recording.scopes.values())
    rows: dict[Hashable, _SizedOps] = {}
    counts: Counter[Hashable] = Counter()
    for op in recording.ops.values():
        frame = frames[op.scope]
        module = recording.scopes[frame].module if frame is not None else None
        if module is not None and called[module] >= MIN_RUNS:
            counts[frame, op.qualname] += 1
            shapes, form = _sized(recording, op)
            rows.setdefault((module, counts[frame, op.qualname], form), []).append((op, shapes))
    return rows.values()


def _on_lines(
    recording: Relations, frames: _Frames, homes: Collection[ScopeId | None]
) -> Iterator[tuple[ScopeId | None, _SizedOps]]:
    """The ops of each line of code, reached by the same calls, directly in each of the module
    calls *homes*."""
    calls = _function_paths(recording) if homes else {}
    rows: dict[tuple[ScopeId | None, Hashable], _SizedOps] = {}
    for op in recording.ops.values():
        frame = frames[op.scope]
        if op.source is not None and frame in homes:
            shapes, form = _sized(recording, op)
            line = calls.get(op.id), op.source, form
            rows.setdefault((frame, line), []).append((op, shapes))
    return ((frame, row) for (frame, _), row in rows.items())


def _sized_by_data(recording: Relations) -> set[str]:
    """The ops whose sizes depend on data, such as those of ``x[mask]`` or ``nonzero``, what reads
    results of such sizes, and the scopes that are given such results.

    Sizes depend on data if ops of one line of code, reached by the same calls, read equal sizes
    with equal arguments, and return different ones. A sequence that grows, as in
    ``x = cat([x, token])``, counts too. In the same scopes, numbers among the arguments may be such
    sizes, as in ``arange(len(x[mask]))``.
    """
    paths = _call_paths(recording)
    rows = _repeated(recording, paths)
    differing = [row for row in rows if _differ(recording, row)]
    found = {
        op.id for row in differing
        if _depends_on_data(recording, row) or _grows(recording, row)
        for op in row
    }
    if not found:
        return set()
    beside = {recording.ops[op].scope for op in _reached(recording, found, differing)[0]}
    found |= {
        op.id for row in differing if _depends_on_data(recording, row, numbers=True)
        for op in row if op.scope in beside
    }
    ops, scopes = _reached(recording, found, differing)
    calls = grouped((paths[scope], scope) for scope in recording.scopes)
    lines = [[op.id for op in row] for row in rows]
    return {*ops, *_mostly(lines, ops), *scopes, *_mostly(calls.values(), scopes)}


def _mostly(rows: Iterable[Sequence[Id]], found: Container[Id]) -> Iterator[Id]:
    """All of each row of which half are in *found*: the first iteration of a loop reads what was
    there before, and the last ones may read a window of a fixed size."""
    for row in rows:
        if 2 * sum(item in found for item in row) >= len(row):
            yield from row


def _repeated(recording: Relations, paths: Mapping[ScopeId | None, int]) -> list[list[Op]]:
    """The ops that one line of code, reached by the same calls, ran several times; no backward
    passes, whose results have the sizes of weights, which each process may have parts of."""
    rows: dict[Hashable, list[Op]] = {}
    for op in recording.ops.values():
        if op.source is not None and op.kind is OpKind.CALLED and op.name != BACKWARD:
            rows.setdefault((paths[op.scope], op.source, op.qualname), []).append(op)
    return [row for row in rows.values() if len(row) > 1]


def _reached(
    recording: Relations, start: Container[OpId], rows: Iterable[Sequence[Op]]
) -> tuple[set[OpId], set[ScopeId]]:
    """The ops of *start* and those that read results of varying sizes, and the scopes that are
    given such results; *rows* are the ops that return results of different sizes."""
    differing = {op.id for row in rows for op in row}
    found, scopes = set[OpId](), set[ScopeId]()
    sized: dict[ValueId, tuple[ScopeId, ...]] = {}  # and the scopes around its producer
    for op in recording.ops.values():
        within = recording.within(op.scope)
        outside = [sized[slot.value] for slot in op.inputs if slot.value in sized]
        for around in outside:
            scopes.update(scope for scope in within if scope not in around)
        if outside or op.id in start:
            found.add(op.id)
            if op.id in differing:
                sized.update(dict.fromkeys(op.outputs, within))
    return found, scopes


def _call_paths(recording: Relations) -> Mapping[ScopeId | None, int]:
    """For each scope a number that is equal for scopes reached by calls from the same lines."""
    scopes = recording.scopes.values()
    return _numbers((scope.id, scope.parent, (scope.source, scope.cls)) for scope in scopes)


def _function_paths(recording: Relations) -> Mapping[OpId, int]:
    """For each op in a function call a number that is equal for ops reached by calls of the same
    functions from the same lines."""
    calls = recording.function_calls.values()
    numbers = _numbers((call.id, call.parent, (call.source, call.name)) for call in calls)
    return {op: numbers[call.id] for call in calls for op in call.ops}


def _numbers(calls: Iterable[tuple[Id, Id | None, Hashable]]) -> dict[Id | None, int]:
    """For each call, given with the one around it, a number that is equal for equal chains."""
    found: dict[Id | None, int] = {None: 0}
    numbers: dict[Hashable, int] = {}
    for call, around, key in calls:
        found[call] = numbers.setdefault((found[around], key), len(numbers) + 1)
    return found


def _depends_on_data(recording: Relations, row: Sequence[Op], *, numbers: bool = False) -> bool:
    """Whether two ops of a row read equal sizes, with equal arguments, and return different ones.

    With *numbers*, the numbers among the arguments may differ.
    """
    alike: dict[Hashable, list[Op]] = {}
    for op in row:
        if op.inputs or numbers:
            read = tuple([(slot.name, recording.values[slot.value].shape) for slot in op.inputs])
            given = arguments_without_values(op.arguments) if numbers else op.arguments
            alike.setdefault((read, given), []).append(op)
    return any(_differ(recording, ops) for ops in alike.values())


def _grows(recording: Relations, row: Sequence[Op]) -> bool:
    """Whether the ops of a row read their own earlier results, and each is longer than the one
    before by the same length, in one dimension."""
    values = recording.values
    times: dict[tuple[OpId | None, tuple[int, ...]], int] = {}
    for op in row if len(row) >= MIN_RUNS else ():
        shape = values[op.outputs[0]].shape if op.outputs else ()
        for value in (values[slot.value] for slot in op.inputs):
            longer = tuple(map(sub, shape, value.shape))
            if len(value.shape) == len(shape) and sum(map(bool, longer)) == 1 and max(longer) > 0:
                times[op.id, longer] = times.get((value.producer, longer), 0) + 1
    return max(times.values(), default=0) >= MIN_RUNS


def _differ(recording: Relations, ops: Sequence[Op]) -> bool:
    """Whether the shapes of the results of *ops* differ, without further views of memory that they
    wrote, which depend on what is read later."""
    values = recording.values
    results = zip(*(own_outputs(values, op) for op in ops))
    return any(len({values[value].shape for value in row}) > 1 for row in results)


def _sized(recording: Relations, op: Op) -> tuple[_OpShapes, Hashable]:
    """The shapes of the inputs and outputs of an op, and its function with their ranks.

    The first call may create a cache, with another rank.
    """
    values = recording.values
    shapes = (*(values[slot.value].shape for slot in op.inputs),
              *(values[value].shape for value in op.outputs))
    return shapes, (op.qualname, tuple(map(len, shapes)))


def _frames(recording: Relations) -> _Frames:
    found: dict[ScopeId | None, ScopeId | None] = {None: None}
    for scope in recording.scopes.values():
        found[scope.id] = scope.id if scope.module is not None else found[scope.parent]
    return found


def _vary(row: _SizedOps) -> bool:
    """Whether most ops in *row* have sizes that no other has."""
    if len(row) < MIN_RUNS:
        return False
    alone = sum(number == 1 for number in Counter(shapes for _, shapes in row).values())
    return 2 * alone > len(row)
