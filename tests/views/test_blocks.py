"""Folding of what repeats in turn: layers of two sorts, and loops that no module holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, strategies as st

import torchrecorder
from tests.figures import arrows, boxes, linear, view_of
from tests.random_recordings import recordings
from tests.views.test_fold import block
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.testing import Builder
from torchrecorder.views.view import BoxKind, View


def folds(view: View) -> list[tuple[int, tuple[str, ...]]]:
    """Count and names of each cluster that stands for several."""
    return [(each.count, each.names) for each in view.clusters.values() if each.count > 1]


def inside(view: View, cluster: str) -> list[str]:
    """What stands in a cluster."""
    return [box.id for box in view.boxes.values() if box.cluster == cluster]


def alternating(number: int, *, odd_at: int | None = None) -> Recording:
    """Blocks of two sorts in turn, each feeding the next."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        h = linear(run, "stem", h, "Stem")
        for place in range(number):
            if place % 2:
                with run.scope(f"layers.{place}", "Sparse"):
                    h = linear(run, "a", linear(run, "b", h))
            else:
                h = block(run, f"layers.{place}", h)
            if place == odd_at:
                h = run.op("relu", h)
    return run.recording()


def loop(number: int, body: Callable[[Builder, str, str, int], str]) -> Recording:
    """An op repeated so often, no module around it."""
    run = Builder("Loop")
    with run.scope("Loop"):
        x, h = run.input("x"), run.input("h")
        for place in range(number):
            h = body(run, x, h, place)
    return run.recording()


def cell(run: Builder, x: str, h: str, place: int) -> str:
    """A step: reads a part of x, and what came before."""
    part = run.op("getitem", x, arguments=(("index", f"(:, {place})"),))
    return run.op("tanh", run.op("add", part, h))


@pytest.mark.parametrize("steps", [4, 16])
def test_a_loop_that_repeats_after_what_each_step_ends_with(steps: int) -> None:
    """Its first steps could be cut one operation earlier, those of later rounds could not."""
    run = Builder("Loop")
    with run.scope("Loop"):
        h = run.op("cos", run.input())
        for _ in range(3):
            for name in (*steps * ("sin", "exp", "cos"), "tanh", "neg"):
                h = run.op(name, h)
    clusters = view_of(run.recording()).clusters.values()
    assert [cluster.count for cluster in clusters] == [1, 3, steps]


def test_two_sorts_in_turn() -> None:
    """One group of both, with the range of their names."""
    view = view_of(alternating(12), depth=1)
    names = tuple(f"layers.{place}" for place in range(12))
    assert folds(view) == [(6, names)]
    assert boxes(view) == ["x", "stem", "layers.0", "layers.1", "out:0"]
    assert arrows(view) == [
        "x -> stem", "stem -> layers.0", "layers.0 -> layers.1", "layers.1 -> out:0",
    ]
    assert draw(view).groups[1].label[0].text == "layers.0 … layers.11  ×6"


def test_what_is_left_over_stays() -> None:
    """An odd number of layers: the last is a box of its own."""
    view = view_of(alternating(7), depth=1)
    assert [count for count, _ in folds(view)] == [3]
    assert boxes(view)[-2:] == ["layers.6", "out:0"]
    assert view.boxes[list(view.boxes)[-2]].cluster == "s0"


def test_three_of_one_sort_and_one_of_another() -> None:
    """The three fold inside the group."""
    run = Builder()
    with run.scope("Net"):
        h = run.input()
        for place in range(12):
            if place % 4 == 3:
                h = linear(run, f"layers.{place}", h, "Router")
            else:
                h = block(run, f"layers.{place}", h)
    view = view_of(run.recording(), depth=1)
    assert [count for count, _ in folds(view)] == [3]
    assert [box.count for box in view.boxes.values()] == [1, 3, 1, 1]


def test_a_different_step_cuts_the_run() -> None:
    """Two groups with what lies between them, or none where too few are left."""
    view = view_of(alternating(12, odd_at=5), depth=1)
    assert [count for count, _ in folds(view)] == [3, 3]
    assert "relu" in boxes(view)


def test_loop_of_ops() -> None:
    """One group, named as what it is; its arguments say which rounds it stands for."""
    view = view_of(loop(50, cell))
    assert folds(view) == [(50, ())]
    assert boxes(view) == ["x", "h", "getitem", "add", "tanh", "out:0"]
    assert arrows(view) == [
        "x -> getitem", "getitem -> add", "h -> add", "add -> tanh", "tanh -> out:0",
    ]
    figure = draw(view)
    assert figure.groups[1].label[0].text == "loop  ×50"
    assert [text.text for text in figure.shapes[2].label] == ["getitem", "(:, 0 … 49)"]
    assert sum(member[0] == "o" for box in view.boxes.values() for member in box.members) == 150


def test_loop_is_not_folded_where_that_is_not_wanted() -> None:
    """Nor where it saves little."""
    assert len(view_of(loop(50, cell), fold=False).boxes) == 153
    assert folds(view_of(loop(2, cell))) == []
    assert folds(view_of(loop(3, cell))) == [(3, ())]


@pytest.mark.parametrize("distance", [2, 3])
def test_a_loop_that_looks_further_back_is_left_alone(distance: int) -> None:
    """What came two rounds before is no longer seen in one round."""
    made: list[str] = []

    def body(run: Builder, x: str, h: str, place: int) -> str:
        made.append(run.op("tanh", run.op("add", h, made[-distance] if place > 4 else x)))
        return made[-1]

    view = view_of(loop(30, body))
    assert len(view.boxes) > 50


def test_a_result_that_is_read_later_cuts_a_loop() -> None:
    """Nothing is hidden that leads elsewhere."""
    run = Builder()
    with run.scope("Loop"):
        x = h = run.input("x")
        made = []
        for place in range(20):
            h = cell(run, x, h, place)
            made.append(h)
        run.op("mul", h, made[9])
    view = view_of(run.recording())
    assert [count for count, _ in folds(view)] == [10, 10]


class FirstDiffers(torch.nn.Module):
    """A loop whose first round has nothing to add to."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Step by step."""
        outs, h = [], None
        for step in range(20):
            part = x[step]
            if h is not None:
                part = part + h
            h = torch.tanh(part)
            outs.append(torch.exp(h))
        return torch.stack(outs)


def test_first_round_may_differ() -> None:
    """The block begins where the round begins, although its end was there once before."""
    view = view_of(torchrecorder.record(FirstDiffers(), torch.ones(20, 3)))
    ((count, _),) = folds(view)
    group = next(each for each in view.clusters.values() if each.count > 1)
    found = [view.recording.ops[each].name for each in inside(view, group.id)]
    assert (count, found) == (19, ["getitem", "add", "tanh", "exp"])


def test_each_round_reads_the_next_part() -> None:
    """Results of one op, taken in turn; out of turn they are not alike."""

    def recording(order: list[int]) -> Recording:
        run = Builder()
        with run.scope("Loop"):
            x, h = run.input("x"), run.input("h")
            parts = run.op("unbind", x, outputs=20)
            for place in order:
                h = run.op("tanh", run.op("add", f"v{int(parts[1:]) + place}", h))
        return run.recording()

    view = view_of(recording([*range(20)]))
    assert [count for count, _ in folds(view)] == [20]
    assert arrows(view).count("unbind -> add") == 1
    mixed = view_of(recording([0, 5, 1, 6, 2, 7, 3, 8, 4, 9, 11, 10]))
    assert folds(mixed) == []


def test_constants_of_a_round_are_inside() -> None:
    """Each round has its own; one that all read stays outside."""

    def recording(shared: bool) -> View:
        run = Builder()
        with run.scope("Loop"):
            h, constant = run.input("x"), run.constant()
            for _ in range(10):
                h = run.op("tanh", run.op("mul", h, constant if shared else run.constant()))
        return view_of(run.recording())

    assert [count for count, _ in folds(recording(True))] == [10]
    view = recording(False)
    group = next(each for each in view.clusters.values() if each.count > 1)
    assert group.count == 10 and len(inside(view, group.id)) == 3


def test_the_initial_value_of_a_loop_is_outside() -> None:
    """Only the first iteration reads it, in place of a result of the one before."""
    run = Builder()
    with run.scope("Loop"):
        x, h = run.input("x"), run.constant((2, 4))
        for _ in range(10):
            h = run.op("tanh", run.op("mul", run.op("add", h, x), x))
    view = view_of(run.recording())
    group = next(each for each in view.clusters.values() if each.count > 1)
    (constant,) = [box for box in view.boxes.values() if box.kind is BoxKind.CONSTANT]
    assert group.count == 10 and constant.cluster == group.parent


def test_a_constant_of_a_module_stays_there() -> None:
    """It does not move to the iteration that calls the module."""
    run = Builder()
    with run.scope("Loop"):
        h = run.input("x")
        for _ in range(6):
            with run.scope("norm", "Norm"):
                h = run.op("mul", run.op("exp", h), run.constant())
            h = run.op("tanh", h)
    view = view_of(run.recording(), depth=9)
    (constant,) = [box for box in view.boxes.values() if box.kind is BoxKind.CONSTANT]
    (norm,) = [scope for name, scope in view.recording.scopes.items() if name == constant.cluster]
    assert norm.name == "norm"


def test_loops_in_loops() -> None:
    """Both fold, one inside the other."""
    run = Builder()
    with run.scope("Loop"):
        x = h = run.input("x")
        for _ in range(8):
            h = run.op("exp", h)
            for _ in range(60):
                h = run.op("tanh", run.op("mul", h, run.op("sin", h)))
                h = run.op("add", h, run.op("cos", h))
    view = view_of(run.recording())
    assert sorted(count for count, _ in folds(view)) == [8, 60]
    assert len(view.boxes) == 8
    assert x in view.boxes


def test_steps_side_by_side() -> None:
    """Rounds that do not feed each other, all read by one op."""
    run = Builder()
    with run.scope("Heads"):
        x = run.input("x")
        parts = [run.op("tanh", run.op("getitem", x)) for _ in range(8)]
        run.op("cat", *parts)
    assert [count for count, _ in folds(view_of(run.recording()))] == [8]


def test_query_key_and_value_stay_three() -> None:
    """They are made alike, but one op reads them as different arguments."""
    run = Builder()
    with run.scope("Attention"):
        x = run.input("x")
        made = []
        for name in ("q", "k", "v"):
            h = run.op("linear", x, run.parameter(name))
            made.append(run.op("transpose", run.op("view", h)))
        run.op("attention", *made, slots=("query", "key", "value"))
    assert folds(view_of(run.recording())) == []


def test_depth_is_chosen_for_what_is_drawn() -> None:
    """A long loop that folds does not close the module it is in."""
    view = view_of(loop(400, cell))
    assert len(view.boxes) == 6


def test_loops_fold_in_the_backward_view() -> None:
    """From the first node of the pass, which no other precedes; not if the functions differ."""
    run = Builder("Loop")
    with run.scope("Loop"):
        h = run.input("x")
        for _ in range(20):
            h = run.op("tanh", run.op("relu", h, grads=("R",)), grads=("T",))
    assert [count for count, _ in folds(view_of(run.recording(), view="backward"))] == [20]
    run = Builder("Loop")
    with run.scope("Loop"):
        h = run.input("x")
        for number in range(12):
            name = "relu" if number % 3 else "selu"
            h = run.op(name, h, grads=(f"{name}Backward0",))
    folded = folds(view_of(run.recording(), view="backward"))
    assert [count for count, _ in folded] == [4]


class Drops(torch.nn.Module):
    """Residual blocks in which the rate of the dropout rises, as vision models have it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(place / 20))
            for place in range(6)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One after the other."""
        for layer in self.layers:
            x = x + layer(x)
        return x


def test_rates_of_what_is_off_make_no_difference() -> None:
    """In evaluation the layers are alike, in training they are not."""
    model = Drops()
    trained = view_of(torchrecorder.record(model, torch.ones(2, 4)), depth=1)
    assert folds(trained) == []
    view = view_of(torchrecorder.record(model.eval(), torch.ones(2, 4)), depth=1)
    assert [count for count, _ in folds(view)] == [6]


@given(recordings(steps=60), st.sampled_from([None, 1, 3, 9]))
def test_odd_runs(recording: Recording, depth: int | None) -> None:
    """Whatever the names, numbers and kinds: a view that holds together, and can be drawn."""
    view = view_of(recording, depth=depth)
    assert len(draw(view).shapes) == len(view.boxes)
    assert all(each.count > 1 for each in view.clusters.values() if each.id.startswith("block:"))


@pytest.mark.parametrize("cls, together", [("Block", True), ("Sequential", False)])
def test_layers_in_turn_are_known_by_a_class_of_their_own(cls: str, together: bool) -> None:
    """Whatever is in them; a container by the first module in it."""
    run = Builder()
    with run.scope("Net"):
        h = run.input()
        for place, inner in enumerate(("Conv", "Mixer", "Pool")):
            with run.scope(str(2 * place), cls):
                with run.scope("0", inner):
                    h = run.op("exp", h)
                h = linear(run, "1", h)
            with run.scope(str(2 * place + 1), "Norm"):
                h = run.op("norm", h)
    shown = boxes(view_of(run.recording(), depth=1, fold="similar"))
    assert shown == ["x", *(["0", "1"] if together else map(str, range(6))), "out:0"]
