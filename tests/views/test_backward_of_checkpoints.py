"""The backward view of checkpoints: what runs, and no red outlines for what is computed again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from torchrecorder import Recorder
from torchrecorder.recording import Recording
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind


class Block(nn.Module):
    """Ends with a module of which nothing has to be computed again."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)  # type: ignore[no-any-return]


class Net(nn.Module):
    """Two blocks in checkpoints."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.blocks, self.options = nn.ModuleList([Block(), Block()]), options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, **self.options)
        return x


def run(backward: Callable[[torch.Tensor, torch.Tensor], object], **options: Any) -> Recording:
    """The recording of a pass through two checkpoints."""
    net, x = Net(**options), torch.ones(2, 4, requires_grad=True)
    with Recorder(net) as recorder:
        backward(net(x).pow(2).sum(), x)
    return recorder.recording


@pytest.mark.parametrize("early_stop", [True, False])
def test_nodes_that_a_checkpoint_makes_again_are_not_drawn(early_stop: bool) -> None:
    """They never run: it needs the tensors that they save."""
    with torch.utils.checkpoint.set_checkpoint_early_stop(early_stop):
        recording = run(lambda loss, x: loss.backward(), use_reentrant=False)
    assert any(grad.owner is not None and recording.ops[grad.owner].recompute
               for grad in recording.grad_nodes.values())
    view = make_view(recording, ViewOptions(view="backward", depth="ops", fold=False))
    view.check()
    ran = {ran.grad for ran in recording.grad_runs}
    assert all(not ran.isdisjoint(box.members) for box in view.boxes.values())


def test_nodes_that_are_made_again_are_drawn_if_others_lead_to_them() -> None:
    """A module may keep a tensor that is computed again, and the program go on with it."""
    net, kept = Net(use_reentrant=False), list[torch.Tensor]()
    net.blocks[0].body[1].register_forward_hook(  # type: ignore[index, union-attr]
        lambda module, given, result: kept.append(result)
    )
    with Recorder(net) as recorder:
        net(torch.ones(2, 4, requires_grad=True)).sum().backward()
        kept[-1].sum()
    assert len(kept) == 2
    recording = recorder.recording
    view = make_view(recording, ViewOptions(view="backward", depth="ops", fold=False))
    view.check()
    again = {grad.id: grad.name for grad in recording.grad_nodes.values()
             if grad.owner is not None and recording.ops[grad.owner].recompute}
    assert sorted(again[box] for box in again.keys() & view.boxes.keys()) == [
        "AddmmBackward0", "GeluBackward0", "TBackward0",
    ]


def test_a_checkpoint_that_stops_early_has_not_failed() -> None:
    """PyTorch raises an exception as soon as all that it needs is computed."""
    recording = run(lambda loss, x: loss.backward(), use_reentrant=False)
    again = [scope for scope in recording.scopes.values() if scope.recompute]
    assert again and not recording.failed


def test_what_fails_when_it_is_computed_again_has_failed() -> None:
    """With the modules around it, as anywhere else."""
    calls: list[int] = []

    def fails(module: nn.Module, given: object, result: object) -> None:
        calls.append(len(calls))
        if len(calls) == 2:
            raise ArithmeticError("the second time")

    net, x = Net(use_reentrant=False), torch.ones(2, 4, requires_grad=True)
    net.blocks[1].body[1].register_forward_hook(fails)  # type: ignore[index, union-attr]
    recorder = Recorder(net)
    with pytest.raises(ArithmeticError), recorder:
        net(x).sum().backward()
    recording = recorder.recording
    failed = [recording.scopes[item].path for item in recording.failed if item in recording.scopes]
    assert {"blocks.1", "blocks.1.body", "blocks.1.body.1"} <= {*failed}


def test_weights_of_modules_in_folded_checkpoints_have_their_names_there() -> None:
    """Not those of each of the blocks, which the blocks have."""
    recording = run(lambda loss, x: loss.backward(), use_reentrant=False)
    for view in ("backward", "forward"):
        shown = make_view(recording, ViewOptions(view=view, depth="ops", parameters=True))
        weights = [box for box in shown.boxes.values() if box.kind is BoxKind.PARAMETER]
        assert len(weights) == 4 and not any(box.names for box in weights)
