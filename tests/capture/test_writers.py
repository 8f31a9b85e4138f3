"""Functions that write their arguments: those whose numbers changed in a plain run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from torchrecorder import record

Function = Callable[..., object]


def table(rows: int = 4, seed: int = 0) -> Tensor:
    """Numbers around zero, three in a row."""
    return torch.randn(rows, 3, generator=torch.Generator().manual_seed(seed)) - 0.1


def statistics() -> tuple[Tensor, Tensor, Tensor]:
    """What a norm takes."""
    return table(), torch.zeros(3), torch.ones(3)


def pair() -> tuple[Tensor, Tensor]:
    """Two of the same size."""
    return table(), table(seed=1)


def quartet() -> tuple[Tensor, ...]:
    """A weight, its gradient, and what an optimizer keeps of it, with the number of steps."""
    return table(), table(seed=1), torch.zeros(4, 3), torch.zeros(4, 3), torch.tensor(1.0)


def adam(p: Tensor, g: Tensor, m: Tensor, v: Tensor, step: Tensor, scale: Any = None) -> None:
    """A step of the fused optimizer."""
    rates = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8}
    torch._fused_adam_([p], [g], [m], [v], [], [step], amsgrad=False, maximize=False,
                       grad_scale=scale, found_inf=None, **rates)


def sgd(p: Tensor, g: Tensor, buffer: Tensor, scale: Any = None) -> None:
    """A step of the fused optimizer."""
    torch._fused_sgd_([p], [g], [buffer], weight_decay=0.0, momentum=0.9, lr=0.1, dampening=0.0,
                      nesterov=False, maximize=False, is_first_step=False, grad_scale=scale)


def both_(x: Tensor, y: Tensor) -> None:
    """A function of the user's that modes see as a whole; its name tells of one write."""
    if torch.overrides.has_torch_function((x, y)):
        torch.overrides.handle_torch_function(both_, (x, y), x, y)
    else:
        x.add_(1)
        y.mul_(2)


UNSEEN = {"embedding", "function of the user's"}
"""Operators inside of these write, which only versions tell."""

WRITERS: dict[str, tuple[Function, Callable[[], tuple[Tensor, ...]]]] = {
    "norm that trains": (lambda x, m, v: F.batch_norm(x, m, v, training=True), statistics),
    "norm": (lambda x, m, v: F.batch_norm(x, m, v, training=False), statistics),
    "instance norm that trains": (
        lambda x, m, v: F.instance_norm(x.t()[None], m, v, use_input_stats=True), statistics),
    "instance norm": (
        lambda x, m, v: F.instance_norm(x.t()[None], m, v, use_input_stats=False), statistics),
    "nothing": (torch.add, pair),
    "in place": (lambda x, y: x.add_(y), pair),
    "out": (lambda x, y: torch.exp(x, out=y), pair),
    "several out": (
        lambda x, a, b: torch.sort(x, out=(a, b)),
        lambda: (table(), table(seed=1), torch.zeros(4, 3, dtype=torch.int64))),
    "inplace": (lambda x: F.relu(x, inplace=True), lambda: (table(),)),
    "not inplace": (lambda x: F.relu(x, inplace=False), lambda: (table(),)),
    "inplace by place": (lambda x: F.leaky_relu(x, 0.1, True), lambda: (table(),)),
    "item": (lambda x, y: x.__setitem__(0, y[1]), pair),
    "list": (lambda x, y: torch._foreach_add_([x], [y]), pair),
    "lists": (lambda x, y: torch._foreach_mul_([x, y], 2.0), pair),
    "list that is read": (lambda x, y: torch._foreach_add([x], [y]), pair),
    "fused": (lambda *given: adam(*given), quartet),
    "fused with scale": (
        lambda *given: adam(*given), lambda: (*quartet(), torch.tensor(2.0))),
    "fused descent": (lambda *given: sgd(*given), lambda: (*pair(), table(seed=2))),
    "fused descent with scale": (
        lambda *given: sgd(*given), lambda: (*pair(), table(seed=2), torch.tensor(2.0))),
    "embedding": (
        lambda x, w: F.embedding(x, w, max_norm=0.1), lambda: (torch.tensor([0, 2]), table())),
    "embedding without norm": (
        lambda x, w: F.embedding(x, w), lambda: (torch.tensor([0, 2]), table())),
    "index": (lambda x, y: x.index_add_(0, torch.tensor([1]), y[:1]), pair),
    "swapped": (lambda x, y: x.t_(), pair),
    "copy": (lambda x, y: x.copy_(y), pair),
    "random": (lambda x, y: y.uniform_(), pair),
    "function of the user's": (both_, pair),
    "operator": (lambda x, y: x.__imul__(y), pair),
}
MODES = {
    "grad": contextlib.nullcontext, "no_grad": torch.no_grad, "inference": torch.inference_mode,
}


def changed(function: Function, make: Callable[[], tuple[Tensor, ...]]) -> list[bool]:
    """Of each argument, whether its numbers or its shape are others after the call, or PyTorch
    counts a write: old versions write the statistics of an instance norm that they only read."""
    args = make()
    before = [(each.clone(), version(each)) for each in args]
    function(*args)
    return [
        not torch.equal(numbers, each) or number != version(each)
        for (numbers, number), each in zip(before, args)
    ]


def version(tensor: Tensor) -> int:
    """How many writes PyTorch has counted."""
    return 0 if tensor.is_inference() else tensor._version


def written(function: Function, args: tuple[Tensor, ...]) -> list[bool]:
    """Of each argument, whether an operation is recorded as writing its memory."""
    recording = record(lambda *given: (function(*given), None)[1], args)
    memory = {
        recording.values[value].storage for op in recording.ops.values() for value in op.writes
    }
    return [recording.values[slot.value].storage in memory for slot in recording.inputs]


@pytest.mark.parametrize(
    ("kind", "mode"),
    [case for case in product(WRITERS, MODES) if case[0] not in UNSEEN or case[1] != "inference"],
)
def test_what_changes_is_written(kind: str, mode: str) -> None:
    """And nothing else, also where tensors have no versions."""
    function, make = WRITERS[kind]
    with MODES[mode]():
        assert written(function, make()) == changed(function, make)
