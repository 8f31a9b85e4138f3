"""Graphs, breaks and matched calls of ``compiled=True`` against `torch._dynamo.explain`.

For each real model: how many graphs and breaks a recording and PyTorch's own explanation find, and
how many calls in these graphs are operations of the recording. What is not found is counted by the
kind of reason (`torchrecorder.events.UNMATCHED`), with names. Where graphs or breaks differ, the
explanation is made again: so one sees whether it differs from itself. Takes about half a minute for
each model, and gives way to other programs.

Run: ``python -m benchmarks.compiled``, or with names of models (tests/real_models.py)
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
import warnings
from collections import Counter
from typing import NamedTuple

import torch

import torchrecorder
from benchmarks import check_names
from tests import real_models
from tests.zoo.case import Run

NAMES = 3
"""As many names of calls are printed for each kind."""


class Totals(NamedTuple):
    """How many graphs and breaks there are."""

    graphs: int
    breaks: int


class Row(NamedTuple):
    """What was found in one model; the explanation twice if it differs from what was found."""

    found: Totals
    explained: list[Totals]
    calls: int
    unmatched: Counter[tuple[str, str]]
    lost: int

    @property
    def agrees(self) -> bool:
        """Whether there are as many graphs, and as many breaks."""
        return self.found == self.explained[0]


def look(name: str) -> Row:
    """Record the model of this name compiled, then have it explained.

    What a model does only in its first call is in neither: both are later ones.
    """
    run = real_models.make(name)
    recording = torchrecorder.record(run.model, run.args, run.kwargs, compiled=True)
    graphs = recording.compiled_graphs
    found = Totals(len(graphs), len(recording.graph_breaks))
    explained = [explain(run)]
    if found != explained[0]:
        explained.append(explain(run))
    return Row(
        found,
        explained,
        sum(graph.calls for graph in graphs),
        Counter((call.kind, call.name) for graph in graphs for call in graph.unmatched),
        recording.run.lost,
    )


def explain(run: Run) -> Totals:
    """What PyTorch says of the model."""
    torch.compiler.reset()
    told = torch._dynamo.explain(run.model)(*run.args, **(run.kwargs or {}))
    torch.compiler.reset()
    return Totals(told.graph_count, len(told.break_reasons))


def line(name: str, row: Row, seconds: float) -> str:
    """What is printed of one model."""
    graphs, breaks = (f"{one}/{other}" for one, other in zip(row.found, row.explained[0]))
    missed = row.unmatched.total()
    share = 100 * (1 - missed / row.calls) if row.calls else 100.0
    again = row.explained[-1]
    told = "" if row.agrees else f"DIFFERS, explained again: {again.graphs} {again.breaks} "
    told += f"{row.lost} lost " if row.lost else ""
    head = f"{name:25} {graphs:>9} {breaks:>9} {row.calls:6} {share:6.1f} {seconds:5.0f}"
    return f"{head}  {told}{by_kind(row.unmatched)}"


def by_kind(unmatched: Counter[tuple[str, str]]) -> str:
    """How many calls there are of each kind, with the names of most."""
    kinds: dict[str, Counter[str]] = {}
    for (kind, name), count in unmatched.most_common():
        kinds.setdefault(kind, Counter())[name] += count
    return "; ".join(
        f"{kind} {names.total()} ({', '.join([*names][:NAMES])}{', ...' * (len(names) > NAMES)})"
        for kind, names in kinds.items()
    )


def compare(names: list[str]) -> None:
    """Print a line for each model, and the sums."""
    print(f"{'model':25} {'graphs':>9} {'breaks':>9} {'calls':>6} {'found%':>6} {'s':>5}")
    rows = []
    for name in names:
        started = time.perf_counter()
        try:
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                row = look(name)
        except Exception as error:
            torch.compiler.reset()
            print(f"{name:25} {type(error).__name__}: {str(error).strip()[:120]!r}", flush=True)
            continue
        rows.append(row)
        print(line(name, row, time.perf_counter() - started).rstrip(), flush=True)
    calls = sum(row.calls for row in rows)
    missed = sum((row.unmatched for row in rows), Counter[tuple[str, str]]())
    print(
        f"{len(rows)} of {len(names)} models, {sum(row.agrees for row in rows)} with equal graphs "
        f"and breaks; {calls - missed.total()} of {calls} calls found "
        f"({100 * (1 - missed.total() / max(calls, 1)):.2f} %); not found: "
        f"{by_kind(missed) or 'none'}"
    )


if __name__ == "__main__":
    os.nice(19)
    check_names(sys.argv[1:], real_models.available())
    compare(sys.argv[1:] or real_models.available())
