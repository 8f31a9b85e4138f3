"""Statistics of tensors and gradients, on request."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import nn

from tests.page.test_data import Page, data_of
from torchrecorder import Recorder, Series
from torchrecorder.annotations.limits import exceeded
from torchrecorder.capture.record import record
from torchrecorder.drawing import figure
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


class Root(nn.Module):
    """Its result is finite, and its gradient is not."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 0).sqrt()


@pytest.mark.parametrize("part, marks", [("0", 1), ("1", 1), ("2", 0)])
@pytest.mark.parametrize("view", ["forward", "backward"])
def test_a_part_of_a_run_with_gradients_that_are_not_finite(
    part: str, marks: int, view: Literal["forward", "backward"]
) -> None:
    """The first in it is marked; the call of the backward pass is not in it."""
    layers = nn.Sequential(nn.Linear(4, 4), Root(), nn.Linear(4, 4))
    recording = record(layers, torch.rand(2, 4), backward=True, stats=True)
    found = figure(recording, focus=part, view=view, depth=9)
    texts = [text.text for shape in found.shapes for text in shape.label]
    assert len([text for text in texts if text.startswith("first ")]) == marks


def block() -> nn.Sequential:
    """Three modules, the first with buffers that a call writes."""
    return nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3), nn.Softmax(1))


class Residual(nn.Module):
    """Adds to the result of a module that returns its input unchanged."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.path = nn.Linear(4, 4), nn.Dropout().eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.path(self.layer(x))
        y += x
        return y


def test_what_a_module_returns_unchanged_has_the_statistics_of_what_it_was_given() -> None:
    """So a block that ends with an inactive dropout has those of its output, also where a write
    follows."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout()), Residual())
    x, names = torch.rand(5, 4), ("0", "0.2", "1.layer", "1.path", "1")
    means = {}
    first, second = model.eval()
    means["0"] = means["0.2"] = first(x).mean().item()
    means["1.layer"] = means["1.path"] = second.layer(first(x)).mean().item()
    means["1"] = model(x).mean().item()
    rows = record(model, x, stats=True).table(["activation_mean"])
    found = {row["name"]: row["activation_mean"] for row in rows if row["name"] in names}
    assert found == pytest.approx(means)
    series = Series(model, scopes=("0",))
    with series.step():
        model(x)
    assert series.points[0].activation_mean == pytest.approx(means["0"])


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
    outputs = [slot.value for slot in recording.scopes[row["id"]].outputs]
    assert len(outputs) == 3 and row["activation_norm"] == found[outputs[0]]
    with Recorder(model := nn.LSTM(3, 4), stats=True) as recorder:
        model(torch.rand(5, 2, 3))[1][0].sum().backward()
    recording = recorder.recording
    (row,) = recording.table(["gradient_norm"])
    found = recording.annotations["gradient_norm"].by_node
    outputs = [slot.value for slot in recording.scopes[row["id"]].outputs]
    assert outputs[0] not in found and row["gradient_norm"] == found[outputs[1]]


class Shortcut(nn.Module):
    """A module whose forward returns its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


@pytest.mark.parametrize("same", [nn.Identity(), nn.Dropout(0.5).eval(), Shortcut()])
def test_a_module_before_one_that_returns_its_input_has_its_gradient(
    same: nn.Module,
) -> None:
    """That of its output, which is also that of the alias behind it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), same, nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    x, norms, plain = torch.rand(3, 4), dict[str, float](), copy.deepcopy(model)
    for name, module in plain.named_children():
        def keep(_: Any, __: Any, output: torch.Tensor, name: str = name) -> None:
            output.register_hook(lambda grad: norms.update({name: grad.norm().item()}))

        module.register_forward_hook(keep)
    plain(x).sum().backward()
    with Recorder(model, stats=True) as recorder:
        model(x).sum().backward()
    recording, name = recorder.recording, "gradient_norm"
    rows = {row["name"]: row[name] for row in recording.table([name]) if row["name"] in norms}
    assert rows == pytest.approx(norms) and rows.keys() == norms.keys()
    ranked = {one.name: one.number for one in recording.top(name) if one.name in norms}
    assert ranked == pytest.approx(norms)
    summary = recording.summary(columns=[name]).splitlines()
    lines = {line.split()[1]: line.split()[-1] for line in summary if line[:1] in "├└"}
    assert {key: float(text) for key, text in lines.items()} == pytest.approx(norms, rel=0.01)
    page = Page(data_of(recording))
    assert page.number(name, "0: Linear") == pytest.approx(norms["0"], rel=1e-3)


class Forces(nn.Module):
    """Energy and forces, which need the gradient of the positions."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        self.place = given.detach().clone().requires_grad_()
        energy = self.net(self.place).sum() + self.place.pow(2).sum()
        (force,) = torch.autograd.grad(energy, self.place, create_graph=True)
        return energy + force.pow(2).sum()


def test_gradients_of_other_leaves_do_not_count_as_those_of_weights() -> None:
    """Neither of tensors that forward makes nor of inputs: the number is the joint norm of all
    ``.grad`` of the weights."""
    torch.manual_seed(0)
    model, x = Forces(), torch.rand(5, 3, requires_grad=True)
    with Recorder(model, stats=True) as recorder:
        (model(x) + model.net(x).sum()).backward()
    norms = torch.stack([weight.grad.norm() for weight in model.parameters()])
    recording, name = recorder.recording, "parameter_gradient_norm"
    assert x.grad is not None and model.place.grad is not None
    assert recording.annotations[name].total() == pytest.approx(norms.norm().item())
    rows = {row["type"]: row[name] for row in recording.table([name], by="module")}
    assert rows["Forces"] == pytest.approx(norms.norm().item())


@pytest.mark.parametrize("flags", [{}, {"flops": True, "stats": True}, {"fake": True}])
def test_sparse_gradients_have_the_bytes_of_their_parts(flags: dict[str, bool]) -> None:
    """Of indices and values; also beside a dense gradient of the same shape."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(100, 4, sparse=True), nn.Linear(4, 100))
    words = torch.tensor([1, 5, 5])
    recording = record(model, words, backward=True, **flags)
    model(words).sum().backward()
    table, weight, bias = (item.grad for item in model.parameters())
    assert table.layout is torch.sparse_coo and table.shape == weight.shape
    expected = sum(part.nbytes for part in (table._indices(), table._values()))
    found = recording.annotations["gradient_bytes"].by_node
    names = {recording.values[item].names[0]: number for item, number in found.items()}
    assert names == {"0.weight": expected, "1.weight": weight.nbytes, "1.bias": bias.nbytes}


def test_a_module_with_weights_outside_of_the_chosen_places_has_no_joint_norm() -> None:
    """``stats=`` with paths: what is around them has weights whose norm was not taken."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    recording = record(model, torch.rand(2, 4), backward=True, stats="0")
    rows = recording.table(["parameter_gradient_norm"], by="module")
    norms = {row["name"]: row["parameter_gradient_norm"] for row in rows}
    assert norms["0"] > 0 and norms["Sequential"] is norms["1"] is None
    limit = {"parameter_gradient_norm": 1e6}
    unknown = "parameter_gradient_norm: unknown, because a part of it has no number"
    assert exceeded(recording, {"0": limit}) == []
    assert exceeded(recording, {"1": limit, "": limit}) == [
        f"1: {unknown}", f"the whole run: {unknown}"
    ]


def test_a_row_of_siblings_has_their_mean() -> None:
    """If each of them has a number."""
    torch.manual_seed(0)
    blocks = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(3)))
    recording = record(blocks, torch.rand(2, 4), stats=True)
    norms = [row["activation_norm"] for row in recording.table(["activation_norm"])
             if row["name"] in ("0", "1", "2")]
    text = recording.summary(columns=["activation_norm"])
    assert len(norms) == 3 and f"mean {sum(norms) / 3:.3g}" in text
