"""Inputs that nothing reads, and operations whose results nothing uses, are drawn small."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import torchrecorder
from torchrecorder.style.draw import draw, repainted
from torchrecorder.style.figure import Shape
from torchrecorder.style.style import Style
from torchrecorder.style.themes import DARK
from torchrecorder.views.pipeline import make_view


class Net(torch.nn.Module):
    """Two operations whose results nothing uses, one of which writes."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Does not read the mask."""
        y = x.sin()
        y.softmax(dim=-1)
        kept = x * 2
        kept.relu_()
        return y.tanh()


def shapes(dark: bool) -> dict[str, Shape]:
    """A figure by title."""
    view = make_view(torchrecorder.record(Net(), (torch.ones(2), torch.ones(2))))
    figure = draw(view)
    figure = repainted(figure, view, Style(theme=DARK)) if dark else figure
    return {shape.label[0].text: shape for shape in figure.shapes}


@pytest.mark.parametrize("dark", [False, True])
def test_what_nothing_reads_has_a_title_alone(dark: bool) -> None:
    """And says so; the result of the model is read, and what is written in place is used."""
    found = shapes(dark)
    for title in ("mask", "softmax"):
        assert [text.text for text in found[title].label] == [title, "not read"]
        assert found[title].look.dash == "dotted"
    for title in ("x", "sin", "tanh", "relu_"):
        assert found[title].look.dash == "solid"
        assert "not read" not in [text.text for text in found[title].label]
