"""Names of modules that another module calls than the one around them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.package import PackageExporter, PackageImporter

import torchrecorder
from torchrecorder.graph.codec import encode

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


def exported_to(path: Path) -> Path:
    """A package with a network that is in no module of this process."""
    with PackageExporter(path) as exporter:
        exporter.save_source_string("net", (
            "import torch\n"
            "class Net(torch.nn.Linear):\n"
            "    def forward(self, x):\n"
            "        return x.sin()\n"
        ))
        exporter.extern("torch.**")
    return path


def test_code_that_is_in_no_file_has_equal_names_in_equal_runs(tmp_path: Path) -> None:
    """PyTorch numbers the code of graphs of ``torch.fx``, and the packages that are opened."""
    packed = exported_to(tmp_path / "net.pt")

    def recorded() -> str:
        graph = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
        opened = PackageImporter(packed).import_module("net").Net(4, 4)
        recording = torchrecorder.record(nn.Sequential(graph, opened), torch.ones(1, 4))
        assert recording["1"].qualname == "net.Net"
        files = {op.source.file for op in recording.ops.values() if op.source is not None}
        assert files == {"<eval_with_key>", "net.py"}
        return json.dumps(encode(recording, times=False))

    assert recorded() == recorded()
