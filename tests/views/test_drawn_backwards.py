"""Which calls of backward are boxes."""

from __future__ import annotations

import torch

import torchrecorder
from tests.views.test_training_steps import names


def test_backward_at_the_end_of_a_model_is_no_box() -> None:
    """It reads what the model returns, and nobody reads what it leaves."""
    recording = torchrecorder.record(torch.nn.Linear(4, 4), torch.ones(2, 4), backward=True)
    assert names(recording) == ["linear", "out:0"]
    model = torch.nn.Linear(4, 4)
    with torchrecorder.Recorder(model) as recorder:
        model(torch.ones(2, 4)).sum().backward()
    assert names(recorder.recording)[-2:] == ["sum", "backward"]


def test_backward_that_a_function_calls_is_a_box() -> None:
    """Also if the function returns the loss."""
    model = torch.nn.Linear(4, 4)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).sum()
        loss.backward()
        return loss

    found = names(torchrecorder.record(step, torch.ones(2, 4)))
    assert found[-3:] == ["sum", "backward", "out:0"]
