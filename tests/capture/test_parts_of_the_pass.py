"""What a backward pass itself runs in Python is no operation; hooks beside it are."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import torchrecorder as tr
from tests.capture.hooked import called, inputs, maker, mlp, on_parameters, recorded
from tests.capture.test_wrappers import Boxed
from tests.zoo.functions import Same
from torchrecorder.events import OpKind, ScopeKind


def _custom_function(model):
    Same.apply(model(inputs())).sum().backward()


def _checkpoint(model):
    checkpoint(model, inputs(), use_reentrant=False).sum().backward()


def _reentrant_checkpoint(model):
    checkpoint(model, inputs(), use_reentrant=True).sum().backward()


def _on_cpu(model):
    with torch.autograd.graph.save_on_cpu():
        y = model(inputs())
    y.sum().backward()


def _half(model):
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.half(), lambda x: x.float()):
        y = model(inputs())
    y.sum().backward()


def _pairs(model):
    with torch.autograd.graph.saved_tensors_hooks(lambda x: (x, 2), lambda pair: pair[0].add(0)):
        y = model(inputs())
    y.sum().backward()


class Listens(TorchDispatchMode):
    """Calls functions of PyTorch for each operator that runs."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        torch.ones(2).neg()
        return result


def _dispatch_mode(model):
    loss = model(inputs()).sum()
    with Listens():
        loss.backward()


@pytest.mark.parametrize(
    "run",
    [_custom_function, _checkpoint, _reentrant_checkpoint, _on_cpu, _half, _pairs, _dispatch_mode],
)
def test_parts_of_the_pass_are_no_operations(run):
    """Custom functions, recomputation and unpacking are not hooks; hooks beside them are."""
    model, made = mlp(), []
    on_parameters(model, lambda g: made.append(g.norm()))
    recording = recorded(model, run)
    (backward,) = called(recording, "backward")
    later = [op for op in recording.ops.values() if op.index > backward.index]
    assert [op.name for op in later if op.kind is OpKind.CALLED] == ["norm"] * 4
    assert {maker(recording, op).id for op in called(recording, "norm")} == {backward.id}


def test_operators_of_a_subclass_are_no_operations():
    """Its method runs for the operators of nodes; it is no hook."""

    made = []

    def run(_):
        x = Boxed(torch.ones(2)).requires_grad_()
        x.register_hook(lambda gradient: made.append(gradient.exp()))
        x.sin().sum().backward()

    recording = recorded(None, run)
    (backward,) = called(recording, "backward")
    later = [op.name for op in recording.ops.values() if op.index > backward.index]
    assert later == ["exp"]


class Adjoint(torch.autograd.Function):
    """Calls its model in both passes, in the backward one through a custom function."""

    model: torch.nn.Module
    inner: type[torch.autograd.Function]

    @staticmethod
    def forward(ctx, x):
        return Adjoint.model(x)

    @staticmethod
    def backward(ctx, grad):
        return Adjoint.inner.apply(torch.ones(2, 3)).sum() * torch.ones(2, 3)


class Inner(torch.autograd.Function):
    """Calls the same model."""

    @staticmethod
    def forward(ctx, x):
        return Adjoint.model(x)


def test_modules_and_functions_of_the_pass_are_no_part_of_the_figure():
    """The backward of an adjoint method calls them again, each of them inside others."""
    Adjoint.model, Adjoint.inner = mlp(), Inner
    recording = recorded(Adjoint.model, lambda _: Adjoint.apply(inputs()).sum().backward())
    (backward,) = called(recording, "backward")
    later = [scope for scope in recording.scopes.values() if scope.index > backward.index]
    assert any(scope.kind is ScopeKind.CUSTOM_FUNCTION for scope in later)
    assert all(scope.recompute for scope in later)
    assert str(recording.summary(fold=False)).count("autograd.Function") == 1


class Solver(torch.autograd.Function):
    """Calls a model in its backward, on tensors that it makes there and on one that it changes."""

    @staticmethod
    def forward(ctx, x, model):
        ctx.model = model
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        state = torch.cat([gradient, gradient])
        ctx.model(state)
        state.add_(1)
        ctx.model(state)
        with torch.enable_grad():
            leaf = torch.ones_like(gradient, requires_grad=True)
            (found,) = torch.autograd.grad(ctx.model(leaf.exp()), leaf, gradient)
        return found, None


def test_what_a_backward_makes_for_modules_is_no_part_of_the_figure():
    """It would stand there without arrows, beside the model."""
    model = torch.nn.Tanh()
    recording = recorded(model, lambda _: Solver.apply(inputs(), model).sum().backward())
    (backward,) = called(recording, "backward")
    later = [op for op in recording.ops.values() if op.index > backward.index and not op.scope]
    assert {op.name for op in later} == {"SolverBackward", "write in place", "exp"}
    assert all(op.recompute for op in later)
    assert "SolverBackward" not in tr.make_dot(recording).source


@pytest.mark.parametrize("reentrant", [False, True])
def test_operations_that_only_autograd_shows_are_recomputed_too(reentrant):
    """In a checkpointed call that runs again, no operation counts, and none can be grouped."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    x = torch.ones(2, 3, requires_grad=True)

    def step(x):
        return checkpoint(model, x, use_reentrant=reentrant)

    found = tr.record(step, x, backward=True)
    again = {scope.id for scope in found.scopes.values() if scope.recompute}
    inside = [op for op in found.ops.values() if op.scope in again]
    assert inside and all(op.recompute for op in inside)
    ranked = {name for place in found.top("output_bytes", by="op") for name in place.ids}
    assert ranked.isdisjoint(op.id for op in inside)
    with pytest.raises(tr.TorchRecorderError, match="no module or operation is called"):
        tr.make_dot(found, group={"Part": [inside[0].id]})


@pytest.mark.parametrize("outer", [False, True])
def test_operations_before_a_recomputed_module_are_recomputed(outer):
    """Also in a checkpoint inside another one, which runs a backward pass of its own."""
    layer, x = torch.nn.Linear(3, 3), torch.ones(2, 3, requires_grad=True)

    def inner(x):
        return layer(x.sin()).exp()

    def step(x):
        return checkpoint(inner, x, use_reentrant=False)

    with tr.Recorder() as recorder:
        (checkpoint(step, x, use_reentrant=True) if outer else step(x)).sum().backward()
    ops = recorder.recording.ops.values()
    assert {op.recompute for op in ops if op.kind is OpKind.HIDDEN} == {True}
    assert [op.kind for op in ops if op.name == "sin" and not op.recompute] == [OpKind.CALLED]
