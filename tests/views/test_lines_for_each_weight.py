"""Which lines of a program run for each weight of a model, and which do not."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

import torchrecorder
from tests.views.loops import X, loops, made, name_of, recorded, squares, view_of
from torchrecorder.events import ValueId
from torchrecorder.views.view import BoxKind


def test_batches_of_different_sizes_are_no_weights() -> None:
    """They are constants, too, but only read."""
    net = made()
    batches = [torch.ones(number, 3) for number in (4, 4, 4, 2)]

    def program() -> None:
        for batch in batches:
            net(batch * 2)

    recording = recorded(net, program)
    assert not recording.weight_loops
    names = [name_of(view_of(recording), box) for box in view_of(recording).boxes]
    assert names.count("mul") == 2


def test_other_lines_are_other_loops() -> None:
    net = made()

    def program() -> torch.Tensor:
        found = [weight.exp().sum() for weight in net.parameters()]
        found += [weight.exp().sum() for weight in net.parameters()]
        return torch.stack(found)

    assert loops(view_of(recorded(net, program))) == [(["exp", "sum"], 8), (["exp", "sum"], 8)]


def test_equal_steps_of_a_weight_from_several_lines_still_fold() -> None:
    """A line that reads the same weight in each round is no loop over weights."""
    weight = nn.Parameter(torch.ones(3))

    def program() -> torch.Tensor:
        found = []
        for _ in range(2):
            one = weight.exp().sum()
            two = weight.exp().sum()
            four = weight.exp().sum()
            found += [one, two, four]
        return torch.stack(found)

    recording = torchrecorder.record(program)
    assert not recording.weight_loops
    assert loops(view_of(recording)) == [(["exp", "sum"], 6)]


def test_activations_of_different_shapes_are_no_weights() -> None:
    """Only weights, gradients, and what is made of these; others fold with calls of a module."""
    net = made()

    def program() -> torch.Tensor:
        sizes = [torch.ones(number, 3) for number in range(2, 10)]
        return torch.stack([net(size).exp().sum() for size in sizes])

    recording = recorded(net, program)
    assert not recording.weight_loops
    assert (["exp", "sum"], 8) in loops(view_of(recording))


class Mixed(nn.Module):
    """Weighs its input with the sum of its own weights."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.ones(number, 2) for number in range(1, 6))
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = torch.stack([weight.softmax(-1).sum() for weight in self.weights])
        return self.layer(x) * kept.sum()  # type: ignore[no-any-return]


def test_weights_that_a_module_reads_itself_are_drawn() -> None:
    """They are inputs of the model as a class token is; its loop folds all the same."""
    view = view_of(torchrecorder.record(Mixed(), X), depth=9)
    assert loops(view) == [(["softmax", "sum"], 5)]
    assert sum(box.kind is BoxKind.PARAMETER for box in view.boxes.values()) == 5


def test_weights_of_a_model_that_did_not_run() -> None:
    """And one that the recorder was not given."""
    net = made()
    view = view_of(recorded(nn.Tanh(), lambda: torch.stack([*squares(net)])))
    assert loops(view) == [(["pow", "sum"], 8)]


def test_gradients_from_before_the_run() -> None:
    net = made()
    net(X).sum().backward()

    def norms() -> Iterator[torch.Tensor]:
        for weight in net.parameters():
            assert weight.grad is not None
            yield weight.grad.norm()

    view = view_of(recorded(net, lambda: (net(X), torch.stack([*norms()]))))
    assert loops(view) == [(["norm"], 8)]


class Scaled(nn.Module):
    """A layer that computes its weight from two others."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight, self.scale = (nn.Parameter(torch.ones(3, size)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ (self.weight * self.scale)


def test_a_line_of_several_modules_is_no_loop() -> None:
    layers = [Scaled(size) for size in (3, 4, 5)]
    recording = torchrecorder.record(lambda: [layer(X) for layer in layers])
    assert not recording.weight_loops


def test_other_lines_for_other_weights_are_no_loop() -> None:
    net = nn.Bilinear(3, 3, 4)
    net.third = nn.Parameter(torch.ones(2))
    recording = recorded(net, lambda: (net.weight.exp(), net.bias.exp(), net.third.exp()))
    assert len(recording.weight_loops) == 3  # one line
    net = nn.Linear(3, 4)

    def program() -> torch.Tensor:
        one = net.weight.exp()
        two = net.bias.exp()
        return one @ X.T + two[:, None]

    assert not recorded(net, program).weight_loops


def test_a_parameter_that_is_read_with_each_weight_is_drawn() -> None:
    """A step size that is learned is none of the weights, which are not drawn."""
    net = made()
    size = nn.Parameter(torch.tensor(0.1))
    net.register_parameter("size", size)

    def program() -> None:
        weights = [weight for weight in net.parameters() if weight is not size]
        gradients = torch.autograd.grad(net(X).sum(), weights, create_graph=True)
        found = [weight - size * each for weight, each in zip(weights, gradients)]
        torch.stack([weight.square().sum() for weight in found]).sum().backward()

    view = view_of(recorded(net, program))
    (box,) = (box.id for box in view.boxes.values() if box.kind is BoxKind.PARAMETER)
    assert view.recording.values[ValueId(box)].names == ("size",)
    assert {name_of(view, arrow.head) for arrow in view.arrows if arrow.tail == box} == {"mul"}
    assert (["mul", "sub"], 8) in loops(view)


def test_two_weights_are_drawn() -> None:
    """Two rounds of a line do not fold: each would be without an input."""
    net = nn.Linear(3, 3)
    view = view_of(recorded(net, lambda: (net(X), [*squares(net)])))
    assert not loops(view)
    readers = [arrow.head for arrow in view.arrows if view.boxes[arrow.tail].kind
               is BoxKind.PARAMETER]
    names = [name_of(view, head) for head in readers]
    assert sorted(names) == ["", "", "pow", "pow"]  # "": the model


def test_weights_are_drawn_if_nothing_folds() -> None:
    net = made()
    recording = recorded(nn.Tanh(), lambda: torch.stack([*squares(net)]))
    view = torchrecorder.view(recording, fold=False)
    weights = {box.id for box in view.boxes.values() if box.kind is BoxKind.PARAMETER}
    read = {arrow.head for arrow in view.arrows if arrow.tail in weights}
    squared = {op.id for op in recording.ops.values() if op.name == "pow"}
    assert len(squared) == 8 and read == squared


class Average(nn.Module):
    """Updates averaged weights in its forward, as encoders of keys in contrastive learning do."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = (nn.Sequential(*(nn.Linear(4, 4) for _ in range(4))) for _ in "12")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query = self.query(x)
        with torch.no_grad():
            for old, new in zip(self.key.parameters(), self.query.parameters()):
                old.data = old.data * 0.9 + new.data * 0.1
            key = self.key(x)
        return (query * key).sum()


def test_weights_that_a_module_averages_are_no_boxes() -> None:
    """The encoder that has them is drawn: neither a figure of all operations nor a page of them
    has a box for each."""
    recording = torchrecorder.record(Average(), torch.ones(2, 4))
    view = torchrecorder.view(recording, depth=3)
    assert not [box for box in view.boxes.values() if box.kind is BoxKind.PARAMETER]
    with_gradients = Average()
    with_gradients.forward = lambda x: sum(  # type: ignore[method-assign, assignment]
        weight.square().sum() for weight in with_gradients.query.parameters()
    ) + with_gradients.query(x).sum()
    view = torchrecorder.view(torchrecorder.record(with_gradients, torch.ones(2, 4)), depth=3)
    assert [box for box in view.boxes.values() if box.kind is BoxKind.PARAMETER]
