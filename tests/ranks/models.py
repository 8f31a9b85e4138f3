"""Models that several processes train together, each in one of the ways that PyTorch has."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

WIDTH = 8


class Block(nn.Module):
    """Two layers with a skip around them, and a norm before."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.act, self.down = nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, WIDTH)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


def blocks(number=2):
    torch.manual_seed(0)
    return nn.Sequential(*(Block() for _ in range(number)))


def inputs(rank):
    return torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(rank))


def mesh(names, *shape):
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", shape, mesh_dim_names=names)


def _stepped(model, rank):
    def step():
        y = model(inputs(rank))
        y.square().mean().backward()
        return [y]

    return model, step


def ddp(rank, world):
    return _stepped(nn.parallel.DistributedDataParallel(blocks()), rank)


def accumulation(rank, world):
    """Two backward passes, the gradients of which are averaged once."""
    model = nn.parallel.DistributedDataParallel(blocks())

    def step():
        with model.no_sync():
            model(inputs(rank)).square().mean().backward()
        y = model(inputs(rank + world))
        y.square().mean().backward()
        return [y]

    return model, step


def _sharded(model, over):
    from torch.distributed.fsdp import fully_shard

    for block in model:
        fully_shard(block, mesh=over)
    return fully_shard(model, mesh=over)


def fsdp(rank, world):
    return _stepped(_sharded(blocks(), mesh(("dp",), world)), rank)


def sharded_accumulation(rank, world):
    """Three backward passes; only the last two average their gradients and add them."""
    model = _sharded(blocks(), mesh(("dp",), world))

    def step():
        results = []
        for number in range(3):
            model.set_requires_gradient_sync(number > 0)
            results.append(model(inputs(rank + number * world)))
            results[-1].square().mean().backward()
        return results

    return model, step


def checkpointing(rank, world):
    """Sharded blocks, each of which runs again in backward."""
    model = _sharded(blocks(), mesh(("dp",), world))

    def step():
        y = inputs(rank)
        for block in model:
            y = checkpoint(block, y, use_reentrant=False)
        y.square().mean().backward()
        return [y]

    return model, step


def _split(model, over, sequence=False):
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, PrepareModuleInput, PrepareModuleOutput, RowwiseParallel, SequenceParallel,
        parallelize_module,
    )

    for block in model:
        parts = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        if sequence:
            parts = {
                "norm": SequenceParallel(sequence_dim=0),
                "up": ColwiseParallel(input_layouts=Shard(0)),
                "down": RowwiseParallel(output_layouts=Shard(0), use_local_output=False),
            }
        parallelize_module(block, over, parts)
    if sequence:
        whole = torch.distributed.tensor.Replicate()
        parallelize_module(model, over, PrepareModuleInput(
            input_layouts=whole, desired_input_layouts=Shard(0)
        ))
        parallelize_module(model, over, PrepareModuleOutput(
            output_layouts=Shard(0), desired_output_layouts=whole
        ))
    return model


def tensor_parallel(rank, world):
    return _stepped(_split(blocks(), mesh(("tp",), world)), 0)


def sequence_parallel(rank, world):
    return _stepped(_split(blocks(), mesh(("tp",), world), sequence=True), 0)


def fsdp_and_tensor_parallel(rank, world):
    over = mesh(("dp", "tp"), world // 2, 2)
    return _stepped(_sharded(_split(blocks(), over["tp"]), over["dp"]), rank // 2)


class Experts(nn.Module):
    """Rows go to the process of the expert that is chosen for them, and come back."""

    def __init__(self, rank, world, functional):
        super().__init__()
        torch.manual_seed(rank)
        self.world, self.functional = world, functional
        self.expert = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, given):
        taken = self._taken(given, x.device)
        y = self.expert(self._exchange(x, taken, given))
        return self._exchange(y, given, taken)

    def _taken(self, given, device):
        """How many rows come from each process; *given* is how many go to each."""
        sizes, told = torch.tensor(given), torch.empty(self.world, dtype=torch.long)
        dist.all_to_all_single(told, sizes)
        return told.tolist()

    def _exchange(self, x, taken, given):
        if self.functional:
            from torch.distributed._functional_collectives import all_to_all_single_autograd

            return all_to_all_single_autograd(x, taken, given, dist.group.WORLD) * 1
        y = x.new_empty(sum(taken), WIDTH)
        dist.all_to_all_single(y, x.detach(), taken, given)
        return y


def _experts(rank, world, functional):
    model = Experts(rank, world, functional)
    given = [rank + 1] * world

    def step():
        y = model(inputs(rank).repeat(2, 1)[: sum(given)].requires_grad_(), given)
        if functional:
            y.square().mean().backward()
        return [y]

    return model, step


def experts(rank, world):
    return _experts(rank, world, True)


def experts_without_autograd(rank, world):
    return _experts(rank, world, False)


def _pipeline(name, per_rank=1, batches=4):
    def build(rank, world):
        from torch.distributed import pipelining

        number, parts = world * per_rank, range(rank, world * per_rank, world)
        layers = blocks(number)
        stages = [
            pipelining.PipelineStage(layers[place], place, number, torch.device("cpu"))
            for place in parts
        ]
        schedule = getattr(pipelining, name)(
            stages if per_rank > 1 else stages[0], n_microbatches=batches,
            loss_fn=lambda y, target: (y - target).square().mean(),
        )
        model = nn.ModuleList([layers[place] for place in parts])

        def step():
            losses = []
            given = (inputs(0),) if rank == 0 else ()
            told = dict(target=inputs(1), losses=losses) if rank == world - 1 else {}
            schedule.step(*given, **told)
            return losses

        return model, step

    build.__name__ = name
    return build


MODELS = {
    build.__name__: build
    for build in (
        ddp, accumulation, fsdp, sharded_accumulation, checkpointing, tensor_parallel,
        sequence_parallel, fsdp_and_tensor_parallel, experts, experts_without_autograd,
        _pipeline("ScheduleGPipe"), _pipeline("Schedule1F1B"),
        _pipeline("ScheduleInterleaved1F1B", per_rank=2),
    )
}
"""Each makes a model and a step of its training, which gives tensors, for a rank in a world."""
