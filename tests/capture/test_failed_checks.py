"""Failures of the checks that PyTorch makes of gradients after a node has run."""

import warnings

import pytest
import torch
from torch import nn

import torchrecorder as tr
from tests.callers import called


class Root(nn.Module):
    """Its square root at 0 has an infinite slope."""

    def forward(self, x):
        return (x * 0).sqrt()


class Twisted(torch.autograd.Function):
    """Returns a gradient of another size."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.new_ones(7)


def _failed(run, message):
    """The note, and the recording, of a run that fails with this *message*."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # anomaly mode says that it is slow, and where it failed
        with pytest.raises(RuntimeError, match=message) as caught, tr.Recorder():
            run()
    recording = tr.recording_of(caught.value)
    assert not recording.run.lost
    return caught.value.__notes__[0], recording


def _backward(loss, x):
    loss.backward()


def _grad(loss, x):
    torch.autograd.grad(loss, x)


@pytest.mark.parametrize("go_back", [_backward, _grad])
def test_nan_in_anomaly_mode_is_that_of_a_node(go_back):
    """The node that gave it, its module and its line in the forward pass are told."""
    model = nn.Sequential(nn.Linear(3, 3), Root())

    def run():
        x = torch.zeros(2, 3, requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            go_back((model(x) * 0).sum(), x)

    note, recording = _failed(run, "returned nan values")
    failure = recording.run.failure
    assert failure.backward and recording.grad_nodes[failure.grad].name == "SqrtBackward0"
    assert recording.ops[failure.op].name == "sqrt"
    assert [run.grad for run in recording.grad_runs if run.failed] == [failure.grad]
    assert note.startswith("torchrecorder: in backward, while running `SqrtBackward0`, given ")
    place = f"{called('model', 'Sequential')}.1"
    assert f"made by `{place}` (Root), op `sqrt`, at " in note and "raised" not in note
    assert recording.failed >= {failure.grad, failure.op}


def test_gradient_of_another_size():
    """Of a custom function, after its backward."""

    def run():
        Twisted.apply(torch.ones(2, 3, requires_grad=True) * 2).sum().backward()

    note, recording = _failed(run, "returned an invalid gradient")
    assert recording.grad_nodes[recording.run.failure.grad].name == "TwistedBackward"
    assert "made by autograd.Function `Twisted`" in note


def test_a_long_message_ends_in_an_ellipsis():
    """What is left out of it shall not look like its end."""
    with pytest.raises(RuntimeError) as caught, tr.Recorder():
        torch.ones(1).abs()
        raise RuntimeError("a" * 501)
    assert tr.recording_of(caught.value).run.failure.message == "a" * 500 + "…"
