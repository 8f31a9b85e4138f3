"""What the page of a large model costs: seconds to record, view and write it, and its size.

A chain of growing length shows that time and size are linear in the number of ops; then
come models of the kinds that break other tools. A chain of equal blocks is written as a page and,
all open, as an SVG; both are measured in multiples of recording it. A training loop of twice as
many steps may take twice as long. A long run and a long training loop are recorded, saved,
loaded and written, with the memory that they take. Exits with an error above a bound.

Run: ``python -m benchmarks.large [chain|models|blocks|training|long|loop]``
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

import torchrecorder
from benchmarks import check_names, resident
from torchrecorder.export.html import Html
from torchrecorder.style.style import Style
from torchrecorder.views.page_view import page_view

SECONDS = 5.0
"""For Llama-3-70B, from the model to its page; of work, as other programs may be running."""

PARTS = ("models", "chain", "blocks", "training", "long", "loop")
"""What can be measured on its own."""

BYTES = 3_000_000
"""For the page of each of the models."""

BLOCKS = 2_000
"""In the chain of equal blocks, which has seven boxes for each."""

PAGE_RATIO, SVG_RATIO = 4.0, 5.0
"""Bounds for that chain: work of writing the page or the SVG, in multiples of recording it."""

STEPS = (25, 50, 100)
"""In the training loops."""

STEPS_RATIO = 2.6
"""Bound for the work of a page of twice as many steps."""

LONG, LONG_SECONDS = 100_000, 20.0
"""Ops of the long run, and the bound for all that is done with it, in seconds of work."""

LOOP = 200
"""Steps of the long training loop."""

CHAINS = (1_000, 3_000, 10_000, 30_000, 100_000)
"""Ops in the chain."""


class Chain(torch.nn.Module):
    """Blocks of ten ops, in groups of a hundred blocks."""

    def __init__(self, ops: int) -> None:
        super().__init__()
        blocks = [Block() for _ in range(ops // 10)]
        groups = (blocks[start:start + 100] for start in range(0, len(blocks), 100))
        self.groups = torch.nn.Sequential(*(torch.nn.Sequential(*group) for group in groups))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.groups(x)  # type: ignore[no-any-return]


class Block(torch.nn.Module):
    """A linear layer, and nine ops around it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.linear(x)
        for _ in range(4):
            h = (h + x).tanh()
        return h.relu()


@dataclass(frozen=True)
class Cost:
    """What one page took."""

    ops: int
    record: float
    view: float
    write: float
    size: int
    work: float

    def row(self, name: str) -> str:
        """As a line of the table."""
        total = self.record + self.view + self.write
        return (
            f"{name:24} {self.ops:8,} {self.record:9.2f} {self.view:7.2f} {self.write:7.2f}"
            f" {total:7.2f} {self.work:7.2f} {self.size / 1e6:9.2f}"
        )


HEAD = (
    f"{'model':24} {'ops':>8} {'record s':>9} {'view s':>7} {'page s':>7}"
    f" {'all s':>7} {'cpu s':>7} {'MB':>9}"
)


def cost(model: Any, args: Any) -> Cost:
    """Record *model*, and write its page in full detail."""
    started, worked = time.perf_counter(), os.times()
    recording = torchrecorder.record(model, args)
    recorded = time.perf_counter()
    view = page_view(recording)
    viewed = time.perf_counter()
    page = Html(timeout=600).export(view, Style()).encode()
    written = time.perf_counter()
    seconds = recorded - started, viewed - recorded, written - viewed
    work = sum(os.times()[:4]) - sum(worked[:4])
    return Cost(len(recording.ops), *seconds, len(page), work)


def chains() -> Iterator[tuple[str, Cost]]:
    """The curve."""
    for ops in CHAINS:
        with torch.no_grad():
            yield f"chain of {ops:,}", cost(Chain(ops), torch.rand(1, 4))


def models() -> Iterator[tuple[str, Callable[[], tuple[Any, Any]]]]:
    """Names, and what makes a model and its arguments; weights have no memory."""
    yield "Llama-3-70B", llama
    yield "Mixtral, 32 layers", mixtral
    yield "ViT-H/14", vit
    yield "DenseNet-201", densenet
    yield "1,000 layers", lambda: (deep(), torch.rand(1, 4))


def llama() -> tuple[Any, Any]:
    """80 layers."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=8192, intermediate_size=28672, num_hidden_layers=80,
        num_attention_heads=64, num_key_value_heads=8, vocab_size=128256,
    )
    with torch.device("meta"):
        return LlamaForCausalLM(config).eval(), torch.zeros(1, 128, dtype=torch.long)


def mixtral() -> tuple[Any, Any]:
    """32 layers of 8 experts; narrow, as what runs depends on the numbers."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=32, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=1000,
    )
    return MixtralForCausalLM(config).eval(), torch.arange(16)[None]


def vit() -> tuple[Any, Any]:
    """32 layers."""
    from torchvision.models import vit_h_14

    with torch.device("meta"):
        return vit_h_14().eval(), torch.rand(1, 3, 224, 224)


def densenet() -> tuple[Any, Any]:
    """Blocks of up to 48 layers that read all before them."""
    from torchvision.models import densenet201

    with torch.device("meta"):
        return densenet201().eval(), torch.rand(1, 3, 224, 224)


def deep() -> torch.nn.Module:
    """A thousand layers in a row."""
    return torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(1000)))


class Residual(torch.nn.Module):
    """Two linear layers, an activation, and a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu()) + x  # type: ignore[no-any-return]


def work_of(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of work, child processes included, and what *run* returned."""
    begin = os.times()
    found = run()
    return sum(os.times()[:4]) - sum(begin[:4]), found


def blocks() -> list[str]:
    """Print what a chain of equal blocks costs; the bounds that it exceeds."""
    model = torch.nn.Sequential(*(Residual() for _ in range(BLOCKS)))
    with torch.no_grad():
        recorded, recording = work_of(lambda: torchrecorder.record(model, torch.rand(1, 4)))
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for name, bound, options in (
            ("page.html", PAGE_RATIO, {}),
            ("figure.svg", SVG_RATIO, {"fold": False, "depth": 9}),
        ):
            render = partial(recording.render, Path(folder) / name, **options)
            written, _ = work_of(render)
            ratio = written / recorded
            print(f"{BLOCKS:,} blocks: {name:12} {written:6.2f} s of work, {ratio:.2f} x recording")
            failed += [f"{name} of blocks"] if ratio > bound else []
    return failed


def loop(steps: int) -> torchrecorder.Recording:
    """A recording of so many steps of training."""
    layers = (torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.GELU())
    model = torch.nn.Sequential(*layers, torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.rand(4, 8)).pow(2).mean().backward()
            optimizer.step()
    return recorder.recording


def long_chain() -> torchrecorder.Recording:
    """A recording of the long run."""
    model = Chain(LONG)
    with torch.no_grad():
        return torchrecorder.record(model, torch.rand(1, 4))


def stages(name: str, make: Callable[[], torchrecorder.Recording]) -> float:
    """Print what each thing that is done with a run costs; the seconds of work in total.

    What it takes in memory shows where nothing larger was measured before.
    """
    before = resident()
    total, recording = work_of(make)
    more = (resident() - before) / 1e6
    print(f"{name}, {len(recording.ops):,} ops, {more:.0f} MB more in memory")
    print(f"  {'recorded':9} {total:7.2f} s of work")
    with tempfile.TemporaryDirectory() as folder:
        saved, page, figure = (Path(folder) / file for file in ("r.json", "r.html", "r.svg"))
        for what, act in (
            ("saved", lambda: recording.save(saved)),
            ("loaded", lambda: torchrecorder.load(saved)),
            ("page", lambda: recording.render(page)),
            ("figure", lambda: recording.render(figure)),
        ):
            seconds, _ = work_of(act)
            total += seconds
            print(f"  {what:9} {seconds:7.2f} s of work", flush=True)
        sizes = [f"{file.name} {file.stat().st_size / 1e6:.1f} MB" for file in (saved, page)]
    print(f"  {'total':9} {total:7.2f} s of work; {', '.join(sizes)}")
    return total


def training() -> list[str]:
    """Print what the pages of training loops cost; whether it is not in proportion."""
    seconds: list[float] = []
    for steps in STEPS:
        recording = loop(steps)
        view = page_view(recording)
        written, _ = work_of(lambda: Html(timeout=600).export(view, Style()))
        seconds.append(written)
        print(f"{steps:,} steps, {len(recording.ops):,} ops: {written:.2f} s of work")
    ratio = seconds[-1] / seconds[-2]
    return ["training"] if ratio > STEPS_RATIO else []


def main() -> int:
    """Measure, print, and judge."""
    from tests.torchvision_shim import install

    install()
    check_names(sys.argv[1:], PARTS)
    wanted = sys.argv[1:] or PARTS
    failed = []
    print(HEAD)
    if "models" in wanted:
        cost(torch.nn.Linear(4, 4), torch.rand(1, 4))  # what is imported once
        for name, make in models():
            model, args = make()
            found = cost(model, args)
            print(found.row(name), flush=True)
            slow = found.work > SECONDS and name == "Llama-3-70B"
            failed += [name] if slow or found.size > BYTES else []
    if "chain" in wanted:
        for name, found in chains():
            print(found.row(name), flush=True)
    failed += blocks() if "blocks" in wanted else []
    failed += training() if "training" in wanted else []
    if "loop" in wanted:
        stages(f"{LOOP} steps", partial(loop, LOOP))
    if "long" in wanted:
        failed += ["long"] if stages("long run", long_chain) > LONG_SECONDS else []
    if failed:
        print(f"above the bound: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
