"""One of two processes that work together: ``python -m tests.capture.ranks RANK FILE TASKS``.

Each task runs plainly and under the recorder, and asserts that both came to the same, that the
recording holds together, and that it knows every tensor of which the bits changed.
"""

from __future__ import annotations

import datetime
import os
import sys
from collections import Counter

import torch
import torch.distributed as dist
from torch import nn
from torch.overrides import TorchFunctionMode

from tests.capture import joined_ranks
from tests.structure import structure
from tests.witness import tensors_of
from torchrecorder.capture.recorder import Recorder
from torchrecorder.capture.tape import Tape


class Changes(TorchFunctionMode):
    """Which arguments of which collective come out with other bits than they went in."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__module__", "") != "torch.distributed.distributed_c10d":
            return func(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunction():
            given = list(tensors_of((args, kwargs or {})))
            before = [each.detach().clone() for each in given]
        made = func(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunction():
            same = [torch.equal(one, other) for one, other in zip(given, before)]
        self.found.append((func.__name__, [at for at, each in enumerate(same) if not each]))
        return made


def _collectives(rank):
    """Every collective that gloo has on a CPU, each with a reader of what it wrote."""
    x = torch.arange(4.0) + 10 * rank + 1

    def parts(size=4):
        return [torch.full((size,), -1.0), torch.full((size,), -2.0)]

    def all_reduce():
        y = x * 1.0
        dist.all_reduce(y)
        return y

    def all_reduce_later():
        y = x * 1.0
        dist.all_reduce(y, async_op=True).wait()
        return y

    def part_of_a_tensor():
        y = x * 1.0
        dist.all_reduce(y[:2])
        return y

    def broadcast():
        y = x * 1.0
        dist.broadcast(y, 1)
        return y

    def reduce():
        y = x * 1.0
        dist.reduce(y, 0)
        return y

    def all_gather():
        y = parts()
        dist.all_gather(y, x * 1.0)
        return torch.cat(y)

    def all_gather_into_tensor():
        y = torch.empty(8)
        dist.all_gather_into_tensor(y, x * 1.0)
        return y

    def reduce_scatter():
        y = torch.full((2,), -1.0)
        dist.reduce_scatter(y, list((x * 1.0).chunk(2)))
        return y

    def reduce_scatter_tensor():
        y = torch.full((2,), -1.0)
        dist.reduce_scatter_tensor(y, x * 1.0)
        return y

    def gather():
        y = parts() if rank == 0 else None
        dist.gather(x * 1.0, y, 0)
        return torch.cat(y) if rank == 0 else x * 1.0

    def scatter():
        y = torch.full((2,), -1.0)
        dist.scatter(y, list((x * 1.0).chunk(2)) if rank == 0 else None, 0)
        return y

    def all_to_all():
        y = parts(2)
        dist.all_to_all(y, list((x * 1.0).chunk(2)))
        return torch.cat(y)

    def all_to_all_single():
        y = torch.full((4,), -1.0)
        dist.all_to_all_single(y, x * 1.0)
        return y

    def send_and_receive():
        y = x * 1.0
        if rank == 0:
            dist.send(y, 1)
        else:
            dist.recv(y, 0)
        return y

    def differentiable():
        import torch.distributed.nn

        return torch.distributed.nn.all_reduce((x * 1.0).requires_grad_())

    def functional():
        import torch.distributed._functional_collectives as functional

        return functional.all_reduce(x * 1.0, "sum", dist.group.WORLD)

    return {name: each for name, each in locals().items() if name not in ("rank", "x", "parts")}


_MAY_STAY = {"broadcast": {0}, "reduce": {0}, "all_reduce_later": {0}}
"""Written on one rank only and drawn alike on all, or written when it is waited for."""


_NOT_IN_EVERY_GLOO = ("reduce_scatter", "reduce_scatter_tensor", "all_to_all")


def collectives(rank):
    """Each collective is an op that writes what changed, and is read from where it wrote."""
    for name, run in _collectives(rank).items():
        try:
            plain = run() * 2
        except RuntimeError as error:  # Gloo of an older PyTorch
            assert name in _NOT_IN_EVERY_GLOO and "does not support" in str(error), name
            continue
        changes = Changes()
        with Recorder(run) as recorder, changes:
            result = run() * 2
        assert torch.equal(plain, result), name
        recording = recorder.recording
        assert structure(recording) == [], name
        heard = [op for op in recording.ops.values() if op.name in dict(changes.found)]
        assert [op.name for op in heard] == [each for each, _ in changes.found], (name, heard)
        for op, (_, changed) in zip(heard, changes.found):
            written = _written(recording, op)
            assert set(changed) <= written, (name, changed, written)
            assert written <= set(changed) | _MAY_STAY.get(name, set()), (name, written)
        _reads_it(recording, name, heard)


def _written(recording, op):
    """Places of the arguments over memory that *op* wrote."""
    memory = {recording.values[each].storage for each in op.writes}
    slots = enumerate(op.inputs)
    return {at for at, slot in slots if recording.values[slot.value].storage in memory}


def _reads_it(recording, name, heard):
    """The result leads back to the collective, if it gave anything on this rank."""
    import networkx as nx

    last = list(recording.ops.values())[-1]
    assert last.name == "mul", (name, last)
    behind = nx.ancestors(recording.graph, last.id)
    for op in heard:
        assert op.id in behind or not op.writes, (name, op)


# Models -------------------------------------------------------------------------------------


def _layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


def _replicated():
    return nn.parallel.DistributedDataParallel(_layers())


def _sharded():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (2,))
    model = _layers()
    fully_shard(model[0], mesh=mesh)
    return fully_shard(model, mesh=mesh)


def _local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _trained(model, rank):
    """Two training steps; everything that came of them."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    told = []
    for step in range(2):
        y = model(torch.arange(8.0).view(2, 4) + rank + step)
        y.square().sum().backward()
        gradients = [_local(each.grad).clone() for each in model.parameters()]
        optimizer.step()
        optimizer.zero_grad()
        told += [y.detach(), *gradients]
    return told + [_local(each).clone() for each in model.state_dict().values()]


def _train(make, rank):
    _trained(make(), rank)  # fills PyTorch's own caches
    plain = _trained(make(), rank)
    model = make()
    with Recorder(model) as recorder:
        recorded = _trained(model, rank)
    assert len(plain) == len(recorded)
    assert all(map(torch.equal, plain, recorded))
    recording = recorder.recording
    assert structure(recording) == []
    names = Counter(op.name for op in recording.ops.values())
    assert names["linear"] == 4 and names["batch_norm"] == 2 and names["backward"] == 2, names
    classes = Counter(scope.cls for scope in recording.scopes.values())
    assert classes["Linear"] == 4 or classes["FSDPLinear"] == 2, classes
    assert classes["SGD"] == 2, classes
    return recording


def ddp(rank):
    """A replicated model trains as without us; its parameters keep their names."""
    recording = _train(_replicated, rank)
    named = {name for each in recording.values.values() for name in each.names}
    assert "module.0.weight" in named, sorted(named)


def fsdp(rank):
    """A sharded model trains as without us; gathered weights are read by the layers."""
    recording = _train(_sharded, rank)
    names = Counter(op.name for op in recording.ops.values())
    assert any(name.startswith("all_gather") for name in names), names


def dtensor(rank):
    """A layer split over both ranks: every weight leads to the output on each of them."""
    import networkx as nx
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, RowwiseParallel, parallelize_module,
    )

    mesh = init_device_mesh("cpu", (2,))

    def made():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
        return parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})

    def run(model):
        y = model(torch.arange(8.0).view(2, 4))
        whole = DTensor.from_local(y * (rank + 1), mesh, [Shard(0)])
        z = whole.redistribute(mesh, [Replicate()]).to_local()
        z.square().sum().backward()
        return [z.detach(), *(_local(each.grad) for each in model.parameters())]

    run(made())  # fills PyTorch's own caches
    plain = run(made())
    model = made()
    with Recorder(model) as recorder:
        recorded = run(model)
    assert all(map(torch.equal, plain, recorded))
    recording = recorder.recording
    assert structure(recording) == []
    (end,) = [op for op in recording.ops.values() if op.name == "backward"]
    behind = nx.ancestors(recording.graph, end.inputs[0].value)
    names = {name for each in behind if each in recording.values
             for name in recording.values[each].names}
    assert {name for name, _ in model.named_parameters()} <= names, names


def main(rank, file, names):
    """Meet the other process and do the tasks."""
    Tape.strict = True
    limit = datetime.timedelta(seconds=60)
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{file}", rank=rank, world_size=2, timeout=limit
    )
    own = {each.__name__: each for each in (collectives, ddp, fsdp, dtensor)}
    tasks = {**own, **joined_ranks.TASKS}
    for name in names:
        print(name, flush=True)
        tasks[name](rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
    sys.stdout.flush()
    os._exit(0)  # threads of gloo that still run now and then abort a process that ends as usual
