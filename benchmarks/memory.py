"""What looking costs in memory: tensors, Python objects, and the whole process.

Three counts that have nothing to do with each other: bytes that PyTorch's allocator reports
(`tests.live`), bytes that Python's allocator reports (`tracemalloc`), and the most that the
operating system has given to a process that does nothing else. Each process runs one model
in one way. Prints megabytes and ratios; judges nothing.

Run: ``python -m benchmarks.memory``
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import torchrecorder
from benchmarks.overhead import full_size
from tests.live import live_bytes

WAYS = ("plain", "recorder", "record")
_MEGA = 1e6


def _ways(model: nn.Module, inputs: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    def plain() -> None:
        output = model(**inputs)
        output = getattr(output, "logits", output)
        output.backward(torch.ones_like(output))  # as `record` begins
        model.zero_grad()

    def recorder() -> None:
        with torchrecorder.Recorder(model) as running:
            plain()
        running.recording

    def record() -> None:
        torchrecorder.record(model, inputs, backward=True)

    return {"plain": plain, "recorder": recorder, "record": record}


def measure(number: int, way: str, count: str) -> float:
    """One count for one model in one way, in bytes; meant for a process of its own."""
    torch.set_num_threads(1)
    _, model, inputs = full_size()[number]
    ways = _ways(model.train(), inputs)
    if count == "tensors":
        ways["plain"]()
        return live_bytes(ways[way]).peak + sum(map(_size, model.state_dict().values()))
    if count == "objects":
        ways["plain"]()
        tracemalloc.start()
        ways[way]()
        return tracemalloc.get_traced_memory()[1]
    ways[way]()
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.itemsize


def _apart(number: int, way: str, count: str) -> float:
    """`measure` in a fresh process."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.memory"]
    done = subprocess.run(
        [*command, str(number), way, count], capture_output=True, text=True, check=True
    )
    return float(json.loads(done.stdout.strip().splitlines()[-1]))


def main() -> None:
    """Print a table."""
    for number, name in enumerate(("ResNet-50", "GPT-2")):
        for count in ("tensors", "objects", "process"):
            found = {way: _apart(number, way, count) for way in WAYS}
            listed = ", ".join(
                f"{way} {each / _MEGA:.1f} MB ({each / found['plain']:.3f})"
                for way, each in found.items()
            )
            print(f"{name}, forward and backward, {count}: {listed}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(int(sys.argv[1]), sys.argv[2], sys.argv[3])))
    else:
        main()
