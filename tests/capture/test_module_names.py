"""Names of modules that another module calls than the one around them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import torchrecorder

pytestmark = pytest.mark.usefixtures("strict")


class Scale(nn.Module):
    """Calls layers that it gets as an argument, as DoRA of peft does."""

    def forward(self, x: Tensor, *layers: nn.Module) -> Tensor:
        for layer in layers:
            x = layer(x)
        return x


class Adapted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.base, self.scale = nn.Linear(4, 4), Scale()
        self.down = nn.ModuleDict({"default": nn.Linear(4, 2)})
        self.up = nn.ModuleDict({"default": nn.Linear(2, 4)})

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.base(x) + self.scale(x, self.down["default"], self.up["default"])
        return out


class Block(nn.Module):
    """The first of several blocks has the norm of all."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.ModuleDict({"query": Adapted()})
        self.norm = nn.LayerNorm(4)

    def forward(self, x: Tensor, norm: nn.Module) -> Tensor:
        out: Tensor = norm(self.attention["query"](x))
        return out


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, self.blocks[0].norm)
        return x


def test_a_module_beside_its_caller_is_named_from_what_has_both() -> None:
    """In the query, and not from the model; the path is the whole one."""
    recording = torchrecorder.record(Model(), torch.rand(2, 4))
    names = {scope.path: scope.name for scope in recording.scopes.values()}
    assert names["blocks.1.attention.query"] == "attention.query"
    assert names["blocks.1.attention.query.scale"] == "scale"
    assert names["blocks.1.attention.query.down.default"] == "query.down.default"
    assert names["blocks.1.attention.query.up.default"] == "query.up.default"


def test_the_item_of_a_list_beside_its_caller_is_more_than_a_number() -> None:
    """What is around both says whose item it is."""
    recording = torchrecorder.record(Model(), torch.rand(2, 4))
    names = [scope.name for scope in recording.scopes.values() if scope.cls == "LayerNorm"]
    assert names == ["norm", "blocks.0.norm"]


def test_tables_and_figures_have_these_names() -> None:
    recording = torchrecorder.record(Model(), torch.rand(2, 4))
    text = str(recording.summary(fold=False))
    assert text.count("query.down.default (Linear)") == 2
    assert "attention.query.down" not in text
    figure = torchrecorder.figure(recording, depth=4, fold=False)
    titles = [line.text for shape in figure.shapes for line in shape.label]
    assert titles.count("query.up.default: Linear") == 2
