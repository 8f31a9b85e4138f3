"""Tensors as boxes of their own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from tests.figures import arrows, boxes, network, view_of
from torchrecorder.events import OpKind
from torchrecorder.testing import Builder
from torchrecorder.views import tensors
from torchrecorder.views.tensors import in_each


def test_tensors_as_boxes() -> None:
    """Between ops, but not beside inputs and outputs."""
    view = view_of(network(), depth=1, tensors=True)
    assert arrows(view) == [
        "x -> body",
        "x -> skip",
        "add -> out:0",
        "body -> inner",
        "inner -> add",
        "skip -> inner",
        "inner -> add",
    ]


class Skips(nn.Module):
    """A module that returns its input as it is, and an addition."""

    def __init__(self) -> None:
        super().__init__()
        self.same = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        (h,) = self.same([x.exp()])
        return h + 1


def test_a_tensor_that_a_module_returns_as_it_is_given_has_one_box() -> None:
    """Before the module, from which an arrow leads on."""
    view = view_of(torchrecorder.record(Skips(), torch.ones(2)), depth=1, tensors=True)
    assert arrows(view) == [
        "x -> exp", "same -> add", "add -> out:0", "exp -> inner", "inner -> same",
    ]


@pytest.mark.parametrize("order", [1, -1])
def test_a_tensor_of_which_two_operations_wrote_a_part_comes_after_both(order: int) -> None:
    """Whichever part is its first."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        halves = run.op("exp", x), run.op("sin", x)
        run.op("tanh", run.op("join", *halves[::order], kind=OpKind.PASS))
    view = view_of(run.recording(), depth=1, tensors=True)
    assert boxes(view) == ["x", "exp", "sin", "inner", "tanh", "out:0"]


def test_results_of_one_call_are_not_searched_for_each_of_them() -> None:
    """Those of several calls are at the same index, if they have as many."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for _ in range(2):
            run.op("split", x, outputs=2)
        run.op("relu", x)
    recording = run.recording()
    first, second, relu = (op.outputs for op in recording.ops.values())
    calls = [*recording.ops]
    for some in (calls, calls[:2]):
        assert in_each(recording, some, second[1]) == (first[1], second[1])
    assert in_each(recording, calls, second[0]) == (first[0], second[0], *relu)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensors, "results", None)
        assert in_each(recording, calls[:1], first[1]) == (first[1],)
