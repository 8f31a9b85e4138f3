"""Models over the processes of a group that sends nothing: one process, as one of four."""

from __future__ import annotations

import contextlib
from collections import Counter

import pytest
import torch
import torch.distributed as dist
from torch import nn

WORLD = 4


@contextlib.contextmanager
def process_group(rank=0, world=WORLD):
    """This process is one of several, which need not be there."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
    try:
        yield
    finally:
        dist.destroy_process_group()


def layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))


def tensor_parallel(mesh):
    """The first layer split by columns, the second by rows: one all-reduce forward."""
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, RowwiseParallel, parallelize_module,
    )

    return parallelize_module(layers(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})


def sharded(mesh):
    """Weights spread over all, and gathered for each of two groups of layers."""
    if not hasattr(torch.cpu.Stream, "record_event"):
        pytest.skip("FSDP2 of this PyTorch needs a GPU")
    from torch.distributed.fsdp import fully_shard

    model = layers()
    fully_shard(model[0], mesh=mesh)
    return fully_shard(model, mesh=mesh)


def step(model, x):
    model(x).square().sum().backward()


def sent(run):
    """What *run* sends and when it waits, in order, as PyTorch's profiler tells."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run()
    return [each.name for each in profile.events() if _is_sent(each)]


def _is_sent(event):
    """Whether an operator begins to send or wait; under a dispatch mode it begins twice."""
    around = event.cpu_parent
    while around is not None and around.name != event.name:
        around = around.cpu_parent
    return around is None and event.name.startswith(("c10d::", "_c10d_functional::wait"))


def collectives(run):
    return Counter(each for each in sent(run) if each.startswith("c10d::"))
