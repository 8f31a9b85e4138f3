"""A module that returns a tensor which it has: a weight, a buffer, or a cached tensor."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import torchrecorder
from tests import figures
from tests.graph.test_consistency import changed
from tests.views.loops import loops, name_of, view_of
from torchrecorder.events import ScopeKind, Slot
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.bundles import FlowClassifier, FlowKind
from torchrecorder.views.view import BoxKind, View

X = torch.rand(2, 4)


class Weight(nn.Module):
    """A learned query."""

    def __init__(self) -> None:
        super().__init__()
        self.held = nn.Parameter(torch.rand(2, 4))

    def forward(self) -> torch.Tensor:
        return self.held


class Buffer(nn.Module):
    held: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("held", torch.rand(2, 4))

    def forward(self) -> torch.Tensor:
        return self.held


class Attribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.held = torch.rand(2, 4)

    def forward(self) -> torch.Tensor:
        return self.held


class Inside(nn.Module):
    """Returns what its module returns."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.cos(), self.inner()


class Net(nn.Module):
    """Reads the tensor that a module returns, in *use*."""

    def __init__(self, holder: nn.Module, use: Callable[[nn.Module, torch.Tensor], object]) -> None:
        super().__init__()
        self.holder = holder
        self.use = use

    def forward(self, x: torch.Tensor) -> object:
        return self.use(self.holder, x)


def arrows(view: View) -> list[tuple[str, str]]:
    """The ends of each arrow, by path or name."""
    scopes = view.recording.scopes

    def named(box: str) -> str:
        return scopes[box].path if box in scopes else name_of(view, box) or box

    return [(named(arrow.tail), named(arrow.head)) for arrow in view.arrows]


@pytest.mark.parametrize("holder", [Weight, Buffer, Attribute])
def test_what_reads_it_reads_it_from_the_module(holder: type[nn.Module]) -> None:
    """Whose box stands for the tensor, and says its shape."""
    net = Net(holder(), lambda held, x: x + held().exp())
    view = view_of(torchrecorder.record(net, X))
    assert ("holder", "exp") in arrows(view)
    sources = {BoxKind.PARAMETER, BoxKind.BUFFER, BoxKind.CONSTANT}
    assert sources.isdisjoint(box.kind for box in view.boxes.values())
    (line,) = [line for line in draw(view, Style()).lines if line.tail in view.recording.scopes]
    assert line.label == "2×4"
    assert {*FlowClassifier(view).all()} == {FlowKind.TENSOR}


@pytest.mark.parametrize("holder", [Weight, Buffer])
def test_its_box_leads_to_the_module_where_weights_are_drawn(holder: type[nn.Module]) -> None:
    view = view_of(torchrecorder.record(Net(holder(), lambda held, x: x + held()), X),
                   parameters=True)
    (box,) = [box.id for box in view.boxes.values() if box.kind not in
              (BoxKind.INPUT, BoxKind.OUTPUT, BoxKind.MODULE, BoxKind.OP)]
    assert [head for tail, head in arrows(view) if tail == box] == ["holder"]


def test_a_weight_that_identities_pass_on_is_read_from_the_last():
    """As where dropout is replaced in a model. Only the first reads the weight itself."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.positions = nn.Parameter(torch.rand(2, 4))
            self.drop = nn.Sequential(nn.Identity(), nn.Identity())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.drop(self.positions).exp()

    view = view_of(torchrecorder.record(Net(), X), depth=9, parameters=True, fold=False)
    (box,) = [box.id for box in view.boxes.values() if box.kind is BoxKind.PARAMETER]
    path = [box, "drop.0", "drop.1", "exp", "add"]
    found = arrows(view)
    assert sorted(found) == sorted({*found}) and {*zip(path, path[1:])} <= {*found}
    assert [tail for tail, _ in found].count(box) == 1


def test_each_of_several_calls_is_read_by_what_follows_it():
    net = Net(Weight(), lambda held, x: (held().exp() + x) * held().cos())
    view = view_of(torchrecorder.record(net, X), fold=False)
    first, second = (box for box in view.boxes if box in view.recording.scopes)
    heads = {arrow.tail: name_of(view, arrow.head) for arrow in view.arrows}
    assert heads[first] == "exp" and heads[second] == "cos"


def test_what_reads_the_tensor_before_the_call_reads_it_from_its_own_box():
    net = Net(Weight(), lambda held, x: (x * held.held, held() + 1))
    found = arrows(view_of(torchrecorder.record(net, X)))
    assert ("holder", "add") in found and ("holder", "mul") not in found


class Hides(Inside):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + self.inner(), x


@pytest.mark.parametrize("around, passed", [(Inside, True), (Hides, False)])
def test_a_module_around_it_returns_it_or_does_not(around: type[Inside], passed: bool) -> None:
    net = Net(around(Weight()), lambda held, x: (held(x)[0].sum(), held.inner.held.exp()))
    found = arrows(view_of(torchrecorder.record(net, X), depth=3))
    assert (("holder.inner", "exp") in found) is passed


class Given(nn.Module):
    """Reads the tensor that it is given."""

    def __init__(self, holder: Weight) -> None:
        super().__init__()
        self.holders = [holder]  # no submodule

    def forward(self, x: torch.Tensor, held: torch.Tensor) -> torch.Tensor:
        return x.tan() + held.exp()


class Taken(Given):
    """Reads the tensor where it is."""

    def forward(self, x: torch.Tensor, held: torch.Tensor) -> torch.Tensor:
        return super().forward(x, self.holders[0].held)


@pytest.mark.parametrize("reader, passed", [(Given, True), (Taken, False)])
def test_a_module_reads_it_if_it_is_given_it(reader: type[Given], passed: bool) -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.holder = Weight()
            self.reader = reader(self.holder)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.reader(x, self.holder() if passed else self.holder() + 1)
            return found

    found = arrows(view_of(torchrecorder.record(Both(), X), depth=2))
    assert (("holder", "exp") in found) is passed


def test_training_steps_fold_after_the_optimizer_wrote_it():
    net = Net(Weight(), lambda held, x: (x + held()).sum())
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with torchrecorder.Recorder(net) as recorder:
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.rand(2, 4)).backward()
            optimizer.step()
    view = view_of(recorder.recording)
    assert [count for _, count in loops(view)] == [3]
    (arrow,) = [one for one in arrows(view) if one[0] == "holder"]
    assert arrow[1] == "add"
    flows = FlowClassifier(view)
    assert {flows.kind(one) for one in view.arrows
            if view.boxes[one.tail].kind is BoxKind.MODULE} == {FlowKind.TENSOR}


def test_a_function_holds_nothing() -> None:
    """One that gives back what it was given, and runs nothing, is no module that has a tensor."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.op("exp", run.input("x"))
        with run.scope("same", "same", kind=ScopeKind.FUNCTION):
            pass
        run.op("relu", h)
    given = (Slot("0", h),)
    recording = changed(run.recording(), "scopes", "s1", inputs=given, outputs=given)
    drawn = figures.arrows(figures.view_of(recording, depth=1))
    assert "exp -> relu" in drawn and "same -> relu" not in drawn
