"""Similar blocks in a backward pass."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.figures import linear
from torchrecorder.capture.record import record
from torchrecorder.events import GradId, ScopeId
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view


@pytest.mark.parametrize("width", [4, 5])
def test_similar_blocks_of_a_backward_pass(width: int) -> None:
    """The pass goes through the last block first: its counterpart comes later in the run."""
    blocks = [nn.Sequential(nn.Linear(4, size), nn.ReLU(), nn.Linear(size, 4))
              for size in (4, width, 4)]
    recording = record(nn.Sequential(*blocks), torch.rand(2, 4), backward=True)
    view = make_view(recording, ViewOptions(view="backward", fold="similar", depth=9))
    view.check()
    assert [cluster.count for cluster in view.clusters.values()].count(3) == 1


def test_grad_nodes_of_other_names_are_no_counterparts() -> None:
    """Each is drawn, with how many of the blocks have it."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        for place, name in enumerate(("relu", "tanh", "relu")):
            with run.scope(f"layers.{place}", "Block"):
                h = linear(run, "b", linear(run, "a", h))
                h = run.op(name, h, grads=(name,))
    recording = run.recording()
    view = make_view(recording, ViewOptions(view="backward", fold="similar", depth=9))
    view.check()
    names = {recording.grad_nodes[GradId(box.id)].name: box for box in view.boxes.values()
             if box.id in recording.grad_nodes}
    assert names["relu"].share == (2, 3) and names["tanh"].share == (1, 3)


class Halved(torch.autograd.Function):
    """Divides by two."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x / 2

    @staticmethod
    def backward(ctx: Any, given: torch.Tensor) -> torch.Tensor:
        return given / 2


class Block(nn.Module):
    """A layer, and a function if it is halved."""

    def __init__(self, halved: bool) -> None:
        super().__init__()
        self.layer, self.halved = nn.Linear(4, 4), halved

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x).relu()
        return Halved.apply(y) if self.halved else y  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("halved", range(3))
def test_what_only_one_of_similar_blocks_has_in_backward(halved: int) -> None:
    """It moves into the last block, with which the pass begins and which comes last in the run."""
    model = nn.Sequential(*[Block(place == halved) for place in range(3)])
    recording = record(model, torch.rand(2, 4), backward=True)
    view = make_view(recording, ViewOptions(view="backward", fold="similar", depth=9))
    view.check()
    order = list(view.clusters)
    for place, cluster in enumerate(view.clusters.values()):
        assert cluster.parent is None or cluster.parent in order[:place]
    assert {recording.scopes[ScopeId(name)].name for name in order if name in recording.scopes} >= {
        "Halved", "layer"
    }
