"""Loops whose rounds read what was made several rounds before, or take turns, fold all the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from tests.views.loops import loops, view_of

LAYERS = nn.ModuleList([nn.Linear(3, 3) for _ in range(8)])


def _reversible(x: Tensor) -> Tensor:
    """Two halves, each of which adds to the other."""
    other = x + 1
    for place in range(0, 8, 2):
        x = x + LAYERS[place](other)
        other = other + LAYERS[place + 1](x)
    return x * other


def _verlet(x: Tensor) -> Tensor:
    """Each position follows from the two before."""
    before, now = x, x + 0.1
    for _ in range(12):
        before, now = now, 2 * now - before + 0.1 * now.sin()
    return now


def _adams_bashforth(x: Tensor) -> Tensor:
    """Each step reads the slopes of the two steps before."""
    slopes = [x.tan(), x.cos()]
    for _ in range(13):
        slopes.append(x.sin())
        x = x + 23 * slopes[-1] - 16 * slopes[-2] + 5 * slopes[-3]
    return x


def _fourth_order(x: Tensor) -> Tensor:
    """Each step reads the one four steps before."""
    last = [x.tan(), x.cos(), x.exp(), x]
    for _ in range(12):
        last.append(last[-4].sin() + last[-1])
    return last[-1]


def _trotter(x: Tensor) -> Tensor:
    """Two operators take turns."""
    one, other = x.mT @ x, x.mT @ x.exp()
    for step in range(5):
        x = x @ torch.matrix_exp(0.1 * step * one)
        x = x @ torch.matrix_exp(0.2 * step * other)
    return x


@pytest.mark.parametrize(
    "program, counts",
    [(_reversible, [4]), (_verlet, [6]), (_adams_bashforth, [6]), (_fourth_order, [3]),
     (_trotter, [5])],
)
def test_several_rounds_are_one(program: Callable[[Tensor], Tensor], counts: list[int]) -> None:
    """They pass values only to the next ones; a round that is left over is drawn apart."""
    view = view_of(torchrecorder.record(program, torch.rand(2, 3)), depth=9)
    assert [times for _, times in loops(view)] == counts
    assert all(cluster.carried for cluster in view.clusters.values() if cluster.count > 1)


def test_a_value_that_is_read_late_once_is_no_pattern() -> None:
    """The rounds around it fold as before."""

    def program(x: Tensor) -> Tensor:
        kept = x
        for place in range(12):
            x = (x.sin() + 1).cos() + (kept if place == 9 else x)
            kept = x if place == 7 else kept
        return x

    view = view_of(torchrecorder.record(program, torch.rand(2, 3)))
    assert max(times for _, times in loops(view)) >= 8
    assert {len(names) for names, _ in loops(view)} == {4}
