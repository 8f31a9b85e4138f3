"""A pipeline of four stages and eight micro-batches: activations forward, gradients back."""

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing import spawn

import torchrecorder

STAGES, BATCHES, WIDTH = 4, 8, 64


def stage(rank):
    """The layers that one process has."""
    torch.manual_seed(rank)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))


def schedule_of(layers, rank):
    """PyTorch's schedule of one forward, one backward."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    part = PipelineStage(layers, rank, STAGES, torch.device("cpu"))
    return Schedule1F1B(part, BATCHES, loss_fn=nn.functional.mse_loss)


def work(rank, folder):
    """One of the processes: the first has the batch, the last has the targets."""
    place = f"file://{folder}/meeting"
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=STAGES)
    torch.set_num_threads(1)
    layers = stage(rank)
    schedule = schedule_of(layers, rank)
    given = [torch.ones(64, WIDTH)] if rank == 0 else []
    wanted = {"target": torch.zeros(64, WIDTH)} if rank == STAGES - 1 else {}
    with torchrecorder.Recorder(layers, name="pipeline") as recorder:
        schedule.step(*given, **wanted)
    run = torchrecorder.gather(recorder.recording)
    if run is not None:
        print(run.summary())
        print(run.render("pipeline_stages.svg", depth=1), flush=True)
        run.recording.save("pipeline_stages.json.gz", times=False)
    dist.barrier()
    os._exit(0)  # threads of gloo may still run when the interpreter ends


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        spawn(work, (folder,), nprocs=STAGES)
