"""Reverse-mode transformations of torch.func: what their results depend on."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.autograd.functional import vjp as functional_vjp
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

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


LAYERS = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
X = torch.randn(5, 3)

BATCHED = {
    "vmap": (lambda run: vmap(run)(X), lambda: LAYERS[0](X)),
    "another dimension": (lambda run: vmap(run, in_dims=1, out_dims=1)(X.mT), lambda: LAYERS[0](X)),
    "vmap in vmap": (
        lambda run: vmap(vmap(run, in_dims=1), in_dims=2)(X.mT.expand(2, 3, 5).permute(1, 2, 0)),
        lambda: LAYERS[0](X).expand(2, 5, 4),
    ),
    "grad in vmap": (
        lambda run: vmap(grad(lambda x: run(x).sum()))(X), lambda: LAYERS[0](X)
    ),
    "grad": (lambda run: grad(lambda x: run(x).sum())(X), lambda: LAYERS[0](X)),
    "jacrev": (lambda run: jacrev(run)(X), lambda: LAYERS[0](X)),
    "jacfwd": (lambda run: jacfwd(run)(X), lambda: LAYERS[0](X)),
    "jvp": (lambda run: jvp(run, (X,), (X,))[1], lambda: LAYERS[0](X)),
}


@pytest.mark.parametrize("run, plain", BATCHED.values(), ids=BATCHED)
def test_kept_tensors_are_plain_and_have_the_batch_first(run, plain):
    """Those of modules and of operations; they, and the recording, can be used and copied."""
    with tr.Recorder(LAYERS, keep=["0", "*: tanh"], stats=True) as recorder:
        run(LAYERS)
    recording, wanted = recorder.recording, plain().detach()
    found = recording.activations["0"], recording.activations["1: tanh"]
    for one, expected in zip(found, (wanted, wanted.tanh())):
        torch.testing.assert_close(one + 0, expected)
        assert one.numpy().shape == expected.shape
    (scope,) = (scope.outputs[0].value for scope in recording.scopes.values() if scope.path == "0")
    mean = recording.annotations["activation_mean"].by_node[scope]
    assert mean == pytest.approx(wanted.double().mean().item(), abs=1e-6)
    for copied in (copy.deepcopy(recording), pickle.loads(pickle.dumps(recording))):
        assert copied == recording
        assert torch.equal(copied.activations["0"], found[0])
    assert recording.run.lost == 0


def test_gradients_behind_vmap_have_the_order_of_what_they_belong_to():
    """The pass around it sees the hidden dimension at the place where PyTorch put it."""
    x = torch.randn(3, 5, requires_grad=True)
    with tr.Recorder(keep=["*: sin", "*: mul"]) as recorder:
        weights = torch.arange(15.0).reshape(5, 3)
        (vmap(torch.sin, in_dims=1)(x) * weights).sum().backward()
    recording = recorder.recording
    assert recording.activations["sin"].shape == (5, 3)
    assert torch.equal(recording.gradients["sin"], weights)


def test_the_first_nan_inside_of_vmap():
    """It is found where it was made, also by an operation in place."""
    for made in (torch.log, torch.log_):
        run = vmap(lambda x: made(x * 1))  # noqa: B023
        recording = tr.record(lambda x: run(x).sum(), -torch.ones(2, 3), stats=True)
        first = recording.first_not_finite()
        assert "log" in str(first) and "6 NaN" in str(first)


def jacobian(x):
    """With the batches of gradients from before torch.func."""
    return torch.autograd.functional.jacobian(LAYERS, x, vectorize=True)


def batched(x):
    """One batch of them, by hand."""
    x = x.detach().requires_grad_()
    y = LAYERS(x)
    return torch.autograd.grad(
        y, x, torch.eye(20).reshape(20, 5, 4), is_grads_batched=True
    )[0].reshape(5, 4, 5, 3)


@pytest.mark.parametrize("run", [jacobian, batched])
def test_batches_of_gradients_lose_no_facts(run):
    """They are measured and kept as one tensor; their nodes cannot run again."""
    plain = jacobian(X)
    with tr.Recorder(LAYERS, keep=["0", "*: tanh"], stats=True, replay=True) as recorder:
        found = run(X)
    recording = recorder.recording
    assert recording.run.lost == 0
    assert torch.equal(found, plain)
    kept = recording.gradients["0"].reshape(5, 4, 5, 4)
    torch.testing.assert_close(torch.einsum("abcd,de->abce", kept, LAYERS[0].weight), plain)
    (scope,) = (scope.outputs[0].value for scope in recording.scopes.values() if scope.path == "0")
    norm = recording.annotations["gradient_norm"].by_node[scope]
    assert norm == pytest.approx(kept.norm().item())
    with pytest.raises(tr.errors.NotKept, match="batch of gradients"):
        recording.replay(recording.grad_runs[0].grad)
    assert copy.deepcopy(recording) == recording


@pytest.mark.parametrize("layer", [nn.Identity, lambda: nn.Dropout().eval()])
@pytest.mark.parametrize("run", [vmap, lambda model: grad(lambda x: model(x).sum())])
def test_a_layer_that_returns_its_input_is_no_operation(run, layer):
    """In the middle of a model and at its end; what comes next reads what was passed on."""
    model, x = nn.Sequential(nn.Linear(2, 2), layer(), nn.ReLU(), layer()), torch.ones(3, 2)
    with tr.Recorder(model) as recorder:
        run(model)(x)
    recording = recorder.recording
    linear, relu, *after = recording.ops.values()
    assert (linear.name, relu.name) == ("linear", "relu") and not recording.run.lost
    assert {op.name for op in after} <= {"sum", "grad"}
    assert relu.inputs[0].value in linear.outputs
    first, second = (scope for scope in recording.scopes.values() if scope.name in "13")
    for scope, op in ((first, linear), (second, relu)):
        assert scope.inputs[0].value == scope.outputs[0].value == op.outputs[0]
