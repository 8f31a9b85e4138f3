"""Programs with loops over weights and training steps, and what is drawn of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

import torchrecorder
from torchrecorder.events import OpId
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import View

X = torch.ones(2, 3)


def made() -> nn.Sequential:
    """A model with eight weights of six shapes."""
    return nn.Sequential(
        nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 5), nn.Linear(5, 2)
    )


def trained(net: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> Recording:
    """So many training steps of a model with four inputs."""
    with torchrecorder.Recorder(net) as recorder:
        for _ in range(steps):
            optimizer.zero_grad()
            net(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    return recorder.recording


def recorded(net: nn.Module, program: Callable[[], object]) -> Recording:
    with torchrecorder.Recorder(net) as recorder:
        program()
    return recorder.recording


def view_of(recording: Recording, **options: Any) -> View:
    view = make_view(recording, ViewOptions(**options))
    view.check()
    drawn = [member for box in view.boxes.values() for member in box.members]
    assert len(drawn) == len(set(drawn))
    return view


def loops(view: View) -> list[tuple[list[str], int]]:
    """The names of the ops in each fold of ops, and how many times they ran."""
    return [
        ([name for box in view.boxes.values() if box.cluster == cluster.id
          if (name := name_of(view, box.id))], cluster.count)
        for cluster in view.clusters.values() if is_block(cluster.id)
    ]


def name_of(view: View, box: str) -> str:
    """The name of an op; empty for other boxes."""
    op = view.recording.ops.get(OpId(box))
    return op.name if op else ""


def texts(view: View, name: str) -> list[str]:
    """The lines of the boxes with this title."""
    labels = [shape.label for shape in draw(view, Style()).shapes]
    return [text.text for label in labels if label[0].text == name for text in label[1:]]


def sent(view: View, name: str) -> list[str]:
    """The labels of the lines from the boxes with this title."""
    figure = draw(view, Style())
    tails = {shape.id for shape in figure.shapes if shape.label[0].text == name}
    return [line.label for line in figure.lines if line.tail in tails]


def squares(net: nn.Module) -> Iterator[torch.Tensor]:
    return (weight.pow(2).sum() for weight in net.parameters())


def closure_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[[], torch.Tensor]:
    """What runs a model with four inputs, and computes its gradients, in the optimizer's step."""

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = model(torch.ones(2, 4)).sum()
        loss.backward()
        return loss

    return closure
