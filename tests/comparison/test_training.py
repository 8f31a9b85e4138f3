"""Comparisons of training loops: gradients, optimizers, and more steps."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.callers import called
from torchrecorder import Recorder, compare, record
from torchrecorder.recording import Recording

SGD: Callable[..., torch.optim.Optimizer] = partial(torch.optim.SGD, lr=0.1)


def trained(
    *layers: nn.Module,
    optimizer: Callable[..., torch.optim.Optimizer] = SGD,
    steps: int = 2,
    batches: int = 1,
) -> Recording:
    """A model with two linear layers, and others between them, is trained."""
    model = nn.Sequential(nn.Linear(4, 6), *layers, nn.Linear(6, 2))
    chosen = optimizer(model.parameters())
    with Recorder() as recorder:
        for _ in range(steps):
            chosen.zero_grad()
            for _ in range(batches):
                model(torch.ones(3, 4)).sum().backward()
            chosen.step()
    return recorder.recording


def _told(before: Recording, after: Recording) -> list[str]:
    lines = compare(before, after).text().splitlines()[2:]
    return [" ".join(line.split()) for line in lines]


def test_gradients_correspond_by_their_weights() -> None:
    """Although the pass gives those of another layer between them."""
    before, after = trained(), trained(nn.LayerNorm(6))
    matching = compare(before, after).matching
    pairs = {(before.values[old].names[0], after.values[new].names[0])
             for old, new in matching.values.items()
             if any(name.endswith(".grad") for name in before.values[old].names)}
    model = called("model", "Sequential")
    assert pairs == {(f"{model}.{one}.{name}.grad", f"{model}.{other}.{name}.grad")
                     for one, other in ((0, 0), (1, 2)) for name in ("weight", "bias")}
    told = _told(before, after)
    assert told[0] == f"added {model}.1 (LayerNorm) 1 op, 2 parameters"
    assert not any("resized" in line or "reads" in line and "backward" in line for line in told)


def test_another_optimizer_is_replaced() -> None:
    """The weights of the next step are those that it wrote, and are no other input."""
    adam = partial(torch.optim.Adam, lr=0.1)
    assert _told(trained(), trained(optimizer=adam)) == ["replaced Adam and 1 more SGD → Adam"]


def test_more_steps_share_lines() -> None:
    """Calls of a module, and operations, differ only in their number."""
    model = called("model (call 3) (Sequential)", "Sequential (call 3)")
    assert _told(trained(), trained(steps=4)) == [
        "added ones #3 and 1 more", f"added {model} and 1 more 2 ops",
        "added sum #3 and 1 more", "added backward #3 and 1 more", "added SGD and 1 more 4 ops",
    ]


def test_what_reads_a_sum_of_gradients_follows() -> None:
    """The second pass adds to what the optimizer read before."""
    found = compare(trained(), trained(batches=2)).changes
    read = [change for change in found if change.where == "SGD" and "backward" in change.text]
    assert len(read) == 2 and all(change.follows and change.quiet for change in read)


def test_equal_steps_stay_one_box(tmp_path: Path) -> None:
    """A layer that was added is added in each; names and numbers of calls are no difference."""
    before, after = trained(steps=3), trained(nn.LayerNorm(6), steps=3)
    text = compare(before, after).render(tmp_path / "both.dot").read_text(encoding="utf-8")
    assert "×3" in text and len(re.findall("label=<1: LayerNorm", text)) == 1


def test_every_call_of_a_module_has_its_difference(tmp_path: Path) -> None:
    """It is listed once."""
    def run(inplace: bool) -> Recording:
        activation, layers = nn.LeakyReLU(inplace=inplace), [nn.Linear(4, 4), nn.Linear(4, 4)]
        model = nn.Sequential(layers[0], activation, layers[1], activation)
        return record(model, torch.ones(2, 4))

    comparison = compare(run(False), run(True))
    told = [change for change in comparison.changes if change.where.startswith("1")]
    assert [change.kind.value for change in told] == ["changed"]
    text = comparison.render(tmp_path / "both.dot", fold=False).read_text(encoding="utf-8")
    boxes = re.findall(r"label=<1: LeakyReLU.*", text)
    assert len(boxes) == 2 and all("inplace" in box for box in boxes)


def tempered() -> Recording:
    """Two tensors of no module are trained, as the temperature of an agent is."""
    scale, shift = torch.zeros(3, requires_grad=True), torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.Adam([scale, shift])
    with Recorder() as recorder:
        for _ in range(2):
            optimizer.zero_grad()
            (scale.exp() * shift).sum().backward()
            optimizer.step()
    return recorder.recording


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns, so no names")
def test_weights_of_no_module_correspond() -> None:
    """By their names, or else by their shapes; so do their gradients and states."""
    before = tempered()
    assert before.find("scale.exp_avg")
    assert compare(before, tempered()).text() == "run: no difference"
    values = {
        one.id: one.replace(names=tuple(name.replace("scale", "heat") for name in one.names))
        for one in before.values.values()
    }
    assert "rewired" not in compare(before, replace(before, values=values)).text()
