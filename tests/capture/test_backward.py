"""The backward pass as it runs: order, gradients, doubles, failures, and no trace of us."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import torchrecorder as tr
from torchrecorder.capture.internals.table import BACKWARD_CALLS, GRADIENT_BUFFERS
from torchrecorder.capture.scope import Observer
from torchrecorder.testing.inert import assert_inert


class Broken(torch.autograd.Function):
    """Gives a gradient of the wrong kind: none, but an exception."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("no gradient today")


class Breaks(torch.nn.Module):
    def forward(self, x):
        return Broken.apply(x)


def mlp():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))


def ran(recording, run=0):
    """Names of the grad nodes that ran, in order."""
    return [recording.grad_nodes[each.grad].name for each in recording.grad_runs if each.run == run]


def test_every_node_behind_the_loss_runs_once_in_the_engines_order():
    """The nodes are those that PyTorch's own hooks see, in the same order."""
    model, x = mlp(), torch.ones(5, 4)
    seen = []
    loss = model(x).sum()
    stack, met = [loss.grad_fn], set()
    while stack:
        node = stack.pop()
        if node not in met:
            met.add(node)
            name = node.name().rpartition("::")[2]
            node.register_prehook(lambda gradients, name=name: seen.append(name))
            stack.extend(each for each, _ in node.next_functions if each is not None)
    loss.backward()
    wanted = list(seen)
    with tr.Recorder(model) as recorder:
        model(x).sum().backward()
    assert ran(recorder.recording) == wanted


def test_shapes_of_gradients_going_in_and_out():
    """Each node tells what it was given and what it gave, one per output and input."""
    with tr.Recorder() as recorder:
        x = torch.ones(5, 4, requires_grad=True)
        y = torch.ones(4, requires_grad=True)
        (x * y).sum().backward()
    recording = recorder.recording
    by_name = {recording.grad_nodes[each.grad].name: each for each in recording.grad_runs}
    product = by_name["MulBackward0"]
    assert [each.shape for each in product.given] == [(5, 4)]
    assert [each.shape for each in product.gave] == [(5, 4), (4,)]
    assert product.given[0].dtype == "float32" and product.given[0].bytes == 80


class Product(torch.autograd.Function):
    """Adds to the gradient of its second input by itself, where PyTorch lets it."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        _, buffer = getattr(ctx, "input_grad_buffers", (None, None))
        if buffer is None:
            return gradient * y, gradient * x
        buffer += gradient * x
        return gradient * y, None


def product(x, y):
    return Product.apply(x.sin(), y).sum() + (x * y).sum()


def test_custom_function_adds_to_gradients_itself():
    """A custom function can use the buffers of gradients, also in a backward pass after ours."""
    assert_inert(lambda: (product, _two_leaves(), {}))
    x, y = _two_leaves()
    product(x, y).backward()
    plain = y.grad
    x, y = _two_leaves()
    with tr.Recorder(product):
        loss = product(x, y)
        loss.backward(retain_graph=True)
    y.grad = None
    loss.backward()
    assert torch.equal(y.grad, plain)


def _two_leaves():
    torch.manual_seed(0)
    return torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)


def test_node_of_a_custom_function():
    """It is told from its neighbors in time and to observers, whatever hooks it takes."""
    told = []

    class Listens(Observer):
        def node_begins(self, grad, run, given):
            told.append(("begins", grad))

        def node_ended(self, grad, run):
            told.append(("ended", grad))

    with tr.Recorder(product) as recorder:
        recorder._tape.observers.append(Listens())
        product(*_two_leaves()).backward()
    recording = recorder.recording
    ran = {recording.grad_nodes[each.grad].name: each for each in recording.grad_runs}
    custom = ran["ProductBackward"]
    assert [each.shape for each in custom.given] == [(3,)]
    assert 0 < custom.seconds < recording.backward_runs[0].seconds
    begins, ended = told.index(("begins", custom.grad)), told.index(("ended", custom.grad))
    assert ended == begins + 1
    if not GRADIENT_BUFFERS.present:
        assert [each.shape for each in custom.gave] == [(3,), (3,)]


def test_time_of_nodes_fits_into_the_time_of_the_pass():
    """Nodes take their share of the pass, and the pass that of the run."""
    with tr.Recorder() as recorder:
        mlp()(torch.ones(5, 4)).sum().backward()
    recording = recorder.recording
    (run,) = recording.backward_runs
    assert all(each.seconds > 0 for each in recording.grad_runs)
    assert sum(each.seconds for each in recording.grad_runs) <= run.seconds
    assert run.seconds <= recording.run.seconds
    assert recording.run.overhead > 0


def test_autograd_grad_is_a_run_of_what_it_needs():
    """``grad()`` for one input runs the nodes on the way to it and no accumulation."""
    with tr.Recorder() as recorder:
        x = torch.ones(3, requires_grad=True)
        y = torch.ones(3, requires_grad=True)
        torch.autograd.grad((x.exp() * y.sin()).sum(), x)
    assert ran(recorder.recording) == ["SumBackward0", "MulBackward0", "ExpBackward0"]


def test_several_losses_and_retained_graphs_are_runs_of_their_own():
    """Two passes over one graph are two runs of the same nodes."""
    with tr.Recorder() as recorder:
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        y.sum().backward(retain_graph=True)
        torch.autograd.backward([y.mean(), y.prod()])
    recording = recorder.recording
    assert ran(recording, 0) == ["SumBackward0", "ExpBackward0", "AccumulateGrad"]
    second = ["AccumulateGrad", "ExpBackward0", "MeanBackward0", "ProdBackward0"]
    assert sorted(ran(recording, 1)) == (second if BACKWARD_CALLS.present else [])
    exps = {each.grad for each in recording.grad_runs
            if recording.grad_nodes[each.grad].name == "ExpBackward0"}
    assert len(exps) == 1


def test_double_backward_is_marked():
    """A node that a backward pass made names the node whose running made it."""
    with tr.Recorder() as recorder:
        x = torch.ones(3, requires_grad=True)
        (slope,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)
        slope.sum().backward()
    recording = recorder.recording
    makers = {
        node.name: recording.grad_nodes[node.made_by].name
        for node in recording.grad_nodes.values()
        if node.made_by is not None
    }
    assert makers and set(makers.values()) == {"PowBackward0"}
    assert recording.backward_runs[0].create_graph
    assert not recording.backward_runs[1].create_graph


def test_hooks_of_the_user_that_change_gradients_are_seen():
    """A node is shown what the user's hook made of the gradient."""
    with tr.Recorder(stats=True) as recorder:
        x = torch.ones(3, requires_grad=True)
        y = x * 1
        y.register_hook(lambda gradient: gradient * 5)
        y.sum().backward()
    (given,) = [
        each for each in recorder.recording.statistics
        if each.run == 0 and recorder.recording.grad_nodes[each.node].name == "MulBackward0"
    ]
    assert given.mean == 5 and torch.equal(x.grad, torch.full((3,), 5.0))


@pytest.mark.parametrize("reentrant", [False, True])
def test_recompute_is_not_a_second_forward(reentrant):
    """What a checkpoint runs again in backward is marked as such."""
    model = mlp()
    with tr.Recorder(model) as recorder:
        x = torch.ones(5, 4, requires_grad=True)
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()
    calls = [each for each in recorder.recording.scopes.values() if each.path == "0"]
    assert [each.recompute for each in calls] == [False, True]
    assert recorder.recording.grad_runs


def test_a_failing_node_is_named():
    """The exception keeps its type and says where; the recording shows how far it came."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), Breaks(), torch.nn.Linear(3, 2))
    with pytest.raises(ValueError, match="no gradient today") as raised:
        with tr.Recorder(model):
            model(torch.ones(5, 4)).sum().backward()
    (note,) = raised.value.__notes__
    assert "`BrokenBackward`" in note and "float32[5, 3]" in note and "test_backward.py" in note
    recording = tr.recording_of(raised.value)
    failure = recording.run.failure
    assert failure.backward and recording.grad_nodes[failure.grad].name == "BrokenBackward"
    assert recording.grad_nodes[failure.grad].failed and recording.ops[failure.op].failed
    assert [each.failed for each in recording.grad_runs] == [False] * (
        len(recording.grad_runs) - 1
    ) + [True]
    assert recording.backward_runs[0].failed


def test_a_graph_that_was_freed_fails_in_its_node():
    """A second pass over a freed graph names the first node that had saved something."""
    with pytest.raises(RuntimeError, match="second time") as raised:
        with tr.Recorder():
            x = torch.ones(3, requires_grad=True)
            loss = x.exp().sum()
            loss.backward()
            loss.backward()
    failure = tr.recording_of(raised.value).run.failure
    assert tr.recording_of(raised.value).grad_nodes[failure.grad].name == "ExpBackward0"


def test_a_backward_that_cannot_begin_fails_in_its_call():
    """Without any node running, the call of backward is what failed."""
    with pytest.raises(RuntimeError, match="implicitly created") as raised:
        with tr.Recorder():
            torch.ones(3, requires_grad=True).exp().backward()
    failure = tr.recording_of(raised.value).run.failure
    assert failure.grad is None
    assert tr.recording_of(raised.value).ops[failure.op].name == "backward"


def test_a_failure_the_user_handles_leaves_the_run_whole():
    """A pass that fails and is caught is marked; the next one is recorded as ever."""
    with tr.Recorder() as recorder:
        x = torch.ones(3, requires_grad=True)
        try:
            Broken.apply(x).sum().backward()
        except ValueError:
            pass
        x.exp().sum().backward()
    recording = recorder.recording
    assert recording.run.failure is None
    assert [each.failed for each in recording.backward_runs] == [True, False]


def test_hooks_are_gone_and_the_graph_with_them():
    """Over 100 steps no graph stays alive because of a hook."""
    model, x = mlp(), torch.ones(5, 4)
    marks = []
    gc.disable()
    try:
        for _ in range(100):
            with tr.Recorder(model):
                output = model(x)
                activation = weakref.ref(output)
                loss = output.sum()
                loss.backward()
            marks.append(activation)
            del output, loss
        assert [mark() for mark in marks] == [None] * 100
    finally:
        gc.enable()


def test_no_hook_stays_on_a_retained_graph():
    """After the block a pass over the same graph is heard by nobody."""
    with tr.Recorder() as recorder:
        x = torch.ones(3, requires_grad=True)
        loss = x.exp().sum()
        loss.backward(retain_graph=True)
    before = len(recorder.recording.grad_runs)
    loss.backward()
    assert len(recorder.recording.grad_runs) == before == 3


@pytest.mark.parametrize("options", [{}, {"stats": True, "flops": True, "keep": "*"}])
def test_gradients_are_the_same_bits(options):
    """With everything on, a step gives the same loss, gradients and buffers."""

    def step(record):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(inplace=True),
            torch.nn.Dropout(), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 2),
        )
        x = torch.rand(2, 3, 8, 8, requires_grad=True)
        if record:
            with tr.Recorder(model, **options):
                loss = model(x).pow(2).sum()
                loss.backward()
        else:
            loss = model(x).pow(2).sum()
            loss.backward()
        found = [loss, x.grad, *model.buffers(), *(p.grad for p in model.parameters())]
        return [each.detach().clone() for each in found], torch.get_rng_state()

    plain, state = step(False)
    recorded, after = step(True)
    assert torch.equal(state, after)
    assert all(torch.equal(one, other) for one, other in zip(plain, recorded))


def test_record_with_backward_changes_nothing():
    """Gradients of parameters and inputs, and the user's own graph, are left alone."""
    model = mlp()
    weight = torch.ones(5, 4, requires_grad=True)
    x = weight * 2
    model(x).sum().backward(retain_graph=True)
    before = [each.grad.clone() for each in (weight, *model.parameters())]
    recording = tr.record(model, x, backward=True)
    assert recording.grad_runs
    after = [each.grad for each in (weight, *model.parameters())]
    assert all(torch.equal(one, other) for one, other in zip(before, after))
    x.sum().backward()


def test_the_recorder_is_inert_around_a_step():
    """Nothing that can be noticed differs."""
    assert_inert(lambda: (mlp(), (torch.ones(5, 4),), {}))


def _hook_on_module(layer, kept):
    layer.register_full_backward_hook(lambda module, inputs, outputs: kept.append(outputs[0]))


def _hook_on_output(layer, kept):
    layer.register_forward_hook(lambda module, args, y: y.register_hook(kept.append) and None)


@pytest.mark.parametrize("add_hook", [_hook_on_module, _hook_on_output])
def test_gradient_that_a_hook_keeps_is_made_by_its_pass(add_hook):
    """As Grad-CAM does: what reads it later reads it from the pass; other tensors stay known."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    kept, mask = [], torch.ones(4)
    add_hook(model[1], kept)
    with tr.Recorder(model) as recorder:
        for _ in range(2):
            model(torch.ones(2, 3)).sum().backward()
        weighted = [gradient.mul(mask) for gradient in kept]
    assert len(weighted) == 2
    recording = recorder.recording
    passes = [op.id for op in recording.ops.values() if op.name == "backward"]
    products = [op for op in recording.ops.values() if op.name == "mul"]
    makers = [recording.values[op.inputs[0].value].producer for op in products]
    assert makers == passes
    assert {recording.values[op.inputs[1].value].producer for op in products} == {None}


@pytest.mark.parametrize("of_sum", [True, False])
def test_gradient_that_a_hook_keeps_around_a_sum(of_sum):
    """The sum itself, which only the node that takes it sees; or what only its maker sees."""
    kept = []
    with tr.Recorder() as recorder:
        y = torch.ones(2, requires_grad=True).sin()
        z = y.exp()
        if of_sum:
            y.register_hook(kept.append)
        else:
            z.grad_fn.register_hook(lambda inputs, outputs: kept.append(inputs[0]))
        (z + y).sum().backward()
        kept[0].mul(2.0)
    ops = {op.name: op for op in recorder.recording.ops.values()}
    assert recorder.recording.values[ops["mul"].inputs[0].value].producer == ops["backward"].id
