"""Varying sizes: what runs again and again on tensors of other sizes.

A language model that generates reads one more key and value in each step, and each batch of
sentences may have a length of its own. Such calls of one module, and such runs of one line beside
them, are rounds of a loop, although no two have the same shapes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from itertools import takewhile

from torchrecorder.events import OpId, ScopeId
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.relations import Relations

FEWEST = 3
"""Of so many runs most must differ from all others."""

_SizedOps = list[tuple[Op, tuple[tuple[int, ...], ...]]]
"""Ops that are the same but for the shapes of what they read and return."""


def varying_sizes(recording: Relations) -> frozenset[str]:
    """The ops that run again with other sizes, and the calls with such ops inside.

    In a module, these are the first, second ... ops of one function in several of its calls. Beside
    such calls, in the module around them or outside of modules, they are those of one line.
    """
    frames = _frames(recording)
    in_calls: dict[Hashable, _SizedOps] = {}
    on_lines: dict[tuple[ScopeId | None, Hashable], _SizedOps] = {}
    counts: Counter[Hashable] = Counter()
    values = recording.values
    for op in recording.ops.values():
        shapes = (*(values[slot.value].shape for slot in op.inputs),
                  *(values[value].shape for value in op.outputs))
        form = op.qualname, tuple(map(len, shapes))  # the first call may make a cache
        frame = frames[op.scope]
        if frame is not None:
            counts[frame, op.qualname] += 1
            key = recording.scopes[frame].module, counts[frame, op.qualname], form
            in_calls.setdefault(key, []).append((op, shapes))
        if op.source is not None:
            on_lines.setdefault((frame, (op.source, form)), []).append((op, shapes))
    found: set[str] = {op.id for row in in_calls.values() if _vary(row) for op, _ in row}
    around = {
        scope: recording.scopes[frame].module
        for op in found for scope in recording.within(recording.ops[OpId(op)].scope)
        if (frame := frames[scope]) is not None
    }
    calls = Counter(module for scope, module in around.items() if frames[scope] == scope)
    scopes = {scope for scope, module in around.items() if calls[module] >= FEWEST}
    homes = {frames[recording.scopes[scope].parent] for scope in scopes if frames[scope] == scope}
    for (frame, _), row in on_lines.items():
        for op, _ in row if frame in homes - scopes and _vary(row) else ():
            inner = takewhile(lambda scope: scope != frame, recording.within(op.scope))
            found.update((op.id, *inner))
    return frozenset(found | scopes)


def _frames(recording: Relations) -> dict[ScopeId | None, ScopeId | None]:
    """For each scope the innermost call of a module that it is or is in; None outside of modules.
    """
    found: dict[ScopeId | None, ScopeId | None] = {None: None}
    for scope in recording.scopes.values():
        found[scope.id] = scope.id if scope.module is not None else found[scope.parent]
    return found


def _vary(row: _SizedOps) -> bool:
    """Whether most ops of a row have sizes that no other has."""
    if len(row) < FEWEST:
        return False
    alone = sum(number == 1 for number in Counter(shapes for _, shapes in row).values())
    return 2 * alone > len(row)
