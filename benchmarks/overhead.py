"""What looking costs: recording over the plain run, drawing, and how both grow with the model.

Plain runs and recordings take turns, so that what else the machine does weighs on both, and
medians are compared. Prints ratios and microseconds; judges nothing.

Run: ``python -m benchmarks.overhead``
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import torchrecorder
from tests import real_models, torchvision_shim
from torchrecorder.export.dot import dot_text
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.views.pipeline import ViewOptions, make_view

ROUNDS = 9


def seconds(action: Callable[[], Any]) -> float:
    """How long *action* takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def by_turns(
    plain: Callable[[], Any], recorded: Callable[[], Any], rounds: int = ROUNDS
) -> tuple[float, float]:
    """Median seconds of both, after one run each that does not count."""
    plain(), recorded()
    taken = [(seconds(plain), seconds(recorded)) for _ in range(rounds)]
    return statistics.median(p for p, _ in taken), statistics.median(r for _, r in taken)


def full_size() -> list[tuple[str, nn.Module, dict[str, Any]]]:
    """ResNet-50 and GPT-2 as published, at batch 1."""
    torchvision_shim.install()
    from torchvision.models import resnet50
    from transformers import GPT2Config, GPT2LMHeadModel

    ids = torch.arange(128).reshape(1, 128)
    return [
        ("ResNet-50", resnet50(weights=None).eval(), {"x": torch.rand(1, 3, 224, 224)}),
        ("GPT-2", GPT2LMHeadModel(GPT2Config(use_cache=False)).eval(), {"input_ids": ids}),
    ]


def ratios() -> None:
    """Recording over the plain forward, and drawing, for models of full size."""
    for name, model, inputs in full_size():
        with torch.no_grad():
            plain, recorded = by_turns(
                lambda: model(**inputs), lambda: torchrecorder.record(model, inputs)
            )
            recording = torchrecorder.record(model, inputs)
        print(f"{name}: record {recorded / plain:.2f} x the plain forward ({plain * 1e3:.0f} ms)")
        with tempfile.TemporaryDirectory() as folder:
            for label, options in (("depth 2", {"depth": 2}), ("all ops", {"depth": 99})):
                path = Path(folder) / "model.svg"
                once = seconds(lambda: recording.render(path, fold=False, **options))
                print(f"    record and draw, {label}: {recorded + once:.2f} s")


def per_call() -> None:
    """Microseconds per op and module call, over small models of many kinds."""
    found = []
    for name in real_models.available():
        run = real_models.make(name)
        recording = torchrecorder.record(run.model, run.args, run.kwargs)
        calls = len(recording.ops) + len(recording.scopes)
        args = run.args if isinstance(run.args, tuple) else (run.args,)
        plain, recorded = by_turns(
            lambda: run.model(*args, **(run.kwargs or {})),
            lambda: torchrecorder.record(run.model, run.args, run.kwargs),
            5,
        )
        found.append((recorded - plain) / calls * 1e6)
        print(f"    {name}: {found[-1]:.0f} us for each of {calls}")
    print(f"over {len(found)} models: median {statistics.median(found):.0f} us per op and module")


def growth() -> None:
    """A chain of 1,000 to 20,000 ops: the cost per op stays what it is."""
    for count in (1_000, 5_000, 20_000):
        model = nn.Sequential(*(nn.ReLU() for _ in range(count // 2)))
        x = torch.rand(8)
        plain, recorded = by_turns(lambda: model(x), lambda: torchrecorder.record(model, x), 3)
        print(f"chain of {count} ops and modules: {(recorded - plain) / count * 1e6:.0f} us each")


def drawing() -> None:
    """The same chain through view, style and DOT text, with every op in a box or folded."""
    for count in (1_000, 5_000, 20_000):
        model = nn.Sequential(*(nn.ReLU() for _ in range(count)))
        recording = torchrecorder.record(model, torch.rand(8))
        for label, fold in (("unfolded", False), ("folded", True)):
            style, options = Style(), ViewOptions(depth=99, fold=fold)
            taken = [
                seconds(lambda: dot_text(draw(make_view(recording, options), style)))
                for _ in range(3)
            ]
            print(f"DOT text of {count} ops, {label}: {statistics.median(taken):.2f} s")


if __name__ == "__main__":
    ratios()
    growth()
    drawing()
    per_call()
