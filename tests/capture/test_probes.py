"""What is measured on request: the run stays what it is, and numbers are those of counting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from tests.zoo.case import net

KEYWORDS: dict[str, Callable[[Tensor], Tensor]] = {
    "made": lambda x: torch.full((2,), 3, dtype=torch.float64) + x,
    "sum": lambda x: x.sum(dim=0, keepdim=True, dtype=torch.float64),
    "scaled": lambda x: torch.add(x, x, alpha=3),
    "written": lambda x: torch.exp(x, out=torch.zeros(2)),
    "rounded": lambda x: torch.round(x / 3, decimals=2),
    "divided": lambda x: torch.div(x, 0.3, rounding_mode="floor"),
}
OPTIONS: list[dict[str, Any]] = [{"memory": True}, {"flops": True}, {"stats": True}]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: next(iter(options)))
@pytest.mark.parametrize("kind", KEYWORDS)
def test_keyword_arguments_reach_the_operators(kind: str, options: dict[str, Any]) -> None:
    """The result has the bits of the plain run."""
    x = torch.tensor([1.0, -2.0])
    wanted = KEYWORDS[kind](x)
    with torchrecorder.Recorder(**options):
        found = KEYWORDS[kind](x)
    assert torch.equal(found, wanted) and found.dtype is wanted.dtype


@pytest.mark.parametrize("times", [1, 3])
def test_the_peak_of_a_call_is_inside_of_it(times: int) -> None:
    """What it makes and releases counts for it and for those around, not for those after."""

    def forward(self: Any, x: Tensor) -> Tensor:
        for _ in range(times):
            made = x * 2
            found = made.sum()
            del made
        return found

    model = nn.Sequential(net(forward), net(lambda self, x: x + 1))
    with torch.no_grad():
        recording = torchrecorder.record(model, torch.ones(1000), memory=True)
    peaks = recording.annotations["peak_bytes"].by_node
    whole, first, second = (
        next(scope.id for scope in recording.scopes.values() if scope.path == path)
        for path in ("", "0", "1")
    )
    assert 8000 < peaks[first] < 8100 and peaks[whole] == peaks[first]
    assert 4000 < peaks[second] < 4100


def test_modules_that_hold_each_other() -> None:
    """Each is looked at once, and its weights count once."""
    inner = nn.Linear(2, 2, bias=False)
    model = net(lambda self, x: x @ inner.weight, inner=inner)
    recording = torchrecorder.record(model, torch.ones(1, 2), memory=True)
    inner.around = model
    around = torchrecorder.record(model, torch.ones(1, 2), memory=True)
    for each in (recording, around):
        held = each.memory.held(at=0)
        assert sum(one.bytes for one in held if one.kind == "parameters") == inner.weight.nbytes


def test_gradients_that_never_come_are_kept_as_none() -> None:
    """Of two results of a module, one is not used."""
    model = net(lambda self, x: self.both(x)[0] * 3,
                both=net(lambda self, x: (x * 2).unbind()))
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with torchrecorder.Recorder(model, keep="both") as recorder:
        model(x).backward()
    recording = recorder.recording
    made, flowed = recording.activations["both"], recording.gradients["both"]
    assert {name: float(each) for name, each in made.items()} == {"0": 2.0, "1": 4.0}
    assert float(flowed["0"]) == 3.0 and flowed["1"] is None
    assert recording.run.lost == 0


def test_products_are_counted() -> None:
    """Two operations for each product of two numbers, and nothing of backward among them."""
    x, w = torch.ones(3, 5, requires_grad=True), torch.ones(5, 7, requires_grad=True)
    with torchrecorder.Recorder(flops=True) as recorder:
        (x @ w).sum().backward()
    flops = recorder.recording.annotations["flops"].by_node
    (product,) = [op.id for op in recorder.recording.ops.values() if op.name == "matmul"]
    assert flops[product] == 2 * 3 * 5 * 7
