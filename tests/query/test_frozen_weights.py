"""Weights that are frozen for a part of the run, and weights that others stand in for."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn

import torchrecorder as tr
from torchrecorder.events import GradId, Role, ValueId
from torchrecorder.graph.codec import decode, encode
from torchrecorder.graph.nodes import GradNode, Value
from torchrecorder.graph.relations import trained_later
from torchrecorder.recording import Recording


def here() -> int:
    """The line that calls this."""
    return inspect.currentframe().f_back.f_lineno


def by_method(weight, on):
    weight.requires_grad_(on)


def by_attribute(weight, on):
    weight.requires_grad = on


@pytest.mark.parametrize("switch", [by_method, by_attribute])
def test_a_critic_that_is_frozen_for_the_step_of_its_generator(switch):
    """As in training of GANs: both lines are named, and not the operation alone."""
    generator, critic = nn.Linear(4, 4), nn.Linear(4, 1)
    both = nn.ModuleDict({"generator": generator, "critic": critic})
    with tr.Recorder(both) as recorder:
        for weight in critic.parameters():
            switch(weight, False)
        critic(generator(torch.ones(2, 4))).sum().backward()
        for weight in critic.parameters():
            switch(weight, True)
    recording = recorder.recording
    why = recording.why_no_gradient("critic.weight")
    line = switch.__code__.co_firstlineno + 1
    assert why.reason == "frozen" and [op.name for op in why.ops] == ["linear"]
    assert "linear() in critic at " in why.text and "read it while it was frozen" in why.text
    place = f"tests/query/test_frozen_weights.py:{line}"
    assert why.text.endswith(f"requires_grad was set to False at {place}, and to True at {place}")
    assert recording.why_no_gradient("generator.weight") is None
    assert [item.requires_grad for item in recording.grad_switches] == [False] * 2 + [True] * 2
    assert decode(encode(recording), Recording).grad_switches == recording.grad_switches


@pytest.mark.parametrize("trained", [True, False])
def test_a_critic_that_is_trained_after_it_was_frozen(trained):
    """It is drawn as frozen only if no backward pass of the run gives it a gradient."""
    generator, critic = nn.Linear(4, 4), nn.Linear(4, 1)
    models = nn.ModuleDict({"generator": generator, "critic": critic})
    critic.requires_grad_(False)
    with tr.Recorder(models) as recorder:
        for _ in range(2):
            image = generator(torch.ones(2, 4))
            critic(image).sum().backward()
            if trained:
                critic.requires_grad_(True)
                critic(image.detach()).sum().backward()
                critic.requires_grad_(False)
        critic.requires_grad_(True)
    recording = recorder.recording
    found = {value.names[0]: value.trainable for value in recording.values.values()
             if value.role is Role.PARAMETER}
    assert found == {"generator.weight": True, "generator.bias": True,
                     "critic.weight": trained, "critic.bias": trained}
    texts = [text.text for shape in tr.figure(recording).shapes for text in shape.label]
    assert any("5 params" in text for text in texts)
    assert any("frozen" in text for text in texts) is not trained
    assert ("frozen" in recording.summary()) is not trained


def test_weights_of_two_models_with_the_same_names():
    """One is frozen, the other is trained."""
    frozen, trained = (
        Value(ValueId(name), (4,), "float32", "cpu", Role.PARAMETER, ("weight",), None, False, None,
              16, "Parameter", name == "v1", storage)
        for storage, name in enumerate(("v0", "v1"))
    )
    leaf = GradNode(GradId("g0"), "AccumulateGrad", None, None, (), trained.id)
    assert [*trained_later([frozen, trained], [leaf])] == []
    again = frozen.replace(id=trained.id, trainable=True)
    (found,) = trained_later([frozen, again], [leaf])
    assert found == (frozen.id, frozen.replace(trainable=True))


def test_a_weight_that_is_frozen_for_one_of_two_calls():
    """It is where the loss needs the frozen call; it is not where the other one is enough."""
    model, x = nn.Linear(4, 1), torch.ones(2, 4)
    with tr.Recorder(model) as recorder:
        model.requires_grad_(False)
        frozen, line = model(x), here()
        model.requires_grad_(True)
        (frozen + x.requires_grad_().sum()).sum().backward()
    why = recorder.recording.why_no_gradient("weight")
    assert why.reason == "frozen" and f"test_frozen_weights.py:{line} read it" in why.text
    with tr.Recorder(model) as recorder:
        model.requires_grad_(False)
        frozen = model(x)
        model.requires_grad_(True)
        model(x)
        frozen.sum().backward()
    why = recorder.recording.why_no_gradient("weight")
    assert why.reason == "frozen" and len(why.ops) == 1
    with tr.Recorder(model) as recorder:
        model.requires_grad_(False)
        frozen = model(x.detach())
        model.requires_grad_(True)
        (frozen + model(x)).sum().backward()
    assert recorder.recording.why_no_gradient("weight") is None


def test_a_weight_that_becomes_trainable_too_late():
    """It was frozen before the recording."""
    model = nn.Linear(4, 1)
    model.weight.requires_grad_(False)
    with tr.Recorder(model) as recorder:
        model(torch.ones(2, 4)).sum().backward()
        model.weight.requires_grad_(True)
    why = recorder.recording.why_no_gradient("weight")
    assert why.reason == "frozen" and "requires_grad was only later set to True at " in why.text


def test_a_call_that_changes_nothing_is_no_switch():
    """As ``requires_grad_()`` of what requires grad."""
    model = nn.Linear(4, 1)
    with tr.Recorder(model) as recorder:
        model.requires_grad_()
        model(torch.ones(2, 4)).sum().backward()
    assert recorder.recording.grad_switches == ()


def test_tensors_that_a_functional_call_uses_in_place_of_weights():
    """The weight itself is not read, and the message says by what something else was."""
    model = nn.Linear(4, 1)
    stand_ins = {
        name: weight.detach().clone().requires_grad_() for name, weight in model.named_parameters()
    }
    with tr.Recorder(model) as recorder:
        torch.func.functional_call(model, stand_ins, (torch.ones(2, 4),)).sum().backward()
    why = recorder.recording.why_no_gradient("weight")
    assert why.reason == "unused" and model.weight.grad is None
    assert "linear() in Linear at " in why.text
    assert "read another tensor in its place, as with torch.func.functional_call()" in why.text


@pytest.mark.parametrize("wanted", ["bool()", "equal()"])
def test_a_weight_that_only_a_condition_reads(wanted):
    """Python takes the result out of the tensor."""
    model, gate = nn.Linear(4, 1), nn.Parameter(torch.ones(()))

    def step(x):
        test = gate if wanted == "bool()" else torch.equal(gate, gate)
        model(x * 2 if test else x).sum().backward()

    why = tr.record(step, torch.ones(2, 4)).why_no_gradient("gate")
    assert why.reason == "left autograd" and wanted in why.text
    assert "which autograd does not track" in why.text


def tensor_hook(model):
    model[0].weight.register_hook(lambda gradient: torch.zeros_like(gradient))


def module_hook(model):
    def hook(module, given, gave):
        return tuple(torch.zeros_like(one) for one in given)

    model[1].register_full_backward_hook(hook)


def module_pre_hook(model):
    def hook(module, gave):
        return tuple(torch.zeros_like(one) for one in gave)

    model[1].register_full_backward_pre_hook(hook)


@pytest.mark.parametrize("install", [tensor_hook, module_hook, module_pre_hook])
def test_a_hook_that_makes_zeros(install):
    """Its line is named, not the node before it, which returned other numbers."""
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
    install(model)
    with tr.Recorder(model, stats=True) as recorder:
        model(torch.ones(2, 4)).sum().backward()
    why = recorder.recording.why_no_gradient("0.weight")
    lines, first = inspect.getsourcelines(install)
    line = first + next(at for at, text in enumerate(lines) if "zeros_like" in text)
    assert why.reason == "zero" and [op.name for op in why.ops] == ["zeros_like"]
    assert f"zeros_like() at tests/query/test_frozen_weights.py:{line}, in a hook" in why.text


class RunsInBackward(torch.autograd.Function):
    """Runs a layer again in its backward, as reentrant checkpoints do."""

    @staticmethod
    def forward(ctx, layer, x):
        """The result of the layer, without its graph."""
        ctx.layer, ctx.x = layer, x.detach().requires_grad_()
        return layer(x)

    @staticmethod
    def backward(ctx, gradient):
        """Its backward pass, after the weight was frozen."""
        with torch.enable_grad():
            result = ctx.layer(ctx.x)
        ctx.layer.weight.requires_grad_(False)
        result.backward(gradient)
        return None, ctx.x.grad


@pytest.mark.parametrize("inside", [False, True])
def test_weights_that_are_frozen_before_the_backward_pass(inside):
    """They get no gradient, and autograd skips them."""
    layer = nn.Linear(2, 2)
    with tr.Recorder(layer, stats=True) as recorder:
        x = torch.ones(1, 2, requires_grad=True)
        result = RunsInBackward.apply(layer, x) if inside else layer(x)
        if not inside:
            layer.weight.requires_grad_(False)
        line = here() - 1
        result.sum().backward()
    recording = recorder.recording
    assert layer.weight.grad is None
    assert layer.bias.grad is not None
    assert recording.why_no_gradient("bias") is None
    leaves = {recording.grad_nodes[run.grad].variable for run in recording.grad_runs}
    names = {recording.values[leaf].names for leaf in leaves if leaf is not None}
    assert ("weight",) not in names
    assert ("bias",) in names
    if not inside:  # recomputed operations count as ones with a gradient
        why = recording.why_no_gradient("weight")
        assert why.reason == "frozen"
        assert "was set to False at " in why.text and f"test_frozen_weights.py:{line}" in why.text
        assert "no gradient for weight" in recording.summary()
