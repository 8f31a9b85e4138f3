"""What it costs to put the recordings of many processes together: seconds and memory.

Each process ran collectives in two groups of a mesh, and took times of its own. Their recordings
are made one at a time, as `merge` reads files, and that is not counted. Exits with an error above a
bound.

Run: ``python -m benchmarks.ranks [processes] [collectives]``
"""

from __future__ import annotations

import gc
import random
import resource
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

import torchrecorder
from torchrecorder import Recording
from torchrecorder.events import Rank, RankGroup
from torchrecorder.graph.storage import dumps, loads
from torchrecorder.ranks.ranks import ranks_of

PROCESSES, COLLECTIVES = 1024, 800

TENSOR = 8
"""Processes along the second dimension of the mesh."""

BYTES = 100_000_000
"""Bound for what 1,024 processes of 800 collectives take."""

SECONDS = 15.0
"""Bound for the work of it."""


def recorded(world: int, collectives: int) -> Recording:
    """What the first process records."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
    mesh = init_device_mesh("cpu", (world // TENSOR, TENSOR), mesh_dim_names=("dp", "tp"))
    x = torch.ones(64)
    with torchrecorder.Recorder(name="job") as recorder:
        for number in range(collectives):
            dist.all_reduce(x, group=mesh.get_group(number % 2))
    dist.destroy_process_group()
    return recorder.recording


def of_rank(first: Recording, rank: int) -> Recording:
    """What another process records, which did the same in its own groups and its own time."""
    facts = first.run.rank
    assert facts is not None
    numbers = random.Random(rank)
    sent = tuple([
        told._replace(seconds=numbers.random(), blocked_seconds=numbers.random())
        for told in first.communications
    ])
    groups = tuple(_moved(group, rank, facts.world) for group in facts.groups)
    other = Rank(rank, facts.world, f"host{rank // TENSOR}", groups, facts.meshes)
    own = replace(first, communications=sent, run=replace(first.run, rank=other))
    return loads(dumps(own), Recording)


def _moved(group: RankGroup, rank: int, world: int) -> RankGroup:
    members = {
        "mesh_dp": range(rank % TENSOR, world, TENSOR),
        "mesh_tp": range(rank - rank % TENSOR, rank - rank % TENSOR + TENSOR),
    }
    return group._replace(ranks=tuple(members.get(group.purpose, range(world))))


class Sources:
    """The recordings of all processes, made when they are asked for; how long that takes."""

    def __init__(self, first: Recording, world: int) -> None:
        self.first = first
        self.seconds = 0.0
        self.all = [(f"rank {rank}", partial(self.make, rank)) for rank in range(world)]

    def make(self, rank: int) -> Recording:
        """The recording of one."""
        began = time.process_time()
        made = of_rank(self.first, rank)
        self.seconds += time.process_time() - began
        return made


def resident() -> int:
    """The bytes of memory that this process has now, where the system tells."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def main() -> int:
    """Measure, print, and judge."""
    given = [int(text) for text in sys.argv[1:]]
    world, collectives = [*given, *(PROCESSES, COLLECTIVES)[len(given):]]
    sources = Sources(recorded(world, collectives), world)
    ranks_of(sources.all[:TENSOR])  # what is imported once
    gc.collect()
    before, sources.seconds, began = resident(), 0.0, time.process_time()
    run = ranks_of(sources.all)
    seconds = time.process_time() - began - sources.seconds
    size = resident() - before
    print(f"{world:,} processes, {collectives:,} collectives each: {run}")
    print(f"put together in {seconds:.1f} s of work, {size / 1e6:,.0f} MB")
    began = time.process_time()
    run.summary()
    run.recording
    print(f"summary and combined recording: {time.process_time() - began:.1f} s of work")
    usual = (world, collectives) == (PROCESSES, COLLECTIVES)
    return int(bool(run.problems) or usual and (size > BYTES or seconds > SECONDS))


if __name__ == "__main__":
    sys.exit(main())
