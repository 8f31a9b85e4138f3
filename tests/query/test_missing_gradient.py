"""Why a parameter has no gradient: against `.grad`, for each way in which one is lost."""

from __future__ import annotations

import importlib.util
import re
import threading

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import torchrecorder as tr
from torchrecorder.annotations.memory import GRADIENT_BYTES
from torchrecorder.annotations.statistics import parameter_gradient_norms
from torchrecorder.errors import InvalidArgument, NotThere
from torchrecorder.export.table.rows import every_row
from torchrecorder.testing import Builder

NUMPY = importlib.util.find_spec("numpy") is not None
"""Whether tensors can become arrays."""


class Lossy(nn.Module):
    """Each weight is named after how its gradient is lost."""

    def __init__(self):
        super().__init__()
        for name in (
            "kept", "frozen", "unread", "detached", "no_grad", "inference", "number", "listed",
            "integer", "compared", "data", "aside", "array",
            "autocast",
        ):
            self.register_parameter(name, nn.Parameter(torch.ones(4)))
        self.frozen.requires_grad_(False)
        self.idle = nn.Linear(2, 2)

    def forward(self, x):
        x = x * self.kept * self.frozen
        x = x + (self.detached * 2).detach()
        with torch.no_grad():
            y = self.no_grad.exp()
        x = x + y
        x = x * self.number[0].item() + sum(self.listed.tolist())
        x = x + self.integer.argmax()
        x = x + (self.compared > 0)
        x = x * self.data.data
        if NUMPY:
            x = x + torch.from_numpy(self.array.detach().numpy())
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            y = self.autocast.log()
        x = x + y
        with torch.inference_mode():
            y = self.inference * 2
        return x + y.clone(), self.aside * 2


UNREAD = ("unused", "no operation read it$", [])
LOST = {
    "kept": None,
    "frozen": ("frozen", "requires_grad=False", []),
    "unread": UNREAD,
    "idle.weight": ("unused", "module 'idle' was never called", []),
    "detached": ("left autograd", "left in detach.* without their autograd history", ["detach"]),
    "no_grad": ("left autograd", "left in exp.* runs under no_grad", ["exp"]),
    "autocast": ("left autograd", "left in log.* runs under no_grad", ["log"]),
    "inference": ("left autograd", "left in mul.* runs under inference_mode", ["mul"]),
    "number": ("left autograd", "item.* converts it to a Python number", ["item"]),
    "listed": ("left autograd", "tolist.* converts it to a Python number", ["tolist"]),
    "integer": ("left autograd", "left in argmax.* int64, which has no gradient", ["argmax"]),
    "compared": ("left autograd", "left in gt.* bool, which has no gradient", ["gt"]),
    "data": ("left autograd", "left in data.* without their autograd history", ["data"]),
    "aside": ("not in the loss", "reaches the loss, only output 1", ["mul"]),
    "array": ("left autograd", "detach|numpy", None) if NUMPY else UNREAD,
}


@pytest.fixture(scope="module")
def lossy():
    """A training step of `Lossy`, with the model."""
    model = Lossy()
    with tr.Recorder(model) as recorder:
        model(torch.ones(2, 4))[0].sum().backward()
    return model, recorder.recording


@pytest.mark.parametrize("name", LOST)
def test_each_way_to_lose_a_gradient(lossy, name):
    """The reason, and the operation with its line in the model."""
    model, recording = lossy
    why, expected = recording.why_no_gradient(name), LOST[name]
    assert (why is None) == (model.get_parameter(name).grad is not None)
    if expected is None:
        assert why is None
        return
    reason, text, ops = expected
    assert why.reason == reason
    assert str(why).startswith(f"{name} has no gradient: ")
    assert re.search(text, why.text)
    if ops is not None:
        assert [op.name for op in why.ops] == ops
    for op in why.ops:
        assert op.source.file.endswith("test_missing_gradient.py")
        assert f":{op.source.line}" in why.text or reason == "not in the loss"


def test_of_tensors_with_one_name_the_parameter_is_meant():
    """As where a program gives the tensors of a ``state_dict``; several others are listed."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("add", run.input("weight"), run.input("weight"))
        run.op("mul", "v2", run.parameter("weight"))
        run.op("mul", run.input("x"), run.input("x", shape=(4,)))
    recording = run.recording()
    answer = recording.why_no_gradient("weight")
    assert answer == recording.why_no_gradient("v3") != recording.why_no_gradient("v0")
    read = r"read by mul\(\) in Net"
    several = rf"v5 is x \(\[2, 4\], {read}.*, v6 is x \(\[4\], {read}"
    with pytest.raises(NotThere, match=f"'x' is ambiguous: {several}.*. Use an id, such as"):
        recording.why_no_gradient("x")


def test_every_parameter_is_distinguished_by_its_gradient(lossy):
    """All of the model: a reason exactly where `.grad` is None."""
    model, recording = lossy
    for name, parameter in model.named_parameters():
        assert (recording.why_no_gradient(name) is None) == (parameter.grad is not None), name


def test_without_a_backward_pass():
    """Then that is the reason, where nothing else is."""
    recording = tr.record(Lossy(), torch.ones(2, 4))
    assert recording.why_no_gradient("kept").reason == "no backward"
    assert recording.why_no_gradient("detached").reason == "left autograd"
    with torch.no_grad():
        recording = tr.record(Lossy(), torch.ones(2, 4))
    assert "the whole run was under no_grad" in recording.why_no_gradient("kept").text


def test_a_backward_pass_of_another_thread():
    """It ran, and gave the gradient; but it was not recorded."""
    layer = nn.Linear(3, 3)
    with tr.Recorder(layer) as recorder:
        thread = threading.Thread(target=layer(torch.ones(2, 3)).sum().backward)
        thread.start()
        thread.join()
    assert layer.weight.grad is not None
    assert recorder.recording.why_no_gradient("weight").text == "no backward pass was recorded"


def test_gradients_of_others_only():
    """`inputs=`, `torch.autograd.grad` and a custom function that gives None."""
    layer = nn.Linear(3, 3)
    with tr.Recorder(layer) as recorder:
        layer(torch.ones(2, 3)).sum().backward(inputs=[layer.weight])
    assert recorder.recording.why_no_gradient("weight") is None
    assert "inputs=" in recorder.recording.why_no_gradient("bias").text
    with tr.Recorder(layer) as recorder:
        torch.autograd.grad(layer(torch.ones(2, 3)).sum(), [layer.weight])
    assert "grad() returns" in recorder.recording.why_no_gradient("weight").text


class Forgets(torch.autograd.Function):
    """Gives its second input no gradient."""

    @staticmethod
    def forward(ctx, x, weight):
        return x * weight

    @staticmethod
    def backward(ctx, given):
        return given, None


def test_a_custom_function_that_gives_none():
    """It is named."""
    layer = nn.Linear(3, 3)
    layer.scale = nn.Parameter(torch.ones(3))
    with tr.Recorder(layer) as recorder:
        Forgets.apply(layer(torch.ones(2, 3)), layer.scale).sum().backward()
    why = recorder.recording.why_no_gradient("scale")
    assert why.reason == "not propagated" and "ForgetsBackward" in why.text


def test_a_backward_pass_that_failed():
    """The failure is the reason of what had not got its gradient yet."""

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, given):
            raise RuntimeError("not today")

    layer = nn.Linear(3, 3)
    with pytest.raises(RuntimeError, match="not today") as raised:
        with tr.Recorder(layer):
            Fails.apply(layer(torch.ones(2, 3))).sum().backward()
    why = tr.recording_of(raised.value).why_no_gradient("weight")
    assert why.reason == "not propagated" and "not today" in why.text


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_calls(reentrant):
    """Their weights have gradients, also of a backward pass inside backward."""
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    x = torch.ones(2, 3, requires_grad=True)
    with tr.Recorder(model) as recorder:
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()
    assert model[0].weight.grad is not None
    assert recorder.recording.why_no_gradient("0.weight") is None
    assert "no gradient" not in recorder.recording.summary()


def test_several_training_steps():
    """The tensor is the same one after the optimizer wrote it."""
    model = Lossy()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    with tr.Recorder(model) as recorder:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 4))[0].sum().backward()
            optimizer.step()
    found = recorder.recording
    for name, parameter in model.named_parameters():
        assert (found.why_no_gradient(name) is None) == (parameter.grad is not None), name
    assert [op.name for op in found.why_no_gradient("detached").ops] == ["detach"] * 3


def test_only_tensors_have_gradients():
    """Anything else is refused, with what to name."""
    recording = tr.record(nn.Sequential(nn.Linear(2, 2)), torch.ones(1, 2))
    with pytest.raises(NotThere, match="did you mean '0.weight'"):
        recording.why_no_gradient("0.weigt")
    with pytest.raises(InvalidArgument, match="'0' is not the name of a tensor"):
        recording.why_no_gradient("0")


def test_an_input_can_be_asked_about():
    """Where it requires grad and is read only in part."""
    x = torch.ones(2, requires_grad=True)
    with tr.Recorder(lambda x: x.detach() * 2, name="f") as recorder:
        recorder.call(lambda x: x.detach() * nn.Parameter(torch.ones(2)), (x,), {}).sum().backward()
    assert recorder.recording.why_no_gradient("x").reason == "left autograd"


def test_an_input_that_does_not_require_grad_is_frozen():
    """No operation is to blame; one that requires grad by then is no longer."""
    layer = nn.Linear(2, 2)
    found = tr.record(layer, torch.ones(1, 2), backward=True).why_no_gradient("input")
    assert (found.reason, found.ops) == ("frozen", ())

    def marked(x):
        x.requires_grad_()
        x.exp()
        return layer(torch.ones(1, 2))

    found = tr.record(marked, torch.ones(1, 2), backward=True).why_no_gradient("x")
    assert found.reason == "not in the loss"


def _initialize(weight):
    torch.nn.init.normal_(weight)


def _replace(weight):
    weight.data = torch.randn(2, 2)


@pytest.mark.parametrize("write", [_initialize, _replace])
def test_weights_written_before_the_step(write):
    """The gradient that arrives at the new numbers is that of the parameter."""
    model = nn.Linear(2, 2)
    with tr.Recorder(model, stats=True) as recorder:
        write(model.weight)
        model(torch.randn(1, 2)).square().sum().backward()
    recording = recorder.recording
    assert recording.why_no_gradient("weight") is None
    assert "no gradient" not in recording.summary()
    size = sum(weight.grad.nbytes for weight in model.parameters())
    assert GRADIENT_BYTES.on(recording).total() == size
    norms = parameter_gradient_norms(recording)
    for slot in next(iter(recording.modules.values())).parameters:
        norm = model.get_parameter(slot.name).grad.norm().item()
        assert norms[slot.value] == pytest.approx(norm)


def test_weights_of_two_models_with_one_name():
    """Each keeps its memory, so that the gradients of its later numbers are its own."""
    trained, other = nn.Linear(2, 2), nn.Linear(2, 2)
    x = torch.randn(1, 2)
    with tr.Recorder() as recorder:
        trained(other(x))
        for weight in (*trained.parameters(), *other.parameters()):
            nn.init.normal_(weight)
        trained(other(x).detach()).sum().backward()
    listed = every_row(recorder.recording)
    first, second = (row.notes for row in listed if "call 1 of 2" in row.notes)
    assert first == ("call 1 of 2", "no gradient") and second == ("call 1 of 2",)


@pytest.mark.parametrize("assigned", [True, False])
def test_a_gradient_that_the_program_sets_is_one(assigned: bool) -> None:
    """If an optimizer uses it; ``torch.autograd.grad`` alone sets none."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with tr.Recorder(model) as recorder:
        gradients = torch.autograd.grad(model(torch.ones(3, 4)).mean(), [*model.parameters()])
        for weight, gradient in zip(model.parameters(), gradients):
            weight.grad = gradient * 2 if assigned else None
        optimizer.step()
    why = recorder.recording.why_no_gradient("weight")
    assert (why is None) is assigned


@pytest.mark.parametrize("before", [True, False])
def test_a_gradient_that_is_computed_without_autograd(before: bool) -> None:
    """Of copies of the weights, as per-sample gradients are; one from before the run explains
    nothing."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    if before:
        model(torch.ones(3, 4)).sum().backward()

    def loss(weights, x):
        return torch.func.functional_call(model, weights, (x,)).sum()

    with tr.Recorder(model) as recorder:
        weights = {name: weight.detach() for name, weight in model.named_parameters()}
        gradients = torch.func.grad(loss)(weights, torch.ones(3, 4))
        for name, weight in model.named_parameters() if not before else ():
            weight.grad = gradients[name] * 2
        optimizer.step()
    why = recorder.recording.why_no_gradient("weight")
    assert "detach()" in why.text if before else why is None


def test_gradients_that_the_program_copies_are_ones():
    """As those that other processes send; the summary does not miss them either."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    for weight in model[1].parameters():
        weight.grad = torch.zeros_like(weight)
    with tr.Recorder(model) as recorder:
        model[0](torch.ones(1, 2)).sum().backward()
        for weight in model[1].parameters():
            weight.grad.copy_(torch.ones_like(weight))
    recording = recorder.recording
    assert recording.why_no_gradient("1.weight") is None
    assert "no gradient" not in recording.summary()


def test_updates_without_a_gradient():
    """LBFGS writes to all of its weights, also to those without one."""
    layer, other = nn.Linear(2, 2), nn.Linear(2, 2)
    optimizer = torch.optim.LBFGS([*layer.parameters(), *other.parameters()], max_iter=1)

    def closure():
        optimizer.zero_grad()
        loss = layer(torch.ones(1, 2)).square().sum()
        loss.backward()
        return loss

    with tr.Recorder(nn.ModuleDict({"layer": layer, "other": other})) as recorder:
        optimizer.step(closure)
    assert other.weight.grad is None
    assert recorder.recording.why_no_gradient("layer.weight") is None
    assert recorder.recording.why_no_gradient("other.weight").reason == "unused"


class Listed(nn.Module):
    """Holds parameters in a list and a dict, and reads some of them."""

    def __init__(self) -> None:
        super().__init__()
        self.some, self.none = (nn.ParameterList(torch.ones(2) for _ in "ab") for _ in "ab")
        self.named = nn.ParameterDict({"a": torch.ones(2)})

    def forward(self, x):
        return x * self.some[0] * self.named["a"]


def test_lists_of_parameters_are_not_called() -> None:
    """So that is no reason, and no note in the summary."""
    recording = tr.record(Listed(), torch.ones(2), backward=True)
    for name in ("some.1", "none.0"):
        assert recording.why_no_gradient(name).text == "no operation read it"
    notes = {row.title: row.notes for row in every_row(recording)}
    assert notes["some (ParameterList)"] == ("no gradient for 1",)
    assert notes["named (ParameterDict)"] == ()
    assert notes["none (ParameterList)"] == ("never read",)
