"""Training steps repeat: they fold like layers, and cost in proportion to their number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

import torchrecorder
from torchrecorder.recording import Recording
from torchrecorder.views.pipeline import ViewOptions, make_view


class Block(torch.nn.Module):
    """Two linear layers with a skip connection around them."""

    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Linear(4, 4)
        self.b = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.b(self.a(x).relu())
        return x + y


def steps(number: int) -> Recording:
    """So many training steps of three equal blocks."""
    model = torch.nn.Sequential(Block(), Block(), Block())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(number):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    return recorder.recording


def test_steps_are_one_cluster_and_the_layers_in_them_too() -> None:
    """Although each layer reads weights of its own that the step before has updated."""
    view = make_view(steps(5), ViewOptions())
    view.check()
    counts = Counter(cluster.count for cluster in view.clusters.values())
    assert counts[4] == 1 and counts[3] == 2, counts
    assert len(make_view(steps(9), ViewOptions()).boxes) == len(view.boxes)


def test_what_a_box_returned_is_found_in_proportion_to_the_run() -> None:
    """However often the same weights were written before."""
    once, twice = (_lookups(steps(number)) for number in (6, 12))
    assert twice < 2.5 * once


def _lookups(recording: Recording) -> int:
    counted = _Counted(recording.ops)
    view = make_view(recording, ViewOptions(depth=99, fold=False))
    view = replace(view, recording=replace(recording, ops=counted))
    for arrow in view.arrows:
        view.given(arrow)
    return counted.number


class _Counted(Mapping[Any, Any]):
    """A mapping that counts how often something is looked up in it."""

    def __init__(self, inner: Mapping[Any, Any]) -> None:
        self.inner, self.number = inner, 0

    def __getitem__(self, key: Any) -> Any:
        self.number += 1
        return self.inner[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.inner)

    def __len__(self) -> int:
        return len(self.inner)
