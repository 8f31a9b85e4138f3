"""Which call of a compiled graph is which operation: told by the numbers that both compute."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import torchrecorder as tr
from tests import real_models
from torchrecorder.capture.compiled import second_run
from torchrecorder.capture.compiled.match import Matched
from torchrecorder.capture.compiled.traced import Traced
from torchrecorder.events import COMPILED_GRAPH, UNMATCHED
from torchrecorder.export.page_data.facts import Facts
from torchrecorder.views.full_view import full_view

numpy = pytest.importorskip("numpy")
pytest.importorskip("torch._dynamo")


class Values(torch.fx.Interpreter):
    """Runs a graph, and keeps what its calls gave the first time."""

    def __init__(self, graph, kept):
        super().__init__(graph)
        self.kept = kept

    def run_node(self, node):
        """Run one call."""
        result = super().run_node(node)
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            norm = float(result.detach().double().norm())
            self.kept.setdefault(node.name, (result.numel(), norm))
        return result


def compare_values(run, monkeypatch):
    """How many calls that are an op were compared by count and norm, and those that differ."""
    kept, matched = [], []
    keep_graph = Traced.__call__

    def compile_graph(traced, graph, inputs):
        keep_graph(traced, graph, inputs)
        number = len(kept)
        kept.append({})

        def forward(*args):
            traced.runs.append(number)
            return Values(graph, kept[number]).run(*args)

        return forward

    class Kept(Matched):
        def __init__(self, *args):
            super().__init__(*args)
            matched.append(self)

    monkeypatch.setattr(Traced, "__call__", compile_graph)
    monkeypatch.setattr(second_run, "Matched", Kept)
    recording = tr.record(run.model, run.args, run.kwargs, compiled=True, stats=True)
    known = {each.node: each for each in recording.statistics if each.run == -1}
    compared, wrong = 0, []
    for number, found in matched[0].found.items():
        for call, place in found:
            op = matched[0].candidates[place].op
            here, there = known.get(next(iter(op.outputs), "")), kept[number].get(call.node)
            if here is not None and there is not None:
                compared += 1
                close = abs(here.norm - there[1]) <= 1e-5 * max(1, abs(there[1]))
                if here.count != there[0] or not close:
                    wrong.append((call, op, here, there))
    return recording, compared, wrong


class Folded(nn.Module):
    """Goes on after a break, on many lines."""

    def forward(self, x):
        """Run."""
        x = x.sin()
        torch._dynamo.graph_break()
        y = x[
            :, :2
        ].reshape(
            1, -1
        ).exp()
        z = torch.zeros(3, 4)
        z[:, :2] = x[
            :, 2:
        ].view(3, 2).cos()
        z[:, 2:] = x[
            :, :2
        ].view(3, 2).cos()
        w = x[:, 1:].exp()
        return y.sum() + z.view(
            2, 6
        ).exp().sum() + w.view(
            9
        ).cos().sum()


class Loops(nn.Module):
    """The same lines over and over, in two modules, with other sizes each time."""

    def __init__(self):
        super().__init__()
        self.steps = nn.ModuleList([Step(), Step()])

    def forward(self, x):
        """Run."""
        for size in range(1, 5):
            for step in self.steps:
                x = step(x, size)
        return x


class Step(nn.Module):
    """Shortens, and puts back."""

    def forward(self, x, size):
        """Run."""
        return x + x[:, :size].sum(1, keepdim=True).tanh()


@pytest.mark.parametrize("make", [Folded, Loops])
def test_calls_are_ops_of_equal_numbers(make, monkeypatch):
    """Each call that is an operation computes what the operation computed."""
    torch.manual_seed(0)
    run = real_models.Run(make(), (torch.randn(3, 4),))
    recording, compared, wrong = compare_values(run, monkeypatch)
    assert [each.unmatched for each in recording.compiled_graphs if each.unmatched] == []
    assert compared >= 10 and wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["big_bird", "mixtral", "graph_network"])
def test_calls_of_real_models_are_ops_of_equal_numbers(name, monkeypatch):
    """Also where the model goes on after a break, in the middle of a function."""
    run = real_models.make(name)
    run.model.eval()
    _, compared, wrong = compare_values(run, monkeypatch)
    assert compared > 20 and wrong == []


class Unlike(nn.Module):
    """What the compiler does otherwise, in one way each."""

    def forward(self, x):
        """Run."""
        x = x * torch.from_numpy(numpy.sqrt(numpy.array([4.0, 9.0])))
        for row in x:
            x = x + row
        if torch.compiler.is_compiling():
            x = x.exp()
        for _ in range(3 if torch.compiler.is_compiling() else 2):
            x = x.cos()
        return x


KINDS = {
    "array": "NumPy", "sqrt": "NumPy", "as_tensor": "other function",  # from_numpy
    "getitem": "other function", "exp": "only compiled", "cos": "more often",
}


def test_what_is_no_op_shows_why(tmp_path):
    """By what its line ran eagerly; also when it is saved, and on a page."""
    recording = tr.record(Unlike(), torch.ones(3, 2), compiled=True)
    unmatched = [call for graph in recording.compiled_graphs for call in graph.unmatched]
    kinds = {call.name: call.kind for call in unmatched}
    assert {"sqrt", "getitem", "exp", "cos"} <= set(kinds) <= set(KINDS)
    assert kinds == {name: KINDS[name] for name in kinds} and set(KINDS.values()) < set(UNMATCHED)
    assert {call.source.function for call in unmatched} == {"forward"}
    assert tr.load(recording.save(tmp_path / "run.json")) == recording
    rows = dict(Facts(full_view(recording), {}, similar=False).run())
    assert "1 of them no op (only compiled)" in rows["compiled"]


class Scaled(nn.Module):
    """A layer; with a graph break behind it if its result is scaled by a number."""

    def __init__(self, scaled):
        super().__init__()
        self.layer, self.scaled = nn.Linear(4, 4), scaled

    def forward(self, x):
        x = self.layer(x)
        if self.scaled:
            x = x * x.max().item()
        return x.tanh()


def test_a_graph_that_runs_for_other_modules():
    """Each of its runs has the ops of the module that it ran for."""
    model = nn.Sequential(*map(Scaled, (False, True, False, True)))
    recording = tr.record(model, torch.ones(2, 4), compiled=True)
    shared = [graph for graph in recording.compiled_graphs if graph.runs == 2]
    numbers = recording.measured[COMPILED_GRAPH]
    ops = [op for op in recording.ops.values() if op.name in ("linear", "tanh", "mul", "max")]
    assert all(numbers[op.id] > 0 for op in ops)
    for graph in shared:
        inside = [op for op in ops if numbers[op.id] == graph.number]
        assert len(inside) == 2 * graph.calls
        assert len({recording.scopes[op.scope].path.split(".")[0] for op in inside}) == 2
    assert shared or len(recording.compiled_graphs) > 4  # older compilers share none
