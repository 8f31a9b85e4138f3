"""Numbers on boxes: each is there once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import torchrecorder
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.views.pipeline import ViewOptions, make_view


@pytest.mark.parametrize("options", [{"color_by": "parameters"}, {"numbers": ("parameters",)}])
def test_a_box_that_counts_its_parameters_says_their_number_once(options: dict[str, Any]) -> None:
    """Without the counts, in full."""
    recording = torchrecorder.record(nn.Sequential(nn.Linear(4, 8), nn.ReLU()), torch.rand(1, 4))

    def lines(**more: Any) -> list[str]:
        view = make_view(recording, ViewOptions(depth=1, parameters=True))
        shapes = draw(view, Style(**options, **more)).shapes
        return [text.text for shape in shapes for text in shape.label if "aram" in text.text]

    assert lines() == ["40 params"]
    assert lines(counts=False) == ["Params 40"]
