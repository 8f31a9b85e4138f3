"""Hidden boxes: what they read is connected to the readers of what they made of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import torchrecorder
from tests.figures import boxes, name
from tests.work import growth
from torchrecorder.events import OpKind
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind, View
from torchrecorder.views.without import without

X = torch.ones(3)


def arrows(view: View) -> set[tuple[str, str]]:
    view.check()
    return {(name(view, arrow.tail), name(view, arrow.head)) for arrow in view.arrows}


def test_a_hidden_transfer_connects_each_weight_to_its_own_readers() -> None:
    """A move to the device where a model is changes nothing, and is not drawn."""

    def run(x: Tensor) -> Tensor:
        first, second = nn.Linear(3, 3), nn.Linear(3, 3)
        model = nn.ModuleDict({"first": first, "second": second}).to("cpu")
        return model["second"](model["first"](x))  # type: ignore[no-any-return]

    recording = torchrecorder.record(run, (torch.rand(1, 3),))
    view = make_view(recording, ViewOptions(depth=1, fold=False))
    made = [box for box in view.boxes if name(view, box) == "Linear.__init__"]
    heads = [{arrow.head for arrow in view.arrows if arrow.tail == box} for box in made]
    calls = [box for box in view.boxes if view.boxes[box].kind is BoxKind.MODULE]
    assert heads == [{calls[0]}, {calls[1]}]


class Shares(nn.Module):
    """Two modules with one layer, and the layer once more."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.Linear(3, 3)
        self.first, self.second = nn.Sequential(layer), nn.Sequential(layer)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x)) + self.first[0](x)


def test_the_weights_of_a_hidden_call_do_not_lead_to_what_read_its_result() -> None:
    """As those of a hidden module that shares none, which are inside of its box."""
    recording = torchrecorder.record(Shares(), torch.ones(2, 3))
    view = make_view(recording, ViewOptions(depth=2, hide="first.0"))
    assert arrows(view) == {("x", "second.0"), ("second.0", "add"), ("x", "add"), ("add", "out:0")}
    view = make_view(recording, ViewOptions(depth=2, hide="first.0", parameters=True))
    weights = {("first.0.weight", "second.0"), ("first.0.bias", "second.0")}
    assert {each for each in arrows(view) if each[0].startswith("first")} == weights
    view = make_view(recording, ViewOptions(depth=2, hide="first.0, second.0", parameters=True))
    assert arrows(view) == {("x", "add"), ("add", "out:0")}
    assert set(view.boxes) == {box for arrow in view.arrows for box in (arrow.tail, arrow.head)}


class Twice(nn.Module):
    """A layer that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x) + self.layer(x * 2))  # type: ignore[no-any-return]


def test_a_step_does_not_lead_to_the_weights_of_hidden_calls() -> None:
    """Nothing else reads what it has written to them."""
    model, x = Twice(), torch.ones(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torchrecorder.Recorder(model) as recorder:
        model(x).sum().backward()
        optimizer.step()
        y = model(x)
    view = make_view(recorder.recording, ViewOptions(depth=1, hide="layer"))
    assert y.shape == (2, 3) and ("SGD", "head") in arrows(view)
    assert "layer" not in {name(view, box) for box in view.boxes}


class Pair(nn.Module):
    """Two results, of one input each."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x.relu(), (y * 2).tanh()


class Both(nn.Module):
    """Two results of both inputs."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        z = x + y
        return z.relu(), z.tanh()


class Mixed(nn.Module):
    """A result of both inputs, which it computes in steps, and one of an input."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x.exp() + y.neg(), x.tanh()


def hidden(module: nn.Module) -> set[tuple[str, str]]:
    """The arrows of a net without its *module*."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            a, b = self.module(x, y)
            return a.sin(), b.cos()

    recording = torchrecorder.record(Net(), (torch.rand(2), torch.rand(2)))
    return arrows(make_view(recording, ViewOptions(hide="module")))


def test_results_of_a_hidden_module_come_from_what_they_were_computed_of() -> None:
    ends = {("sin", "out:0"), ("cos", "out:1")}
    assert hidden(Pair()) == {("x", "sin"), ("y", "cos"), *ends}
    both = {(tail, head) for tail in ("x", "y") for head in ("sin", "cos")}
    assert hidden(Both()) == {*both, *ends}
    assert hidden(Mixed()) == both - {("y", "cos")} | ends


class Returns(nn.Module):
    """Returns tensors that it has, as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.scale, self.shift = nn.Parameter(X), X.clone(), X.clone()

    def forward(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.weight, self.scale, self.shift


class ReadsEach(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.held = Returns()

    def forward(self, x: Tensor) -> Tensor:
        weight, scale, shift = self.held()
        return x + weight.cos() + scale.sin() + shift.exp()


def test_each_tensor_that_a_hidden_module_has_and_returns_leads_to_its_own_readers() -> None:
    """Constants do; its weights are inside of it."""
    recording = torchrecorder.record(ReadsEach(), X)
    found = arrows(make_view(recording, ViewOptions(depth=1, hide="held", fold=False)))
    heads = {"cos", "sin", "exp"}
    assert {each for each in found if each[1] in heads} == {
        ("held.scale", "sin"), ("held.shift", "exp")
    }


def test_an_arrow_past_a_hidden_identity_carries_the_result_of_the_box_before() -> None:
    """Not what that box was given, although it returns this unchanged."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        with run.scope("pair", "Pair"):
            same = run.op("pass", x, kind=OpKind.PASS)
            run.returns(same, run.op("relu", x))
        with run.scope("identity", "Identity"):
            again = run.op("pass", same, kind=OpKind.PASS)
        run.op("sin", again)
    view = make_view(run.recording(), ViewOptions(depth=1))
    view = without(view, [box for box in view.boxes if name(view, box) == "identity"])
    (arrow,) = [arrow for arrow in view.arrows if name(view, arrow.head) == "sin"]
    assert name(view, arrow.tail) == "pair" and arrow.value in (same, again)


class Started(nn.Module):
    """Looks at a number when it is made."""

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.start = start.item()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.start


def test_an_init_that_only_reads_numbers_is_drawn_with_queries() -> None:
    """It makes nothing that the model uses as a tensor."""
    recording = torchrecorder.record(lambda x: Started(x.sum())(x), (torch.rand(4),))
    for queries in (False, True):
        view = make_view(recording, ViewOptions(depth=1, queries=queries))
        names = [name(view, box) for box in view.boxes]
        assert ("Started.__init__" in names) is queries


def test_the_work_is_in_proportion_to_the_number_of_results() -> None:
    """As of an optimizer step, which writes many weights."""

    def step(size: int) -> Callable[[], Any]:
        run = Builder("Net")
        given = [run.input(f"x{place}") for place in range(size)]
        with run.scope("step", "Step"):
            made = [run.op("exp", value) for value in given]
        for value in made:
            run.op("sin", value)
        view = make_view(run.recording(), ViewOptions(depth=0, fold=False))
        (box,) = (box.id for box in view.boxes.values() if box.kind is BoxKind.MODULE)
        return lambda: without(view, [box])

    assert growth(step, 50) < 2.2


def test_a_module_that_only_reshapes_its_weight_stays() -> None:
    """Its operation and its weight are hidden, and it does not vanish with them."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        with run.scope("query", "Query"):
            given = run.op("view", run.parameter("weight"))
        run.op("add", x, given)
    view = make_view(run.recording(), ViewOptions(depth=9, reshapes=False))
    assert boxes(view) == ["x", "query", "add", "out:0"]


def test_patterns_find_modules_by_their_own_names() -> None:
    """As names do, wherever a module is; and with ``closed``, too."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input()
        with run.scope("block", "Block"):
            for scope, op in (("norm1", "layer_norm"), ("act", "relu"), ("norm2", "layer_norm")):
                with run.scope(scope, "Part"):
                    x = run.op(op, run.op("mul", x))
    recording = run.recording()
    hidden = make_view(recording, ViewOptions(depth=2, hide="norm?"))
    assert boxes(hidden) == ["x", "block.act", "out:0"]
    closed = make_view(recording, ViewOptions(depth="ops", closed="norm?"))
    assert boxes(closed) == ["x", "block.norm1", "mul", "relu", "block.norm2", "out:0"]
