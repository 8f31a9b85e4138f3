"""What a backward pass itself runs in Python is no operation; hooks beside it are."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from torchrecorder.events import OpKind, ScopeKind
from torchrecorder.views.pipeline import ViewOptions, make_view

from tests.capture.hooked import called, inputs, maker, mlp, on_parameters, recorded
from tests.capture.test_wrappers import Boxed
from tests.zoo.functions import Same


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


class Reversible(torch.autograd.Function):
    """Computes its input again from its output, and gives it to a layer."""

    layer: torch.nn.Module

    @staticmethod
    def forward(ctx, x):
        y = x + Reversible.layer(x).detach()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        with torch.enable_grad():
            x = (y * 0.5).detach().requires_grad_()
            Reversible.layer(x).sum().backward()
        return grad + x.grad


def test_what_the_pass_computes_for_a_module_is_no_part_of_the_figure():
    """It is the result of a hidden operation, of which nothing that is drawn reads."""
    Reversible.layer = torch.nn.Linear(3, 3)
    recording = recorded(Reversible.layer, lambda _: Reversible.apply(inputs()).sum().backward())
    (made,) = (op for op in recording.ops.values() if op.name == "ReversibleBackward")
    assert made.kind is OpKind.HIDDEN and made.recompute and made.scope is None
    assert made.id not in make_view(recording, ViewOptions(depth="ops")).boxes
