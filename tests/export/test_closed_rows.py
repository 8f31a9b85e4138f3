"""Notes of rows whose modules are not listed: on all parameters in them."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn
from torch.func import functional_call

from torchrecorder import Recorder, Recording, record

X = torch.ones(2, 4)


def _model() -> nn.Sequential:
    """Two blocks of two layers that differ in size."""
    return nn.Sequential(
        nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 8))),
        nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 2)),
    )


def _notes(recording: Recording, depth: int) -> dict[str, str]:
    """The notes of the rows down to this depth, by the names of their modules."""
    _, rows, _ = re.split("\n─+\n", recording.summary(depth, columns=()))
    return dict(re.findall(r"(\w+)(?: \(\w+\))? {2,}(\w.*)", rows))


def test_frozen_weights_inside() -> None:
    """As many as there are, in the closed rows alone."""
    model = _model()
    model[0][1].requires_grad_(False)
    recording = record(model, X)
    assert _notes(recording, 1) == {"0": "2 of 4 parameters frozen"}
    assert _notes(recording, 2) == {"1": "frozen"}
    model[0].requires_grad_(False)
    assert _notes(record(model, X), 1) == {"0": "frozen"}
    assert _notes(record(model, X), 0) == {"Sequential": "4 of 8 parameters frozen"}


def test_one_frozen_weight_of_a_layer() -> None:
    """It is named, as in a module that has weights beside those of its submodules."""
    model = _model()
    model[1][1].bias.requires_grad_(False)
    model.scale = nn.Parameter(torch.ones(1), requires_grad=False)
    model[0].scale = nn.Parameter(torch.ones(1))
    assert _notes(record(model, X), 2) == {"1": "frozen bias", "Sequential": "frozen scale"}


def test_frozen_weights_in_all_of_several_blocks() -> None:
    """They share a line, which counts those of all."""
    blocks = [_model()[1] for _ in range(3)]
    for block in blocks:
        block[0], block[1] = nn.Linear(4, 8), nn.Sequential(nn.Linear(8, 4)).requires_grad_(False)
    recording = record(nn.Sequential(*blocks), X)
    assert "×3  6 of 12 parameters frozen\n" in recording.summary(1, columns=())
    assert _notes(recording, 2) == {"1": "frozen"}


def test_weights_computed_in_the_run_are_not_frozen() -> None:
    """Wherever the modules that are called with them are closed."""
    model = _model()

    def step(x: torch.Tensor) -> torch.Tensor:
        weights = {name: weight.detach() for name, weight in model.named_parameters()}
        return functional_call(model, weights, (x,))

    assert "frozen" not in record(step, X).summary(0, columns=())


def test_missing_gradients_and_updates_inside() -> None:
    """Weights behind a detached tensor, and those that the optimizer does not have."""
    model = _model()
    optimizer = torch.optim.SGD([*model[0][0].parameters(), *model[1][0].parameters()])
    with Recorder(model) as recorder:
        (model[0](X).detach().sum() * model[1](torch.ones(2, 8)).sum()).backward()
        optimizer.step()
    found = _notes(recorder.recording, 0)
    assert found["1"] == "2 of 4 parameters not updated"
    assert found["0"] == "no gradient"


@pytest.mark.parametrize("calls", [1, 2])
def test_a_second_call_has_no_notes_on_parameters(calls: int) -> None:
    """The first has them."""
    model = _model()[1].requires_grad_(False)

    def run(x: torch.Tensor) -> list[torch.Tensor]:
        return [model(x), *(model(x.exp()) for _ in range(calls - 1))]

    recording = record(run, torch.ones(2, 8))
    for depth in (0, 1):
        assert recording.summary(depth, columns=(), fold=False).count("frozen") == 1
