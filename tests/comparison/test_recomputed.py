"""Comparisons of training steps in which a backward pass runs a part of forward again."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from torchrecorder import Recorder, compare
from torchrecorder.comparison.kinds import ChangeKind
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


class Net(nn.Module):
    """Two layers, each of them in a checkpoint if there are any."""

    def __init__(self, reentrant: bool | None) -> None:
        super().__init__()
        self.first, self.layer, self.last = (nn.Linear(3, 3) for _ in range(3))
        self.reentrant = reentrant

    def forward(self, x: Tensor) -> Tensor:
        """Run the layers."""
        x = self.first(x)
        for layer in (self.layer, self.last):
            if self.reentrant is None:
                x = layer(x)
            else:
                x = checkpoint(layer, x, use_reentrant=self.reentrant)
        return x


def trained(reentrant: bool | None) -> Recording:
    """Two training steps."""
    model = Net(reentrant)
    with Recorder() as recorder:
        for _ in range(2):
            model.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
    return recorder.recording


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_alone_are_added(reentrant: bool) -> None:
    """What runs again in backward is no second forward, although it is a call of the module."""
    found = compare(trained(None), trained(reentrant)).changes
    assert len(found) == 4
    assert all(change.kind is ChangeKind.ADDED and "checkpoint" in change.where for change in found)


def test_what_runs_again_in_both_corresponds() -> None:
    """It is neither added nor removed."""
    matching = compare(trained(False), trained(False)).matching
    pairs = [(matching.before.scopes[old], matching.after.scopes[new])
             for old, new in matching.scopes.items()]
    assert len(pairs) == len(matching.before.scopes) == len(matching.after.scopes)
    assert all(old.recompute is new.recompute for old, new in pairs)
    assert sum(old.recompute for old, _ in pairs) == 4


def test_what_runs_again_is_no_other_model() -> None:
    """Each run has one model, though they have no name or class in common."""
    def run(name: str, again: bool) -> Recording:
        made = Builder(name)
        with made.scope(name):
            made.op("exp", made.input())
        if again:
            with made.scope("layer", recompute=True):
                made.op("exp", made.constant())
        return made.recording()

    assert compare(run("Old", again=False), run("New", again=True)).matching.scopes == {"s0": "s0"}
