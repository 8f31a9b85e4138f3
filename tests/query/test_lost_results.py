"""Weights without a gradient whose results are lost: copies, numbers, failures, indices."""

from __future__ import annotations

import contextlib
import copy
import re

import pytest
import torch
from torch import nn

import torchrecorder as tr
from tests.query.test_missing_gradient import NUMPY


class Wraps(nn.Module):
    """A model that makes new tensors of the memory of a weight."""

    def __init__(self, wraps):
        super().__init__()
        self.weight, self.other = (nn.Parameter(torch.ones(4)) for _ in range(2))
        self.wraps = wraps

    def forward(self, x):
        return x * self.wraps(self.weight) + self.other


WRAPS = {
    "a parameter of a result": (
        lambda weight: nn.Parameter(weight.clone()),
        r"nn\.Parameter\(\) makes a new leaf of the result of clone\(\) .* at {file}:\d+, "
        r"which mul\(\) in Wraps at {file}:\d+ reads",
    ),
    "a parameter of the weight": (
        nn.Parameter, r"nn\.Parameter\(\) makes a new leaf of it, which mul\(\) in Wraps at {file}:"
    ),
    "an array": (
        lambda weight: torch.from_numpy(weight.detach().numpy()),
        r"numpy\(\) in .* at {file}:\d+ converts it to a Python number or NumPy array",
    ),
    "another library": (
        lambda weight: torch.from_dlpack(weight.detach()), r"autograd is left in detach\(\) "
    ),
}


@pytest.mark.parametrize(("wraps", "text"), WRAPS.values(), ids=WRAPS)
def test_weights_that_are_wrapped_again(wraps, text):
    """What the program did, with its line: no alias of the recorder's is named."""
    if not NUMPY:
        pytest.skip("needs NumPy")
    model = Wraps(wraps)
    with tr.Recorder(model) as recorder:
        model(torch.ones(4)).sum().backward()
    assert model.weight.grad is None
    why = recorder.recording.why_no_gradient("weight")
    assert why.reason == "left autograd" and "alias" not in str(why)
    assert re.search(text.format(file=r"\S*test_lost_results\.py"), why.text)
    assert recorder.recording.why_no_gradient("other") is None


@pytest.mark.filterwarnings("ignore:Converting a tensor")
def test_numbers_that_python_takes_out():
    """By ``float()`` as by ``item()``."""
    layer = nn.Linear(3, 1)
    for take in (float, complex, torch.Tensor.item):
        recording = tr.record(lambda x: torch.tensor(take(layer(x))).abs(), torch.ones(3))
        why = recording.why_no_gradient("layer.weight")
        assert why.reason == "left autograd" and "converts it to a Python number" in why.text
        assert f"{take.__name__}() in " in why.text


def test_a_copied_parameter_is_named_where_the_program_copies_it():
    """Not in the file of Python's ``copy``."""
    layer = nn.Linear(3, 3)
    recording = tr.record(
        lambda x: x @ copy.deepcopy(layer.weight), torch.ones(3, 3), backward=True
    )
    assert "at tests/query/test_lost_results.py:" in str(
        recording.why_no_gradient("layer.weight")
    )


class Falls(nn.Module):
    """Has a branch that fails, and one that is taken instead."""

    def __init__(self):
        super().__init__()
        self.before, self.failing, self.instead = (nn.Linear(4, size) for size in (3, 4, 4))

    def forward(self, x):
        try:
            return self.failing(self.before(x))
        except RuntimeError:
            return self.instead(x)


def test_a_failed_operation_whose_error_the_program_caught():
    """It is named for its own weight, and for one further up."""
    recording = tr.record(Falls(), torch.ones(2, 4), backward=True)
    for name in ("failing.weight", "before.weight"):
        why = recording.why_no_gradient(name)
        assert why.reason == "not in the loss" and [op.name for op in why.ops] == ["linear"]
        assert re.search(r"reaches the loss: linear\(\) in failing at \S+ failed$", why.text)
    assert recording.why_no_gradient("instead.weight") is None


def test_the_last_of_several_operations_that_failed():
    """It is named; all of them are there."""
    layer, loss = nn.Linear(4, 3), nn.Linear(4, 1)

    def step(x):
        hidden = layer(x)
        for matrix in (torch.mm, torch.bmm):
            with contextlib.suppress(RuntimeError):
                matrix(hidden, hidden)
        loss(x).sum().backward()

    why = tr.record(step, torch.ones(2, 4)).why_no_gradient("layer.weight")
    assert re.search(r"reaches the loss: bmm\(\) in step at \S+ failed$", why.text)
    assert [op.name for op in why.ops] == ["mm", "bmm"]


class Indices(nn.Module):
    """Uses only the indices of its largest weights, and a derivative that the bias is not in."""

    def __init__(self):
        super().__init__()
        self.scores, self.layer = nn.Parameter(torch.arange(4.0)), nn.Linear(4, 4)

    def forward(self, x):
        values, order = self.scores.topk(2)
        _, tangent = torch.func.jvp(self.layer, (x,), (torch.ones_like(x),))
        return tangent[order.float().long()]


def test_only_the_results_that_are_used_explain_a_lost_gradient():
    """Another result of the same call may have a gradient."""
    model = Indices()
    recording = tr.record(model, torch.ones(4), backward=True, restore=False)
    assert model.layer.weight.grad is not None and model.layer.bias.grad is None
    assert recording.why_no_gradient("layer.weight") is None
    why = recording.why_no_gradient("scores")
    assert re.search(r"left in topk\(\).*: its result is int64, which has no gradient$", why.text)
    why = recording.why_no_gradient("layer.bias")
    assert why.text.endswith("its result requires grad because of other tensors only")
