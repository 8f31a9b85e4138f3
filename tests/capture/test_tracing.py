"""torch.jit.trace inside of a block: it makes the same graph as without a recorder."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import torchrecorder


class Block(nn.Module):
    """An operation beside that of a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.layer(x)
        return torch.tanh(hidden).view(hidden.shape)


def added(a: Tensor, b: Tensor) -> Tensor:
    return (a + b).relu()


X = torch.ones(2, 6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("made", "given"), [
    (Block, (X,)), (lambda: nn.Sequential(nn.Linear(6, 6)), (X,)), (lambda: torch.sin, (X,)),
    (lambda: added, (X, X)),
])
def test_traced_graphs_are_the_same(made, given) -> None:
    """What runs for the tracer is not recorded; what the program does afterwards is."""
    model = made()
    without = torch.jit.trace(model, given, check_trace=False)
    with torchrecorder.Recorder():
        torch.jit.trace(model, given)  # it runs the model again, and compares
    with torchrecorder.Recorder() as recorder:
        traced = torch.jit.trace(model, given, check_trace=False)
        result = traced(*given)
    kinds = [node.kind() for node in without.graph.nodes()]
    assert [node.kind() for node in traced.graph.nodes()] == kinds
    assert torch.equal(result, model(*given))
    recording = recorder.recording
    assert recording.run.lost == 0
    assert len(recording.roots) == isinstance(model, nn.Module)  # functions are C++
