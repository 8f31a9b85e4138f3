"""Graphs, breaks and matched calls of ``compiled=True`` against `torch._dynamo.explain`.

For each real model: how many graphs and breaks a recording and PyTorch's own explanation find, and
how many calls in these graphs are operations of the recording. What is not found is listed by
name. Takes about half a minute for each model, and gives way to other programs.

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
from tests import real_models


class Row(NamedTuple):
    """What was found in one model."""

    graphs: int
    breaks: int
    explained_graphs: int
    explained_breaks: int
    calls: int
    unmatched: Counter[str]
    lost: int

    @property
    def agrees(self) -> bool:
        """Whether there are as many graphs, and as many breaks."""
        ours = self.graphs, self.breaks
        return ours == (self.explained_graphs, self.explained_breaks)


def look(name: str) -> Row:
    """Record the model of this name compiled, then have it explained.

    What a model does only in its first call is in neither: both are later ones.
    """
    run = real_models.make(name)
    recording = torchrecorder.record(run.model, run.args, run.kwargs, compiled=True)
    torch.compiler.reset()
    told = torch._dynamo.explain(run.model)(*run.args, **(run.kwargs or {}))
    torch.compiler.reset()
    graphs = recording.compiled_graphs
    return Row(
        len(graphs),
        len(recording.graph_breaks),
        told.graph_count,
        len(told.break_reasons),
        sum(graph.calls for graph in graphs),
        Counter(call for graph in graphs for call in graph.unmatched),
        recording.run.lost,
    )


def line(name: str, row: Row, seconds: float) -> str:
    """What is printed of one model."""
    graphs, breaks = f"{row.graphs}/{row.explained_graphs}", f"{row.breaks}/{row.explained_breaks}"
    missed = row.unmatched.total()
    share = 100 * (1 - missed / row.calls) if row.calls else 100.0
    names = ", ".join(f"{call} {count}" for call, count in row.unmatched.most_common())
    told = f"{'' if row.agrees else 'DIFFERS '}{f'{row.lost} lost ' if row.lost else ''}{names}"
    return f"{name:25} {graphs:>9} {breaks:>9} {row.calls:6} {share:6.1f} {seconds:5.0f}  {told}"


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
    missed = sum((row.unmatched for row in rows), Counter[str]())
    print(
        f"{len(rows)} of {len(names)} models, {sum(row.agrees for row in rows)} with equal graphs "
        f"and breaks; {calls - missed.total()} of {calls} calls found "
        f"({100 * (1 - missed.total() / max(calls, 1)):.2f} %); not found: "
        + (", ".join(f"{call} {count}" for call, count in missed.most_common()) or "none")
    )


if __name__ == "__main__":
    os.nice(19)
    compare(sys.argv[1:] or real_models.available())
