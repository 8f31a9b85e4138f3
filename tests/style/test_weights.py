"""What boxes say of their parameters."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from tests.figures import linear
from tests.style.test_draw import figure_of, texts
from torchrecorder.recording import Recording
from torchrecorder.style.captions import Captions
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.tree import Tree


def with_frozen(recording: Recording, frozen: Collection[str]) -> Recording:
    """*recording*, in which the parameters with these names are not trained."""
    values = {
        each.id: each.replace(trainable=False) if set(each.names) & set(frozen) else each
        for each in recording.values.values()
    }
    return replace(recording, values=values)


def adapted() -> Recording:
    """A layer with a small one beside it, and a head."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        with run.scope("layer", "Adapted"):
            base = linear(run, "base", x)
            x = run.op("add", base, run.op("matmul", x, run.parameter("low", (4, 2))))
        linear(run, "head", x)
    return run.recording()


def stack() -> Recording:
    """Four equal layers, which are one box."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for place in range(4):
            with run.scope(str(place), "Layer"):
                x = run.op("relu", linear(run, "fc", x))
    return run.recording()


def test_frozen_parameters_are_reported_beside_trained_ones() -> None:
    """A box says that all of its own are frozen, or how many of them are trained."""
    figure = figure_of(with_frozen(adapted(), ["layer.base.weight", "head.weight"]), depth=1)
    layer, head = (said[-1] for said in texts(figure).values() if "params" in said[-1])
    assert (layer, head) == ("24 params, 8 trained", "16 params, frozen")


def test_a_few_frozen_ones_among_many() -> None:
    """Their number, where that of the trained ones reads as that of all."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        with run.scope("head", "Head"):
            x = run.op("matmul", x, run.parameter("weight", (500, 400)))
            run.op("mul", x, run.parameter("bins", (16,)))
    found = texts(figure_of(with_frozen(run.recording(), ["head.bins"]), depth=1))
    assert ["head: Head", "200 k params, 16 frozen"] in found.values()


def test_nothing_is_stated_where_all_are_alike() -> None:
    """A model that is trained, or frozen, as a whole."""
    plain, frozen = (
        with_frozen(adapted(), names)
        for names in ([], ["layer.base.weight", "layer.low", "head.weight"])
    )
    assert texts(figure_of(plain)) == texts(figure_of(frozen))


@pytest.mark.parametrize(("frozen", "said"), [
    ("0123", ["4 × 16 params", "16 params"]),
    ("012", ["4 × 16 params, 3 of 4 frozen", "16 params, 3 of 4 frozen"]),
    ("3", ["4 × 16 params, 1 of 4 frozen", "16 params, 1 of 4 frozen"]),
])
def test_a_fold_shows_how_many_of_its_siblings_are_frozen(frozen: str, said: list[str]) -> None:
    """The first does not speak for the others, whether the fold is closed or open."""
    recording = with_frozen(stack(), [f"{each}.fc.weight" for each in frozen])
    found = [
        line
        for depth in (1, 2)
        for lines in texts(figure_of(recording, depth=depth)).values()
        for line in lines
        if "params" in line
    ]
    assert found == said


def test_an_open_module_shows_which_call_it_is() -> None:
    """Two frames of one module could be taken for two modules; counts=False leaves it out."""
    run = Builder("Net")
    with run.scope("Net"):
        found = []
        for name in "ab":
            with run.scope("twin", "Twin"):
                found.append(run.op("relu", linear(run, "fc", run.input(name))))
        run.op("sub", *found)
    told, quiet = (
        [[line.text for line in group.label] for group in
         figure_of(run.recording(), Style(counts=counts), depth=2).groups]
        for counts in (True, False)
    )
    assert told == [["Net"], ["twin: Twin", "call 1 of 2"], ["twin: Twin", "call 2 of 2"]]
    assert quiet == [["Net"], ["twin: Twin"], ["twin: Twin"]]


class Gain(nn.Module):
    """A layer of one's own, with operations that read its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """In a mode of its own, in part."""
        with torch.no_grad():
            scale = x.abs().mean()
        return x / scale * self.gain + self.shift


def corners(model: nn.Module, **options: Any) -> dict[str, list[str]]:
    """The lines under the title of each open module, by its name."""
    view = make_view(torchrecorder.record(model, torch.ones(2, 3)), ViewOptions(**options))
    return {
        group.label[0].text: [text.text for text in group.label[1:]]
        for group in draw(view).groups
    }


def test_an_open_layer_shows_how_many_it_has() -> None:
    """As no box in it does; what is around it says nothing, and it neither where they have
    boxes."""
    model = nn.Sequential(Gain(), nn.Sequential(Gain(), nn.Linear(3, 3)))
    found = corners(model, depth=9, fold=False)
    assert found["0: Gain"] == ["6 params"] and found["1: Linear"] == ["3 → 3", "12 params"]
    assert found["Sequential"] == found["1: Sequential"] == []
    assert corners(model, depth=9, fold=False, parameters=True)["0: Gain"] == []


def test_an_open_layer_shows_whether_they_are_trained() -> None:
    """Where some of the model are not."""
    first, last = Gain(), Gain()
    first.gain.requires_grad_(False)
    model = nn.Sequential(first, Gain(), last.requires_grad_(False), last)
    found = corners(model, depth=9, fold=False)
    assert found["0: Gain"] == ["6 params, 3 trained"] and found["1: Gain"] == ["6 params"]
    assert found["2: Gain"] == ["6 params, frozen, call 2 of 2"]


class Biased(nn.Module):
    """A layer, and what is added to what it gives."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.token = nn.Linear(3, 3), nn.Parameter(torch.ones(3))
        self.bias, self.late = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The token has a box, the bias has none; the third is not used."""
        return nn.functional.layer_norm(self.layer(x) + self.token, (3,), None, self.bias)


def test_what_a_module_with_others_has_itself() -> None:
    """As far as it has no boxes, beside what the others have."""
    assert corners(Biased(), depth=9)["Biased"] == ["6 params of its own"]
    assert corners(Biased(), depth=9, parameters=True)["Biased"] == ["3 params of its own"]
    with_others = nn.Sequential(torch.nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)))
    found = corners(with_others, depth=9)
    assert found["0: ParametrizedLinear"] == ["3 → 3", "3 params of its own"]


def scaled(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    """Two operations."""
    return (x * gain).tanh()


class Scaling(nn.Module):
    """A layer, a function that reads one of its weights, and an operation that reads another."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.gain = nn.Linear(3, 3), nn.Parameter(torch.ones(3))
        self.bias = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.layer_norm(scaled(self.layer(x), self.gain), (3,), None, self.bias)


class Head(nn.Module):
    """A layer whose bias it has too, as heads of language models do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.gain = nn.Linear(3, 3), nn.Parameter(torch.ones(3))
        self.bias = self.layer.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.layer_norm(self.layer(x), (3,), self.gain)


def test_what_a_layer_has_too_is_not_counted_again() -> None:
    """Where the layer has a box, or, open, a caption."""
    for depth in (1, 9):
        assert corners(Head(), depth=depth)["Head"] == ["3 params of its own"]


def test_a_closed_function_has_what_it_reads() -> None:
    """The module around it does not count that again."""
    shown = {"depth": 1, "functions": True}
    view = make_view(
        torchrecorder.record(Scaling(), torch.ones(2, 3)), ViewOptions(**shown)
    )
    figure = draw(view)
    (function,) = (shape for shape in figure.shapes if shape.label[0].text == "scaled()")
    assert "3 params" in [text.text for text in function.label[1:]]
    assert corners(Scaling(), **shown)["Scaling"] == ["3 params of its own"]


class Loop(nn.Module):
    """Rounds of a cell, and of what each round has alone."""

    def __init__(self, rounds: int, own: bool, shared: bool) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 4) if shared else nn.Identity()
        self.own = nn.ModuleList(nn.Linear(4, 4) for _ in range(rounds if own else 0))
        self.rounds = rounds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Blocks of two modules or a module and operations."""
        for number in range(self.rounds):
            x = self.cell(x, x) if isinstance(self.cell, nn.GRUCell) else self.cell(x)
            x = self.own[number](x) if self.own else x.sin()
            x = x.tanh()
        return x


def of_folds(model: nn.Module) -> list[str]:
    """The parameters on each closed fold."""
    view = make_view(torchrecorder.record(model, torch.ones(2, 4)), ViewOptions())
    assert view.unfolded is not None
    tree, captions = Tree(view.unfolded()), Captions(view, Style())
    lines = (captions.box(box) for box in tree.folds() if is_block(box.id))
    return [line.text for found in lines for line in found if "params" in line.text]


@pytest.mark.parametrize(
    ("own", "shared", "expected"),
    [
        (True, False, ["4 × 20 params"]),
        (False, True, ["120 params"]),
        (True, True, ["200 params"]),
        (False, False, []),
    ],
)
def test_a_closed_loop_has_the_parameters_of_its_rounds(
    own: bool, shared: bool, expected: list[str]
) -> None:
    """Those of each where they differ; those that all share count once."""
    assert of_folds(Loop(4, own, shared)) == expected


def test_a_closed_loop_shows_what_is_trained() -> None:
    """If some of the model are not."""
    model = Loop(4, own=True, shared=False)
    model.own[1].requires_grad_(False)
    assert of_folds(model) == ["4 × 20 params, 1 of 4 frozen"]
    model.own[1].bias.requires_grad_(True)
    assert of_folds(model) == ["4 × 20 params, partly frozen"]


class Scan(nn.Module):
    """Calls a function of its own, which reads a weight of the module."""

    def __init__(self) -> None:
        super().__init__()
        self.skip = nn.Parameter(torch.ones(4))
        self.inside = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.scan(x).relu()

    def scan(self, x: Tensor) -> Tensor:
        """Two operations and a layer."""
        return self.inside(x).sin() * self.skip


def test_a_weight_in_a_function_has_the_name_that_its_module_gives_it() -> None:
    """As beside the function."""
    model = nn.Sequential(Scan(), nn.Linear(4, 2))
    recording = torchrecorder.record(model, torch.ones(2, 4))
    view = make_view(recording, ViewOptions(depth=9, functions=True, parameters=True))
    found = {shape.label[0].text for shape in draw(view).shapes}
    assert "skip" in found
    assert any(scope.name == "scan" for scope in view.recording.scopes.values())
    assert not [title for title in found if title.endswith(".skip")]
