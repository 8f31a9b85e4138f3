"""What the panel of a page says of each thing, one fact each."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
import torch
from torch import nn

from tests.figures import linear, network
from tests.graph.test_consistency import blank, changed
from tests.stepped import stepped
from torchrecorder.capture.record import Recorder, record
from torchrecorder.comparison.compare import compare
from torchrecorder.comparison.overlay import overlay
from torchrecorder.events import (
    COMPILED_GRAPH, CompiledGraph, FusedKernel, GraphBreak, ModuleId, OpId, OpKind, ScopeId,
    ScopeKind, SourceLine, UnmatchedCall,
)
from torchrecorder.export.page_data import facts as facts_module
from torchrecorder.export.page_data.data import page_data
from torchrecorder.export.page_data.facts import Facts
from torchrecorder.graph.failure import Failure
from torchrecorder.recording import Recording
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.tree import TreeNode

LINE = SourceLine("/home/me/net.py", 7, "forward")


def facts(recording: Recording, similar: bool = False, **notes: tuple[str, ...]) -> Facts:
    """Those of all things in it, drawn as far as can be."""
    view = make_view(recording, ViewOptions(depth=9, fold=False, parameters=True, tensors=True))
    return Facts(view, notes, similar)


def rows(recording: Recording, item: str, **notes: tuple[str, ...]) -> list[tuple[str, str]]:
    """What is said of one thing."""
    return [*facts(recording, **notes).rows(TreeNode(item, -1))]


TENSOR, WEIGHT = "2×4 float32 on cpu", "4×4 float32 on cpu"


def test_of_a_module() -> None:
    """Class, settings, mode, what goes in and out, and what it owns."""
    assert rows(network(), "s2") == [
        ("class", "nets.Linear"), ("settings", "in_features=4, out_features=4, bias=False"),
        ("mode", "training"), ("in", TENSOR), ("out", TENSOR + ", requires grad"),
        ("parameter weight", WEIGHT),
    ]


def test_of_an_op_that_draws_random_numbers() -> None:
    """Only of one that does."""
    build = Builder("Net")
    with build.scope("Net"):
        build.op("dropout", build.op("dropout", build.input("x"), random=True))
    drawing = [("draws", "random numbers") in rows(build.recording(), op) for op in ("o0", "o1")]
    assert drawing == [True, False]


def test_of_a_module_that_is_called_twice() -> None:
    """Which call it is; evaluation; no settings where there are none."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for _ in range(2):
            with run.scope("act", "ReLU", training=False):
                x = run.op("relu", x)
    recording = run.recording()
    assert rows(recording, "s2")[:3] == [
        ("class", "nets.ReLU"), ("mode", "evaluation"), ("call", "2 of 2"),
    ]
    assert not any(title == "call" for title, _ in rows(recording, "s0"))


def test_of_a_region() -> None:
    """Its kind and what it is of; it has no mode."""
    run = Builder("Net")
    with run.scope("Net"), run.scope("cuda", "float16", kind=ScopeKind.AUTOCAST):
        run.op("relu", run.input("x"))
    assert rows(run.recording(), "s1") == [("autocast", "float16"), ("in", TENSOR), ("out", TENSOR)]


def test_of_an_op() -> None:
    """Its full name, arguments, what it reads and writes, and its grad nodes."""
    run = Builder("Net")
    with run.scope("Net"):
        x, mean = run.input("x"), run.buffer("mean")
        arguments = (("dim", "1"), ("keepdim", "True"))
        run.op("norm", x, mean, slots=("input", "1"), arguments=arguments, grads=("A", "B"),
               writes=mean)
    recording = run.recording()
    assert rows(recording, "o0") == [
        ("function", "torch.norm"), *arguments, ("in input", TENSOR),
        ("in", "[4] float32 on cpu, buffer"),
        ("out", "2×4 float32 on cpu, requires grad, written in place"), ("autograd", "A, B"),
    ]
    bare = changed(recording, "ops", "o0", qualname="", kind=OpKind.HIDDEN, inputs=(), outputs=())
    assert rows(bare, "o0")[:2] == [
        ("function", "norm"), ("seen by", "autograd, or the edge of a scope, only"),
    ]


def test_of_a_backward_pass() -> None:
    """Gradients have names; the first pass makes them, the next one adds to them in place."""
    model, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    with Recorder(model) as recorder:
        for _ in range(2):
            model(x).sum().backward()
            gradients = [each.grad + 0 for each in model.parameters()]
    assert len(gradients) == 2
    passes = [op.id for op in recorder.recording.ops.values() if op.name == "backward"]
    names = [("bias.grad", "[2]"), ("weight.grad", "2×2")]
    for op, written in zip(passes, ("", ", written in place"), strict=True):
        outputs = [text for title, text in rows(recorder.recording, op) if title == "out"]
        expected = [f"{name}: {shape} float32 on cpu{written}" for name, shape in names]
        assert sorted(outputs) == expected


def test_of_tensors() -> None:
    """Form, names, and whether it is trained; of an output its form."""
    recording = network()
    assert rows(recording, "v1") == [
        ("tensor", WEIGHT), ("name", "body.0.weight"), ("trained", "yes"),
    ]
    assert rows(recording, "v0") == [("tensor", TENSOR), ("name", "x")]
    assert rows(recording, "out:0") == [("out", TENSOR + ", requires grad")]
    tied = changed(recording, "values", "v1", names=("a", "b"), kind="DTensor")
    assert rows(tied, "s2")[-1] == ("parameter weight", WEIGHT + ", DTensor, tied: a, b")
    told = facts(recording)
    assert told.tensor(recording.inputs[0].value) == (("tensor", TENSOR),)
    assert told.tensor(None) == told.tensor("v99") == ()


def test_of_boxes_of_many_tensors() -> None:
    """Each input with its name; each output, or how many there are if they are alike."""
    def alike(rows: list[torch.Tensor]) -> Any:
        return torch.stack(rows).unbind(1)

    def growing(x: torch.Tensor) -> list[torch.Tensor]:
        return [x := torch.cat([x, x[:1]]) for _ in range(4)]

    def told(function: Any, given: Any, item: str) -> tuple[tuple[str, str], ...]:
        unfolded = make_view(record(function, given)).unfolded
        assert unfolded is not None
        return Facts(unfolded().view, {}, False).rows(TreeNode(item, -1))

    rows, one = [torch.ones(4, 4) for _ in range(6)], torch.ones(1, 4)
    named = tuple((f"rows.{number}", WEIGHT) for number in range(6))
    assert told(alike, (rows,), "v0") == named
    assert told(alike, (rows,), "out:0") == (("out", "4 tensors of 6×4 float32 on cpu"),)
    sizes = tuple(("out", f"{size}×4 float32 on cpu") for size in (2, 3, 4, 5))
    assert told(growing, one, "out:0") == sizes


def test_forms_are_distinguished() -> None:
    """By shape, type, device, kind and whether they require grad."""
    told = facts(network())
    value = network().values["v0"]
    forms = [
        value, value.replace(shape=()), value.replace(dtype="int64"),
        value.replace(device="cuda:0"), value.replace(kind="sparse"),
        value.replace(kind="Parameter", requires_grad=True), value.replace(kind="Parameter"),
    ]
    texts = [told.form(each) for each in forms]
    assert texts[0] == texts[-1] == TENSOR and len({*texts}) == len(texts) - 1
    assert texts[4:6] == [TENSOR + ", sparse", TENSOR + ", requires grad"]


def test_notes_come_first() -> None:
    """Those of a scope, those of its module, and those of its weights."""
    [weight] = network().modules[ModuleId("m2")].parameters
    frozen = {weight.value: ("frozen",)}
    found = rows(network(), "s2", s2=("one",), m2=("two",), s1=("none",), **frozen)
    assert found[:4] == [
        ("note", "one"), ("note", "two"), ("note", "weight: frozen"), ("class", "nets.Linear")
    ]


def test_of_an_optimizer_step() -> None:
    """The module that it updates, if others update other ones."""
    models = {"first": nn.Linear(2, 2), "second": nn.Linear(2, 2)}
    steps = [torch.optim.SGD(one.parameters(), 0.1) for one in models.values()]
    first, second = models.values()
    with Recorder() as recorder:
        second(first(torch.ones(1, 2))).sum().backward()
        for step in steps:
            step.step()
    recording = recorder.recording
    found = [
        dict(rows(recording, scope.id))["optimizer"]
        for scope in recording.scopes.values() if scope.kind is ScopeKind.OPTIMIZER
    ]
    assert found == ["SGD for first", "SGD for second"]


def test_of_what_only_the_first_of_two_runs_read() -> None:
    """It is among the inputs, and said to be removed."""
    models = [nn.Sequential(nn.Linear(4, 4), *more, nn.Tanh()) for more in ((nn.ReLU(),), ())]
    pair = [record(model, torch.ones(1, 4)) for model in models]
    both = overlay((found := compare(*pair)).matching, found.changes).recording
    [read] = [op for op in both.ops.values() if op.name == "tanh"]
    forms = [text for title, text in rows(both, read.id) if title.startswith("in ")]
    assert [form.endswith(", removed") for form in forms] == [False, True]
    gone = next(op for op in both.ops.values() if op.name == "relu")
    assert not any("removed" in text for _, text in rows(both, gone.id))


def test_of_what_repeats() -> None:
    """How often, what is the same, and what differs where it may."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input("x")
        for place in range(3):
            h = linear(run, f"layers.{place}", h)
    recording = run.recording()
    fold = TreeNode("s1", 0, ("s1", "s2", "s3"))
    found = facts(recording).rows(fold)
    assert found[:2] == (("repeats", "3 times"), ("class", "nets.Linear"))
    other = changed(recording, "modules", "m2", detail="in_features=4, out_features=4, bias=True")
    assert "differs" not in dict(facts(other).rows(fold))
    assert "bias" in dict(facts(other, similar=True).rows(fold))["differs"]
    ops = TreeNode("o0", 0, ("o0", "o1"))
    assert facts(other, similar=True).rows(ops) == (("repeats", "2 times"),)


@pytest.mark.parametrize("backward", [False, True])
def test_of_what_failed(backward: bool) -> None:
    """The error, where it failed and for the whole run; in backward it says so."""
    failure = Failure("ValueError", "no", ScopeId("s2"), OpId("o0"), backward, source=LINE)
    run = replace(network(), run=replace(network().run, failure=failure, notes=("a note",), lost=3))
    failed = changed(changed(run, "ops", "o0", failed=True), "scopes", "s2", failed=True)
    text = ("in backward: " if backward else "") + "ValueError at net.py:7: no"
    for item in ("o0", "s2"):
        assert rows(failed, item)[-1] == ("failed", text)
        assert "failed" not in dict(rows(run, item))
    assert facts(failed).run() == (
        ("PyTorch", "2.13.0"), ("grad mode", "grad"), ("note", "a note"),
        ("failed", "ValueError at net.py:7: no"), ("lost", "3 facts could not be recorded"),
    )
    assert facts(network()).run() == (("PyTorch", "2.13.0"), ("grad mode", "grad"))
    caught = changed(network(), "ops", "o0", failed=True)
    assert rows(caught, "o0")[-1] == ("failed", "yes")
    running = replace(caught, run=replace(caught.run, running=("o0",)))
    assert rows(running, "o0")[-1] == ("running", "when the run was saved")


def compiled(**numbers: float) -> Recording:
    """A run of which these ops are in these graphs."""
    calls = tuple(UnmatchedCall("f", kind, None) for kind in ("NumPy", "no line", "NumPy"))
    first = CompiledGraph(1, LINE, 9, calls, 5, 2, True)
    second = CompiledGraph(2, None, 1, (), None, 1, False)
    measured = MappingProxyType({COMPILED_GRAPH: MappingProxyType(numbers)})
    return replace(network(), measured=measured, compiled_graphs=(first, second))


def test_of_compiled_graphs() -> None:
    """What is known of each; an op says in which it is."""
    assert facts(compiled()).run()[2:] == (
        ("compiled", "graph 1 of 2, 9 calls, 2 of them no op (NumPy), 1 of them no op (no line), "
         "5 guards, ran 2 times, compiled again, net.py:7 in forward"),
        ("compiled", "graph 2 of 2, 1 call"),
    )
    recording = compiled(o0=1, o1=0)
    assert rows(recording, "o0")[0] == ("compiled", "graph 1 of 2")
    assert rows(recording, "o1")[0] == ("compiled", "no, runs in Python")
    assert "compiled" not in dict(rows(recording, "o2"))


def test_of_kernels_and_breaks() -> None:
    """With what an op is fused, and where the code is; why and where a graph ends."""
    kernels = (FusedKernel(1, 1, "triton_add", ("o0", "o1"), "a.py"),
               FusedKernel(2, 1, "extern", ("o0",), ""))
    stop = blank(GraphBreak, graph=1, reason="print", explanation="why", hints=("do", "or"),
                 link="", source=LINE, op="o1", scope="s1")
    recording = replace(network(), fused_kernels=kernels, graph_breaks=(stop,))
    assert rows(recording, "o0")[:2] == [
        ("kernel", "1: triton_add, fused with relu, code in a.py"), ("kernel", "2: extern"),
    ]
    assert rows(recording, "o1")[1:5] == [
        ("graph break", "print at net.py:7 in forward"), ("graph break", "why"),
        ("graph break", "do"), ("graph break", "or"),
    ]
    nowhere = replace(recording, graph_breaks=(stop._replace(source=None, link="https://x"),))
    told: Any = [text for title, text in rows(nowhere, "o1") if title == "graph break"]
    assert told == ["print", "why", "do", "or", "https://x"]


def test_of_grad_nodes() -> None:
    """What their caption says."""
    found = facts(stepped())
    assert {title for title, _ in found.rows(TreeNode("g1", -1))} == {"autograd"}


class Attend(torch.nn.Module):
    """Takes query, key and value, or what has no such names."""

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Attention without a softmax."""
        return query @ key.mT @ value


class Around(torch.nn.Module):
    """Calls it."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = Attend()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """With three tensors that ops make."""
        return self.attend(x.exp(), x.neg(), x.sin())


def test_a_closed_module_shows_which_of_its_inputs_is_the_query() -> None:
    """By a mark at each line into it; one that takes something else has none."""
    view = make_view(record(Around(), torch.ones(2, 2)), ViewOptions())
    data = page_data(view, Style())
    strings, rows_of, items = data["strings"], data["tensors"]["producer"], data["items"]
    first = [strings[data["labels"][label][0][0]] for label in items["label"]]
    marks = {(first[item], first[rows_of[row]], strings[text], place)
             for item, row, text, place in data["closed_marks"]}
    assert marks == {("attend: Attend", made, mark, place)
                     for place, (made, mark) in enumerate(zip(("exp", "neg", "sin"), "qkv"))}
    assert page_data(make_view(network()), Style())["closed_marks"] == []


def test_why_a_backward_pass_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told of the run, and of what failed."""
    recording = network()
    failure = Failure("RuntimeError", "no", None, OpId("o0"), True)
    recording = replace(recording, run=replace(recording.run, failure=failure))
    recording = changed(recording, "ops", "o0", failed=True)
    monkeypatch.setattr(facts_module, "why_backward_failed", lambda _: "an op wrote to it")
    failed, cause = ("failed", "in backward: RuntimeError: no"), ("cause", "an op wrote to it")
    assert rows(recording, "o0")[-2:] == [failed, cause]
    assert facts(recording).run()[-2:] == (("failed", "RuntimeError: no"), cause)
    monkeypatch.setattr(facts_module, "why_backward_failed", lambda _: None)
    assert rows(recording, "o0")[-1] == failed
