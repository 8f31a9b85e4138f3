"""Calls of one module that use the layers of its lists in turn fold, with the names of these."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from torchrecorder.export.dot import dot_text
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.views.pipeline import ViewOptions, make_view


class Blocks(nn.Module):
    """Has pairs of linear layers; each call uses one of the first and one of the second."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(4, width) for width in widths)
        self.backs = nn.ModuleList(nn.Linear(width, 4) for width in widths)

    def forward(self, x: Tensor, number: int, back: int) -> Tensor:
        found: Tensor = self.backs[back](torch.relu(self.linears[number](x)))
        return found


class Net(nn.Module):
    """Calls its blocks with these numbers, then a head."""

    def __init__(self, *numbers: tuple[int, int], widths: Sequence[int] = (8, 8, 8, 8)) -> None:
        super().__init__()
        self.blocks = Blocks(widths)
        self.head = nn.Linear(4, 2)
        self.numbers = numbers

    def forward(self, x: Tensor) -> Tensor:
        for number, back in self.numbers:
            x = self.blocks(x, number, back)
        found: Tensor = self.head(x)
        return found


def recorded(model: nn.Module) -> Recording:
    return torchrecorder.record(model, torch.rand(2, 4))


def folds(recording: Recording) -> list[int]:
    view = make_view(recording, ViewOptions(depth=2))
    return [each.count for each in view.clusters.values() if each.count > 1]


def text(recording: Recording) -> str:
    return "".join(dot_text(draw(make_view(recording, ViewOptions(depth=2)), Style())))


def test_each_call_has_a_layer_of_its_own() -> None:
    """One cluster, in which the names are those of all calls."""
    recording = recorded(Net((0, 0), (1, 1), (2, 2), (3, 3)))
    assert folds(recording) == [4]
    found = text(recording)
    assert "linears.0 … linears.3: Linear" in found and "backs.0 … backs.3: Linear" in found


def test_calls_that_share_a_layer() -> None:
    """A layer of all calls has its own name."""
    found = text(recorded(Net((0, 2), (1, 2), (2, 2))))
    assert "linears.0 … linears.2: Linear" in found and "backs.2: Linear" in found


@pytest.mark.parametrize("widths", [(8, 6, 4, 2), (8, 8, 4, 4)])
def test_layers_of_other_sizes(widths: Sequence[int]) -> None:
    """Only calls with equal layers fold."""
    recording = recorded(Net((0, 0), (1, 1), (2, 2), (3, 3), widths=widths))
    assert folds(recording) == [2] * (widths[0] == widths[1]) * 2
