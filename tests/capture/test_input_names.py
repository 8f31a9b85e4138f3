"""Inputs have the names of the call that reads them, or those that the program has for them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import torchrecorder
from tests.capture.test_argument_names import ones
from torchrecorder.events import Role

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns")


class Both(nn.Module):
    """Its arguments are not called as the variables of its callers."""

    def forward(self, one: Any, other: Tensor | None = None) -> Tensor:
        first = one[0] if isinstance(one, list) else getattr(one, "x", one)
        return first * 2 if other is None else first + other


def inputs(function: Callable[[], object]) -> list[str]:
    """The names of the inputs of a block that runs *function*."""
    with torchrecorder.Recorder() as recorder:
        function()
    recording = recorder.recording
    names = [slot.name for slot in recording.inputs]
    assert names == [".".join(recording.values[slot.value].names) for slot in recording.inputs]
    return names


def test_inputs_of_modules_have_the_names_of_the_call() -> None:
    """Those of `forward` if it has none: for what a call computes, for each of several arguments,
    and where a builtin calls the module."""
    model, real, fake = Both(), ones(), ones()
    batch, held = {"image": ones(), "label": ones()}, SimpleNamespace(x=ones())
    pair, both, listed = [ones(), ones()], (ones(), ones()), [ones(), ones()]
    given: list[tuple[Callable[[], object], list[str]]] = [
        (lambda: model(real, fake), ["real", "fake"]),
        (lambda: model(other=fake, one=real), ["fake", "real"]),
        (lambda: (model(real), model(fake), model(real)), ["real", "fake"]),
        (lambda: model(batch["image"], batch["label"]), ["batch.image", "batch.label"]),
        (lambda: model(held.x), ["held.x"]),
        (lambda: torch.vmap(lambda row: model(row))(real), ["row"]),
        (lambda: model(pair), ["pair.0", "pair.1"]),
        (lambda: [model(item) for item in listed], ["item", "item"]),
        (lambda: model(held), ["held.x"]),
        (lambda: model(*[held], other=real), ["other", "one.x"]),
        (lambda: model(*both), ["one", "other"]),
        (lambda: functools.partial(model, real)(fake), ["one", "other"]),
        (lambda: functools.partial(model, other=real)(fake), ["fake", "other"]),
        (lambda: functools.reduce(model, pair), ["one", "other"]),
        (lambda: model(**{"one": real}), ["one"]),
        (lambda: model(torch.frombuffer(bytearray(8), dtype=real.dtype)), ["one"]),
        (lambda: list(map(model, [fake])), ["one"]),
        (lambda: [*map(model, (real,), (fake,))], ["one", "other"]),
        (lambda: (real.sum(), model(real)), ["real"]),
        (lambda: (model(real), real.sum()), ["real"]),
    ]
    for function, wanted in given:
        assert inputs(function) == wanted


def test_variables_that_the_program_reads_itself_are_inputs() -> None:
    """As the target of a loss, also inside `no_grad`, and what is in the same object as an input;
    not what other objects hold, what has no name, and what is written."""
    model, x, y, mean, total = Both(), ones(), ones(), ones(), torch.zeros(())
    batch, held = {"image": ones(), "label": ones()}, SimpleNamespace(x=ones())
    rows, weight, goal = torch.ones(5, 2), nn.Parameter(ones()), torch.ones(5, 2)
    state, edges = ones().to_sparse(), ones().to_sparse()  # without storages

    def without_gradients() -> None:
        with torch.no_grad():
            F.mse_loss(model(x), y)

    given: list[tuple[Callable[[], object], list[str]]] = [
        (lambda: F.mse_loss(model(x), y), ["x", "y"]),
        (without_gradients, ["x", "y"]),
        (lambda: (x - mean) * 2, ["x", "mean"]),
        (lambda: F.mse_loss(model(batch["image"]), batch["label"]), ["batch.image", "batch.label"]),
        (lambda: F.mse_loss(model(x), batch["label"]), ["x"]),
        (lambda: F.mse_loss(model(x), held.x), ["x"]),
        (lambda: F.mse_loss(model(x), (lambda: y)()), ["x"]),
        (lambda: total.add_(model(x).sum()), ["x"]),
        (lambda: F.mse_loss(rows @ weight, goal), ["rows", "goal"]),
        (lambda: (state.mul_(2), edges @ model(x)), ["x", "edges"]),
    ]
    for function, wanted in given:
        assert inputs(function) == wanted


def test_variables_for_each_weight_are_constants() -> None:
    """What it should be, its importance, and a mask for its gradient."""
    model, x, y = nn.Linear(2, 2, bias=False), ones(), ones()
    goals, scales, masks = [ones()], [ones()], [ones()]

    def program() -> None:
        loss = F.mse_loss(model(x), y)
        for weight, goal, scale in zip(model.parameters(), goals, scales):
            loss = loss + (scale * (weight - goal).square()).sum()
        loss.backward()
        for weight, mask in zip(model.parameters(), masks):
            weight.grad.mul_(mask)

    assert inputs(program) == ["x", "y"]


def test_variables_that_a_call_reads_are_constants() -> None:
    """A module, and a recorded function, has its arguments as inputs, and no others."""
    mask, target = ones(), ones()
    model = nn.Sequential(Both())
    model[0].register_forward_hook(lambda module, args, result: result * mask)
    assert inputs(lambda: model(target)) == ["target"]
    recording = torchrecorder.record(lambda x: F.mse_loss(x, target), ones())
    assert [slot.name for slot in recording.inputs] == ["x"]
    assert ("target",) in [
        value.names for value in recording.values.values() if value.role is Role.CONSTANT
    ]


def test_inputs_of_a_recorded_model_have_the_names_of_its_arguments() -> None:
    """Also if the program has other names for them, which hooks, or a global variable, could
    give."""
    model, real = Both(), ones()
    model.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    recording = torchrecorder.record(model, real)
    assert [slot.name for slot in recording.inputs] == ["one"]
    recording = torchrecorder.record(Both(), HELD_BY_A_GLOBAL)
    assert [slot.name for slot in recording.inputs] == ["one"]
    recording = torchrecorder.record(lambda value: value * HELD_BY_A_GLOBAL, HELD_BY_A_GLOBAL)
    assert [slot.name for slot in recording.inputs] == ["value"]


HELD_BY_A_GLOBAL = ones()
