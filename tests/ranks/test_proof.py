"""Processes that train together, in each of the ways that PyTorch has, on gloo."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torchrecorder
from torchrecorder.capture.internals.table import COLLECTIVE_CALLS
from torchrecorder.errors import InvalidArgument
from torchrecorder.graph.consistency import problems

LIMIT = 480

HAS_PIPELINES = COLLECTIVE_CALLS.present
"""Pipelines of PyTorch before 2.11 end the process, or wait for ever, without a GPU."""

PIPELINES = ("ScheduleGPipe", "Schedule1F1B", "ScheduleInterleaved1F1B", "late_stage")
REPLICAS = ("ddp", "accumulation", "fsdp", "sharded_accumulation", "checkpointing")
LAYERS = ("tensor_parallel", "sequence_parallel", "fsdp_and_tensor_parallel")
EXPERTS = ("experts", "experts_without_autograd")
LATE = ("late_replica", "late_shards")


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
    _run(2, tmp_path, *["Schedule1F1B"] * HAS_PIPELINES, "experts", "hooked")


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 4])
def test_each_way_to_train(world, tmp_path):
    """The same for the others, with two and with four; who is late is named by the longest wait.

    The same processes do all tasks, one after the other: their starts would take most of the time.
    What they print names the task that failed.
    """
    _run(world, tmp_path, *PIPELINES * HAS_PIPELINES, *REPLICAS, *LAYERS, *EXPERTS, *LATE)


def test_a_collective_that_is_left_out(tmp_path):
    """The job gives up after its own limit of time, and what it left names the rank."""
    _run(2, tmp_path, "left_out")
    run = torchrecorder.merge(tmp_path / "rank*.json.gz")
    failed, ran = run.problems
    assert "at tests/ranks/jobs.py:" in failed or not COLLECTIVE_CALLS.present
    place = r"no. 2 of group \S+ \(ranks 0–1\), all_reduce of 32 B.*"
    error = r"RuntimeError(?: at \S+)?: "
    assert re.match(f"rank 0 failed in {place}; rank 1 did not call it: {error}", failed)
    assert ran == "rank 1 ran to its end"


# Jobs that hang ---------------------------------------------------------------------------------


def _ended(folder, when, name):
    """How each process ended, by the files of this time."""
    run = torchrecorder.merge(folder / f"{when}-{name}-rank*.json.gz")
    assert list(problems(run.whole)) == []
    return [problem for problem in run.problems if problem.startswith("rank")]


def test_a_job_that_hangs(tmp_path):
    """What each process waits for can be read while it waits, and after its limit of time."""
    _run(2, tmp_path, "skipped", "uneven")
    at = r" at \S*jobs.py:\d+" if COLLECTIVE_CALLS.present else r"(?: at \S*:\d+)?"
    late = r" \(no progress for 0.5 s\)" if COLLECTIVE_CALLS.present else r" \(no .*\)"
    waits, ran = _ended(tmp_path, "hung", "skipped")
    place = r"no. 1 of group \S+ \(ranks 0–1\), all_reduce of 32 B in 1"
    assert re.fullmatch(f"rank 0 waits in {place}{at}{late}; rank 1 did not call it", waits)
    assert ran == "rank 1 ran to its end"
    failed, ran = _ended(tmp_path, "after", "skipped")
    error = r"RuntimeError(?: at \S+)?: "
    assert re.match(f"rank 0 failed in {place}.*; rank 1 did not call it: {error}", failed)
    waits, ran = _ended(tmp_path, "hung", "uneven")
    place = r"no. \d+ of .*, all_reduce of 80 B in module in backward"
    assert re.match(rf"rank 0 waits in {place} \(no progress for 0.5 s in module at ", waits)
    assert "rank 1 did not call it" in waits and ran == "rank 1 ran to its end"


@pytest.mark.slow
def test_other_jobs_that_hang(tmp_path):
    """In two groups, in messages, in C++ outside of backward; and one that goes on."""
    _run(2, tmp_path, "crossed", "unsent", "rebuilt", "asleep")
    *waits, circle = _ended(tmp_path, "hung", "crossed")
    for one, found in enumerate(waits):
        assert f"rank {one} waits in no. 1 of" in found and f"; rank {1 - one} did not" in found
    assert circle == "ranks 0 → 1 → 0 wait for each other"
    waits, other, circle = _ended(tmp_path, "hung", "unsent")
    assert circle == "ranks 0 → 1 → 0 wait for each other"
    assert "rank 0 waits in recv of 48 B from rank 1 with tag 3 in group" in waits
    assert "rank 1 waits in no. 1 of" in other and "rank 0 did not call it" in other
    waits, ran = _ended(tmp_path, "hung", "rebuilt")
    assert re.match(r"rank 0 waits in no. 2 of .*, broadcast of .* \(no", waits)
    waits, busy = _ended(tmp_path, "hung", "asleep")
    assert "rank 0 waits in no. 1" in waits
    assert re.fullmatch(r"rank 1 did not end: no progress for 0.5 s in 1 at \S*jobs.py:\d+", busy)
    assert _ended(tmp_path, "after", "asleep") == []


@pytest.mark.skipif(os.name != "posix", reason="launchers send signals")
def test_processes_that_are_told_to_end(tmp_path):
    """A launcher ends them: one in C++, where Python runs no signal handlers, one in Python."""
    command = [sys.executable, "-m", "tests.ranks.jobs"]
    processes = [
        subprocess.Popen(
            [*command, str(rank), "2", str(tmp_path), "told"],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        for process in processes:
            while process.stdout.readline() != "blocked\n":
                assert process.poll() is None, process.stderr.read()
        for process in processes:
            process.send_signal(signal.SIGTERM)
        told = [process.communicate(timeout=60)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [-signal.SIGTERM] * 2, told
    assert all("told to end (SIGTERM)" in text and "is saved in" in text for text in told)
    run = torchrecorder.merge(tmp_path / "told-rank*.json.gz")
    waits, busy = run.problems
    assert "rank 0 waits in no. 1 of" in waits and "(told to end (SIGTERM)" in waits
    assert "rank 1 did not call it" in waits
    assert busy.startswith("rank 1 did not end: told to end (SIGTERM) in 1 at ")
    assert sorted(each.name for each in tmp_path.glob("*json.gz")) == [
        "told-rank0.json.gz", "told-rank1.json.gz"
    ]


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
