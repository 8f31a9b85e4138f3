"""Compiled: the ``torch.compile`` graph of each op, and the graph breaks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torchrecorder.annotations.amounts import exact, ranges
from torchrecorder.annotations.annotation import INDUCTOR, Annotation, measured
from torchrecorder.annotations.places import scope_name
from torchrecorder.events import COMPILED_GRAPH, FUSED_KERNEL, FusedKernel, GraphBreak
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.recording import RecordedRun


def common(found: Iterable[float]) -> float | None:
    """The number if all are equal; else None."""
    numbers = set(found)
    return numbers.pop() if len(numbers) == 1 else None


def graph_name(number: float) -> str:
    """The text for a graph number; 0 stands for Python, outside all graphs."""
    return f"{number:.0f}" if number else "none (Python)"


def graphs_among(recording: RecordedRun, members: Iterable[str]) -> str:
    """The graphs of *members* as text: ``1-3, 5``; with ``Python`` if some are in none."""
    known = recording.measured.get(COMPILED_GRAPH, {})
    numbers = {int(known[member]) for member in members if member in known}
    return ", ".join(filter(None, [ranges(numbers - {0}, "-"), "Python" * (0 in numbers)]))


def breaks_at(recording: RecordedRun) -> dict[str, list[GraphBreak]]:
    """The graph breaks by op, or by scope for those that are not at an op.

    One in a nested function ends two graphs; it is listed once, with its op if that is known.
    """
    distinct: dict[Any, GraphBreak] = {}
    for entry in recording.graph_breaks:
        key = entry.reason, entry.source
        if key not in distinct or distinct[key].op is None and entry.op is not None:
            distinct[key] = entry
    first = next(iter(recording.scopes), "")
    return grouped((item.op or item.scope or first, item) for item in distinct.values())


def break_table(recording: RecordedRun) -> list[dict[str, Any]]:
    """One mapping per break; see `Recording.breaks`."""
    ends = grouped(((one.reason, one.source), one.graph) for one in recording.graph_breaks)
    found = (one for breaks in breaks_at(recording).values() for one in breaks)
    return [
        {
            "reason": item.reason,
            "line": item.source.place if item.source is not None else "",
            "module": scope_name(recording, item.scope),
            "op": recording.ops[item.op].name if item.op is not None else "",
            "graphs": tuple(ends[item.reason, item.source]),
            "explanation": item.explanation,
            "hints": item.hints,
            "link": item.link,
        }
        for item in found
    ]


def kernels_of(recording: RecordedRun) -> dict[str, list[FusedKernel]]:
    """The kernels that compute each op, in run order."""
    return grouped((op, kernel) for kernel in recording.fused_kernels for op in kernel.ops)


def _breaks(recording: RecordedRun) -> dict[str, float]:
    counts: dict[str, float] = {}
    if recording.compiled_graphs:
        counts.update(dict.fromkeys(recording.roots, 0))
    for place, found in breaks_at(recording).items():
        counts[place] = counts.get(place, 0) + len(found)
    return counts


COMPILED = Annotation(
    "compiled_graph", "Graph", "", measured(COMPILED_GRAPH), common, graph_name,
    needs=("compiled",), discrete=True,
)
"""The number of the compiled graph of an op, counted from 1; 0 is Python between two graphs."""

COMPILATION = (
    COMPILED,
    # places where the compiler ends a graph and continues in Python
    Annotation("breaks", "Breaks", "", _breaks, sum, exact, needs=("compiled",)),
    # that computes an op: ops with the same number are fused
    Annotation(
        "kernel", "Kernel", "", measured(FUSED_KERNEL), common, exact,
        needs=(INDUCTOR,), discrete=True,
    ),
)
"""The number of the compiled graph, of graph breaks, and of Inductor's kernel."""
