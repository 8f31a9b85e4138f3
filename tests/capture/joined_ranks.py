"""Tasks of two processes for `tests.capture.ranks`: what they send, heard and put together."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from torch import nn

import torchrecorder
from torchrecorder import Recorder


def _layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))


def _step(model, rank):
    model(torch.arange(8.0).view(2, 4) + rank).square().sum().backward()


def late(rank):
    """A replicated model of which one process is late: C++ is heard, and the late one is named."""
    model = nn.parallel.DistributedDataParallel(_layers())
    _step(model, rank)
    with Recorder(model) as recorder:
        y = model(torch.ones(2, 4))
        if rank == 1:
            time.sleep(0.5)
        y.square().sum().backward()
    run = torchrecorder.gather(recorder.recording)
    assert (run is None) == (rank == 1)
    if run is not None:
        assert run.problems == ()
        (lane,) = run.lanes
        assert lane.ranks == (0, 1)
        (reduce,) = [each for each in run.collectives if each.name == "all_reduce"]
        assert reduce.backward and reduce.last == 1, reduce.parts
        assert reduce.bytes == 4 * sum(each.numel() for each in model.parameters())
        assert run.top("waited", 1)[0][0] == reduce


def alone(rank):
    """Only one process records, with everything there is to record: the job goes on."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, RowwiseParallel, parallelize_module,
    )

    mesh = init_device_mesh("cpu", (2,))
    split = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    models = parallelize_module(_layers(), mesh, split), fully_shard(_layers(), mesh=mesh)
    for options in {"stats": True}, {"keep": ["*"]}, {"flops": True}, {"replay": True}:
        for model in models:
            if rank == 0:
                with Recorder(model, **options) as recorder:
                    _step(model, rank)
                recorder.recording.summary()
                assert recorder.recording.communications
            else:
                _step(model, rank)
    dist.barrier()


def equal(rank):
    """Equal runs give equal recordings, whenever a thread writes what was received."""
    import torch.distributed._functional_collectives as functional

    found = set()
    for number in range(10):
        with Recorder() as recorder:
            y = functional.all_gather_tensor(torch.ones(2, 2) * rank, 0, dist.group.WORLD)
            z = torch.zeros(4)
            work = dist.all_gather_into_tensor(z, torch.ones(2), async_op=True)
            time.sleep(number % 3 / 500)
            y + 1
            work.wait()
            z * 2
        ops = recorder.recording.ops.values()
        found.add(tuple((op.name, op.kind.value, op.writes) for op in ops))
        sent = recorder.recording.communications
        assert [each.name for each in sent] == ["all_gather"] * 2
        assert None not in [each.seconds for each in sent]
    assert len(found) == 1, found


def messages(rank):
    """Sends and receives, one by one and in a batch; and a process that gives something wrong."""
    x = torch.ones(2, 2)
    with Recorder() as recorder:
        if rank == 0:
            dist.send(x, 1, tag=3)
        else:
            dist.recv(x, 0, tag=3)
        into = torch.empty(2, 2)
        pair = [dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, into, 1 - rank)]
        for work in dist.batch_isend_irecv(pair):
            work.wait()
    run = torchrecorder.gather(recorder.recording)
    if run is not None:
        assert run.problems == ()
        assert [each.name for each in run.collectives] == ["send"] * 3
        assert len(run.lanes) == 2
    try:
        torchrecorder.gather(recorder.recording if rank == 0 else "nothing")
    except torchrecorder.InvalidArgument as error:
        assert "expected a recording, not a str" in str(error)
    else:
        raise AssertionError("gather took something that is no recording")


TASKS = {each.__name__: each for each in (late, alone, equal, messages)}
