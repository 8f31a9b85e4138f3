"""What the compiler makes of a model: its graphs and breaks, told by `explain` and a profiler."""

from __future__ import annotations

import gc
import inspect
import weakref
from collections import Counter

import pytest
import torch
from torch import nn

import torchrecorder as tr
from tests import real_models
from torchrecorder.capture.internals.table import BREAK_HINTS, COMPILER_CACHE, SKIPPED_CODE
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import COMPILED_GRAPH

pytest.importorskip("torch._dynamo")

REAL = ("gpt2", "timm_vit", "unet", "graph_network", "lstm_seq2seq")
"""Those that are quick to compile."""

SLOWER = (
    "autoencoder", "clip", "convnext", "deepseek_v3", "dinov2", "dit_diffusers", "dynunet_monai",
    "gpt2_cached", "graph_isomorphism", "llama_legacy_tuple", "longformer", "mamba2", "mixtral",
    "ode_solver", "reformer", "resnet18", "shufflenet", "swin", "t5", "transformer_eval",
    "vae_diffusers", "wav2vec2", "whisper",
)
"""Those that take some seconds each, one of each kind; ``benchmarks/compiled.py`` has all."""

EXPLAINED = {"only compiled", "other function", "NumPy", "number"}
"""Kinds of calls for which there is no op to be found."""

OTHERWISE = ("llama_legacy_tuple", "reformer")
"""Models with more of these: a mask of its own for compiled runs; NumPy in graphs of few calls."""


class Branching(nn.Module):
    """Three breaks: a branch on a number, a call of ``print``, a number that is read."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.loud = Loud()
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        """Run."""
        x = self.first(x)
        if x.sum() > -100:
            x = x.relu()
        x = self.loud(x)
        return self.last(x) * x.std().item()


class Loud(nn.Module):
    """Prints between two operations."""

    def forward(self, x):
        """Run."""
        x = x.sin()
        print("between")
        return x.cos()


class Growing(nn.Module):
    """Compiles whole."""

    def forward(self, x, times=1):
        """Run."""
        return (x * times).sum(0)


def branching():
    torch.manual_seed(0)
    return Branching(), torch.ones(3, 4)


def explained(model, *args, **kwargs):
    """What PyTorch's own explanation of the model is."""
    torch.compiler.reset()
    return torch._dynamo.explain(model)(*args, **kwargs)


def graph_of(recording):
    """The numbers of the graphs of the ops, by name; 0 is Python."""
    numbers = recording.measured[COMPILED_GRAPH]
    return {op.name: numbers.get(op.id) for op in recording.ops.values()}


def test_every_op_has_its_graph():
    """Or that it runs in Python between two."""
    model, x = branching()
    recording = tr.record(model, x, compiled=True)
    graphs = graph_of(recording)
    assert graphs["sum"] == graphs["gt"] == 1
    assert graphs["bool()"] == graphs["item"] == 0
    assert graphs["sin"] != graphs["cos"]
    assert graphs["mul"] == len(recording.compiled_graphs)
    assert [each.unmatched for each in recording.compiled_graphs if each.unmatched] == []


def _explains_item():
    """Whether this PyTorch has a hint for a break at ``item``; the first that had any has none."""
    from torch._dynamo.variables import tensor

    return "Unsupported Tensor.item() call" in inspect.getsource(tensor)


def test_breaks_are_listed():
    """With the reason, the line, the module, the op, and what PyTorch says can be done."""
    model, x = branching()
    branch, loud, read = tr.record(model, x, compiled=True).breaks
    lines = [each["line"].rpartition(":")[0] for each in (branch, loud, read)]
    assert all(line.endswith("test_compiled.py") for line in lines)
    assert branch["op"] == "bool()" and branch["module"] == "Branching"
    assert loud["module"] == "loud" and loud["op"] == ""
    assert len(loud["graphs"]) == 2, "of the module, and of what calls it"
    assert read["op"] == "item" and "item" in read["reason"]
    assert ("print" in loud["explanation"]) == BREAK_HINTS.present
    assert any("capture_scalar_outputs" in hint for hint in read["hints"]) == _explains_item()


def test_what_ran_in_python_did_so():
    """By a profiler: what runs of each operator outside of the graphs, in a compiled run."""
    model, x = branching()
    x = -x.abs()
    recording = tr.record(model, x, compiled=True)

    def backend(graph, inputs):
        def run(*args):
            with torch.profiler.record_function("graph"):
                return graph.forward(*args)

        return run

    torch.compiler.reset()
    compiled = torch.compile(model, backend=backend)
    compiled(x)
    with torch.profiler.profile() as profiler:
        compiled(x)
    torch.compiler.reset()
    outside, inside = Counter(), Counter()
    for event in profiler.events():
        if event.name.startswith("aten::") and not str(event.cpu_parent).startswith("aten::"):
            around = event.cpu_parent
            while around is not None and around.name != "graph":
                around = around.cpu_parent
            (outside if around is None else inside)[event.name.removeprefix("aten::")] += 1
    for op in recording.ops.values():
        graph = recording.measured[COMPILED_GRAPH].get(op.id)
        name = {"bool()": "is_nonzero", "mul": "mul"}.get(op.name, op.name)
        if graph == 0:
            assert outside[name] > 0, op.name
        elif graph:
            assert inside[name] > 0, op.name


@pytest.mark.parametrize(
    "name",
    [
        name if name in REAL else pytest.param(name, marks=pytest.mark.slow)
        for name in real_models.available()
        if name in REAL + SLOWER
    ],
)
def test_real_models_have_the_graphs_of_an_explanation(name):
    """As many graphs, breaks and guards, with the same reasons; nearly all calls are ops."""
    run = real_models.make(name)
    kwargs = run.kwargs or {}
    recording = tr.record(run.model, run.args, run.kwargs, compiled=True)
    told = explained(run.model, *run.args, **kwargs)
    torch.compiler.reset()
    assert len(recording.compiled_graphs) == told.graph_count
    assert len(recording.graph_breaks) == len(told.break_reasons)
    assert recording.run.lost == 0
    calls = sum(each.calls for each in recording.compiled_graphs)
    unmatched = [call for each in recording.compiled_graphs for call in each.unmatched]
    assert {call.kind for call in unmatched} <= EXPLAINED
    assert name in OTHERWISE or len(unmatched) <= 0.02 * calls
    for found, reason in zip(recording.graph_breaks, told.break_reasons):
        assert found.source is not None
        assert reason.reason.strip().startswith(found.reason[:20]) or "(" in found.reason
        assert found.source.line == reason.user_stack[-1].lineno


def test_a_model_that_compiles_whole_is_one_region():
    """All in graph 1 of 1, and no break."""
    recording = tr.record(Growing(), torch.ones(2, 3), compiled=True)
    assert len(recording.compiled_graphs) == 1 and recording.breaks == []
    assert set(recording.measured[COMPILED_GRAPH].values()) == {1}
    legend = [row.text for row in tr.figure(recording).legend]
    assert legend == ["compiled graph 1 of 1"]


def test_several_calls_count_recompiles():
    """A call whose arguments no graph was made for is compiled again; one that fits runs it."""
    model = Growing()
    with tr.Recorder(model, compiled=True) as recorder:
        for times in (1, 1, 2):
            model(torch.ones(2, 3), times=times)
    first, second = recorder.recording.compiled_graphs
    assert (first.runs, first.recompiled) == (2, False)
    assert (second.runs, second.recompiled) == (1, True)
    assert first.guards is None or first.guards > 0


class Looking(nn.Module):
    """Breaks its graph, and looks at its input, for which no graph is made."""

    def __init__(self, looks):
        super().__init__()
        self.looks, self.seen = looks, None

    def forward(self, x):
        x = x.sin()
        torch._dynamo.graph_break()
        if self.looks:
            self.seen = x.shape
            torch._dynamo.graph_break()
        return x.cos()


def test_guards_of_what_has_no_graph_are_not_those_of_the_graph_before():
    """That has its own, as without what is compiled after it."""
    found = [tr.record(Looking(looks), torch.ones(2), compiled=True) for looks in (False, True)]
    plain, looking = (recording.compiled_graphs for recording in found)
    assert len(plain) == len(looking) == 2 and plain[0].guards == looking[0].guards


def test_nothing_is_left(capsys):
    """Not in the model, the compiler, its settings or the random state; outputs are eager ones."""
    model, x = branching()
    plain = model(x)
    state, config = torch.get_rng_state(), torch._dynamo.config.get_config_copy()
    torch._dynamo.utils.counters.clear()
    made = []

    def backend(graph, inputs):
        made.append(graph)
        return graph.forward

    torch.compiler.reset()
    mine = torch.compile(model, backend=backend)
    before = mine(x)
    count = len(made)
    with tr.Recorder(model, compiled=True) as recorder:
        output = model(x)
    assert torch.equal(output, plain) and torch.equal(before, plain)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch._dynamo.config.get_config_copy() == config
    mine(x)
    assert len(made) == count, "what was compiled before still is"
    assert not model._forward_hooks and len(recorder.recording.compiled_graphs) > 3
    if COMPILER_CACHE.present:
        entries = torch._dynamo.eval_frame._debug_get_cache_entry_list
        assert len([each for each in entries(Branching.forward.__code__) if each.code]) == 1
    torch.compiler.reset()


def test_nothing_stays_alive():
    """Neither the model nor its inputs."""
    model, x = branching()
    kept = [weakref.ref(each) for each in (model, x, model.first.weight)]
    recording = tr.record(model, x, compiled=True)
    del model, x
    gc.collect()
    assert [each() for each in kept] == [None] * 3
    assert recording.compiled_graphs


def test_buffers_and_gradients_are_those_of_one_run():
    """The second run is put back, also in the block of a recorder."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).train()
    with tr.Recorder(model, compiled=True):
        model(torch.ones(3, 4)).sum().backward()
    assert model[1].num_batches_tracked == 1
    assert model[0].weight.grad is not None


def test_a_function_and_a_compiled_model():
    """A function given to `record` is compiled; of a compiled model, what it was made from."""

    def double(x):
        return x.mul(2).add(1)

    assert len(tr.record(double, torch.ones(3), compiled=True).compiled_graphs) == 1
    model = torch.compile(nn.Sequential(nn.Tanh(), nn.ReLU()), backend="eager")
    assert len(tr.record(model, torch.ones(3), compiled=True).compiled_graphs) == 1


def test_a_compiler_that_fails_costs_only_the_graphs(monkeypatch):
    """The recording is there, with a note, and a warning."""
    monkeypatch.setattr(
        "torchrecorder.capture.compiled.second_run.compile_with",
        lambda *args: (_ for _ in ()).throw(RuntimeError("no compiler here")),
    )
    with pytest.warns(UserWarning, match="no compiler here"):
        recording = tr.record(Growing(), torch.ones(2, 3), compiled=True)
    assert recording.compiled_graphs == () and len(recording.ops) == 2
    assert any("no compiler here" in note for note in recording.run.notes)


def test_what_cannot_be_compiled_is_refused():
    """With a sentence that says what is needed."""
    with pytest.raises(InvalidArgument, match="needs the model"):
        tr.Recorder(compiled=True)
    with pytest.raises(InvalidArgument, match="real tensors"):
        tr.record(Growing(), torch.ones(2, 3), compiled=True, fake=True)
    with pytest.raises(InvalidArgument, match="compiled must be"):
        tr.record(Growing(), torch.ones(2, 3), compiled="yes")


@pytest.mark.parametrize(("calls", "said"), [(1, "1 call"), (2, "2 calls")])
def test_a_model_without_operations_has_no_graph(calls, said):
    """A note says of how many calls."""
    model = nn.Identity()
    with tr.Recorder(model, compiled=True) as recorder:
        for _ in range(calls):
            model(torch.ones(2))
    assert recorder.recording.run.notes == (f"the compiler made no graph of {said}",)


def compiled_graphs(model):
    """The graphs that the compiler makes of *model* for a program."""
    graphs = []
    torch.compile(model, backend=lambda graph, _: graphs.append(graph) or graph.forward)(
        torch.ones(2, 2)
    )
    return graphs


@pytest.mark.parametrize("runs", [1, 2])
def test_a_model_without_a_graph_leaves_others_compilable(runs):
    """The compiler's mark that its code has nothing to compile is removed, also for containers,
    which share code with it."""
    torch._dynamo.reset()
    for _ in range(runs):
        tr.record(nn.Identity(), torch.ones(2, 2), compiled=True)
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    assert len(tr.record(model, torch.ones(2, 2), compiled=True).compiled_graphs) == 1
    assert len(compiled_graphs(model)) == 1


@pytest.mark.skipif(not SKIPPED_CODE.present, reason="the compiler's marks cannot be set")
def test_it_leaves_what_the_program_has_compiled():
    """The code has compiled code of the program as well, which stays."""
    torch._dynamo.reset()
    assert len(compiled_graphs(nn.Sequential(nn.Linear(2, 2)))) == 1
    tr.record(nn.Identity(), torch.ones(2, 2), compiled=True)
    assert len(compiled_graphs(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))) == 1


def test_the_figure_shows_regions_and_breaks(tmp_path):
    """An outline per graph, red arrows where one ends, the reason on the op."""
    model, x = branching()
    recording = tr.record(model, x, compiled=True)
    figure = tr.figure(recording, depth=2)
    shapes = {each.name: each for each in figure.shapes}
    sin, total, above = (shapes[name].look.stroke for name in ("loud.sin", "sum", "gt"))
    assert sin != total == above
    assert any("graph break" in line.text for line in shapes["item"].label)
    assert ("capture_scalar_outputs" in shapes["item"].tooltip) == _explains_item()
    reds = [each for each in figure.lines if "across a graph break" in each.tooltip]
    assert reds and {each.look.dash for each in reds} == {"dashed"}
    texts = [row.text for row in figure.legend]
    assert f"compiled graph 1 of {len(recording.compiled_graphs)}" in texts
    assert texts[-2:] == ["breaks the graph, runs in Python", "arrow across a graph break"]
    loud = next(each for each in figure.groups if each.name == "loud")
    assert "graph break" in " ".join(line.text for line in loud.label)


def test_numbers_and_tables():
    """Graphs and breaks by scope, colors by graph, and after saving they are the same."""
    model, x = branching()
    recording = tr.record(model, x, compiled=True)
    table = recording.summary(columns=["graphs", "breaks"]).splitlines()
    assert table[0].split()[:3] == ["Scope", "Graphs", "Breaks"]
    total = len(recording.compiled_graphs)
    assert f"1-{total}, Python" in table[2] and table[2].split()[-1] == "3"
    assert recording.annotations["breaks"].total() == 3
    legend = tr.figure(recording, color_by="compiled_graph").legend
    assert [row.text for row in legend[:2]] == ["Graph", "none (Python)"]
    assert len(legend) == total + 2 and {row.part for row in legend} == {"number"}


def test_is_saved(tmp_path):
    """And read again; a recording without has no such tables."""
    model, x = branching()
    recording = tr.record(model, x, compiled=True)
    assert tr.load(recording.save(tmp_path / "run.json")) == recording
    plain = tr.record(model, x).save(tmp_path / "plain.json")
    assert "graph_breaks" not in plain.read_text() and tr.load(plain).graph_breaks == ()
    inner = tr.figure(recording, focus="loud")
    assert any("graph break" in line.text for each in inner.groups for line in each.label)
