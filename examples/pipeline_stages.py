"""A pipeline of four stages with two micro-batches: what each sends to the next."""

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing import spawn

import torchrecorder

STAGES, WIDTH = 4, 32


def stage(rank):
    """The part of the model that one process has."""
    torch.manual_seed(rank)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU())


def work(rank, folder):
    """One stage: take what the stage before gives, and pass the result on."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=STAGES)
    layers = stage(rank)
    with torch.no_grad(), torchrecorder.Recorder(layers) as recorder:
        for batch in range(2):
            x = torch.zeros(8, WIDTH)
            if rank > 0:
                dist.recv(x, rank - 1, tag=batch)
            y = layers(x)
            if rank < STAGES - 1:
                dist.send(y, rank + 1, tag=batch)
    recorder.recording.save(f"{folder}/rank{rank}.json.gz")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        spawn(work, (folder,), nprocs=STAGES)
        run = torchrecorder.merge(Path(folder) / "rank*.json.gz")
    print(run.summary())
    print(run.render("pipeline_stages.svg"))
