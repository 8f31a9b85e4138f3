"""Parameters that functions and modes read outside of the modules in them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import torchrecorder
from torchrecorder import Recording


class Net(nn.Module):
    """A method that is not `forward` reads a parameter, beside that of a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.layer = nn.Parameter(torch.ones(4, 4)), nn.Linear(4, 4)

    def encode(self, x: Tensor) -> Tensor:
        return self.layer(x) @ self.scale

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return self.encode(x)


X = torch.ones(1, 4)


def row(recording: Recording, name: str) -> list[str]:
    """The line of the summary with this *name*, in words."""
    return next(line.split() for line in recording.summary().splitlines() if name in line)


def test_those_of_a_method() -> None:
    """In tables and in figures; an op alone, and an optimizer, have none."""
    recording = torchrecorder.record(Net().encode, X)
    (box,) = (shape for shape in torchrecorder.figure(recording, depth=0).shapes
              if shape.label[0].text == "encode()")
    assert [line.text for line in box.label][1] == "36 params"
    assert row(recording, "encode()")[-1] == "36"


def test_those_of_a_mode_in_the_module_that_has_them() -> None:
    """They count once in the module."""
    recording = torchrecorder.record(Net(), X)
    assert "36" in row(recording, "no_grad")
    assert row(recording, "Net")[-1] == "36"
    assert recording.annotations["parameters"].total() == 36


def test_an_optimizer_has_none() -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with torchrecorder.Recorder(model) as recorder:
        (model.encode(X).sum() + model.scale.square().sum()).backward()
        optimizer.step()
    figure = torchrecorder.figure(recorder.recording, functions=True)
    (step,) = (shape.label for shape in figure.shapes if "SGD" in shape.label[0].text)
    assert not any("params" in line.text for line in step)
    assert "params" not in " ".join(row(recorder.recording, "optimizer"))
