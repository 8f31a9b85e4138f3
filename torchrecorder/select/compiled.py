"""Compiled modules: the wrapper of ``torch.compile`` and the module inside become one scope."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from torchrecorder.events import ScopeId, ScopeKind
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Row, Scope
from torchrecorder.graph.recording import RecordedRun

RunT = TypeVar("RunT", bound=RecordedRun)

INSIDE = "_orig_mod"
"""The attribute of PyTorch's ``OptimizedModule`` that holds the module inside."""


def without_wrappers(recording: RunT) -> RunT:
    """*recording* with one scope for each call of a compiled module; itself if there is none.

    PyTorch runs such a call as two: of a wrapper, and of the module inside. The scope that is left
    is the wrapper's, as a call of the module inside. So depth, folding and comparison treat a
    compiled module as any other.
    """
    inside = dict(_calls_inside(recording))
    if not inside:
        return recording
    outer: dict[str | None, ScopeId] = {call.id: wrapper for wrapper, call in inside.items()}

    def moved(rows: Iterable[Any], *places: str) -> Iterator[Any]:
        for row in rows:
            found = {place: outer.get(getattr(row, place)) for place in places}
            changes = {place: scope for place, scope in found.items() if scope is not None}
            change = row.replace if isinstance(row, Row) else row._replace
            yield change(**changes) if changes else row

    def table(rows: Mapping[Any, Any], *places: str) -> dict[Any, Any]:
        return dict(zip(rows, moved(rows.values(), *places)))

    scopes: dict[ScopeId, Scope] = table({
        name: scope.replace(module=inside[name].module, call=inside[name].call)
        if name in inside else scope
        for name, scope in recording.scopes.items() if name not in outer
    }, "parent")
    calls = grouped((scope.module, name) for name, scope in scopes.items())
    failure = recording.run.failure
    if failure is not None and failure.scope in outer:
        failure = replace(failure, scope=outer[failure.scope])
    return replace(
        recording,
        scopes=scopes,
        ops=table(recording.ops, "scope"),
        grad_nodes=table(recording.grad_nodes, "scope"),
        modules={
            name: module.replace(calls=tuple(calls.get(name, ())))
            for name, module in recording.modules.items() if name in calls or not module.calls
        },
        function_calls=table(recording.function_calls, "scope"),
        communications=tuple(moved(recording.communications, "scope")),
        graph_breaks=tuple(moved(recording.graph_breaks, "scope")),
        allocations=tuple(moved(recording.allocations, "made_in", "freed_in")),
        measured={
            quantity: {name: amount for name, amount in amounts.items() if name not in outer}
            for quantity, amounts in recording.measured.items()
        },
        run=replace(recording.run, failure=failure),
    )


def _calls_inside(recording: RecordedRun) -> Iterator[tuple[ScopeId, Scope]]:
    """The calls of wrappers in run order, each with the call of the module inside."""
    for scope in recording.scopes.values():
        if scope.kind is ScopeKind.COMPILED:
            for item in recording.children[scope.id]:
                if isinstance(item, Scope) and item.name == INSIDE:
                    yield scope.id, item
