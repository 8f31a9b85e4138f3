"""What hooks of gradients compute while a backward pass runs is recorded."""

from __future__ import annotations

import warnings

import pytest
import torch

from tests.capture.hooked import called, inputs, maker, mlp, on_parameters, recorded, step
from torchrecorder.capture.internals.table import BACKWARD_CALLS
from torchrecorder.events import OpKind, ScopeKind
from torchrecorder.testing.inert import assert_inert


def _on_tensor(model, made):
    def after(module, args, y):
        y.register_hook(lambda g: made.append(g.abs()))

    model[1].register_forward_hook(after)


def _on_module(model, made):
    model[1].register_full_backward_hook(lambda module, given, of: made.append(of[0].abs()))


def _before_module(model, made):
    model[1].register_full_backward_pre_hook(lambda module, of: made.append(of[0].abs()))


def _on_node(model, made):
    def after(module, args, y):
        y.grad_fn.register_hook(lambda given, of: made.append(of[0].abs()))

    model[1].register_forward_hook(after)


def _on_several(model, made):
    weights = [model[0].weight, model[2].weight]
    torch.autograd.graph.register_multi_grad_hook(
        weights, lambda gradients: made.append(gradients[0].abs())
    )


def _on_parameter(model, made):
    model[0].weight.register_post_accumulate_grad_hook(lambda p: made.append(p.grad.abs()))


class Keeps:
    """A hook that is a method, and keeps what it computes."""

    def __init__(self, made):
        self.made = made

    def hook(self, *given):
        self.made.append(given[-1][0].abs())


def _method(model, made):
    model[1].register_full_backward_hook(Keeps(made).hook)


KINDS = [
    _on_tensor, _on_module, _before_module, _on_node, _on_several, _on_parameter, _method,
]


@pytest.mark.parametrize("add_hook", KINDS)
def test_operation_of_a_hook_reads_from_the_pass(add_hook):
    """Each kind of hook is given gradients of the pass, and what it makes is no constant."""
    model, made = mlp(), []
    add_hook(model, made)

    def run(model):
        step(model)
        made[0].exp()

    recording = recorded(model, run)
    (backward,), (computed,), (read,) = (called(recording, name) for name in (
        "backward", "abs", "exp"
    ))
    assert maker(recording, computed) == backward
    assert maker(recording, read) == computed
    value = recording.values[computed.inputs[0].value]
    assert value.shape == tuple(made[0].shape)
    assert all(scope.kind is ScopeKind.MODULE or scope.kind is ScopeKind.CUSTOM_FUNCTION
               for scope in recording.scopes.values())


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_hook_of_a_sum(create_graph, packed):
    """No node has seen the sum of two gradients when a hook is given it; a mask is no gradient."""
    made, mask = [], torch.ones(2)

    def hook(gradient, mask=mask):
        made.append(gradient * mask)

    def run(_):
        y = torch.ones(2, requires_grad=True).sin()
        y.register_hook((lambda *given: hook(*given)) if packed else hook)
        (y.exp() + y).sum().backward(create_graph=create_graph)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of create_graph
        recording = recorded(None, run)
    product = called(recording, "mul")[-1]
    assert maker(recording, product) == called(recording, "backward")[0]
    assert recording.values[product.inputs[1].value].producer is None


def test_pass_that_is_not_seen():
    """Neither are its hooks."""
    model, made = mlp(), []
    on_parameters(model, lambda g: made.append(g.norm()))

    def run(model):
        with torch._C.DisableTorchFunction():
            step(model)

    assert not called(recorded(model, run), "norm")
    assert len(made) == 4


def test_gradient_that_a_hook_replaces_is_its_result():
    """An optimizer reads the clipped gradient; one that was added to is the pass's again."""
    model = mlp()
    on_parameters(model, lambda g: g.clamp(-0.1, 0.1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=False)

    def run(model):
        step(model)
        optimizer.step()
        step(model)
        optimizer.step()

    recording = recorded(model, run)
    first, second = called(recording, "backward")
    updates = called(recording, "add_")
    assert [maker(recording, op, 1).name for op in updates[:4]] == ["clamp"] * 4
    assert [maker(recording, op, 1) for op in updates[4:]] == [second] * 4
    added_to = {maker(recording, second, place).name for place in range(1, 5)}
    assert added_to == {"clamp"}
    assert [maker(recording, op) for op in called(recording, "clamp")] == [first] * 4 + [second] * 4


@pytest.mark.parametrize("graph", [False, True])
def test_gradient_that_is_returned_as_a_hook_made_it(graph):
    """What reads the result of `grad` reads that of the hook, or that of the pass."""

    def run(_):
        for factor in (0.5, None):
            x = torch.ones(2, requires_grad=True)
            y = x.sin()
            y.register_hook(lambda g, by=factor: None if by is None else g * by)
            torch.autograd.grad(y.exp().sum(), y, create_graph=graph)[0].cos()

    recording = recorded(None, run)
    changed, same = called(recording, "cos")
    (half,) = called(recording, "mul")
    assert maker(recording, changed) == half
    first, second = called(recording, "grad")
    assert maker(recording, half) == first and maker(recording, same) == second


def test_gradients_that_hooks_read_or_had_before_are_those_of_the_pass():
    """They are returned in the order in which they are asked for."""
    before = torch.ones(3)

    def run(_):
        x, y, z = (torch.ones(size, requires_grad=True) for size in (2, 3, 4))
        x.register_hook(lambda gradient: (gradient.norm(), None)[1])
        y.register_hook(lambda gradient: (before.sum(), before)[1])
        torch.autograd.grad((x.sum() * y.sum() * z.sum()), [x, y, z])

    recording = recorded(None, run)
    (op,) = called(recording, "grad")
    assert [recording.values[value].shape for value in op.outputs[:3]] == [(2,), (3,), (4,)]


def test_gradient_that_a_hook_writes_is_its_result():
    """After accumulation, a hook may write the gradient; the next pass adds to what it wrote."""
    model = mlp()

    def halve(parameter):
        parameter.grad.mul_(0.5)

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(halve)

    def run(model):
        step(model)
        step(model)

    recording = recorded(model, run)
    first, second = called(recording, "backward")
    writes = called(recording, "mul_")
    assert [maker(recording, op) for op in writes] == [first] * 4 + [second] * 4
    added_to = {maker(recording, second, place).id for place in range(1, 5)}
    assert added_to == {op.id for op in writes[:4]}


def in_hooks(model, make):
    """One optimizer for each parameter, which steps as soon as its gradient is there."""
    made = {parameter: make([parameter]) for parameter in model.parameters()}

    def hook(parameter):
        made[parameter].step()
        made[parameter].zero_grad()

    for parameter in made:
        parameter.register_post_accumulate_grad_hook(hook)


def two_steps(model):
    step(model)
    step(model)


def test_optimizers_that_step_in_the_pass():
    """Each is a region of its own, and the next forward reads the weights that it wrote."""
    model = mlp()
    in_hooks(model, lambda weights: torch.optim.SGD(weights, 0.1, foreach=False))
    recording = recorded(model, two_steps)
    regions = [each for each in recording.scopes.values() if each.kind is ScopeKind.OPTIMIZER]
    updates = called(recording, "add_")
    assert [op.scope for op in updates] == [each.id for each in regions]
    assert len(updates) == 8
    read = [slot.value for op in called(recording, "linear")[2:] for slot in op.inputs[1:]]
    makers = {recording.values[value].producer for value in read}
    assert makers == {op.id for op in updates[:4]}


def test_optimizers_of_weights_of_any_size_fold(tmp_path):
    """One box for all of them, also in each of two steps; the line counts all gradients."""
    model = mlp()
    in_hooks(model, lambda weights: torch.optim.SGD(weights, 0.1, foreach=False))
    for run in (step, two_steps):
        svg = recorded(model, run).render(tmp_path / "figure.svg").read_text()
        assert svg.count(">optimizer SGD") == 1
        assert "×4" in svg
        assert "4 gradients" in svg


def test_nodes_that_a_hook_creates_are_of_its_operation():
    """With ``create_graph``, the pass owns the nodes that it creates, and the hook its own."""
    model = mlp()

    def scale(module, args, y):
        y.register_hook(lambda gradient: gradient * 3)

    model[0].register_forward_hook(scale)

    def run(model):
        x = inputs()
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        slope.square().sum().backward()

    recording = recorded(model, run)
    (grad,), (scaled, _) = called(recording, "grad"), called(recording, "mul")
    nodes = [node for node in recording.grad_nodes.values() if node.owner == scaled.id]
    assert [node.name for node in nodes] == ["MulBackward0"]
    made_by = {node.owner for node in recording.grad_nodes.values() if node.made_by is not None}
    assert made_by == {grad.id, scaled.id}
    assert not [op for op in recording.ops.values() if op.kind is OpKind.HIDDEN]


def test_pass_that_a_hook_runs_is_a_pass_of_its_own():
    """Its gradients are not those of the pass around it."""
    model, made = mlp(), []

    def hook(gradient):
        with torch.enable_grad():
            z = torch.ones(2, requires_grad=True)
            z.register_hook(lambda gradient: made.append(gradient.exp()))
            (z * z).sum().backward()
        made.append(z.grad * gradient.sum())

    def run(model):
        y = model(inputs())
        y.register_hook(hook)
        y.sum().backward()

    recording = recorded(model, run)
    outer, inner = called(recording, "backward")
    product = called(recording, "mul")[-1]
    assert maker(recording, product, 0) == inner
    assert maker(recording, called(recording, "exp")[0]) == inner
    assert maker(recording, maker_of_sum(recording, product)) == outer


def maker_of_sum(recording, product):
    """The sum that *product* multiplies with."""
    total = maker(recording, product, 1)
    assert total.name == "sum"
    return total


def test_recorder_that_a_hook_starts_records_the_hook():
    """It was not there when the pass began, so all of its operations are plain ones."""
    model, inner = mlp(), []

    def hook(gradient):
        inner.append(recorded(gradient, lambda gradient: gradient.norm().exp()))

    model[2].weight.register_hook(hook)
    step(model)
    recording = recorded(model, step)
    assert [[op.name for op in each.ops.values()] for each in inner] == [["norm", "exp"]] * 2
    assert len(called(recording, "norm")) == 1


@pytest.mark.skipif(not BACKWARD_CALLS.present, reason="not seen in this version")
def test_pass_started_by_the_function():
    """``torch.autograd.backward`` is the same pass."""
    model, made = mlp(), []
    on_parameters(model, lambda g: made.append(g.norm()))
    recording = recorded(model, lambda model: torch.autograd.backward(model(inputs()).sum()))
    assert [maker(recording, op).name for op in called(recording, "norm")] == ["backward"] * 4


@pytest.mark.parametrize("add_hook", KINDS)
def test_the_recorder_is_inert_around_hooks(add_hook):
    """Gradients are the same bits, and nothing stays behind."""

    def make():
        model = mlp()
        add_hook(model, [])
        on_parameters(model, lambda gradient: gradient.clamp(-0.1, 0.1))
        return model, (inputs(),), {}

    assert_inert(make)
