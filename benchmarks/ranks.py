"""What it costs to merge the saved recordings of many processes: seconds and memory.

Each process ran collectives in two groups of a mesh, and took times of its own. The files are
compressed; reading them is counted, writing them is not. Exits with an error above a bound.

Run: ``python -m benchmarks.ranks [processes] [collectives]``
"""

from __future__ import annotations

import gc
import json
import random
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

import torchrecorder
from benchmarks import resident
from torchrecorder import Recording
from torchrecorder.events import Rank, RankGroup
from torchrecorder.graph.codec import encode
from torchrecorder.graph.saved_files import packed

PROCESSES, COLLECTIVES = 1024, 800

TENSOR = 8
"""Processes along the second dimension of the mesh."""

BYTES = 100_000_000
"""Bound for the memory of 1,024 processes with 800 collectives."""

SECONDS = 10.0
"""Bound for the work."""


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


def write(first: Recording, world: int, folder: Path) -> None:
    """Write the recording of each process, which did the same in its own groups and time."""
    data = encode(first)
    facts = first.run.rank
    assert facts is not None
    for rank in range(world):
        numbers = random.Random(rank)
        groups = tuple(_moved(group, rank, world) for group in facts.groups)
        data["run"]["rank"] = Rank(rank, world, f"host{rank // TENSOR}", groups, facts.meshes)
        for column in ("seconds", "blocked_seconds"):
            data["communications"][column] = [numbers.random() for _ in first.communications]
        (folder / f"rank{rank}.json.gz").write_bytes(packed(json.dumps(data).encode()))


def _moved(group: RankGroup, rank: int, world: int) -> RankGroup:
    members = {
        "mesh_dp": range(rank % TENSOR, world, TENSOR),
        "mesh_tp": range(rank - rank % TENSOR, rank - rank % TENSOR + TENSOR),
    }
    return group._replace(ranks=tuple(members.get(group.purpose, range(world))))


def main() -> int:
    """Measure, print, and judge."""
    given = [int(text) for text in sys.argv[1:]]
    world, collectives = [*given, *(PROCESSES, COLLECTIVES)[len(given):]]
    with tempfile.TemporaryDirectory() as folder:
        write(recorded(world, collectives), world, Path(folder))
        torchrecorder.merge(f"{folder}/rank0.json.gz")  # what is imported once
        gc.collect()
        before, began = resident(), time.process_time()
        run = torchrecorder.merge(f"{folder}/*.json.gz")
        seconds = time.process_time() - began
        size = resident() - before
    print(f"{world:,} processes, {collectives:,} collectives each: {run}")
    print(f"merged in {seconds:.1f} s of work, {size / 1e6:,.0f} MB")
    began = time.process_time()
    run.summary()
    run.recording
    print(f"summary and combined recording: {time.process_time() - began:.1f} s of work")
    usual = (world, collectives) == (PROCESSES, COLLECTIVES)
    return int(bool(run.problems) or usual and (size > BYTES or seconds > SECONDS))


if __name__ == "__main__":
    sys.exit(main())
