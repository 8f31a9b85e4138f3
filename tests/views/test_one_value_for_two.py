"""One tensor that is given as two arguments in one round of a loop, and two in the others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from torchrecorder.views.pipeline import ViewOptions, make_view


class Mixed(nn.Module):
    """Reads two tensors of one shape."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        mixed: Tensor = self.one(x).relu() + self.other(memory)
        return mixed


def counts(function: Callable[..., object], *tensors: Tensor, depth: int | None = None) -> set[int]:
    """How many siblings the boxes and clusters of a figure stand for, apart from one."""
    view = make_view(torchrecorder.record(function, tensors), ViewOptions(depth=depth))
    view.check()
    counts = [box.count for box in view.boxes.values()]
    return {*counts, *(cluster.count for cluster in view.clusters.values())} - {1}


@pytest.mark.parametrize("depth", [1, 99])
@pytest.mark.parametrize("alike", [True, False])
def test_the_first_state_of_a_loop_may_be_one_tensor(alike: bool, depth: int) -> None:
    """As in ``h = c = zeros``."""
    cell, head = nn.LSTMCell(4, 4), nn.Linear(4, 2)

    def run(steps: Tensor) -> Tensor:
        h = c = torch.zeros(3, 4)
        c = c if alike else torch.zeros(3, 4)
        found = []
        for x in steps.unbind():
            h, c = cell(x, (h, c))
            found.append(head(h).sigmoid())
        return torch.stack(found)

    assert counts(run, torch.ones(6, 3, 4), depth=depth) == {6}


@pytest.mark.parametrize("depth", [1, 99])
def test_every_round_may_be_given_one_tensor_twice(depth: int) -> None:
    layers = nn.ModuleList([Mixed() for _ in range(4)])

    def run(x: Tensor) -> Tensor:
        for layer in layers:
            x = layer(x, x)
        return x

    assert counts(run, torch.ones(2, 4), depth=depth) == {4}


@pytest.mark.parametrize("depth", [1, 99])
def test_all_rounds_read_what_the_first_begins_with(depth: int) -> None:
    """For the first it is both arguments."""
    layers = nn.ModuleList([Mixed() for _ in range(4)])

    def run(x: Tensor) -> Tensor:
        memory = x
        for layer in layers:
            x = layer(x, memory)
        return x

    assert counts(run, torch.ones(2, 4), depth=depth) == {4}


@pytest.mark.parametrize("depth", [1, 99])
def test_a_first_round_without_what_the_others_read_stays_beside_them(depth: int) -> None:
    """It does not read the memory, and the figure must not say so."""
    layers = nn.ModuleList([Mixed() for _ in range(4)])

    def run(x: Tensor, memory: Tensor) -> Tensor:
        x = layers[0](x, x)
        for layer in layers[1:]:
            x = layer(x, memory)
        return x

    assert counts(run, torch.ones(2, 4), torch.ones(2, 4), depth=depth) == {3}


def structures(function: Callable[..., object], count: int, cls: str) -> int:
    """How many structures the calls of modules of a class have."""
    recording = torchrecorder.record(function, (torch.ones(2, 4),) * count)
    scopes = [scope.id for scope in recording.scopes.values() if scope.cls == cls]
    return len({recording.structures[scope] for scope in scopes})


def test_weights_that_are_one_are_not_two() -> None:
    """Two layers that share their weights have another structure than two that do not."""
    tied, free = Mixed(), Mixed()
    tied.other.weight, tied.other.bias = tied.one.weight, tied.one.bias
    assert structures(lambda x, y: free(tied(x, y), y), 2, "Mixed") == 2


def test_arguments_that_are_one_value_do_not_change_the_structure() -> None:
    mixed = Mixed()
    assert structures(lambda x, y: mixed(mixed(x, x), y), 2, "Mixed") == 1


class Twice(nn.Module):
    """Adds two results of its own, or one to itself."""

    def forward(self, x: Tensor, twice: bool) -> Tensor:
        one, other = x.sin(), x.cos()
        return one + (one if twice else other)


def test_which_of_their_own_values_steps_read_does() -> None:
    model = Twice()
    assert structures(lambda x: model(model(x, True), False), 1, "Twice") == 2
