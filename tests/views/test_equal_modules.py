"""What repeats in modules of equal structure, where the modules are not drawn alike."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from tests.figures import view_of
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder
from torchrecorder.views.fold.block_clusters import with_block_clusters
from torchrecorder.views.fold.blocks import FoldItem, unit_of
from torchrecorder.views.view import BoxKind, View


class Rounds(nn.Module):
    """Multiplies by one tensor after the other."""

    def forward(self, h: Tensor, *given: Tensor) -> Tensor:
        for item in given:
            h = h * item
        return h


class Layers(nn.Module):
    """Layers and activations in turn, which no module holds together."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(6))

    def forward(self, h: Tensor) -> Tensor:
        for layer in self.layers:
            h = layer(h).relu()
        return h


def within(view: View, module: str) -> list[int]:
    """The counts of the blocks that are directly in a module."""
    path = {scope.id: scope.path for scope in view.recording.scopes.values()}
    return [
        cluster.count for cluster in view.clusters.values()
        if cluster.count > 1 and path.get(cluster.parent or "") == module
    ]


def in_two_calls(first: Sequence[int], second: Sequence[int]) -> Recording:
    """Two modules of equal structure: each tensor is an input of the run, or computed (0)."""
    one, two = Rounds(), Rounds()
    model = nn.ModuleDict({"one": one, "two": two})

    def run(h: Tensor, *given: Tensor) -> Tensor:
        h = h.relu()
        for module, which in ((model["one"], first), (model["two"], second)):
            h = module(h, *(given[place - 1] if place else h * 2 for place in which)).relu()
        return h

    return torchrecorder.record(run, (torch.rand(2), *torch.rand(8, 2)))


@pytest.mark.parametrize("inputs_first", [False, True])
def test_inputs_of_each_round_count_in_the_module_that_reads_them(inputs_first: bool) -> None:
    """A loop of four multiplications is worth a fold only if an input of its own goes with each."""
    computed, given = [0, 0, 0, 0], [1, 2, 3, 4]
    pair = (given, computed) if inputs_first else (computed, given)
    view = view_of(in_two_calls(*pair), depth=9)
    assert [within(view, name) for name in ("model.one", "model.two")] == (
        [[4], []] if inputs_first else [[], [4]]
    )


@pytest.mark.parametrize(
    "hidden, counts",
    [
        ((), [[6], [6]]),
        (("0.layers.0",), [[5], [6]]),
        (("2.layers.0",), [[6], [5]]),
        (("0.layers.1", "2.layers.0"), [[4], [5]]),
    ],
)
def test_layers_that_are_hidden_in_one_of_two_equal_modules(
    hidden: tuple[str, ...], counts: list[list[int]]
) -> None:
    """The blocks of each module are those of what it shows."""
    model = nn.Sequential(Layers(), nn.Tanh(), Layers())
    recording = torchrecorder.record(model, torch.rand(1, 2))
    view = view_of(recording, depth=9, hide=hidden)
    assert [within(view, name) for name in "02"] == counts


def test_the_steps_of_equal_modules_are_compared_once() -> None:
    """What repeats in the first of them repeats in the others."""
    recording = torchrecorder.record(nn.Sequential(Layers(), nn.Tanh(), Layers()), torch.rand(1, 2))
    compared: list[str] = []

    def unit(recording: RecordedRun, item: str) -> FoldItem:
        compared.append(item)
        return unit_of(recording, item)

    with_block_clusters(view_of(recording, depth=9, fold=False), unit)
    layers = {scope.path: scope.id in compared for scope in recording.scopes.values()
              if scope.cls == "Linear"}
    assert layers == {f"{module}.layers.{n}": module == 0 for module in (0, 2) for n in range(6)}


def test_layers_that_read_a_transposed_weight_each_fold() -> None:
    """Where reshapes are hidden, an arrow from the weight carries what these returned."""
    run = Builder("Net")
    h = run.input()
    with run.scope("Net"):
        weights = [run.parameter(f"weights.{number}") for number in range(4)]
        turned = [run.op("t", weight) for weight in weights]
        for number, weight in enumerate(turned):
            with run.scope(f"layers.{number}", "Layer"):
                h = run.op("mix", h, weight)
    view = view_of(run.recording(), depth=1, parameters=True, reshapes=False)
    assert [box.count for box in view.boxes.values() if box.kind is BoxKind.MODULE] == [4]
