"""Passes that a node runs itself, as those of reentrant checkpoints, against autograd's results."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import torchrecorder as tr
from tests.page.test_data import Page, data_of
from torchrecorder.capture.internals import access
from torchrecorder.capture.internals.table import ENGINE_CALLS, SAVED_TENSORS
from torchrecorder.views.backward import backward_view
from torchrecorder.views.view import BoxKind

pytestmark = pytest.mark.skipif(bool(ENGINE_CALLS.missing), reason="needs calls of the engine")


class OwnPass(torch.autograd.Function):
    """A checkpoint of the program's own, as libraries have them."""

    @staticmethod
    def forward(ctx, function, x):
        ctx.function = function
        ctx.save_for_backward(x)
        with torch.no_grad():
            return function(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = (tensor.detach().requires_grad_() for tensor in ctx.saved_tensors)
        with torch.enable_grad():
            y = ctx.function(x)
        torch.autograd.backward(y, gradient)
        return None, x.grad


def again(function, x):
    return checkpoint(function, x, use_reentrant=True)


class Net(nn.Module):
    """Layers in checkpoints of the kind *through*, and a layer outside of them."""

    def __init__(self, through):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4)) for _ in range(3)
        )
        self.last = nn.Linear(4, 1)
        self.through = through

    def forward(self, x):
        for block in self.blocks:
            x = self.through(block, x)
        return self.last(x).sum()


THROUGH = {
    "checkpoint": again,
    "checkpoint of a function": lambda block, x: again(lambda y: block(y.sin()), x),
    "checkpoint in a checkpoint": lambda block, x: again(lambda y: again(block, y).tanh(), x),
    "function of the program": OwnPass.apply,
}


def recorded(model, x):
    """A step with statistics, and a recording of it."""
    with tr.Recorder(model, stats=True) as recorder:
        model(x).backward()
    return recorder.recording


def by_name(recording, numbers):
    """The numbers of weights, by their names."""
    values = recording.values
    return {
        values[item].names[0]: number
        for item, number in recording.annotations[numbers].by_node.items()
        if values[item].role.value == "parameter"
    }


@pytest.mark.parametrize("through", THROUGH.values(), ids=THROUGH)
def test_weights_have_the_gradients_that_autograd_adds(through):
    """Norm and bytes of each ``.grad``; and ``.grad`` is that of a run without the recorder."""
    torch.manual_seed(0)
    model, x = Net(through), torch.rand(2, 4, requires_grad=True)
    model(x).backward()
    plain = {name: weight.grad for name, weight in model.named_parameters()}
    model.zero_grad()
    recording = recorded(model, x)
    assert all(weight.grad.equal(plain[name]) for name, weight in model.named_parameters())
    norms = {name: float(gradient.double().norm()) for name, gradient in plain.items()}
    assert by_name(recording, "parameter_gradient_norm") == pytest.approx(norms)
    assert by_name(recording, "gradient_bytes") == {
        name: gradient.nbytes for name, gradient in plain.items()
    }
    total = sum(norm**2 for norm in norms.values())
    assert recording.annotations["parameter_gradient_norm"].total() == pytest.approx(total**0.5)
    assert recording.run.lost == 0


def test_a_series_has_the_gradients_of_checkpointed_modules():
    """As norms of each module; only of a module whose weights get several gradients in one pass is
    the norm unknown."""
    model, x = Net(again), torch.rand(2, 4, requires_grad=True)
    model.blocks[1] = model.blocks[0]
    series = tr.Series(model)
    with series.step():
        model(x).backward()
    found = {point.scope: point.parameter_gradient_norm for point in series.points}
    for name in ("blocks.2.0", "blocks.2.2", "last"):
        gradients = [weight.grad for weight in model.get_submodule(name).parameters()]
        wanted = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        assert found[name] == pytest.approx(float(wanted), rel=1e-5)
    assert found["blocks.0.0"] is None and found["blocks.0.2"] is None


def test_what_holds_a_weight_of_unknown_norm_has_none():
    """Neither its module nor those around it have a joint norm without that weight: not in tables,
    rankings, summaries or pages. The other modules have theirs."""
    torch.manual_seed(0)
    model, x = Net(again), torch.rand(2, 4, requires_grad=True)
    model.blocks[1] = model.blocks[0]
    recording, name = recorded(model, x), "parameter_gradient_norm"
    last = [weight.grad.double().norm() for weight in model.last.parameters()]
    wanted = pytest.approx(float(torch.stack(last).norm()))
    rows = {row["name"]: row[name] for row in recording.table([name], by="module")}
    assert rows["last"] == wanted and rows["blocks.2"] is not None
    assert rows["Net"] is rows["blocks.0"] is rows["blocks.0.2"] is None
    ranked = {place.name: place.number for place in recording.top(name)}
    assert ranked.keys() == {"last", "blocks.2.0", "blocks.2.2"} and ranked["last"] == wanted
    assert math.isnan(recording.annotations[name].total())
    shown = {line.split()[0]: line for line in recording.summary(columns=[name]).splitlines()[2:-1]}
    assert shown["Net"].split()[1:] == []
    page = Page(data_of(recording, fold=False))
    assert page.number(name, "last: Linear") == pytest.approx(ranked["last"], rel=1e-3)
    assert page.number(name, "Net") is None


@pytest.mark.skipif(not SAVED_TENSORS.present, reason="needs the contents of saved tensors")
def test_saved_bytes_are_those_of_forward():
    """What hooks see there, and what the summary shows; the recomputation saves more later."""
    model, x = Net(again), torch.rand(2, 4, requires_grad=True)
    weights = {weight.untyped_storage()._cdata for weight in model.parameters()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            kept[storage._cdata] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(x)
    wanted = sum(storage.nbytes() for storage in kept.values())
    del output
    recording = recorded(model, x)
    assert recording.annotations["saved_bytes"].total() == wanted > 0
    assert sum(row.number for row in recording.top("saved_bytes", 99)) == wanted


@pytest.mark.parametrize("through", THROUGH.values(), ids=THROUGH)
def test_the_backward_view_connects_the_node_with_its_weights(through):
    """The recomputed graph is in the box of the node that ran it: every box has run, and the loss
    leads to every weight."""
    model, x = Net(through), torch.rand(2, 4, requires_grad=True)
    recording = recorded(model, x)
    view = backward_view(recording, depth=99)
    view.check()
    reached, waiting = set(), [next(iter(view.boxes))]
    while waiting:
        box = waiting.pop()
        if box not in reached:
            reached.add(box)
            waiting += [arrow.head for arrow in view.arrows if arrow.tail == box]
    assert reached == set(view.boxes)
    leaves = [box for box in view.boxes.values() if box.kind is BoxKind.PARAMETER]
    assert len(leaves) == len([*model.parameters()])
    ran = {run.grad for run in recording.grad_runs}
    assert all(ran & {*box.members} for box in view.boxes.values())


def test_calls_in_checkpoints_fold_in_the_summary():
    """As those of checkpoints that are not reentrant, in one row."""
    text = recorded(Net(again), torch.rand(2, 4, requires_grad=True)).summary()
    assert "checkpoint  ×3" in text and "alias" not in text


def test_a_custom_function_that_may_add_to_gradients_itself_runs_a_pass(monkeypatch):
    """As all may in PyTorch 2.15: nothing tells when its node ends, and the pass is its own."""
    monkeypatch.setattr(access, "_USES_BUFFERS", True)
    model = Net(again)
    recording = recorded(model, torch.rand(2, 4, requires_grad=True))
    assert by_name(recording, "gradient_bytes") == {
        name: weight.grad.nbytes for name, weight in model.named_parameters()
    }


@pytest.mark.parametrize("through", [again, OwnPass.apply])
@pytest.mark.parametrize("name", ["flops", "backward_flops", "output_bytes", "saved_bytes"])
def test_numbers_of_modules_add_up_to_that_of_the_run(name, through):
    """What ran again in the backward pass has no module: its memory and forward FLOPs do not count,
    and the FLOPs of a pass that a node runs count for the module with this node."""
    x = torch.rand(2, 4, requires_grad=True)
    recording = tr.record(Net(through), x, backward=True, flops=True)
    rows = recording.table([name])
    total = recording.annotations[name].total()
    assert total == sum(row[f"self_{name}"] or 0 for row in rows) == rows[0][name] > 0
