"""What plans are made of: functions that other processes import, each given the mesh."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses import FakeTensorMode


class Block(nn.Module):
    """A norm and two layers, with a skip around them."""

    def __init__(self, width, inner):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)).relu())


def spread(mesh, layers=2, width=16, inner=64):
    """Blocks whose layers are split along ``tp`` and whose weights lie over ``dp``; and inputs."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, RowwiseParallel, parallelize_module,
    )

    model = nn.Sequential(*(Block(width, inner) for _ in range(layers)))
    for block in model:
        parallelize_module(
            block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()}
        )
        fully_shard(block, mesh=mesh["dp"])
    return fully_shard(model, mesh=mesh["dp"]), torch.ones(4, width)


def hybrid(mesh):
    """Weights that lie over ``dp``, and a sum over ``tp``."""
    from torch.distributed.fsdp import fully_shard

    model = fully_shard(nn.Linear(4, 8), mesh=mesh["dp"])

    def step():
        y = model(torch.ones(2, 4))
        y.sum().backward()
        dist.all_reduce(y.detach(), group=mesh.get_group("tp"))

    return model, step


def uneven(mesh):
    """A layer of five rows in all on each pair of ``tp``: the first has more of them."""
    rows = 3 - mesh.get_local_rank("tp")
    return nn.Sequential(nn.Linear(4, rows)), torch.ones(3, 4)


def staged(mesh):
    """Stages along ``pp``, each of which sends what it makes to the next; with its step."""
    stage, stages = mesh.get_local_rank("pp"), mesh["pp"].size()
    rank, apart = dist.get_rank(), mesh["dp"].size()
    model = nn.Linear(4, 4)

    def step():
        x = torch.zeros(3, 4)
        if stage > 0:
            dist.recv(x, rank - apart)
        y = model(x)
        if stage < stages - 1:
            dist.send(y.detach(), rank + apart)
        dist.all_reduce(y.detach(), group=mesh.get_group("dp"))

    return model, step


MICRO_BATCHES, ROWS, WIDTH = 4, 3, 8

MICRO_BATCH_BYTES = ROWS * WIDTH * 4
"""What one stage sends to the next for each, and is sent back."""


def scheduled(mesh, schedule, stages):
    """A step of one of PyTorch's schedules, with so many stages in each process.

    In a schedule of the shape of a V, the first process has the first and the last stage.
    """
    from torch.distributed import pipelining

    rank, ranks = mesh.get_local_rank("pp"), mesh["pp"].size()
    layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(stages))
    sample = torch.zeros(ROWS, WIDTH, requires_grad=True)
    numbers = [rank + ranks * number for number in range(stages)]
    if "ZBV" in schedule:
        numbers = [rank, 2 * ranks - 1 - rank]
    parts = [
        pipelining.PipelineStage(
            layer, number, ranks * stages, torch.device("cpu"),
            input_args=(sample,), output_args=(sample,), group=mesh.get_group("pp"),
        )
        for number, layer in zip(numbers, layers)
    ]
    make = getattr(pipelining, schedule)
    built = make(
        parts if stages > 1 else parts[0], MICRO_BATCHES, loss_fn=nn.functional.mse_loss
    )

    def step():
        batch = torch.ones(MICRO_BATCHES * ROWS, WIDTH)
        given = [batch] if parts[0].is_first else []
        wanted = {"target": batch} if parts[-1].is_last else {}
        built.step(*given, **wanted)

    return layers, step


def tied(mesh):
    """A table that is a head, too."""
    model = nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 8, bias=False))
    model[1].weight = model[0].weight
    return model, torch.zeros(2, dtype=torch.long)


def already_fake(mesh):
    """A model and an input that are fake tensors, on the device of what a factory makes."""
    with FakeTensorMode():
        return nn.Linear(4, 2), torch.ones(3, 4)


def only_step(mesh):
    """A step without a model."""
    return lambda: dist.all_reduce(torch.ones(4))


def one_differs(mesh):
    """One process in the middle sends more than all others, which no end tells."""
    rank = dist.get_rank()
    return lambda: dist.all_reduce(torch.ones(8 if rank == 1 else 4))


def failing(mesh):
    """A mistake of the user's."""
    raise ValueError(f"no such size: {mesh['tp'].size()}")


def fails_on_last(mesh):
    """A model that raises in one process."""
    class Model(nn.Module):
        def forward(self, x):
            return x @ torch.ones(5 if dist.get_rank() == 3 else 4, 2)

    return Model(), torch.ones(3, 4)


def nothing(mesh):
    """No model."""
    return 3
