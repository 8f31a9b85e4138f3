"""What recording a training step costs: ResNet-50, batch 1, forward and backward on CPU.

Plain steps and recorded ones take turns, so that what else the machine does weighs on
both; medians are compared. Exits with an error above the bound.

Run: ``python -m benchmarks.backward``
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

import torchrecorder

BOUND = 1.3
ROUNDS = 9


def seconds(step: Callable[[], Any]) -> float:
    """How long one step takes."""
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


def compare(plain: Callable[[], Any], recorded: Callable[[], Any]) -> tuple[float, float]:
    """Medians of both, taken in turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(ROUNDS + 2):
        pair = seconds(plain), seconds(recorded)
        if number >= 2:
            times[0].append(pair[0])
            times[1].append(pair[1])
    return statistics.median(times[0]), statistics.median(times[1])


def resnet50() -> tuple[torch.nn.Module, torch.Tensor]:
    """The model, and one image."""
    from tests.torchvision_shim import install

    install()
    from torchvision.models import resnet50 as make

    return make(), torch.rand(1, 3, 224, 224)


def main() -> int:
    """Measure, print, and judge."""
    model, x = resnet50()

    def plain() -> None:
        model(x).sum().backward()

    def recorded() -> None:
        with torchrecorder.Recorder(model):
            model(x).sum().backward()

    before, after = compare(plain, recorded)
    print(f"plain {before * 1e3:.1f} ms, recorded {after * 1e3:.1f} ms: {after / before:.3f} times")
    return int(after > BOUND * before)


if __name__ == "__main__":
    sys.exit(main())
