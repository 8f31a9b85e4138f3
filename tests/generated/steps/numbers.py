"""Arithmetic, integers, masks, numbers that leave PyTorch, factories, constants, chance."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from tests.generated.steps.kind import COLUMNS, ROWS, Kinds, either, fit, one, pick, two

KINDS = Kinds()
kind = KINDS.kind

OUTSIDE: list[torch.Tensor] = []
"""A tensor from outside of all modules; see `renew`."""


def renew():
    """What a model has written in the last run is no matter for the next one."""
    OUTSIDE[:] = [torch.linspace(-1, 1, ROWS * COLUMNS).view(ROWS, COLUMNS)]


@kind()
def arithmetic(block, live, step):
    x, y = two(live, step)
    return either(
        step.one + step.other, lambda: x + y, lambda: x * y, lambda: x - y,
        lambda: torch.maximum(x, y), lambda: x / (y.abs() + 1), lambda: torch.lerp(x, y, 0.5),
    )


@kind()
def squared(block, live, step):
    x = one(live, step)
    return either(
        step.other, lambda: x * x, lambda: x**2, lambda: torch.add(x, x),
        lambda: F.mse_loss(x, x.detach(), reduction="none"),
    )


@kind()
def reflected(block, live, step):
    x = one(live, step)
    return either(
        step.other, lambda: 1 - x, lambda: 2 / (x.abs() + 1), lambda: 2 ** x.clamp(-2, 2),
        lambda: -x, lambda: abs(x), lambda: x % 1.5,
    )


@kind()
def smooth(block, live, step):
    x = one(live, step)
    return either(step.other, x.tanh, x.sigmoid, x.exp, x.relu, x.cos, lambda: F.gelu(x))


@kind()
def reduced(block, live, step):
    x = one(live, step)
    return either(
        step.other, x.sum, lambda: x.mean(0), lambda: x.max(1).values, lambda: x.softmax(-1),
        x.norm, lambda: x.cumsum(1),
    )


@kind()
def several(block, live, step):
    x = one(live, step)
    values, places = either(
        step.other, lambda: x.topk(2, 1), lambda: torch.sort(x, 1), lambda: torch.max(x, 0)
    )
    live.append(places)
    return values if values.numel() != 4 else values.sum()


@kind()
def multiplied(block, live, step):
    x, y = two(live, step)
    return either(
        step.one + step.other, lambda: (x @ y.t()).sum(1), lambda: x.mm(y.T).diagonal(),
        lambda: torch.einsum("ij,kj->i", x, y),
    )


@kind(lambda step: nn.Embedding(8, COLUMNS))
def embedded(block, live, step):
    return block.part(step)(one(live, step).argmax(1))


@kind()
def indexed(block, live, step):
    x, y = two(live, step)
    index = y.argsort(1)
    return either(
        step.one + step.other, lambda: x.gather(1, index), lambda: x[:, index[0]],
        lambda: x.index_select(1, index[1]), lambda: x[index % ROWS, 0],
    )


@kind()
def counted_up(block, live, step):
    x = one(live, step)
    hot = F.one_hot(x.argmax(1), COLUMNS)
    return hot if step.other % 2 else hot.float() * x


@kind()
def masked(block, live, step):
    x, y = two(live, step)
    mask = (x > y) if step.one % 2 else torch.ones(ROWS, COLUMNS).tril().bool()
    return torch.where(mask, x, y) if step.other % 2 else x.masked_fill(~mask, -1.0)


@kind()
def number_and_back(block, live, step):
    x = one(live, step)
    number = x.detach().clamp(-2, 2).nan_to_num().mean().item()
    return either(
        step.other, lambda: x * number, lambda: torch.tensor(number),
        lambda: torch.full((ROWS, COLUMNS), number),
    )


@kind()
def branched(block, live, step):
    x, y = two(live, step)
    if x.sum() > 0:
        return x + 1
    return y * 2 if bool((y > 0).any()) else x.new_zeros(COLUMNS)


@kind()
def shapes_flow(block, live, step):
    x = one(live, step)
    return x / x.shape[-1] + x.size(0) * len(x) + math.sqrt(x.numel()) + x.new_full(x.shape, 0.5)


@kind()
def made_anew(block, live, step):
    x = one(live, step)
    return either(
        step.other, lambda: torch.arange(COLUMNS), lambda: torch.zeros(ROWS, COLUMNS),
        lambda: torch.ones_like(x), lambda: torch.eye(COLUMNS)[0],
        lambda: torch.tensor([[1.0], [2.0]]), lambda: torch.linspace(0, 1, COLUMNS),
    )


@kind()
def outside(block, live, step):
    return one(live, step) * OUTSIDE[0] if step.other % 2 else OUTSIDE[0]


@kind()
def by_chance(block, live, step):
    x = one(live, step)
    return either(
        step.other, lambda: torch.rand(ROWS, COLUMNS), lambda: torch.randn_like(x),
        lambda: torch.randint(0, 3, (COLUMNS,)), lambda: torch.randperm(COLUMNS),
        lambda: F.dropout(x, 0.5, block.training), lambda: x.detach().sigmoid().bernoulli(),
    )


@kind()
def other_precision(block, live, step):
    x = one(live, step)
    return x.to((torch.float64, torch.bfloat16, torch.float16, torch.int64)[step.other % 4])


@kind()
def sparse(block, live, step):
    return one(live, step).relu().to_sparse()


@kind()
def through_numpy(block, live, step):
    x = one(live, step).detach()
    return torch.tensor(x.tolist()) if step.other % 2 else torch.from_numpy(x.numpy().copy())


@kind()
def asked(block, live, step):
    """Questions whose answers no tensor hears."""
    x = pick(live, step.one)
    assert x.shape and x.dtype and x.device or x.dim() == 0
    if not x.is_sparse and torch.is_tensor(x) and x.stride() and x.is_contiguous():
        return None
    return fit(x).sum()
