"""Loops of which the rounds begin with loops, or prepare each other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import torchrecorder
from tests.figures import linear, view_of
from tests.views.test_blocks import folds
from tests.views.test_fold import block
from torchrecorder.testing import Builder


def test_a_round_that_prepares_the_next_one_folds() -> None:
    """Blocks are cut so that nothing passes a whole block."""
    run = Builder("Net")
    with run.scope("Net"):
        h, now, following = run.input("h"), run.input("now"), run.input("following")
        h = run.op("add", h, now)
        for place in range(3):
            now = following
            following = block(run, f"prepare.{place}", now)
            h = run.op("add", h, now)
    view = view_of(run.recording())
    assert [count for count, _ in folds(view)] == [3]


def test_two_scopes_before_blocks_that_begin_with_their_like() -> None:
    """Two boxes alone do not fold, so that the second belongs to the first block."""
    run = Builder("Net")
    with run.scope("Net"):
        h = linear(run, "a.0", run.input())
        for place in range(4):
            h = block(run, f"b.{place}", linear(run, f"a.{place + 1}", h))
    view = view_of(run.recording())
    assert [count for count, _ in folds(view)] == [4]


@pytest.mark.parametrize("rounds", [2, 3])
def test_a_loop_that_begins_with_a_loop(rounds: int) -> None:
    """Both fold, although the run of the outer one is longer and begins where the inner one does.

    Rounds of an outer loop are composed if those of the inner one are.
    """
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        for _ in range(rounds):
            for place in range(4):
                h = block(run, f"b.{place}", linear(run, f"a.{place}", h))
            h = run.op("relu", h)
    view = view_of(run.recording())
    assert sorted(count for count, _ in folds(view)) == [rounds, 4]


def test_stages_of_a_solver_are_one_iteration() -> None:
    """Midpoint, Runge-Kutta of order 4: all stages have the same operations, and only what they
    read tells them apart. Forward and backward."""
    field = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())

    def midpoint(x: Tensor) -> Tensor:
        for _ in range(6):
            half = x + field(x) / 20
            x = x + field(half) / 10
        return x

    def order_4(x: Tensor) -> Tensor:
        for _ in range(6):
            k_1 = field(x)
            k_2 = field(x + k_1 / 20)
            k_3 = field(x + k_2 / 20)
            k_4 = field(x + k_3 / 10)
            x = x + (k_1 + 2 * k_2 + 2 * k_3 + k_4) / 60
        return x

    for solve in (midpoint, order_4):
        recording = torchrecorder.record(solve, torch.ones(2, 4, requires_grad=True))
        for kind in ("forward", "backward"):
            assert max(folds(view_of(recording, view=kind)))[0] == 6
