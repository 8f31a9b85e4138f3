"""The rows of a table, of programs with unusual calls of their modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad
from torch.nn import functional as F

import torchrecorder
from torchrecorder.annotations.parameters import PARAMETERS
from torchrecorder.export.table.rows import TableRow, every_row, fitting
from torchrecorder.recording import Recording
from torchrecorder.select.functions import WithFunctions


def rows(recording: Recording, depth: int | None = None, *, ops: bool = False) -> list[TableRow]:
    """The rows of a table as `summary` lists them without folding."""
    return fitting(every_row(recording, ops=ops), depth)


def test_a_closure_that_is_called_again() -> None:
    """The closure of LBFGS has its weights once, as the modules inside it."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    x = torch.randn(3, 4)
    calls = 0

    def closure() -> torch.Tensor:
        nonlocal calls
        calls += 1
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    with torchrecorder.Recorder(model) as recorder:
        optimizer.step(closure)
    recording = WithFunctions(True)(recorder.recording)
    listed = [row for row in rows(recording) if row.title == "closure()"]
    assert [row.again for row in listed] == [False] + [True] * (calls - 1)
    assert calls > 1


def test_what_reads_a_number_is_one_call() -> None:
    """The operation is named ``bool()``, which needs no second pair of brackets."""
    recording = torchrecorder.record(lambda x: x + 1 if x.sum() > 0 else x, torch.ones(2))
    assert "bool()" in {row.title for row in rows(recording, ops=True)}


def test_weights_computed_in_the_run_are_not_frozen() -> None:
    """A module that is called with other weights is not said to have frozen ones."""
    model = nn.Linear(4, 1)

    def step(x: torch.Tensor) -> torch.Tensor:
        weights = {name: weight.detach() for name, weight in model.named_parameters()}
        return functional_call(model, weights, (x,))

    recording = torchrecorder.record(step, torch.randn(3, 4))
    assert [row.notes for row in rows(recording) if row.title == "model (Linear)"] == [()]


@pytest.mark.parametrize("model", [nn.Linear(4, 1), nn.Sequential(nn.Linear(4, 1))])
def test_weights_in_wrappers_of_torch_func_count_once(model: nn.Module) -> None:
    """``torch.func.grad`` wraps the weights that a module is called with; these are the same."""
    weights = dict(model.named_parameters())

    def loss(given: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(functional_call(model, given, (x,)), torch.zeros(3, 1))

    recording = torchrecorder.record(lambda x: grad(loss)(weights, x), torch.randn(3, 4))
    *_, called = recording.modules.values()
    read = {slot.value for op in recording.ops.values() for slot in op.inputs}
    assert {slot.value for slot in called.parameters} <= read
    count = sum(weight.numel() for weight in model.parameters())
    assert PARAMETERS.on(recording).total() == count


@pytest.mark.parametrize("make", [torch.jit.script, lambda m: torch.jit.trace(m, torch.ones(2, 4))])
def test_modules_in_scripts_are_not_reported_as_never_called(make: Callable[..., Any]) -> None:
    """They run, but without the hooks that tell of calls."""
    model = make(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    recording = torchrecorder.record(model, torch.ones(2, 4))
    assert [row.notes for row in rows(recording)] == [(), ("in a script",), ("in a script",)]
    assert "relu" in {op.name for op in recording.ops.values()}
