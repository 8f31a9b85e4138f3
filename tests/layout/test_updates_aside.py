"""Updated weights enter from the side, so that the flow of the data stays straight."""

from __future__ import annotations

import torch
from torch import nn

import torchrecorder
from tests.page.test_data import data_of
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.style.themes import LIGHT
from torchrecorder.views.pipeline import make_view


def evaluated() -> Recording:
    """A model that is trained for a step, and evaluated with the updated weights."""
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.rand(3, 4)
    with torchrecorder.Recorder(net) as recorder:
        net(x).sum().backward()
        optimizer.step()
        net.eval()
        with torch.no_grad():
            net(x).argmax(-1)
    return recorder.recording


def test_light_lines_enter_from_the_side() -> None:
    """They are those of updated weights; no other line of the run does."""
    lines = draw(make_view(evaluated())).lines
    light = [line.look == LIGHT.update for line in lines]
    assert any(light) and [line.side for line in lines] == light


def test_a_page_lays_updates_out_as_lines_from_the_side() -> None:
    """The data are not."""
    trunks = [trunk for each in data_of(evaluated())["templates"] for trunk in each["trunks"]]
    assert {len(trunk) for trunk in trunks} == {3, 4}
