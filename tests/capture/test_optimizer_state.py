"""Names of the state that the first step of an optimizer makes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import nn

from torchrecorder import Recorder, Recording

OPTIMIZERS: dict[str, tuple[Callable[[Iterable[Any]], torch.optim.Optimizer], set[str]]] = {
    "adam": (
        lambda weights: torch.optim.Adam(weights, foreach=False), {"step", "exp_avg", "exp_avg_sq"}
    ),
    "foreach": (
        lambda weights: torch.optim.AdamW(weights, foreach=True), {"step", "exp_avg", "exp_avg_sq"}
    ),
    "momentum": (
        lambda weights: torch.optim.SGD(weights, 0.1, momentum=0.9), {"momentum_buffer"}
    ),
}


def trained(make: Callable[[Iterable[Any]], torch.optim.Optimizer], steps: int) -> Recording:
    """Training steps of a layer, with a new optimizer."""
    net = nn.Sequential(nn.Linear(4, 3))
    optimizer = make(net.parameters())
    with Recorder(net) as recorder:
        for _ in range(steps):
            optimizer.zero_grad()
            net(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    return recorder.recording


@pytest.mark.parametrize(("make", "kept"), OPTIMIZERS.values(), ids=OPTIMIZERS)
@pytest.mark.parametrize("steps", [1, 2])
def test_state_of_a_first_step_has_names(make: Any, kept: set[str], steps: int) -> None:
    """From its first value on, as state that existed before the run."""
    recording = trained(make, steps)
    for weight in ("0.weight", "0.bias"):
        for name in kept:
            found = recording.find(f"{weight}.{name}")
            shape = (3,) if weight == "0.bias" else (3, 4)
            assert {part.shape for part in found} == {() if name == "step" else shape}
            first = recording[f"{weight}.{name}"]
            assert first is found[0] and first.producer is not None
            in_step = recording.ops[first.producer].scope
            assert recording.scopes[in_step].kind == "optimizer"
    named = {name for value in recording.values.values() for name in value.names}
    weights = {f"0.{name}{end}" for name in ("weight", "bias") for end in ("", ".grad")}
    states = {f"0.{name}.{state}" for name in ("weight", "bias") for state in kept}
    assert named == {*weights, *states}


def test_temporary_tensors_of_a_step_have_no_names() -> None:
    """Such as the denominator, which has the shape of the state."""
    recording = trained(OPTIMIZERS["adam"][0], 1)
    roots = [op for op in recording.ops.values() if op.name == "sqrt"]
    assert roots and not any(recording.values[op.outputs[0]].names for op in roots)
