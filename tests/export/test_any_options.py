"""Any options together give a file, or an error of ours: nothing else is raised."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st
from torch import nn
from torch.utils.checkpoint import checkpoint

import torchrecorder as tr
from tests.query.test_caught_errors import Broken
from torchrecorder.errors import Notice, TorchRecorderError

X = torch.rand(3, 4)


class Block(nn.Module):
    """Two layers, a norm and a skip connection."""

    def __init__(self, refuses: bool) -> None:
        super().__init__()
        self.a, self.b, self.n = nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.refuses = refuses

    def forward(self, x):
        y = self.n(self.b(self.a(x).relu())) + x
        return Broken.apply(y) if self.refuses else y


class Net(nn.Module):
    """Blocks, one of them as *call* calls it."""

    def __init__(self, call: Callable[..., Any] | None = None, refuses: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(refuses and place == 1) for place in range(3))
        self.head = nn.Linear(4, 2)
        self.call = call

    def forward(self, x):
        for place, layer in enumerate(self.layers):
            x = self.call(layer, x) if self.call and place == 1 else layer(x)
        return self.head(x)


def _steps(**asked: Any) -> tr.Recording:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    with tr.Recorder(model, **asked) as recorder:
        for _ in range(3):
            optimizer.zero_grad()
            model(X).sum().backward()
            optimizer.step()
    return recorder.recording


def _written() -> None:
    """A tensor that was saved for the gradient is written."""
    model = Net()
    with tr.Recorder(model):
        y = model(X).sigmoid()
        z = y * y
        y.add_(1)
        z.sum().backward()


def _failed(run: Callable[[], Any]) -> Callable[[], Any]:
    def recorded() -> Any:
        with pytest.raises(Exception) as raised:
            run()
        return tr.recording_of(raised.value)

    return recorded


RUNS: dict[str, Callable[[], Any]] = {
    "forward": lambda: tr.record(Net().eval(), X),
    "checkpoint": lambda: tr.record(Net(functools.partial(checkpoint, use_reentrant=False)), X),
    "numbers": lambda: tr.record(
        Net(), X, backward=True, stats=True, memory=True, keep=["layers.1"]
    ),
    "steps": lambda: _steps(stats=True, memory=True),
    "wrong shape": _failed(lambda: tr.record(Net(), torch.rand(3, 5))),
    "refused": _failed(lambda: tr.record(Net(refuses=True), X, backward=True)),
    "written": _failed(_written),
}

PARTS = st.sampled_from(["layers.0", "layers.1", "layers.1.a", "layers.2", "head"])

OPTIONS = st.fixed_dictionaries({}, optional={
    "depth": st.sampled_from([0, 1, 2, 9, "ops"]),
    "fold": st.sampled_from([False, True, "similar"]),
    "view": st.just("backward"),
    "focus": PARTS, "since": PARTS, "until": PARTS,
    "hide": st.lists(PARTS, max_size=2), "closed": st.lists(PARTS, max_size=2),
    "group": st.just({"body": ["layers.0", "layers.1"]}),
    "functions": st.booleans(), "queries": st.booleans(), "parameters": st.booleans(),
    "color_by": st.sampled_from(["forward_time", "parameters", "not_finite", "peak_bytes"]),
    "numbers": st.lists(st.sampled_from(["parameters", "flops", "gradient_norm"]), max_size=2),
})


@functools.cache
def recorded(name: str) -> tr.Recording:
    """The recording of a run, made once."""
    made: tr.Recording = RUNS[name]()
    return made


@pytest.mark.parametrize("suffix", ["svg", "html", "txt", "mmd", "graphml"])
@pytest.mark.filterwarnings(f"ignore::{Notice.__module__}.{Notice.__qualname__}")
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(name=st.sampled_from(sorted(RUNS)), options=OPTIONS)
def test_a_file_or_an_error_of_ours(
    suffix: str, name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """Whatever was recorded, and whatever is shown of it."""
    try:
        assert recorded(name).render(tmp_path / f"run.{suffix}", **options).stat().st_size > 0
    except TorchRecorderError as error:
        assert str(error)
