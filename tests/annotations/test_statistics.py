"""Statistics of tensors and gradients, on request."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from torchrecorder.capture.record import record
from torchrecorder.select.focus import Focus


@pytest.mark.parametrize("part", [("1", None, None), (None, "1", None), (None, None, "1")])
def test_a_part_has_the_statistics_of_what_is_in_it(
    part: tuple[str | None, ...], tmp_path: Path
) -> None:
    """Pages and files with numbers of a part of a run need no nodes from outside."""
    layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    recording = record(layers, torch.rand(2, 4), backward=True, stats=True)
    found = Focus(*part)(recording)
    assert 0 < len(found.statistics) < len(recording.statistics)
    assert {one.node for one in found.statistics} <= {*found.values, *found.grad_nodes}
    chosen = dict(zip(("focus", "since", "until"), part))
    for name in ("page.html", "run.graphml"):
        assert recording.render(tmp_path / name, **chosen).stat().st_size > 0


def block() -> nn.Sequential:
    """Three modules, the first with buffers that a call writes."""
    return nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3), nn.Softmax(1))


@pytest.mark.parametrize("name", ["norm", "mean", "std", "min", "max"])
def test_a_module_has_the_statistics_of_its_output(name: str) -> None:
    """Not those of tensors in it, nor of its buffers."""
    torch.manual_seed(0)
    model, x = block(), torch.rand(5, 4)

    def statistic(tensor: torch.Tensor) -> float:
        return tensor.std(correction=0).item() if name == "std" else getattr(tensor, name)().item()

    expected = statistic(model(x))
    recording = record(model, x, stats=True)
    annotation = f"activation_{name}"
    rows = {row["name"]: row[annotation] for row in recording.table([annotation])}
    assert rows["Sequential"] == rows["2"] == pytest.approx(expected)
    assert rows["0"] == pytest.approx(statistic(model[0](x)), abs=1e-6)
    (norm,) = (row for row in recording.table([annotation], by="op") if row["type"] == "batch_norm")
    assert norm[annotation] == rows["0"]
    ranked = {one.name: one.number for one in recording.top(annotation)}
    assert ranked["0"] == rows["0"] and "Sequential" not in ranked


def test_the_first_output_with_a_number_counts() -> None:
    """An LSTM returns its state, too; a gradient reaches the output that the loss reads."""
    recording = record(nn.LSTM(3, 4), torch.rand(5, 2, 3), stats=True)
    (row,) = recording.table(["activation_norm"])
    found = recording.annotations["activation_norm"].by_node
    assert row["activation_norm"] == found[recording.scopes[row["id"]].outputs[0].value]


def test_a_row_of_siblings_has_their_mean() -> None:
    """If each of them has a number."""
    torch.manual_seed(0)
    blocks = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(3)))
    recording = record(blocks, torch.rand(2, 4), stats=True)
    norms = [row["activation_norm"] for row in recording.table(["activation_norm"])
             if row["name"] in ("0", "1", "2")]
    text = recording.summary(columns=["activation_norm"])
    assert len(norms) == 3 and f"mean {sum(norms) / 3:.3g}" in text
