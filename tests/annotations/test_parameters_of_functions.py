"""Parameters that functions and modes read outside of the modules in them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import torchrecorder
from tests.page.test_data import Page, data_of
from torchrecorder import Recording
from torchrecorder.events import Role


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


def test_an_op_alone_has_none() -> None:
    """They are those of the function or mode that it ran in."""
    for recorded in (Net().encode, Net()):
        rows = torchrecorder.record(recorded, X).table(["parameters"], by="op")
        assert [(row["type"], row["parameters"]) for row in rows] == [
            ("linear", None), ("matmul", None),
        ]


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


class Loose(nn.Module):
    """Reads parameters that no module has registered: in a list, and of a closure."""

    def __init__(self, elsewhere: nn.Parameter) -> None:
        super().__init__()
        self.layer, self.listed = nn.Linear(4, 4), [nn.Parameter(torch.ones(4))]
        self.elsewhere = lambda: elsewhere

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu"):
            x = x * self.elsewhere()
        return self.layer(x) + self.listed[0]


def test_those_of_no_module_are_those_of_the_calls_that_read_them() -> None:
    """Once in each call and in all around it, as in the total; in tables and pages."""
    elsewhere = nn.Parameter(torch.ones(1, 4))
    model = nn.Sequential(Loose(elsewhere), nn.Linear(4, 4), Loose(elsewhere))
    recording = torchrecorder.record(model, X)
    weights = {id(item): item.numel() for item in (*model.parameters(), elsewhere)}
    total = sum(weights.values()) + 8
    assert {row["name"]: row["parameters"] for row in recording.table(["parameters"])} == {
        "Sequential": total, "0": 28, "0.layer": 20, "1": 20, "2": 28, "2.layer": 20,
        "0 > autocast": 4, "2 > autocast": 4,
    }
    assert recording.annotations["parameters"].total() == total
    names = {item.names for item in recording.values.values() if item.role is Role.PARAMETER}
    assert ("0.listed.0",) in names and ("2.listed.0",) in names
    page = Page(data_of(recording))
    assert page.number("parameters", "Sequential") == total
    assert page.number("parameters", "0: Loose") == page.number("parameters", "2: Loose") == 28
    assert page.number("parameters", "autocast cpu bfloat16") == 4
    shapes = torchrecorder.figure(recording, depth=1).shapes
    boxes = {shape.label[0].text: [line.text for line in shape.label] for shape in shapes}
    assert "28 params" in boxes["0: Loose"] and "28 params" in boxes["2: Loose"]
