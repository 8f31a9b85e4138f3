"""Which calls of backward are boxes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torchrecorder
from tests.views.test_training_steps import names
from torchrecorder.events import GradId, ValueId
from torchrecorder.style.draw import draw
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind


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


class Leaky(torch.nn.Module):
    """A cell that keeps its state, as those of spiking networks do."""

    def __init__(self) -> None:
        super().__init__()
        self.state: torch.Tensor | None = None
        self.decay = torch.nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros_like(x) if self.state is None else self.state
        self.state = self.decay * state + x
        return self.state.tanh()


class Summed(torch.nn.Module):
    """The sum of what a cell gives."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.cell = torch.nn.Linear(4, 4), Leaky()

    def forward(self, x: torch.Tensor) -> Any:
        total: Any = 0
        for _ in range(4):
            total = total + self.cell(self.layer(x))
        return total


def test_rounds_of_a_backward_pass_whose_first_box_is_a_grad_node() -> None:
    """That of an addition; the last is the cell, whose state has a gradient, too."""
    recording = torchrecorder.record(Summed(), torch.ones(2, 4), backward=True)
    figure = draw(make_view(recording, ViewOptions(view="backward", depth=1)))
    (frame,) = [group for group in figure.groups if group.loop is not None]
    assert "carried over: 2×4" in [text.text for text in frame.label]


def test_a_part_of_a_backward_pass_has_its_own_weights() -> None:
    """Those of other modules are not in it, nor is what ran before."""
    layers = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(3)))
    recording = torchrecorder.record(layers, torch.ones(2, 4), backward=True)
    view = make_view(recording, ViewOptions(view="backward", focus="1"))
    drawn = [box for box in view.boxes.values() if box.kind is BoxKind.PARAMETER]
    names = [recording.values[ValueId(box.id)].names for box in drawn]
    assert sorted(names) == [("1.bias",), ("1.weight",)]


def test_a_part_without_gradients() -> None:
    """It is the part that has none, and not the run."""
    layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    layers[0].requires_grad_(False)
    recording = torchrecorder.record(layers, torch.ones(2, 4), backward=True)
    assert make_view(recording, ViewOptions(view="backward", focus="1")).boxes
    with pytest.raises(torchrecorder.InvalidArgument, match="the chosen part of the run has none"):
        make_view(recording, ViewOptions(view="backward", focus="0"))


class Scales(torch.nn.Module):
    """Writes to its input, of which the caller has a view."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(3)


class Views(torch.nn.Module):
    """Reads a view of what its module writes, which gives it a node of that write."""

    def __init__(self) -> None:
        super().__init__()
        self.scales = Scales()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        row = y[0]
        return self.scales(y).sum() + row.sum()


def test_a_part_has_nodes_that_appeared_outside_of_it() -> None:
    """They belong to an op in it."""
    x = torch.ones(2, 3, requires_grad=True)
    recording = torchrecorder.record(Views(), x, backward=True)
    view = make_view(recording, ViewOptions(view="backward", focus="scales", depth="ops"))
    made = [recording.grad_nodes[GradId(box)].name for box in view.boxes if box[0] == "g"]
    assert sorted(made) == ["AsStridedBackward0", "MulBackward0"]
