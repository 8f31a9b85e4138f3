"""Nodes that run in a thread of the engine, as those of a GPU: the recording is that of a CPU."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.engine_thread import AVAILABLE, NAME, RUNS

written = pytest.mark.skipif(not AVAILABLE, reason="needs devices that are written in Python")
real = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
on_each_device = pytest.mark.parametrize(
    "device", [pytest.param(NAME, marks=written), pytest.param("cuda", marks=real)]
)


@functools.cache
def found_on(device: str) -> Any:
    """The facts of all runs on a device."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.engine_thread", device]
    root = Path(__file__).parent.parent.parent
    return json.loads(subprocess.run(command, capture_output=True, check=True, cwd=root).stdout)


@on_each_device
def test_nodes_run_elsewhere(device: str) -> None:
    """Otherwise the comparison would tell nothing."""
    assert found_on(device)["elsewhere"] and not found_on("cpu")["elsewhere"]


@on_each_device
@pytest.mark.parametrize("run", RUNS)
def test_what_runs_in_a_thread_of_the_engine_is_recorded(device: str, run: str) -> None:
    """Recomputation, hooks, steps, grad nodes and their makers are those of a run on a CPU."""
    there, here = found_on(device)[run], found_on("cpu")[run]
    for what in here:
        assert there[what] == here[what], what
    assert here["lost"] == 0 and here["ops"]


@on_each_device
def test_threads_that_share_a_thread_of_the_engine(device: str) -> None:
    """What it recomputes for one of them is not recorded for the other."""
    there, here = found_on(device)["together"], found_on("cpu")["together"]
    assert there == here and len(here) == 2
