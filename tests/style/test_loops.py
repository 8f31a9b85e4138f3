"""Loops: what a call that is repeated gives to itself, told in the frame and drawn back in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from torchrecorder.export.dot import output_labels
from torchrecorder.export.nested import INSIDE, Placed, loop_route
from torchrecorder.recording import Recording
from torchrecorder.style import labels, loops
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Figure, Text
from torchrecorder.style.style import Style
from torchrecorder.views.pipeline import ViewOptions, make_view


class Greedy(nn.Module):
    """A cell that is called again and again with its own state and what it chose."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell, self.head = nn.Embedding(9, 4), nn.LSTMCell(4, 6), nn.Linear(6, 9)

    def forward(self, token: Tensor) -> Tensor:
        """Six rounds."""
        h = c = torch.zeros(token.shape[0], 6)
        for _ in range(6):
            h, c = self.cell(self.embed(token), (h, c))
            token = self.head(h).argmax(-1)
        return token


class Translator(nn.Module):
    """A decoder with names for its state, which calls a cell that has others."""

    def __init__(self) -> None:
        super().__init__()
        self.step = Step()

    def forward(self, start: Tensor) -> Tensor:
        """Five rounds."""
        h, c = torch.zeros(2, 6), torch.ones(2, 6)
        token = start
        for _ in range(5):
            token, h, c = self.step(token, h, c)
            token = token.argmax(-1)
        return token


class Step(Greedy):
    """One round."""

    def forward(self, token: Tensor, hidden: Tensor, memory: Tensor) -> Tensor:
        """Logits and the new state."""
        hidden, memory = self.cell(self.embed(token), (hidden, memory))
        return self.head(hidden), hidden, memory  # type: ignore[return-value]


def figure_of(recording: Recording, **style: str) -> Figure:
    """The figure of a usual view."""
    return draw(make_view(recording, ViewOptions()), Style(**style))  # type: ignore[arg-type]


def texts(figure: Figure) -> list[str]:
    """All lines of text in boxes and corners."""
    labels = [each.label for each in (*figure.shapes, *figure.groups)]
    return [text.text for label in labels for text in label]


@pytest.mark.parametrize("depth", [1, 2, 9])
def test_what_a_loop_carries_has_the_names_of_the_program(depth: int) -> None:
    """Those of the call in the loop, at any depth; a name outside of the loop is another's."""
    recording = torchrecorder.record(Translator(), torch.tensor([1, 2]))
    found = texts(draw(make_view(recording, ViewOptions(depth=depth))))
    (text,) = (text for text in found if text.startswith("carried over: "))
    assert {*text.removeprefix("carried over: ").split(", ")} == {"token", "hidden", "memory"}


def test_a_loop_shows_what_it_carries() -> None:
    """The state by the names of the arguments it becomes; no number of a call in the frame."""
    recording = torchrecorder.record(Greedy(), torch.tensor([1, 2]))
    figure = figure_of(recording)
    (group,) = (each for each in figure.groups if each.count > 1)
    said = [text.text for text in group.label]
    assert any(text.startswith("carried over: ") and "hx 1" in text for text in said)
    inside = {each.id for each in figure.shapes if each.group == group.id}
    assert group.loop is not None and set(group.loop) <= inside
    shapes = [each for each in figure.shapes if each.id in inside]
    assert shapes and not any("call" in text.text for each in shapes for text in each.label)


def test_two_rounds_are_a_loop_like_more_of_them() -> None:
    class Short(Translator):
        def forward(self, start: Tensor) -> Tensor:
            h = torch.zeros(2, 6)
            for _ in range(2):
                start, h, _ = self.step(start, h, h)
                start = start.argmax(-1)
            return start

    found = texts(figure_of(torchrecorder.record(Short(), torch.tensor([1, 2]))))
    assert any(text.startswith("carried over: token, ") for text in found)


@pytest.mark.parametrize("kept", [True, False])
def test_what_is_no_single_argument_has_its_shape(kept: bool) -> None:
    """Kept in an attribute of the module, or given twice."""
    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, state: Tensor, other: Tensor) -> Tensor:
            self.h = torch.tanh(self.fc(state) + (self.h if kept else other))
            return self.h

    cell = Cell()

    def run(x: Tensor) -> Tensor:
        cell.h = state = x.exp()
        for _ in range(4):
            state = cell(x, x) if kept else cell(state, state)
        return state

    assert "carried over: 1×4" in texts(figure_of(torchrecorder.record(run, torch.ones(1, 4))))


@pytest.mark.parametrize("sizes, text", [((2, 3), "1×4, 2×3"), ((1, 4), "2 tensors of 1×4")])
def test_two_values_of_one_line_are_two(sizes: tuple[int, ...], text: str) -> None:
    """Though the same function makes both, also of one shape."""
    def run(*both: Tensor) -> tuple[Tensor, ...]:
        for _ in range(4):
            both = torch.tanh(both[0]), torch.tanh(both[1])
        return both

    figure = figure_of(torchrecorder.record(run, (torch.ones(1, 4), torch.ones(*sizes))))
    assert f"carried over: {text}" in texts(figure)


@pytest.mark.parametrize("depth", (None, 1, 2, "ops"))
def test_a_loop_over_layers_names_all_that_it_passes_on(depth: int | str | None) -> None:
    """The hidden state goes from layer to layer, and a sum of what a shared head reads of it."""
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
            self.head = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            total = torch.zeros(3, 2)
            for layer in self.layers:
                x = layer(x).tanh()
                total = total + self.head(x)
            return total

    recording = torchrecorder.record(Deep(), torch.ones(3, 4))
    figure = draw(make_view(recording, ViewOptions(depth=depth)), Style())
    assert "carried over: 3×4, 3×2" in texts(figure)


def test_blocks_that_share_a_module_name_all_that_they_pass_on(tmp_path: Path) -> None:
    """In a figure and on the page: what the shared module reads, and what a layer of each reads."""
    shared = nn.Linear(2, 2)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own, self.shared = nn.Linear(4, 4), shared

        def forward(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
            return self.own(x), self.shared(memory)

    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Block() for _ in range(3))

        def forward(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
            for block in self.blocks:
                x, memory = block(x, memory)
            return x, memory

    recording = torchrecorder.record(Deep(), (torch.ones(3, 4), torch.ones(3, 2)))
    figure = draw(make_view(recording, ViewOptions(depth=2)), Style())
    assert "carried over: 3×4, memory" in texts(figure)
    page = recording.render(tmp_path / "deep.html").read_text(encoding="utf-8")
    assert "carried over: 3×4, memory" in page


def test_layers_of_a_stack_are_no_loop() -> None:
    """Each is a module of its own: what it gives to the next is the flow of the model."""
    stack = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(5)))
    figure = figure_of(torchrecorder.record(stack, torch.ones(1, 4)))
    assert any(each.count == 5 for each in (*figure.shapes, *figure.groups))
    assert not any("carried" in text for text in texts(figure))
    assert all(group.loop is None for group in figure.groups)


def test_layers_that_each_step_calls_are_no_loop() -> None:
    """Two calls of each of two layers, one in each step of a training, are not two rounds."""
    model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(2)))
    with torchrecorder.Recorder(model) as recorder:
        for width in (1, 2):
            model(torch.ones(width, 4)).sum().backward()
    figure = figure_of(recorder.recording)
    assert any(each.count == 2 for each in (*figure.shapes, *figure.groups))
    assert not any("carried" in text for text in texts(figure))


@pytest.mark.parametrize("none, carried", [
    (True, "carried over: weights, state tensors"),
    (False, "carried over: gradients, weights, state tensors"),
])
def test_training_steps_carry_weights_and_state(none: bool, carried: str) -> None:
    """They are told as such, once each; gradients that are set to zero are carried, too."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(5):
            optimizer.zero_grad(set_to_none=none)
            model(torch.ones(1, 4)).sum().backward()
            optimizer.step()
    assert carried in texts(figure_of(recorder.recording))


@pytest.mark.parametrize("momentum, width, said", [
    (0.9, 22, "weights, state tensors"), (0.9, 21, "weights, …"),
    (0.0, 5, labels.shorten("weights", 5)),
])
def test_what_a_loop_carries_is_cut_between_names(
    momentum: float, width: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a single name is cut itself."""
    monkeypatch.setattr(loops, "MAX_LENGTH", width)
    layer = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=momentum)

    def train(x: Tensor) -> None:
        for _ in range(4):
            optimizer.zero_grad()
            layer(x).sum().backward()
            optimizer.step()

    figure = figure_of(torchrecorder.record(train, torch.ones(1, 4)))
    assert f"carried over: {said}" in texts(figure)


@pytest.mark.parametrize("made_in_run", [False, True])
@pytest.mark.parametrize("parameter", [False, True])
def test_loose_weights_of_an_optimizer(made_in_run: bool, parameter: bool) -> None:
    """The first step folds with the others; what it updates is not its own state."""
    x, held = torch.ones(5, 3), torch.ones(3)

    def make() -> Tensor:
        made = torch.randn(3) if made_in_run else held
        return nn.Parameter(made) if parameter else made.requires_grad_()

    weight = held if made_in_run else make()
    with torchrecorder.Recorder() as recorder:
        weight = make() if made_in_run else weight
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (x @ weight).square().sum().backward()
            optimizer.step()
    figure = figure_of(recorder.recording)
    assert [group.count for group in figure.groups] == [3]
    said = "[3]" if made_in_run and not parameter else "weights"
    assert f"carried over: {said}" in texts(figure)


def test_what_the_last_round_gives_is_one_result() -> None:
    """An op and a module of every round are read in the round; the last is read behind it, too."""
    layer, steps = nn.Linear(4, 1), list(range(4))
    optimizer = torch.optim.Adam(layer.parameters())

    def train(x: Tensor) -> tuple[Tensor, Tensor]:
        for _ in steps:
            made = layer(x)
            loss = made.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return made, loss

    figure = figure_of(torchrecorder.record(train, torch.ones(5, 4)))
    (group,) = (each for each in figure.groups if each.count > 1)
    assert group.count == 4
    given = {each.name: output_labels(figure).get(each.id) for each in figure.shapes}
    assert given["layer"] == Text("→ 5×1") and given["mean"] == Text("→ scalar"), given


@pytest.mark.parametrize("direction", ["TB", "LR", "BT", "RL"])
def test_the_line_back_stays_inside_the_border(
    direction: str, tmp_path: Path, no_graphviz: None
) -> None:
    """Dashed, from where the flow of the frame ends to where it begins."""
    recording = torchrecorder.record(Greedy(), torch.tensor([1, 2]))
    figure = figure_of(recording, direction=direction)
    (group,) = (each for each in figure.groups if each.loop is not None)
    box = Placed.lay_out(figure, 60.0).boxes()[group.id]
    points = loop_route(box, figure)
    for x, y in points:
        assert box.x < x < box.x + box.width and box.y < y < box.y + box.height
    axis = 1 if direction in ("TB", "BT") else 0
    forward = direction in ("TB", "LR")
    assert (points[0][axis] > points[-1][axis]) == forward
    sides = (box.x, box.x + box.width, box.y, box.y + box.height)
    assert min(abs(points[1][0] - side) for side in sides[:2]) == pytest.approx(INSIDE)
    written = recording.render(tmp_path / "a.svg", direction=direction)
    assert "stroke-dasharray" in written.read_text(encoding="utf-8")


def test_a_loop_that_differentiates_shows_no_generic_names() -> None:
    """Steps along the gradient: 'inputs' of `torch.autograd.grad` says nothing, the shape does."""
    energy = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.SiLU(), torch.nn.Linear(8, 1))

    def sample(x: torch.Tensor) -> torch.Tensor:
        x = x.clone().requires_grad_()
        for _ in range(4):
            x = (x - 0.1 * torch.autograd.grad(energy(x).sum(), x)[0]).detach().requires_grad_()
        return x

    found = texts(figure_of(torchrecorder.record(sample, torch.ones(3, 4))))
    assert "carried over: 3×4" in found


def in_turn(x: Tensor) -> list[Tensor]:
    """Reads one row in each round."""
    return [row.sin().exp().sum() for row in x.unbind()]


def in_pairs(x: Tensor) -> list[Tensor]:
    """Reads two rows in each round, by two ops."""
    rows = x.unbind()
    return [(rows[at].sin() * rows[at + 1].cos()).sum() for at in range(0, len(rows), 2)]


def as_two_arguments(x: Tensor) -> list[Tensor]:
    """Reads two rows in each round, by one op."""
    rows = x.unbind()
    return [torch.atan2(rows[at], rows[at + 1]).sin().sum() for at in range(0, len(rows), 2)]


def the_first_apart(x: Tensor) -> list[Tensor]:
    """Reads the first row before a loop."""
    first, *rows = x.unbind()
    return [first.cos().sum(), *(row.sin().exp().sum() for row in rows)]


def one_more_often(x: Tensor) -> list[Tensor]:
    """Reads one row in each round, and returns one of them."""
    rows = x.unbind()
    return [rows[5], *(row.sin().exp().sum() for row in rows)]


def one_before(x: Tensor) -> list[Tensor]:
    """Reads a row before the loop that reads all."""
    rows = x.unbind()
    return [rows[5].cos().sum(), *(row.sin().exp().sum() for row in rows)]


IN_TURN = [in_turn, in_pairs, as_two_arguments, the_first_apart, one_more_often, one_before]


@pytest.mark.parametrize("function", IN_TURN)
def test_results_that_rounds_read_in_turn_are_counted(function: Any) -> None:
    """All of them, although the lines of the figure lead to one round."""
    figure = figure_of(torchrecorder.record(function, torch.rand(8, 4)))
    assert any(each.count > 2 for each in figure.groups)
    (unbind,) = (each.id for each in figure.shapes if each.label[0].text == "unbind")
    assert output_labels(figure)[unbind].text == "→ 8 tensors of [4]"


def test_results_in_loops_in_a_loop_are_those_of_the_first_round() -> None:
    """Each round of the innermost loop reads a gradient of another shape."""
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    weights = list(model.parameters())
    optimizer = torch.optim.SGD(weights, lr=0.1)
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(2):
            total = torch.zeros(())
            for _ in range(3):
                loss = model(torch.rand(5, 3)).mean()
                steps = torch.autograd.grad(loss, weights, create_graph=True)
                for weight, step in zip(weights, steps):
                    total = total + (weight - 0.1 * step).sum()
            optimizer.zero_grad()
            total.backward()
            optimizer.step()
    figure = figure_of(recorder.recording)
    assert sorted(each.count for each in figure.groups if each.count > 1) == [2, 3, 4]
    (made,) = (each.id for each in figure.shapes if each.label[0].text == "grad")
    assert output_labels(figure)[made].text == "→ 4 tensors"
