"""Modules of another class with the same name, containers that are never called, and regions of
another name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.comparison.test_compare import lines
from torchrecorder import record
from torchrecorder.events import FUNCTION, ScopeKind
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def _named_linear(function: Callable[..., torch.Tensor], module: str = "fast.layers") -> nn.Module:
    """A layer whose class is called Linear, in a Python module of this name, with a layer that is
    not called."""
    class Linear(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.packed = nn.Parameter(torch.ones(4, 4)), nn.ReLU()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x, self.weight)

    Linear.__module__, Linear.__qualname__ = module, "Linear"
    return Linear()


def test_a_class_of_the_same_name_that_calls_other_functions_is_another() -> None:
    """As a quantized Linear: the text says which; what is in it is not listed."""
    def run(*layers: nn.Module) -> Recording:
        return record(nn.Sequential(*layers), torch.ones(1, 4))

    before, after = run(nn.Linear(4, 4)), run(_named_linear(torch.mm))
    here, there = "torch.nn.modules.linear.Linear", "fast.layers.Linear"
    assert lines(before, after) == [f"replaced 0 {here} → {there}"]
    assert lines(after, before) == [f"replaced 0 {there} → {here}"]
    moved = run(_named_linear(torch.mm, module="fast.matrix"))
    assert lines(after, moved) == []
    more = run(_named_linear(lambda x, weight: torch.mm(x, weight).relu(), module="fast.matrix"))
    assert lines(after, more) == ["rewired 0 returns 0: relu, not 0", "added 0: relu"]


def test_a_class_of_the_same_name_that_calls_nothing_is_no_other() -> None:
    """What it does not call is listed."""
    before, after = (
        record(nn.Sequential(layer), torch.ones(1, 4))
        for layer in (nn.Linear(4, 4), _named_linear(lambda x, weight: weight))
    )
    assert "removed 0: linear" in lines(before, after)
    assert "added 0: linear" in lines(after, before)


def test_a_container_of_modules_with_calls_is_not_listed() -> None:
    """It is never called; its modules are listed, and it is if it has a weight or none runs."""
    class Net(nn.Module):
        def __init__(self, *heads: nn.Module, weight: bool = False) -> None:
            super().__init__()
            self.first = nn.Linear(4, 4)
            if heads:
                self.heads = nn.ModuleList(heads)
            if weight:
                self.heads.weight = nn.Parameter(torch.ones(4))

        def forward(self, x: torch.Tensor, use: bool = True) -> torch.Tensor:
            x = self.first(x)
            return self.heads[0](x) if use and hasattr(self, "heads") else x

    before, after = Net(), Net(nn.Linear(4, 4))
    found = [record(each, torch.ones(1, 4)) for each in (before, after)]
    assert lines(*found)[-1] == "added heads.0 (Linear) 1 op, 2 parameters"
    weighted = record(Net(nn.Linear(4, 4), weight=True), torch.ones(1, 4))
    assert lines(found[0], weighted)[-1] == "added heads (ModuleList) never called"
    unused = record(after, (torch.ones(1, 4), False))
    assert lines(found[0], unused) == ["added heads (ModuleList) never called"]


@pytest.mark.parametrize(
    ("kind", "cls", "before", "after"),
    [
        (ScopeKind.FUNCTION, FUNCTION, "encode", "embed"),
        (ScopeKind.AUTOCAST, "autocast", "autocast(float16)", "autocast(bfloat16)"),
    ],
)
def test_a_region_with_another_name_is_the_same_between_the_same_steps(
    kind: ScopeKind, cls: str, before: str, after: str
) -> None:
    """Whatever has changed in it: only modules must have something in common."""
    def run(name: str, *ops: str) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.op("relu", builder.input("x"))
            with builder.scope(name, cls, kind=kind):
                for op in ops:
                    x = builder.op(op, x)
            builder.op("tanh", x)
        return builder.recording()

    assert lines(run(before, "exp", "sin"), run(after, "exp", "cos")) == [
        f"renamed {after} was {before}", f"replaced {after}: cos sin → cos"
    ]
