"""Two processes train a replicated model, and one is late: which rank waits, where, for which."""

import os
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing import spawn

import torchrecorder

WORLD = 2


def model():
    """Two layers, and what is between them."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 8))


def work(rank, folder):
    """One of the processes: the last loads its batch slowly."""
    place = f"file://{folder}/meeting"
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=WORLD)
    torch.set_num_threads(1)
    replica = nn.parallel.DistributedDataParallel(model())
    optimizer = torch.optim.SGD(replica.parameters(), lr=0.1)
    dist.barrier()
    with torchrecorder.Recorder(replica) as recorder:
        if rank == WORLD - 1:
            time.sleep(0.2)
        replica(torch.ones(16, 64)).square().mean().backward()
        optimizer.step()
    run = torchrecorder.gather(recorder.recording)
    if run is not None:
        print(run.summary())
        print(run.render("late_rank.svg", depth=3, hide=["optimizer"]), flush=True)
    dist.barrier()
    os._exit(0)  # threads of gloo may still run when the interpreter ends


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        spawn(work, (folder,), nprocs=WORLD)
