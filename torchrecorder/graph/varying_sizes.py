"""Varying sizes: ops and module calls that run repeatedly on tensors of different sizes.

A language model that generates text reads one more key and value in each step, and batches of
sentences may have different lengths. Such calls of a module, and such ops between them, are
iterations of a loop, although no two have the same shapes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Optional

from torchrecorder.events import ScopeId
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.relations import Relations

MIN_RUNS = 3
"""The minimum number of runs; most of them must differ from all others."""

_OpShapes = tuple[tuple[int, ...], ...]

_SizedOps = list[tuple[Op, _OpShapes]]
"""Ops that differ only in the shapes of their inputs and outputs."""

_Frames = Mapping[Optional[ScopeId], Optional[ScopeId]]
"""The innermost module call at or around each scope, or None."""


def varying_sizes(recording: Relations) -> frozenset[str]:
    """The ops that run repeatedly with different sizes, and the module calls that contain some.

    In several calls of a module, the n-th ops of one function are compared. Between such calls, in
    the module around them or outside of modules, the ops of one line are compared.
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
        for op, _ in row if _vary(row) else ():
            inner = takewhile(lambda scope: scope != frame, recording.within(op.scope))
            beside.update((op.id, *inner))
    return frozenset(found | scopes | beside)


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
    recording: Relations, frames: _Frames, homes: Container[ScopeId | None]
) -> Iterator[tuple[ScopeId | None, _SizedOps]]:
    """The ops of each line of code, directly in each of the module calls *homes*."""
    rows: dict[tuple[ScopeId | None, Hashable], _SizedOps] = {}
    for op in recording.ops.values():
        frame = frames[op.scope]
        if op.source is not None and frame in homes:
            shapes, form = _sized(recording, op)
            rows.setdefault((frame, (op.source, form)), []).append((op, shapes))
    return ((frame, row) for (frame, _), row in rows.items())


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
