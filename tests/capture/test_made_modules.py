"""Modules that a block makes: their weights are parameters, named by the model that is called."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

import torchrecorder
from tests.callers import called
from torchrecorder.events import Role

X = torch.ones(2, 4)


def weights(recording: torchrecorder.Recording) -> list[str]:
    """The names of parameters, in the order of their modules."""
    found = [
        slot.value for module in recording.modules.values() for slot in module.parameters
    ]
    assert all(recording.values[value].role is Role.PARAMETER for value in found)
    return [" ".join(recording.values[value].names) for value in dict.fromkeys(found)]


def test_weights_that_functional_call_takes_inside_of_grad() -> None:
    """The wrapped parameters are those of the module, although it never has others."""
    with torchrecorder.Recorder() as recorder:
        net = nn.Linear(4, 1)

        def loss(held):
            return torch.func.functional_call(net, held, (X,)).sum()

        held = dict(net.named_parameters())
        gradients = torch.func.grad(loss)(held)
        loss({name: held[name] - gradients[name] for name in held}).backward()
    recording, name = recorder.recording, called("net", "")
    assert all(weight.grad is not None for weight in net.parameters())
    prefix = f"{name}." if name else ""
    assert weights(recording) == [f"{prefix}weight", f"{prefix}bias"]
    assert recording.annotations["parameters"].total() == 5
    for weight in weights(recording):
        assert "no gradient" not in str(recording.why_no_gradient(weight)).lower()


@pytest.mark.parametrize("parametrized", [spectral_norm, weight_norm])
def test_weights_of_parametrizations_have_the_path_of_the_model(parametrized) -> None:
    """Which calls them while it is made, when nothing holds them yet."""
    with torchrecorder.Recorder() as recorder:
        model = nn.Sequential(parametrized(nn.Linear(4, 4)), nn.ReLU())
        model(X)
    root = called("model", "Sequential")
    assert set(weights(recorder.recording)) == {
        f"{root}.{name}" for name, _ in model.named_parameters()
    }


class Sized(nn.Module):
    """Runs its layers once to see the size of their result."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
        self.head = nn.Linear(self.features(X).shape[1], 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x))


def test_a_module_that_its_construction_calls() -> None:
    """Alone later, it has the name of that call; in its model, that of its place."""
    with torchrecorder.Recorder() as recorder:
        model = Sized()
        model(X)
    root = called("model", "Sized")
    wanted = {f"{root}.{name}" for name, _ in model.named_parameters()}
    assert {name.split()[-1] for name in weights(recorder.recording)} == wanted
    with torchrecorder.Recorder() as recorder:
        made = spectral_norm(nn.Linear(4, 4))
        parts = made.parametrizations.weight
        parts()
    name = called("parts", "ParametrizationList")
    assert weights(recorder.recording) == [f"{name}.original"]
    assert list(recorder.recording.scopes.values())[-3].path == name


def test_tied_weights_are_noted() -> None:
    """As those of a model from before the block; computed weights of a call are not."""
    with torchrecorder.Recorder() as recorder:
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        model[1].weight = model[0].weight
        model(X)
    assert recorder.recording.summary().count("tied") == 2
