"""Tensors that are kept on request: what scopes and operations gave, and its gradients."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import torchrecorder as tr
from tests.capture.test_measured import mlp
from torchrecorder.capture.tensors.argument_objects import MAX_ATTRIBUTE_DEPTH, places_in
from torchrecorder.errors import NotKept


def test_kept_activations_and_gradients():
    """Copies of what scopes gave, before anybody wrote it in place, and of its gradient."""
    model, x = mlp(), torch.ones(5, 4)
    plain = torch.nn.functional.linear(x, model[0].weight, model[0].bias).detach()
    with tr.Recorder(model, keep=["0", "2"]) as recorder:
        model(x).pow(2).sum().backward()
    recording = recorder.recording
    assert torch.equal(recording.activations["0"], plain) and (plain < 0).any()
    assert torch.equal(recording.gradients["2"], 2 * recording.activations["2"])
    assert list(recording.activations) == ["0", "2"]
    assert not recording.activations["0"].requires_grad
    with pytest.raises(NotKept, match=r"keep=\['1'\]"):
        recording.activations["1"]


def test_a_module_called_twice_keeps_both_calls():
    """Several calls give a list."""
    layer = torch.nn.Linear(3, 3)
    model = torch.nn.Sequential(layer, layer)
    recording = tr.record(model, torch.ones(1, 3), keep="0")
    assert len(recording.activations["0"]) == 2


class Attends(torch.nn.Module):
    """Values that no module gives."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x):
        high, place = self.fc(x).softmax(-1).max(dim=-1)
        return (high - place).relu_()


def test_values_of_operations_are_kept():
    """By their names in rankings, as scopes by theirs; their gradients too."""
    model, x = Attends(), torch.randn(5, 4)
    with tr.Recorder(model, keep=["*: softmax", "Attends: max", "fc", "*: sum"]) as recorder:
        model(x).sum().backward()
    recording = recorder.recording
    assert list(recording.activations) == ["fc", "Attends: softmax", "Attends: max", "sum"]
    soft = model.fc(x).softmax(-1)
    assert torch.equal(recording.activations["Attends: softmax"], soft)
    high, place = recording.activations["Attends: max"].values()
    assert torch.equal(high, soft.amax(-1)) and torch.equal(place, soft.argmax(-1))
    wanted = recording.gradients["Attends: softmax"]
    soft = soft.detach().requires_grad_()
    high, place = soft.max(dim=-1)
    (high - place).relu().sum().backward()
    assert torch.equal(wanted, soft.grad)
    with pytest.warns(tr.NothingFound, match="did you mean 'Attends: softmax'"):
        tr.record(model, x, keep="Attends: softmin")


@pytest.mark.parametrize("pattern", [
    "Attends: softmax", "*: softmax", "*: soft*", "*: *max", "*: softma?", "*: softma[xy]",
    "*: s*x", "A*: ??ftmax",
])
def test_patterns_of_operations_have_wildcards_anywhere(pattern):
    """Also at the end, and in the name of the operation alone."""
    kept = tr.record(Attends(), torch.randn(5, 4), keep=pattern).activations
    assert "Attends: softmax" in kept and {*kept} <= {"Attends: softmax", "Attends: max"}


def test_nothing_is_kept_unasked():
    """Without keep there is nothing to be had."""
    recording = tr.record(mlp(), torch.ones(1, 4))
    assert len(recording.activations) == 0
    with pytest.raises(NotKept, match="backward=True, replay=True.*retain_graph=True"):
        recording.replay("g0")


def test_what_a_recording_in_a_variable_holds_gives_no_names():
    """It is not searched, which would take longer than the recording of some models."""
    first, held = tr.record(torch.nn.Linear(2, 2), torch.ones(1, 2)), torch.ones(2)
    vars(first)["held"] = held
    roots = [("first", first), ("other", SimpleNamespace(held=held))]
    found = places_in(roots, MAX_ATTRIBUTE_DEPTH)
    assert [name for name, _ in found] == ["other.held"]


@pytest.mark.parametrize("option", ["replay", "keep", "stats"])
def test_modes_of_the_program_do_not_see_copies(option):
    """Neither its dispatch modes, which stay active in backward, nor its function modes."""

    class Listens(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))

    def run():
        model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
        with Listens() as listens:
            model(torch.ones(1, 2)).sum().backward()
        return listens.seen

    plain = run()
    with tr.Recorder(**{option: True}):
        assert run() == plain
