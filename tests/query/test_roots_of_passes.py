"""Where a backward pass begins, for the question why a parameter has no gradient."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

import torchrecorder as tr
from tests.graph.test_consistency import changed
from torchrecorder.capture.internals.table import BACKWARD_CALLS
from torchrecorder.query.autograd_paths import why_left
from torchrecorder.testing import Builder


def asks_by_inputs(loss, beside, tensors):
    """A pass for the gradients of some tensors."""
    loss.backward(inputs=tensors)


def asks_by_grad(loss, beside, tensors):
    """Gradients that are returned."""
    torch.autograd.grad(loss, tensors, allow_unused=True)


def gives_a_gradient(loss, beside, tensors):
    """A pass from a gradient that depends on the tensors."""
    loss.backward(gradient=beside.sum().detach())


def gives_several(loss, beside, tensors):
    """The same, of a list of tensors."""
    torch.autograd.backward([loss], [beside.sum()], inputs=tensors)


def adds_to_a_gradient(loss, beside, tensors):
    """A pass whose gradient is added to one that depends on the tensors."""
    loss.backward(retain_graph=True)
    tensors[0].grad = beside.detach()
    loss.backward()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns")
@pytest.mark.parametrize("call", [
    asks_by_inputs, asks_by_grad, gives_a_gradient, adds_to_a_gradient,
    pytest.param(gives_several, marks=pytest.mark.skipif(
        not BACKWARD_CALLS.present, reason="this PyTorch does not show such passes"
    )),
])
def test_what_is_asked_for_or_given_is_not_the_loss(call):
    """A pass starts neither at the tensors whose gradients it computes, nor at given gradients."""
    kept, aside = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    with tr.Recorder() as recorder:
        loss, beside = (kept * 2).sum(), aside * 3
        call(loss, beside, [kept, aside])
    assert aside.grad is None
    found = recorder.recording.why_no_gradient("aside")
    assert (found.reason, "reaches the loss" in found.text) == ("not in the loss", True)


def test_the_bias_that_a_gradient_penalty_does_not_need():
    """The loss is where ``backward()`` begins, not where ``grad()`` did."""
    model, x = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1)), torch.ones(2, 3)
    with tr.Recorder(model) as recorder:
        x.requires_grad_()
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        gradient.norm().backward()
    assert [parameter.grad is None for parameter in model.parameters()] == [False] * 3 + [True]
    assert recorder.recording.why_no_gradient("2.weight") is None
    assert recorder.recording.why_no_gradient("2.bias").reason == "not in the loss"


@pytest.mark.parametrize(("dtypes", "why"), [
    (("float32", "int64"), "its result does not require grad"),
    (("int64", "float32"), "its result does not require grad"),
    (("int64", "bool"), "its result is int64, which has no gradient"),
])
def test_why_results_of_several_types_have_no_gradient(dtypes, why):
    """The type is the reason only if none of those that are asked for can have one."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("topk", run.input("x"), outputs=2)
    recording = run.recording()
    for value, dtype in zip(recording.ops["o0"].outputs, dtypes):
        recording = changed(recording, "values", value, dtype=dtype)
    op = recording.ops["o0"]
    assert why_left(recording, op, op.outputs) == why


def test_a_pass_that_begins_at_an_input():
    """No operation made it: it is none that was made anew."""
    with pytest.raises(RuntimeError) as caught:
        tr.record(lambda x: x.backward(), torch.ones(()))
    why = tr.recording_of(caught.value).why_backward_failed()
    assert why.reason == "no graph"
    assert "this tensor was computed only from tensors that do not require grad" in why.text
