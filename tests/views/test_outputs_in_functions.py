"""Outputs of a model that a function of the program calls."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from torchrecorder.recording import Recording
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind


def outputs(recording: Recording, functions: bool) -> int:
    """The number of outputs that are drawn."""
    view = make_view(recording, ViewOptions(functions=functions))
    return sum(box.kind is BoxKind.OUTPUT for box in view.boxes.values())


@pytest.mark.parametrize("functions", [False, True])
def test_what_a_function_of_the_program_reads_is_no_output(functions: bool) -> None:
    """Whether the function is drawn or not."""
    model = nn.Linear(3, 1)

    def loss(x: Tensor) -> Tensor:
        error: Tensor = model(x) - 1
        return error.square().mean()

    with torchrecorder.Recorder(model) as recorder:
        loss(torch.ones(5, 3)).backward()  # type: ignore[no-untyped-call]
    assert outputs(recorder.recording, functions) == 0


@pytest.mark.parametrize("functions", [False, True])
def test_what_a_recorded_function_returns_is_an_output(functions: bool) -> None:
    """Although it also reads it."""
    model = nn.Linear(3, 1)

    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        y = model(x)
        return y, y.sin() + 1

    assert outputs(torchrecorder.record(both, torch.ones(5, 3)), functions) == 2
