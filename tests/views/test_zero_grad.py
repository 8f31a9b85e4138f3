"""Setting gradients to zero is one box of a training step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from torch.overrides import BaseTorchFunctionMode

import torchrecorder
from torchrecorder.events import ScopeId, ScopeKind
from torchrecorder.recording import Recording
from torchrecorder.views.pipeline import ViewOptions, make_view


def trained(method: str, to_none: bool, before: int = 0) -> Recording:
    """Five steps; the gradients of one are set to zero at the beginning of the next.

    So many steps *before* are not recorded.
    """
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    owner: torch.nn.Module | torch.optim.Optimizer = model if method == "module" else optimizer

    def train(steps: int) -> None:
        for _ in range(steps):
            owner.zero_grad(set_to_none=to_none)
            model(torch.rand(2, 4)).pow(2).mean().backward()
            optimizer.step()

    train(before)
    with torchrecorder.Recorder(model) as recorder:
        train(5)
    return recorder.recording


@pytest.mark.parametrize("method", ["module", "optimizer"])
def test_gradients_that_are_set_to_zero_have_one_box(method: str) -> None:
    """In the first step there are none; the others begin with it. The last level opens it."""
    recording = trained(method, to_none=False)
    zeroed = [scope for scope in recording.scopes.values() if scope.kind is ScopeKind.ZEROING]
    assert [scope.cls for scope in zeroed] == ["zero_grad"] * 4
    written = [op for op in recording.ops.values() if op.scope == zeroed[0].id]
    assert [(op.name, len(op.writes)) for op in written] == [("zero_", 1)] * 4

    view = make_view(recording, ViewOptions())
    view.check()
    boxes = [box for box in view.boxes.values() if box.id in recording.scopes]
    shown = [recording.scopes[ScopeId(box.id)].cls for box in boxes]
    assert shown.count("zero_grad") == 1
    [rounds] = [cluster for cluster in view.clusters.values() if cluster.count == 4]
    inside = [box for box in boxes if rounds.id in view.nesting.around(box.cluster)]
    assert recording.scopes[ScopeId(inside[0].id)].cls == "zero_grad"
    assert recording.scopes[ScopeId(inside[-1].id)].cls == "SGD"
    opened = make_view(recording, ViewOptions(depth=9))
    names = [recording.ops[box].name for box in recording.ops if box in opened.boxes]
    assert names.count("zero_") == 4  # of one of the four steps


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("mode", [nullcontext, BaseTorchFunctionMode])
@pytest.mark.parametrize("method", ["module", "optimizer"])
def test_gradients_that_are_dropped_have_no_box(
    method: str, mode: Callable[[], AbstractContextManager[object]], before: int
) -> None:
    """Nothing runs, and all steps fold, also under a mode such as that of a default device, and
    if there are gradients when recording starts.
    """
    with mode():
        recording = trained(method, True, before)
    assert ScopeKind.ZEROING not in {scope.kind for scope in recording.scopes.values()}
    view = make_view(recording, ViewOptions())
    assert max(cluster.count for cluster in view.clusters.values()) == 5


def test_a_step_on_one_line_begins_with_it() -> None:
    """No line tells where it begins; that gradients are set to zero is no use of them."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(x: torch.Tensor) -> None:
        for _ in range(4):
            sgd.zero_grad(set_to_none=False), model(x).sum().backward(), sgd.step()

    with torchrecorder.Recorder(model) as recorder:
        train(torch.rand(2, 4))
    view = make_view(recorder.recording, ViewOptions())
    [rounds] = [cluster for cluster in view.clusters.values() if cluster.count > 1]
    assert (rounds.count, rounds.names[0], rounds.names[-1]) == (3, "zero_grad", "SGD")
