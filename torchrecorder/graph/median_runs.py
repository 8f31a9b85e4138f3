"""Median runs: combines several recordings of the same run, with the medians of their times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from torchrecorder.checks import plural
from torchrecorder.events import SECONDS_ON_DEVICE, OpId, ScopeId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import RecordedRun, RecordingT

COUNTING = "floating-point operations were counted: times include the counting"
"""The note of a run whose times include counting."""


def medians(recording: RecordingT, repeats: Sequence[RecordingT]) -> RecordingT:
    """*recording* with the medians of the times in *repeats*.

    Repeats with other ops than *recording* are left out; a note says so.
    """
    did = _did(recording)
    same = [repeat for repeat in repeats if _did(repeat) == did]
    notes = tuple(note for note in recording.run.notes if note != COUNTING)
    if len(same) < len(repeats):
        differing = len(repeats) - len(same)
        some, are = plural(len(repeats), "repeat"), "is" if differing == 1 else "are"
        left_out = f"{differing} of {some} ran other operations and {are} left out"
        notes = (*notes, left_out)
    if not same:
        return replace(recording, run=replace(recording.run, notes=notes))
    run = replace(
        recording.run,
        notes=notes,
        seconds=_middle(item.run.seconds for item in same),
        overhead=_middle(item.run.overhead for item in same),
    )
    rows = _timed(recording.ops.values(), [item.ops.values() for item in same])
    ops = {row.id: row for row in rows}
    return replace(
        recording,
        run=run,
        ops=ops,
        scopes=_scopes(recording, ops, same),
        grad_runs=_timed(recording.grad_runs, [item.grad_runs for item in same]),
        backward_runs=_timed(recording.backward_runs, [item.backward_runs for item in same]),
        measured=_measured(recording, same),
    )


def without_times(recording: RecordingT) -> RecordingT:
    """*recording* without measured times, which are meaningless for a run on fake tensors."""

    def untimed(facts: Mapping[Any, Any]) -> Mapping[Any, Any]:
        return {key: one.replace(seconds=None) for key, one in facts.items()}

    measured = {key: one for key, one in recording.measured.items() if key != SECONDS_ON_DEVICE}
    return replace(
        recording,
        run=replace(recording.run, seconds=None, overhead=None),
        ops=untimed(recording.ops),
        scopes=untimed(recording.scopes),
        grad_runs=tuple(one.replace(seconds=None) for one in recording.grad_runs),
        backward_runs=tuple(one.replace(seconds=None) for one in recording.backward_runs),
        measured=measured,
    )


def _did(recording: RecordedRun) -> tuple[Any, ...]:
    """Everything that ran, without times, for comparisons."""
    return (
        [(op.id, op.name, op.scope) for op in recording.ops.values()],
        [(scope.id, scope.path, scope.cls) for scope in recording.scopes.values()],
        [(ran.grad, ran.run, ran.order) for ran in recording.grad_runs],
        len(recording.backward_runs),
    )


def _middle(found: Iterable[float | None]) -> float | None:
    numbers = [item for item in found if item is not None]
    return median(numbers) if numbers else None


def _timed(rows: Iterable[Any], repeats: Sequence[Iterable[Any]]) -> tuple[Any, ...]:
    """*rows* with the medians of their times in *repeats*."""
    return tuple(
        row.replace(seconds=_middle(item.seconds for item in same))
        for row, *same in zip(rows, *repeats)
    )


def _scopes(
    recording: RecordedRun, ops: Mapping[OpId, Op], repeats: Sequence[RecordedRun]
) -> Mapping[ScopeId, Scope]:
    """Scopes whose time is the sum of the medians of their own time and of the times inside.

    Medians of whole scopes are larger than the sum of the medians inside them, and the difference
    would count as time of the scope itself.
    """
    own = [own_seconds(repeat) for repeat in repeats]
    seconds = {scope: median(item[scope] for item in own) for scope in own[0]}
    for op in ops.values():
        if op.seconds is not None and op.scope in seconds and not op.recompute:
            seconds[op.scope] += op.seconds
    for scope in reversed(list(recording.scopes.values())):
        if scope.id in seconds and scope.parent in seconds and not scope.recompute:
            seconds[scope.parent] += seconds[scope.id]
    return {
        scope.id: scope.replace(seconds=seconds.get(scope.id))
        for scope in recording.scopes.values()
    }


def own_seconds(recording: RecordedRun) -> dict[ScopeId, float]:
    """Time of each scope outside its ops and inner scopes."""
    own = {
        scope.id: scope.seconds
        for scope in recording.scopes.values()
        if scope.seconds is not None
    }
    for op in recording.ops.values():
        if op.scope in own and op.seconds is not None and not op.recompute:
            own[op.scope] -= op.seconds
    for scope in recording.scopes.values():
        if scope.parent in own and scope.seconds is not None and not scope.recompute:
            own[scope.parent] -= scope.seconds
    return {scope: max(0.0, seconds) for scope, seconds in own.items()}


def _measured(
    recording: RecordedRun, repeats: Sequence[RecordedRun]
) -> Mapping[str, Mapping[str, float]]:
    found = dict(recording.measured)
    measured = (repeat.measured.get(SECONDS_ON_DEVICE, {}) for repeat in repeats)
    if amounts := grouped(pair for found in measured for pair in found.items()):
        found[SECONDS_ON_DEVICE] = {node: median(amount) for node, amount in amounts.items()}
    return found
