"""Why the gradient of a parameter is zero, where statistics were recorded."""

from __future__ import annotations

import re

import torch
from torch import nn

import torchrecorder as tr

ZEROS = "; its result is only zeros, too"


class Ends(nn.Module):
    """Layers whose outputs are each lost to autograd in its own way, without a cut."""

    def __init__(self):
        super().__init__()
        for name in ("kept", "rounded", "dead", "unweighted"):
            setattr(self, name, nn.Linear(3, 3))

    def forward(self, x):
        rounded = (self.rounded(x) + 9).round()
        dead = (self.dead(x) - 100).relu()
        return self.kept(x) + rounded + dead + self.unweighted(x) * 0


def test_gradients_of_zeros():
    """The node that received others is named, if statistics were recorded."""
    model, x = Ends(), torch.ones(2, 3)
    found = tr.record(model, x, backward=True, stats=True)
    model(x).sum().backward()
    for name, parameter in model.named_parameters():
        why = found.why_no_gradient(name)
        assert (why is None) == bool(parameter.grad.any())
        assert why is None or why.reason == "zero"
    told = [found.why_no_gradient(f"{name}.weight") for name in ("rounded", "dead", "unweighted")]
    assert [why.ops[0].name for why in told] == ["round", "relu", "mul"]
    assert re.fullmatch(
        r"rounded\.weight has a gradient of zeros: RoundBackward0 of round\(\) in Ends at \S+ "
        "returned only zeros for it",
        str(told[0]),
    )
    assert [why.text.partition("for it")[2] for why in told[1:]] == [ZEROS] * 2
    unmeasured = tr.record(model, x, backward=True)
    assert unmeasured.why_no_gradient("rounded.weight") is None


def test_behind_weights_of_zeros() -> None:
    """As in an adapter that starts without an effect: only its last weights get a gradient."""
    down, up = nn.Linear(3, 2, bias=False), nn.Linear(2, 3, bias=False)
    nn.init.zeros_(up.weight)
    with tr.Recorder(model := nn.Sequential(down, up), stats=True) as recorder:
        x = torch.ones(2, 3)
        (x + model(x)).square().sum().backward()
    recording = recorder.recording
    assert recording.why_no_gradient("1.weight") is None
    text = recording.why_no_gradient("0.weight").text
    assert text.endswith(f"{ZEROS}, as with weights that are zeros")


def test_a_pass_of_zeros_after_another_one():
    """The gradients are added, and not zeros; a pass that begins with zeros gives only such."""
    layer = nn.Linear(3, 1)
    with tr.Recorder(layer, stats=True) as recorder:
        loss = layer(torch.ones(2, 3)).sum()
        loss.backward(retain_graph=True)
        (loss * 0).backward()
    assert recorder.recording.why_no_gradient("weight") is None
    with tr.Recorder(layer, stats=True) as recorder:
        layer(torch.ones(2, 3)).sum().backward(torch.zeros(()))
    assert recorder.recording.why_no_gradient("weight").text == "the backward pass began with zeros"
