"""Reverse-mode transformations of torch.func: what their results depend on."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.autograd.functional import vjp as functional_vjp
from torch.func import functional_call, hessian, jacfwd, jacrev, vjp, vmap

import torchrecorder as tr

networkx = pytest.importorskip("networkx")


def pulled_back(function):
    """The vjp of *function* with ones, applied after the transformation ended."""

    def run(x):
        y, pull = vjp(function, x)
        return pull(torch.ones_like(y))[0]

    return run


TRANSFORMED = {
    "vjp": pulled_back,
    "jacrev": jacrev,
    "jacobian of a jacobian": lambda function: jacfwd(jacrev(function)),
    "hessian": lambda function: hessian(lambda x: function(x).sum()),
    "batch of jacobians": lambda function: lambda x: vmap(jacrev(function))(x.expand(2, -1)),
    "functional": lambda function: lambda x: functional_vjp(function, x, torch.ones(2))[1],
}


class Network(nn.Module):
    """Derives what its layers compute from its input."""

    def __init__(self, transform):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        self.transform = transform

    def forward(self, x):
        return self.transform(self.layers)(x)


def influences(model, x):
    """Of the input, ``""``, and the weights, the names of those that change the result."""
    before, found = model(x), set()
    weights = dict(model.named_parameters())
    for name, weight in weights.items():
        if not torch.equal(functional_call(model, {name: weight + 0.5}, (x,)), before):
            found.add(name)
    return found if torch.equal(model(x + 0.5), before) else {"", *found}


@pytest.mark.parametrize("transform", TRANSFORMED.values(), ids=TRANSFORMED)
def test_a_derivative_depends_on_what_changes_it(transform):
    """The recording has a path from the input, and from each weight that matters."""
    model, x = Network(transform), torch.rand(3)
    recording = tr.record(model, x)
    graph = recording.to_networkx()
    behind = networkx.ancestors(graph, recording.outputs[0].value)
    names = {recording.values[value].names[0] for value in behind if value in recording.values
             and recording.values[value].role.value == "parameter"}
    if recording.inputs[0].value in behind:
        names.add("")
    assert influences(model, x) <= names and "" in names
    assert recording.run.lost == 0


@pytest.mark.parametrize("transform", [pulled_back, jacrev], ids=["vjp", "jacrev"])
def test_a_derivative_of_a_function_is_an_operation_that_reads_its_input(transform):
    """Not a constant, nor hidden operations: one ``grad`` of what the function made."""
    recording = tr.record(transform(torch.sin), torch.rand(3))
    (derived,) = [op for op in recording.ops.values() if op.name == "grad"]
    assert recording.inputs[0].value in [slot.value for slot in derived.inputs]
    assert all(op.kind != "hidden" for op in recording.ops.values())


def test_training_on_derivatives_gives_the_gradients_of_a_plain_run():
    """The pass through the graph of a transformation is recorded, and nothing is lost."""
    model, x = Network(jacrev), torch.rand(3)
    model(x).square().sum().backward()
    wanted = {name: weight.grad for name, weight in model.named_parameters()}
    model.zero_grad()
    with tr.Recorder(model) as recorder:
        model(x).square().sum().backward()
    for name, weight in model.named_parameters():
        same = wanted[name] is None if weight.grad is None else weight.grad.equal(wanted[name])
        assert same, name
    assert recorder.recording.run.lost == 0
    assert recorder.recording.why_no_gradient("layers.0.weight") is None
