"""Why a parameter was not updated: for each way in which a training step leaves one as it was."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import torchrecorder as tr
from torchrecorder.errors import InvalidArgument
from torchrecorder.export.table.folded_rows import folded
from torchrecorder.export.table.rows import every_row
from torchrecorder.recording import Recording

Step = Callable[["Net", torch.optim.Optimizer], object]


class Net(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 4, bias=False), nn.Linear(4, 2, bias=False)

    def loss(self) -> torch.Tensor:
        return self.head(self.body(torch.ones(1, 4))).square().sum()


def recorded(step: Step, *groups: str) -> Recording:
    """A training step of a network whose optimizer has the layers *groups*."""
    net = Net()
    given = [weight for name in groups for weight in net.get_submodule(name).parameters()]
    optimizer = torch.optim.SGD(given, lr=0.1)
    with tr.Recorder(net) as recorder:
        step(net, optimizer)
    return recorder.recording


def usual(net: Net, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    net.loss().backward()
    optimizer.step()


def zeroed(net: Net, optimizer: torch.optim.Optimizer) -> None:
    net.loss().backward()
    optimizer.zero_grad(set_to_none=False)
    optimizer.step()


def cleared(net: Net, optimizer: torch.optim.Optimizer) -> None:
    net.loss().backward()
    optimizer.zero_grad()
    optimizer.step()


def early(net: Net, optimizer: torch.optim.Optimizer) -> None:
    loss = net.loss()
    optimizer.step()
    loss.backward()


def frozen(net: Net, optimizer: torch.optim.Optimizer) -> None:
    net.body.requires_grad_(False)
    usual(net, optimizer)


def overwritten(net: Net, optimizer: torch.optim.Optimizer) -> None:
    usual(net, optimizer)
    with torch.no_grad():
        net.body.weight.copy_(torch.ones(4, 4))


def pulled_back(net: Net, optimizer: torch.optim.Optimizer) -> None:
    slow = net.body.weight.detach().clone()
    usual(net, optimizer)
    slow.lerp_(net.body.weight.data, 0.5)
    net.body.weight.data.copy_(slow)


def swapped(net: Net, optimizer: torch.optim.Optimizer) -> None:
    before = net.body.weight.detach().clone()
    usual(net, optimizer)
    net.body.weight.data.copy_(before)


def row_zeroed(net: Net, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    usual(net, optimizer)
    net.body.weight.data[0].zero_()
    return net.loss()


def clamped(net: Net, optimizer: torch.optim.Optimizer) -> None:
    usual(net, optimizer)
    with torch.no_grad():
        net.body.weight.clamp_(-1, 1)


def by_hand(net: Net, optimizer: torch.optim.Optimizer) -> None:
    usual(net, optimizer)
    with torch.no_grad():
        net.body.weight.sub_(net.body.weight.grad, alpha=0.1)


def again_without_gradient(net: Net, optimizer: torch.optim.Optimizer) -> None:
    usual(net, optimizer)
    optimizer.zero_grad(set_to_none=False)
    optimizer.step()


def zeroed_later(net: Net, optimizer: torch.optim.Optimizer) -> None:
    usual(net, optimizer)
    zeroed(net, optimizer)


def overwritten_with_others(net: Net, optimizer: torch.optim.Optimizer) -> None:
    usual(net, optimizer)
    weights = [net.head.weight.data, net.body.weight.data]  # the smaller one first
    torch._foreach_copy_(weights, [torch.zeros_like(weight) for weight in weights])


def closure(net: Net, optimizer: torch.optim.Optimizer) -> None:
    def again() -> torch.Tensor:
        optimizer.zero_grad()
        (loss := net.loss()).backward()
        return loss

    optimizer.step(again)


@pytest.mark.parametrize(
    ("step", "groups", "reason"), [
        (usual, ("body", "head"), None),
        (usual, ("head",), "left out"),
        (closure, ("body", "head"), None),
        (closure, ("head",), "left out"),
        (again_without_gradient, ("body", "head"), None),
        (by_hand, ("head",), None),
        (clamped, ("body", "head"), None),
        (row_zeroed, ("body", "head"), None),
        (pulled_back, ("body", "head"), None),
        (swapped, ("body", "head"), "overwritten"),
        (zeroed, ("body", "head"), "zeroed"),
        (zeroed_later, ("body", "head"), "zeroed"),
        (overwritten_with_others, ("body", "head"), "overwritten"),
        (cleared, ("body", "head"), "nothing updated"),
        (early, ("body", "head"), "too early"),
        (frozen, ("body", "head"), "no gradient"),
        (overwritten, ("body", "head"), "overwritten"),
        (lambda net, optimizer: net.loss().backward(), ("body",), "no step"),
    ],
)
def test_each_way(step: Step, groups: tuple[str, ...], reason: str | None) -> None:
    """The reason is that of the step; a parameter that was updated has none."""
    why = recorded(step, *groups).why_no_update("body.weight")
    assert (why.reason if why is not None else None) == reason


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("reads_again", [False, True])
def test_complex_weights_are_updated_through_views(reads_again: bool, foreach: bool) -> None:
    """Adam writes to their real and imaginary parts, `torch.view_as_real(weight)`."""
    net = nn.Linear(2, 2, dtype=torch.complex64)
    optimizer = torch.optim.Adam(net.parameters(), foreach=foreach)
    with tr.Recorder(net) as recorder:
        net(torch.ones(1, 2, dtype=torch.complex64)).abs().sum().backward()
        optimizer.step()
        if reads_again:
            net(torch.ones(1, 2, dtype=torch.complex64))
    for name, _ in net.named_parameters():
        assert recorder.recording.why_no_update(name) is None
    assert "not updated" not in recorder.recording.summary()


def test_the_sentence_has_the_line() -> None:
    """That of the step, or of what undid it."""
    place = r"at \S*test_missing_update\.py:\d+"
    left = recorded(usual, "head").why_no_update("body.weight")
    begin = f"body.weight was not updated: the step of SGD {place} updated 1 other parameter only"
    assert re.match(begin, str(left))
    undone = recorded(overwritten, "body", "head").why_no_update("body.weight")
    assert re.match(f"body.weight lost its update: copy_\\(\\) in no_grad {place}", str(undone))
    assert undone is not None and [op.name for op in undone.ops] == ["copy_"]


def scaled(net: Net, optimizer: torch.optim.Optimizer) -> None:
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(net.loss() * float("inf")).backward()
    scaler.step(optimizer)


def test_a_step_that_a_scaler_skipped() -> None:
    """It did not run; what skipped it is named."""
    why = recorded(scaled, "body", "head").why_no_update("body.weight")
    assert why is not None and why.reason == "no step" and "scaler skips it" in why.text


def test_only_parameters_are_updated() -> None:
    """An input is not."""
    found = tr.record(nn.Linear(4, 2), torch.ones(1, 4))
    with pytest.raises(InvalidArgument, match="not a parameter"):
        found.why_no_update("input")


@pytest.mark.parametrize(
    ("step", "groups", "notes"), [
        (usual, ("body", "head"), {}),
        (usual, ("head",), {"body (Linear)": ("not updated",)}),
        (closure, ("head",), {"body (Linear)": ("not updated",)}),
        (by_hand, ("head",), {}),
        (cleared, ("body", "head"), {"optimizer SGD": ("updates nothing",)}),
    ],
)
def test_notes_of_the_summary(
    step: Step, groups: tuple[str, ...], notes: dict[str, tuple[str, ...]]
) -> None:
    """Where an optimizer updates others, or nothing."""
    found = recorded(step, *groups)
    rows = folded(found, every_row(found))
    assert {row.title: row.notes for row in rows if row.notes} == notes


def test_gradients_that_are_zeroed_at_other_times_are_used() -> None:
    """Before the backward pass, as in old training loops, and after the step."""
    def step(net: Net, optimizer: torch.optim.Optimizer) -> None:
        net.loss().backward()
        optimizer.zero_grad(set_to_none=False)
        net.loss().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    assert recorded(step, "body", "head").why_no_update("body.weight") is None


def test_what_the_program_updates_itself_is_no_update_of_an_optimizer() -> None:
    """Then the step updated nothing, instead of others only."""
    def step(net: Net, optimizer: torch.optim.Optimizer) -> None:
        cleared(net, optimizer)
        with torch.no_grad():
            net.head.weight.mul_(0.9)

    found = recorded(step, "body", "head").why_no_update("body.weight")
    assert found is not None and found.reason == "nothing updated"


def test_what_was_made_of_another_weight_does_not_follow_from_this_one() -> None:
    """Even if one operation updated both."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, foreach=True)
    with tr.Recorder(net) as recorder:
        usual(net, optimizer)
        usual(net, optimizer)
        net.body.weight.data.copy_(net.head.weight.data.mean())
    why = recorder.recording.why_no_update("body.weight")
    assert why is not None and why.reason == "overwritten"


class Copying(torch.optim.Optimizer):
    """An optimizer that computes new weights and copies them."""

    def step(self, closure: Any = None) -> None:
        """One step."""
        for group in self.param_groups:
            for weight in group["params"]:
                with torch.no_grad():
                    weight.copy_(weight - 0.1 * weight.grad)


def test_an_update_does_not_overwrite_itself() -> None:
    """Where it is a copy."""
    net = Net()
    optimizer = Copying(net.parameters(), {})
    with tr.Recorder(net) as recorder:
        usual(net, optimizer)
    assert recorder.recording.why_no_update("body.weight") is None
