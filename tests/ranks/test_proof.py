"""Processes that train together, in each of the ways that PyTorch has, on gloo."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torchrecorder
from torchrecorder.capture.internals.table import COLLECTIVE_CALLS
from torchrecorder.errors import InvalidArgument

LIMIT = 480

PIPELINES = ("ScheduleGPipe", "Schedule1F1B", "ScheduleInterleaved1F1B")
REPLICAS = ("ddp", "accumulation", "fsdp", "sharded_accumulation", "checkpointing")
LAYERS = ("tensor_parallel", "sequence_parallel", "fsdp_and_tensor_parallel")
EXPERTS = ("experts", "experts_without_autograd")
LATE = ("late_replica", "late_shards", "late_stage")


def _run(world, folder, *tasks):
    """Do *tasks* in so many processes; they find each other through a file, not a port."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.ranks.jobs"]
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(world), str(folder), *tasks],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(world)
    ]
    try:
        told = [process.communicate(timeout=LIMIT)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * world, "\n".join(told)


def test_two_processes(tmp_path):
    """Bits, counts and keys; and with only one of them recorded."""
    pytest.importorskip("numpy")  # torch.distributed sends objects with it
    # Pipelines of PyTorch before 2.11 end the process without a GPU.
    _run(2, tmp_path, *["Schedule1F1B"] * COLLECTIVE_CALLS.present, "experts", "hooked")


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 4])
def test_each_way_to_train(world, tmp_path):
    """The same for the others, with two and with four; who is late is named by the longest wait.

    The same processes do all tasks, one after the other: their starts would take most of the time.
    What they print names the task that failed.
    """
    _run(world, tmp_path, *PIPELINES, *REPLICAS, *LAYERS, *EXPERTS, *LATE)


def test_a_collective_that_is_left_out(tmp_path):
    """The job gives up after its own limit of time, and what it left names the rank."""
    _run(2, tmp_path, "left_out")
    run = torchrecorder.merge(tmp_path / "rank*.json.gz")
    missing, failed = sorted(run.problems, key=lambda problem: "failed with" in problem)
    assert "rank 0 ran all_reduce of 32 B" in missing
    assert "jobs.py:" in missing or not COLLECTIVE_CALLS.present
    assert "rank 1 ran no collective" in missing
    assert failed.startswith("rank 0 failed with RuntimeError")


def test_numpy_is_asked_for_before_anything_is_sent(tmp_path, monkeypatch):
    """Without numpy, every process says what to do; none waits for the others."""
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        recording = torchrecorder.record(torch.nn.Linear(2, 2), torch.ones(1, 2))
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(InvalidArgument, match="pip install numpy"):
            torchrecorder.gather(recording)
    finally:
        torch.distributed.destroy_process_group()
