"""One of several processes of gloo: ``python -m tests.ranks.jobs RANK WORLD FOLDER TASK ...``."""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import shutil
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch import nn

import torchrecorder
from tests.capture.processes import collectives
from tests.ranks.models import MODELS, blocks, inputs
from tests.structure import structure
from torchrecorder import Recorder
from torchrecorder.capture.tape import Tape
from torchrecorder.graph.consistency import problems

LIMIT = datetime.timedelta(seconds=60)
DELAY = 0.5


def _local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _trained(built):
    """What a step gives, and the gradients that it leaves."""
    model, step = built
    told = [_local(each.detach()).clone() for each in step()]
    return told + [
        _local(each.grad).clone() for each in model.parameters() if each.grad is not None
    ]


def _proved(name, rank, world):
    """Bits as without us, as many collectives as PyTorch's profiler counts, none incomplete."""
    build, results = MODELS[name], []
    _trained(build(rank, world))  # fills PyTorch's own caches
    built = build(rank, world)
    counted = collectives(lambda: results.append(_trained(built)))
    built = build(rank, world)
    with Recorder(built[0]) as recorder:
        recorded = _trained(built)
    assert len(recorded) == len(results[0]) > 0
    assert all(map(torch.equal, recorded, results[0]))
    recording = recorder.recording
    assert structure(recording) == []
    assert len(recording.communications) == sum(counted.values()) > 0, counted
    if name.endswith("accumulation"):
        _accumulated(recording)
    joined = torchrecorder.gather(recording)
    if joined is not None:
        _joined(joined, world)
        _lanes(joined, name)
    _alone(build, rank, world)


def _accumulated(recording):
    """The pass whose gradients stay in this process is read by the next, for each parameter."""
    first, second, *_ = (run.op for run in recording.backward_runs)
    left = {*recording.ops[first].outputs}
    added = [slot for slot in recording.ops[second].inputs if slot.name.endswith(".grad")]
    assert left == {slot.value for slot in added}
    assert len(left) == sum(len(module.parameters) for module in recording.modules.values())


def _joined(run, world):
    """All fits together."""
    assert run.problems == () and run.ranks == tuple(range(world))
    for collective in run.collectives:
        members = 2 if collective.name == "send" else len(collective.group.ranks)
        assert len(collective.parts) == members, collective
    assert sum(len(each.parts) for each in run.collectives) >= sum(
        len(lane.recording.communications) for lane in run.lanes
    )
    for recording in (run.recording, run.whole):
        assert list(problems(recording)) == []
        assert "<svg" in torchrecorder.make_dot(recording, depth=2).pipe("svg").decode()


def _lanes(run, name):
    """Stages are lanes of their own; others do the same, experts but for sizes."""
    differing = [lane.differs for lane in run.lanes]
    if name.startswith("Schedule"):
        assert differing == [()] * len(run.ranks)
    else:
        assert differing == [("bytes sent",) if name.startswith("experts") else ()], differing


def _alone(build, rank, world):
    """Only one process records, and looks at all tensors: the others do not wait for it."""
    built = build(rank, world)
    if rank == 0:
        with Recorder(built[0], stats=True) as recorder:
            _trained(built)
        assert recorder.recording.communications
    else:
        _trained(built)
    dist.barrier()


# Jobs in which something is wrong -----------------------------------------------------------


def _late(name, rank, world, path):
    """The last process is late at its forward: it is waited for, and waits for nobody."""
    build = MODELS[name]
    _trained(build(rank, world))
    model, step = build(rank, world)
    late = next(module for module in model.modules() if module is not model)
    if rank == world - 1:
        late.register_forward_pre_hook(_once(lambda: time.sleep(DELAY)))
    dist.barrier()
    with Recorder(model) as recorder:
        step()
    run = torchrecorder.gather(recorder.recording)
    if run is not None:
        long = [found for found, seconds in run.top("waited", 100) if seconds > DELAY / 2]
        waiting = {
            part.rank for found in long for part in found.parts if (part.waited or 0) > DELAY / 2
        }
        assert {found.last for found in long} - waiting == {world - 1}, (long, waiting)
        assert f"rank {world - 1}" in run.summary()
        waits = run.whole.annotations["waited_time"]
        assert max(waits.by_node.values()) > DELAY / 2


def _once(action):
    """A hook that acts when it is first called."""
    waiting = [action]
    return lambda *given: waiting.pop()() if waiting else None


def late_replica(rank, world, folder):
    _late("ddp", rank, world, folder)


def late_shards(rank, world, folder):
    _late("fsdp", rank, world, folder)


def late_stage(rank, world, folder):
    _late("Schedule1F1B", rank, world, folder)


def left_out(rank, world, folder):
    """A process leaves out a collective: the others give up in time, and leave what they have."""
    group = dist.new_group(timeout=datetime.timedelta(seconds=2))
    model = blocks(1)

    def step():
        y = model(inputs(rank)).detach()
        dist.all_reduce(y, group=group)
        if rank != world - 1:
            dist.all_reduce(y[:1], group=group)

    try:
        with Recorder(model) as recorder:
            step()
        recording = recorder.recording
    except RuntimeError as error:
        recording = torchrecorder.recording_of(error)
    recording.save(f"{folder}/rank{rank}.json.gz")


def hooked(rank, world, folder):
    """A hook sends a second time when its first part has arrived, in a thread of the backend."""
    model = nn.parallel.DistributedDataParallel(blocks(1))
    threads, large = [], torch.ones(1 << 20)

    def begin(state, bucket):
        def again(future):
            threads.append(threading.get_ident())
            dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()
            return bucket.buffer()

        return dist.all_reduce(large, async_op=True).get_future().then(again)

    model.register_comm_hook(None, begin)
    with Recorder(model) as recorder:
        if rank == world - 1:
            time.sleep(DELAY)
        model(inputs(rank)).sum().backward()
        dist.all_reduce(torch.ones(5))
    sent = [each for each in recorder.recording.communications if each.name == "all_reduce"]
    first, second, last = sent
    assert threads and (rank == world - 1 or threads[0] != threading.get_ident())
    assert [each.given for each in sent] == [4 << 20, 12, 20]
    assert first.backward and first.scope is not None
    assert second.backward and (second.scope, second.op) == (first.scope, None)
    assert not last.backward and first.order < second.order < last.order
    assert second.seconds is not None
    run = torchrecorder.gather(recorder.recording)
    assert run is None or run.problems == ()


class Reduced(nn.Linear):
    """A layer with something in its forward, for the process of this rank."""

    def __init__(self, inside=lambda x: None):
        super().__init__(4, 4)
        self.inside = inside

    def forward(self, x):
        y = super().forward(x)
        self.inside(y.detach())
        return y


def _skipped(rank, group, other):
    """One process skips a collective behind an ``if``."""
    def inside(y):
        if rank == 0:
            dist.all_reduce(y, group=group)

    return nn.Sequential(nn.Linear(4, 4), Reduced(inside)), lambda run: run()


def _crossed(rank, group, other):
    """Two groups, in another order."""
    def step(run):
        run()
        for each in (group, other) if rank == 0 else (other, group):
            dist.all_reduce(torch.ones(3), group=each)

    return nn.Linear(4, 4), step


def _unsent(rank, group, other):
    """A receive without a send."""
    def step(run):
        run()
        if rank == 0:
            dist.recv(torch.ones(12), 1, tag=3, group=other)
        dist.all_reduce(torch.ones(3), group=group)

    return nn.Linear(4, 4), step


def _uneven(rank, group, other, batches=3):
    """One process has fewer batches: the other waits in backward, in C++."""
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 4), process_group=group)

    def step(run):
        for _ in range(batches - rank):
            run().sum().backward()

    return model, step


def _rebuilt(rank, group, other):
    """The same in the second batch, in which C++ broadcasts the order of gradients."""
    return _uneven(rank, group, other, batches=2)


def _asleep(rank, group, other):
    """One process is late, and then goes on."""
    def inside(y):
        if rank == 1:
            time.sleep(2.0)
        dist.all_reduce(y, group=group)

    return nn.Sequential(nn.Linear(4, 4), Reduced(inside)), lambda run: run()


def _hung(make, rank, world, folder):
    """The job hangs; a thread keeps what both have saved then, before the limit of time ends it."""
    groups = [dist.new_group(timeout=datetime.timedelta(seconds=4)) for _ in range(2)]
    name = make.__name__.strip("_")
    files = [f"after-{name}-rank{each}.json.gz" for each in range(world)]

    def keep():
        until = time.monotonic() + 3
        while not all(os.path.exists(f"{folder}/{file}") for file in files):
            if time.monotonic() > until:
                return
            time.sleep(0.05)
        for file in files:
            shutil.copy(f"{folder}/{file}", f"{folder}/{file.replace('after', 'hung')}")

    model, step = make(rank, *groups)
    kept = threading.Thread(target=keep)
    if rank == 0:
        kept.start()
    with contextlib.suppress(RuntimeError):
        with Recorder(model, save=f"{folder}/{files[rank]}", save_after=0.5):
            step(lambda: model(torch.ones(2, 4)))
    if rank == 0:
        kept.join()
    dist.barrier()


def told(rank, world, folder):
    """Both wait, one of them in C++, until the parent process ends them."""
    def inside(y):
        threading.Timer(0.5, print, ["blocked"], {"flush": True}).start()
        if rank == 0:
            dist.all_reduce(y)
        else:
            time.sleep(60)

    model = nn.Sequential(nn.Linear(4, 4), Reduced(inside))
    with Recorder(model, save=f"{folder}/told-rank{rank}.json.gz"):
        model(torch.ones(2, 4))


TASKS = {
    each.__name__: each for each in (late_replica, late_shards, late_stage, left_out, hooked, told)
}
for _make in (_skipped, _crossed, _unsent, _uneven, _rebuilt, _asleep):
    TASKS[_make.__name__.strip("_")] = functools.partial(_hung, _make)


def main(rank, world, folder, tasks):
    """Meet the others and do the tasks."""
    Tape.strict = True
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world, timeout=LIMIT
    )
    for task in tasks:
        print(task, flush=True)
        if task in TASKS:
            TASKS[task](rank, world, folder)
        else:
            _proved(task, rank, world)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
    os._exit(0)  # threads of gloo that still run now and then abort a process that ends as usual
