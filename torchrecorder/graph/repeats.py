"""Repeats: several recordings of the same run into one, with the medians of their times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from types import MappingProxyType
from typing import Any

from torchrecorder.graph.recording import Recording

COUNTING = "floating-point operations were counted: times include the counting"
"""The note of a run whose own times are not those of the plain run."""

TIMES = ("device seconds",)
"""Measured quantities that are times."""


def medians(recording: Recording, repeats: Sequence[Recording]) -> Recording:
    """*recording* with the medians of the times in *repeats*.

    Repeats in which something else ran than in *recording* do not count; a note says so.
    """
    did = _did(recording)
    same = [each for each in repeats if _did(each) == did]
    notes = tuple(each for each in recording.run.notes if each != COUNTING)
    if len(same) < len(repeats):
        differing = len(repeats) - len(same)
        notes = (*notes, f"{differing} of {len(repeats)} repeats ran differently and do not count")
    if not same:
        return replace(recording, run=replace(recording.run, notes=notes))
    run = replace(
        recording.run,
        notes=notes,
        seconds=_middle(each.run.seconds for each in same),
        overhead=_middle(each.run.overhead for each in same),
    )
    return replace(
        recording,
        run=run,
        ops=_keyed(recording.ops, [each.ops for each in same]),
        scopes=_keyed(recording.scopes, [each.scopes for each in same]),
        grad_runs=_listed(recording.grad_runs, [each.grad_runs for each in same]),
        backward_runs=_listed(recording.backward_runs, [each.backward_runs for each in same]),
        measured=_measured(recording, same),
    )


def _did(recording: Recording) -> tuple[Any, ...]:
    """What ran, without times."""
    return (
        [(op.id, op.name, op.scope) for op in recording.ops.values()],
        [(scope.id, scope.path, scope.cls) for scope in recording.scopes.values()],
        [(ran.grad, ran.run, ran.order) for ran in recording.grad_runs],
        len(recording.backward_runs),
    )


def _middle(found: Iterable[float | None]) -> float | None:
    numbers = [each for each in found if each is not None]
    return median(numbers) if numbers else None


def _keyed(into: Mapping[Any, Any], repeats: Sequence[Mapping[Any, Any]]) -> Mapping[Any, Any]:
    return MappingProxyType(
        {
            key: each._replace(seconds=_middle(repeat[key].seconds for repeat in repeats))
            for key, each in into.items()
        }
    )


def _listed(into: Sequence[Any], repeats: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    return tuple(
        each._replace(seconds=_middle(repeat[place].seconds for repeat in repeats))
        for place, each in enumerate(into)
    )


def _measured(
    recording: Recording, repeats: Sequence[Recording]
) -> Mapping[str, Mapping[str, float]]:
    found = dict(recording.measured)
    for quantity in TIMES:
        amounts: dict[str, list[float]] = {}
        for repeat in repeats:
            for node, amount in repeat.measured.get(quantity, {}).items():
                amounts.setdefault(node, []).append(amount)
        if amounts:
            found[quantity] = MappingProxyType({k: median(v) for k, v in amounts.items()})
    return MappingProxyType(found)
