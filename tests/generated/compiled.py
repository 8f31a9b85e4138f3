"""Checks of the graphs of the compiler, for random models."""

from __future__ import annotations

import contextlib
import io
from collections import Counter

import torch
import torch._dynamo

import torchrecorder
from tests.generated.checks import COUNTS, Plain, make, nothing_in, strictly
from tests.generated.program import Program
from tests.structure import structure
from tests.zoo.case import Run
from torchrecorder.events import COMPILED_GRAPH
from torchrecorder.recording import Recording


def check(program: Program) -> None:
    """With ``compiled=True``, nothing else differs, and graphs are those that PyTorch explains."""
    with strictly(), contextlib.redirect_stdout(io.StringIO()):
        plain = Plain.of(program)
        if not plain.fails:
            torch.compiler.reset()
            _check(program, plain)


def _check(program: Program, plain: Plain) -> None:
    run, compiled_run = make(program), make(program)
    recording = torchrecorder.record(run.model, run.args)
    compiled = torchrecorder.record(compiled_run.model, compiled_run.args, compiled=True)
    changes_nothing(run, compiled_run, lasting=plain.lasting)
    nothing_in(structure(compiled))
    if "attention" not in program.kinds:  # one op with ``compiled``, see the limits in the guide
        has_equal_ops(recording, compiled)
        assert explained(program) in (len(compiled.compiled_graphs), None)
    has_ops_in_order(compiled)
    COUNTS.add("compiled", len(compiled.ops), len(compiled.compiled_graphs))


def explained(program: Program) -> int | None:
    """The number of graphs that PyTorch finds; None if it cannot explain the program."""
    torch.compiler.reset()
    run = make(program)
    try:
        return int(torch._dynamo.explain(run.model)(*run.args).graph_count)
    except RuntimeError:
        return None


def changes_nothing(run: Run, other: Run, *, lasting: bool) -> None:
    """Weights and buffers are those of a run without compiler; a second run may write to inputs
    once more, if the model does so."""
    mine, its = run.model.state_dict(), other.model.state_dict()
    assert mine.keys() == its.keys()
    for name, tensor in mine.items():
        torch.testing.assert_close(its[name], tensor, rtol=0, atol=0, equal_nan=True, msg=name)
    for one, another in zip(run.args, other.args) if not lasting else ():
        assert torch.equal(one, another)


def has_equal_ops(recording: Recording, compiled: Recording) -> None:
    """Both have the same operations, with the same inputs and outputs."""
    mine, its = ([(op.name, op.inputs, op.outputs, op.scope) for op in one.ops.values()]
                 for one in (recording, compiled))
    assert mine == its


def has_ops_in_order(compiled: Recording) -> None:
    """Graphs that ran once have their operations one graph after the other, and those that they
    have and those that match none are all of their calls."""
    graphs, number = compiled.compiled_graphs, compiled.measured.get(COMPILED_GRAPH, {})
    found = [number[op] for op in compiled.ops if number.get(op)]
    once = all(graph.runs == 1 for graph in graphs)
    assert not once or found == sorted(found)
    ops = Counter(found)
    for graph in graphs:
        assert graph.runs > 1 or ops[graph.number] + len(graph.unmatched) == graph.calls
