"""Hidden: scripts of every form, waiting threads, checkpoints in each other, modules that wait."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.generated.steps.kind import COLUMNS, Kinds, one, two, writable

KINDS = Kinds()
kind = KINDS.kind


def script(module):
    """Scripted, quietly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(module)


class Normed(nn.Module):
    """Writes its statistics, draws random numbers, gives two results."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.norm(x)
        return self.drop(y), y.argmax(1)


@kind(lambda step: script(Normed()))
def scripted_training(block, live, step):
    made, places = block.part(step)(one(live, step))
    live.append(places)
    return made


class Writes(nn.Module):
    """Writes its argument and a part of it, and hands it on."""

    def forward(self, x: Tensor) -> Tensor:
        x.mul_(0.5)
        x[0] = x[1]
        return x


@kind(lambda step: script(Writes()))
def scripted_write(block, live, step):
    return block.part(step)(writable(live, step.one) * 1 if step.other % 2 else one(live, step) * 1)


class Branches(nn.Module):
    """Branches and loops, and leaves one argument alone."""

    def forward(self, x: Tensor, y: Tensor, unread: Tensor, times: int) -> Tensor:
        for _ in range(times):
            x = x.sin() if bool(y.sum() > 0) else x.cos()
        with torch.no_grad():
            scale = y.abs().max()
        return x * scale + y.detach()


@kind(lambda step: script(Branches()), reruns=False)
def scripted_branches(block, live, step):
    x, y = two(live, step)
    return block.part(step)(x, y, x, step.other % 3)


class Nested(nn.Module):
    """A scripted module in a scripted module, used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def forward(self, given: list[Tensor], named: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"out": self.inner(self.inner(given[0])) + named["y"], "same": given[1]}


@kind(lambda step: script(Nested()), modules=False)
def scripted_containers(block, live, step):
    x, y = two(live, step)
    made = block.part(step)([x, y], {"y": y})
    live.append(made["same"] * 1)
    return made["out"]


def _traced(step):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layers = nn.Sequential(nn.Linear(COLUMNS, COLUMNS), nn.GELU())
        return torch.jit.trace(layers, torch.randn(2, COLUMNS), check_trace=False)


@kind(_traced)
def traced(block, live, step):
    return block.part(step)(one(live, step))


_POOL = ThreadPoolExecutor(1)


@kind(hears=False)
def pooled(block, live, step):
    """Work of a thread that waits for it."""
    x = one(live, step) * 2
    return _POOL.submit(lambda: x.sin() * x).result()


@kind(lambda step: nn.Linear(COLUMNS, COLUMNS))
def checkpoint_in_checkpoint(block, live, step):
    fc = block.part(step)

    def inner(x):
        return fc(x).tanh()

    def outer(x):
        return checkpoint(inner, x.sin(), use_reentrant=False) * 2

    return checkpoint(outer, one(live, step), use_reentrant=False)


@kind(lambda step: nn.Linear(COLUMNS, COLUMNS), reruns=False)
def vmapped_module(block, live, step):
    return torch.vmap(block.part(step))(one(live, step))


@kind()
def ragged(block, live, step):
    x, y = two(live, step)
    return torch.nested.nested_tensor([x[0], y[0, :3]]).to_padded_tensor(0.0)


@kind()
def written_out(block, live, step):
    x, y = (each.detach() for each in two(live, step))
    made = torch.empty_like(x)
    torch.mul(x, y, out=made)
    return torch.add(made, x, out=made) if step.other % 2 else made
