"""The many tensors of one argument are one box where the same boxes read them all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.style.draw import draw
from torchrecorder.views.inputs import MIN_GROUPED, list_of
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import Box, BoxKind, View


class Parts:
    """An object that holds tensors of several shapes."""

    def __init__(self, count: int) -> None:
        for number in range(count):
            setattr(self, f"part{number}", torch.ones(number + 1))


def all_of(parts: Any) -> Tensor:
    """Reads each tensor of *parts*."""
    return torch.cat([*vars(parts).values()])


def inputs(view: View) -> list[Box]:
    return [box for box in view.boxes.values() if box.kind is BoxKind.INPUT]


def recorded(function: Callable[..., object], *arguments: object) -> RecordedRun:
    return torchrecorder.record(function, arguments)


@pytest.mark.parametrize("count", [MIN_GROUPED - 1, MIN_GROUPED, MIN_GROUPED + 3])
def test_many_tensors_of_one_argument_are_one_input(count: int) -> None:
    """Few stay apart, as do those of another argument."""
    recording = recorded(lambda parts, x: all_of(parts) * x, Parts(count), torch.ones(1))
    view = make_view(recording, ViewOptions())
    view.check()
    joined = [box for box in inputs(view) if box.names == ("parts",)]
    if count < MIN_GROUPED:
        assert not joined and len(inputs(view)) == count + 1
        return
    (box,) = joined
    assert box.count == len(box.members) == count and len(inputs(view)) == 2
    assert sum(arrow.tail == box.id for arrow in view.arrows) == 1
    assert len(inputs(make_view(recording, ViewOptions(fold=False)))) == count + 1


def test_they_may_be_read_by_several_boxes_but_by_the_same() -> None:
    def run(parts: Parts) -> tuple[Tensor, Tensor]:
        return all_of(parts), torch.stack([part.sum() for part in vars(parts).values()])

    assert len(inputs(make_view(recorded(run, Parts(MIN_GROUPED)), ViewOptions()))) == MIN_GROUPED

    def twice(parts: Parts) -> tuple[Tensor, Tensor]:
        return all_of(parts), torch.block_diag(*vars(parts).values())

    view = make_view(recorded(twice, Parts(MIN_GROUPED)), ViewOptions())
    (box,) = inputs(view)
    assert len({arrow.head for arrow in view.arrows if arrow.tail == box.id}) == 2


@pytest.mark.parametrize("stem, joined", [("", "inputs"), ("size_", "size_*")])
def test_numbered_arguments_are_one_input(stem: str, joined: str, tmp_path: Path) -> None:
    """With or without a name; not one without a number, or that something else reads."""

    def run(*args: Tensor, **named: Tensor) -> Tensor:
        *given, last = *args, *named.values()
        return torch.cat([*given, last.relu()])

    count = MIN_GROUPED + 6
    tensors = {f"{stem}{number}": torch.ones(number + 1) for number in range(count)}
    more = {"scale": torch.ones(1), "size_x": torch.ones(1), "size_99": torch.ones(1)}
    given = ((), {**tensors, **more}) if stem else (tuple(tensors.values()), more)
    recording = torchrecorder.record(run, *given)
    view = make_view(recording, ViewOptions())
    view.check()
    found = [(box.names, box.count) for box in inputs(view)]
    assert found == [((joined,), count), *[((), 1)] * 3]
    recording.render(tmp_path / "f.svg")
    text = (tmp_path / "f.svg").read_text()
    assert f">{joined}<" in text and f">{count} tensors<" in text and f"{stem}{count - 1}: " in text


def test_inputs_without_names_have_a_range() -> None:
    """One for each of equal layers."""
    layers = nn.ModuleList(nn.Linear(1, 1) for _ in range(4))

    def run(*args: Tensor) -> Tensor:
        return torch.cat([layer(x) for layer, x in zip(layers, args)])

    recording = torchrecorder.record(run, tuple(torch.ones(2, 1) for _ in layers))
    (title, *_), *_ = [shape.label for shape in draw(make_view(recording, ViewOptions())).shapes]
    assert title.text == "input 0 … 3  ×4"


class Reads(nn.Module):
    """Adds up all tensors of an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(1, 1)

    def forward(self, x: Tensor, parts: Parts) -> Tensor:
        added: Tensor = self.linear(x) + all_of(parts).sum()
        return added


def test_repeated_layers_that_read_them_all_read_one(tmp_path: Path) -> None:
    """Also in a page, where boxes open, and what is said of it."""
    layers = nn.ModuleList([Reads() for _ in range(3)])

    def run(x: Tensor, parts: Parts) -> Tensor:
        for layer in layers:
            x = layer(x, parts)
        return x

    recording = recorded(run, torch.ones(2, 1), Parts(MIN_GROUPED))
    for depth in (None, 1, 9):
        assert [box.count for box in inputs(make_view(recording, ViewOptions(depth=depth)))] == [
            1, MIN_GROUPED,
        ]
    view = make_view(recording, ViewOptions())
    assert view.unfolded is not None
    unfolded = view.unfolded().view
    unfolded.check()
    assert [box.names for box in inputs(unfolded)] == [(), ("parts",)]
    recording.render(tmp_path / "f.svg")
    text = (tmp_path / "f.svg").read_text()
    assert f">{MIN_GROUPED} tensors<" in text and "parts.part1: [2]" in text


@pytest.mark.parametrize("layers", [2, 3])
def test_the_state_of_an_optimizer_is_a_box_for_each_kind(layers: int) -> None:
    """The sums of all weights are one box, their averages another; of few weights each is one."""
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(layers)))
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    with torchrecorder.Recorder(model) as recorder:
        optimizer.step()
    view = make_view(recorder.recording, ViewOptions(depth="ops"))
    view.check()
    state = [box for box in view.boxes.values() if box.kind is BoxKind.CONSTANT and box.is_group]
    kinds = ["*.grad", "*.exp_avg", "*.exp_avg_sq", "*.step"] if 2 * layers >= MIN_GROUPED else []
    assert sorted(box.names[0] for box in state) == sorted(kinds)
    assert {box.count for box in state} <= {2 * layers}


@pytest.mark.parametrize("held", ["nowhere", "lists", "objects"])
def test_constants_are_one_box_if_their_names_differ_in_their_holder(held: str) -> None:
    """A place in a list says nothing, and neither does a tensor without a name."""
    tensors = [torch.ones(2) for _ in range(MIN_GROUPED)]
    net = nn.Identity()
    for number, tensor in enumerate(tensors if held != "nowhere" else ()):
        setattr(net, f"part{number}", [tensor] if held == "lists" else {"mask": tensor})
    net.forward = lambda x: torch.cat([x, *tensors])  # type: ignore[method-assign]
    view = make_view(recorded(net, torch.ones(2)), ViewOptions(depth="ops"))
    found = [box for box in view.boxes.values() if box.kind is BoxKind.CONSTANT]
    assert [box.names for box in found if box.is_group] == [("*.mask",)] * (held == "objects")
    assert len(found) == (1 if held == "objects" else MIN_GROUPED)


class Averages:
    """A moving average of each weight, in a list."""

    def __init__(self, model: nn.Module) -> None:
        self.shadow = [weight.detach().clone() for weight in model.parameters()]

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """One step for each weight."""
        for average, weight in zip(self.shadow, model.parameters()):
            average.sub_(0.1 * (average - weight))


@pytest.mark.parametrize("layers", [1, 4])
def test_the_items_of_a_list_are_one_constant_where_a_closed_box_reads_all(layers: int) -> None:
    """Their shapes may differ, as those of weights do."""
    model = nn.Sequential(*(nn.Linear(3, 3) for _ in range(layers)))
    ema = Averages(model)

    def run() -> None:
        model(torch.ones(2, 3)).sum().backward()
        ema.update(model)

    view = make_view(recorded(run), ViewOptions(depth=1, functions=True))
    view.check()
    found = [box for box in view.boxes.values() if box.kind is BoxKind.CONSTANT]
    many = 2 * layers >= MIN_GROUPED
    assert [box.count for box in found] == ([2 * layers] if many else [1] * 2 * layers)
    assert [box.names for box in found] == [("ema.shadow",)] or not many
    assert len({arrow.head for arrow in view.arrows if arrow.tail == found[0].id}) == 1


def test_the_parts_of_batches_stay_apart() -> None:
    """Closed loops over a list of pairs read two kinds of tensors."""
    batches = [(torch.ones(2, 3), torch.zeros(2, 1)) for _ in range(MIN_GROUPED)]
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))

    def train() -> None:
        for x, y in batches:
            nn.functional.mse_loss(model(x), y)

    def run() -> None:
        train()
        train()

    view = make_view(recorded(run), ViewOptions(depth=1, functions=True))
    view.check()
    found = [box for box in view.boxes.values() if box.kind is BoxKind.CONSTANT]
    assert [(box.names, box.count) for box in found] == [
        (("batches.*.0",), MIN_GROUPED), (("batches.*.1",), MIN_GROUPED)
    ]


@pytest.mark.parametrize("steps", [1, 3])
def test_the_samples_of_a_batch_are_one_constant_also_in_a_fold(steps: int) -> None:
    """A loop draws its batches from a list of samples, in any order."""
    samples = [{"x": torch.rand(3)} for _ in range(steps * MIN_GROUPED)]
    order, model = torch.randperm(len(samples)).tolist(), nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters())

    def train() -> None:
        for step in range(steps):
            batch = order[step * MIN_GROUPED:][:MIN_GROUPED]
            model(torch.stack([samples[number]["x"] for number in batch])).sum().backward()
            optimizer.step()

    view = make_view(recorded(train), ViewOptions())
    view.check()
    (box,) = [box for box in view.boxes.values() if box.kind is BoxKind.CONSTANT]
    assert (box.names, box.count) == (("samples.*.x",), MIN_GROUPED)
    assert len(box.members) == len(samples)


@pytest.mark.parametrize("names, group", [
    (("xs.0", "xs.1", "xs.5"), "xs"), (("b.0.x", "b.1.x"), "b.*.x"), (("b.0.0", "b.1.1"), ""),
    (("b.x", "b.y"), ""), (("b.0", "b.0.1"), ""), (("b.0", "b.0"), ""),
    (("b.0", "b.1.1"), ""), (("b.0.1", "b.1"), ""),
])
def test_the_list_that_names_are_in(names: tuple[str, ...], group: str) -> None:
    assert list_of(names) == group


def test_a_constant_in_two_lists_is_in_one_box() -> None:
    """In the larger of both: of six rows of seven, the rows."""
    sizes = range(1, MIN_GROUPED + 2)
    table = [[torch.ones(size) for size in sizes] for _ in range(MIN_GROUPED)]

    def read(rows: list[list[torch.Tensor]]) -> torch.Tensor:
        return torch.stack([part.sum() for row in rows for part in row]).sum().exp()

    def run() -> torch.Tensor:
        return read(table) + 1

    view = make_view(recorded(run), ViewOptions(depth=1, functions=True))
    view.check()
    found = [box for box in view.boxes.values() if box.kind is BoxKind.CONSTANT]
    assert [box.count for box in found] == [MIN_GROUPED + 1] * MIN_GROUPED
    assert sorted(box.names[0] for box in found) == [f"table.{row}" for row in range(MIN_GROUPED)]
    members = [member for box in found for member in box.members]
    assert len(members) == len({*members}) == MIN_GROUPED * (MIN_GROUPED + 1)
