"""Nodes that run in a thread of the engine, as on a GPU: the recording is that of a CPU."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine_thread import AVAILABLE, NAME, RUNS

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="needs devices that are written in Python")


@functools.cache
def found_on(device: str) -> Any:
    """The facts of all runs on a device."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.engine_thread", device]
    root = Path(__file__).parent.parent.parent
    return json.loads(subprocess.run(command, capture_output=True, check=True, cwd=root).stdout)


def test_nodes_run_elsewhere() -> None:
    """Otherwise the comparison would tell nothing."""
    assert found_on(NAME)["elsewhere"] and not found_on("cpu")["elsewhere"]


@pytest.mark.parametrize("run", RUNS)
def test_what_runs_in_a_thread_of_the_engine_is_recorded(run: str) -> None:
    """Recomputation, hooks, steps, grad nodes and their makers are those of a run on a CPU."""
    there, here = found_on(NAME)[run], found_on("cpu")[run]
    for what in here:
        assert there[what] == here[what], what
    assert here["lost"] == 0 and here["ops"]
