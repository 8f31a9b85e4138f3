"""A block of a transformer on four processes: weights spread over two, each layer over two.

The processes need not be there: a group that sends nothing stands for them, and each is
recorded in turn.
"""

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing import spawn

import torchrecorder

WORLD, WIDTH = 4, 64


class Block(nn.Module):
    """Two layers with a residual connection around them, and a norm before."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.act, self.down = nn.Linear(WIDTH, 256), nn.GELU(), nn.Linear(256, WIDTH)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


def parallel(mesh):
    """The block, its layers split along ``tp``, its weights along ``dp``."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, RowwiseParallel, parallelize_module,
    )

    split = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    return fully_shard(parallelize_module(Block(), mesh["tp"], split), mesh=mesh["dp"])


def work(rank, folder):
    """What one process does in a step of training."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=WORLD)
    model = parallel(init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp")))
    with torchrecorder.Recorder(model) as recorder:
        model(torch.ones(8, WIDTH)).square().mean().backward()
    recorder.recording.save(f"{folder}/rank{rank}.json.gz")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        spawn(work, (folder,), nprocs=WORLD)
        run = torchrecorder.merge(Path(folder) / "rank*.json.gz")
    print(run.summary())
    print(run.render("parallel_block.svg"))
    run.recording.save("parallel_block.json.gz", times=False)
