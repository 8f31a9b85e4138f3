"""Hooks that switch to a greenlet: its operations are those of the module around the hook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from tests.notation import flow
from tests.structure import structure
from torchrecorder.recording import Recording
from torchrecorder.testing.inert import assert_inert

greenlet = pytest.importorskip("greenlet")

pytestmark = pytest.mark.usefixtures("strict")


class Hooked(nn.Module):
    """Each call starts *work*, to which forward hooks switch with the outputs of two layers."""

    def __init__(self, work: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU())
        self.work, self.worker = work, None
        for layer in self.layers[0], self.layers[2]:
            layer.register_forward_hook(self.hook)

    def hook(self, module: nn.Module, args: Any, output: Tensor) -> Tensor:
        if module is self.layers[0]:
            self.worker = greenlet.greenlet(self.work)
        return self.worker.switch(output)  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


def edits(first: Tensor) -> Tensor:
    """What the user does with the outputs of both layers."""
    second = greenlet.getcurrent().parent.switch(first.sin())
    second[:, 0] = 0
    return second + first


def recorded(work: Callable[[Tensor], Tensor]) -> Recording:
    recording = torchrecorder.record(Hooked(work), torch.ones(2, 4))
    assert not [*structure(recording)]
    assert not [scope.path for scope in recording.scopes.values() if scope.failed]
    return recording


def test_a_greenlet_works_in_the_module_whose_hook_switches_to_it():
    """Also if it goes on in the hook of another module."""
    assert flow(recorded(edits)).splitlines() == [
        "layers:",
        "    0:",
        "        linear = linear(x, layers.0.weight, layers.0.bias)",
        "        sin = sin(linear)",
        "        return sin",
        "    1:",
        "        relu = relu(sin)",
        "        return relu",
        "    2:",
        "        linear2 = linear(relu, layers.2.weight, layers.2.bias)",
        "        setitem! = setitem(linear2)",
        "        add = add(setitem, linear)",
        "        return add",
        "    3:",
        "        relu2 = relu(add)",
        "        return relu2",
        "    return relu2",
        "return relu2",
    ]


def test_a_greenlet_that_calls_modules():
    """Their scopes are inside that of the hooked module."""
    probe = nn.Sequential(nn.Linear(4, 4))

    def work(first: Tensor) -> Tensor:
        second = greenlet.getcurrent().parent.switch(probe(first))
        return probe(second)  # type: ignore[no-any-return]

    recording = recorded(work)
    scopes = recording.scopes
    calls = [scope for scope in scopes.values() if scope.cls == "Sequential" and scope.parent]
    around = [scopes[scope.parent].path for scope in calls if scope.parent is not None]
    assert around == ["", "layers.0", "layers.2"]


def test_a_greenlet_that_started_another():
    """The model goes on two greenlets further out."""
    def work(first: Tensor) -> Tensor:
        inner = greenlet.greenlet(lambda x: greenlet.getcurrent().parent.switch(x.cos()))
        return edits(inner.switch(first))

    recording = recorded(work)
    (cos,) = [op for op in recording.ops.values() if op.name == "cos"]
    assert recording.scopes[cos.scope].path == "layers.0"


def test_the_run_stays_as_it_is():
    """Results, gradients and random numbers are those of a run without a recorder."""
    assert_inert(lambda: (Hooked(edits), (torch.rand(2, 4),), {}))
