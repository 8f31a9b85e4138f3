"""Grad nodes that another thread made, or that have no number: which are known, and which new."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import torchrecorder
from tests.notation import flow
from tests.structure import structure
from tests.zoo.case import leaf, net
from torchrecorder.capture.autograd.thread_nodes import LEAF, ThreadNodes
from torchrecorder.capture.autograd.walk import AutogradWalk
from torchrecorder.events import GradEdge

pytestmark = pytest.mark.usefixtures("strict")


def walk_of(recorder: Any) -> AutogradWalk:
    """The walk of the recorder's own thread."""
    found: AutogradWalk = recorder._instruments.autograd
    return found


def node(number: int, variable: object = None) -> Any:
    """A grad node with this number."""
    return SimpleNamespace(_sequence_nr=lambda: number, variable=variable)


def edge(grad: str, index: int = 0) -> GradEdge:
    """A recorded edge."""
    return GradEdge(grad, index)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("recorded", "parent", "same"),
    [
        (None, (None, 0), True),
        (None, (node(5), 0), False),
        (edge("g5"), (None, 0), False),
        (edge("g5"), (node(5), 0), True),
        (edge("g5", 1), (node(5), 0), False),
        (edge("g6"), (node(5), 0), False),
        (edge("g9"), (node(9), 0), False),
        (edge("g1"), (node(LEAF, "weight"), 0), True),
        (edge("g2"), (node(LEAF, "weight"), 0), False),
        (edge("g1"), (node(LEAF, "unknown"), 0), False),
        (edge("g5", 1), (node(7), 0), True),
        (edge("g5"), (node(7), 0), False),
        (edge("g7"), (node(8), 0), True),
    ],
)
def test_recorded_edges_lead_to_nodes(recorded: Any, parent: Any, same: bool) -> None:
    """By number and output; to leaves by their tensors; past the recorder's aliases."""
    values = SimpleNamespace(peek={"weight": "v1"}.get)
    walk: Any = SimpleNamespace(
        values=values, leaves={"v1": "g1"}, passed={7: edge("g5", 1), 8: edge("g5")})
    nodes = ThreadNodes(walk)
    nodes._numbers = {"g5": 5, "g6": 6, "g7": 8}  # type: ignore[dict-item]
    assert nodes._leads(recorded, parent) is same


@pytest.mark.parametrize(("function", "wanted"), [
    (torch.cos, ["cos = cos?(ones)", "mul = mul(cos, sin)"]),
    (torch.sin, ["sin2 = sin?(ones)", "mul = mul(sin2, sin)"]),
])
def test_a_node_of_a_waiting_thread_shows_itself(function: Any, wanted: list[str]) -> None:
    """By a number that is another node's here, also of an equal operation; nodes of this thread
    show no other."""

    def recorded(others: ThreadPoolExecutor) -> Any:
        with torchrecorder.Recorder() as recorder:
            x = torch.ones(2, requires_grad=True)
            y = x.sin()
            number, other = y.grad_fn._sequence_nr(), x
            while other is x or other.grad_fn._sequence_nr() < number:
                other = others.submit(function, x).result()
            assert other.grad_fn._sequence_nr() == number
            nodes = walk_of(recorder).foreign_nodes
            own = nodes._shows_another(y.grad_fn), nodes._shows_another(y.exp().grad_fn)
            assert (*own, nodes._shows_another(other.grad_fn)) == (False, False, True)
            other * y
        return recorder.recording

    with ThreadPoolExecutor(1) as fresh, ThreadPoolExecutor(1) as others:
        others.submit(int).result()  # it starts before the recorder, and numbers nodes from nought
        recording = fresh.submit(recorded, others).result()
    assert structure(recording) == []
    assert flow(recording).splitlines()[-2:] == wanted


def test_a_write_in_a_waiting_thread_shows_itself() -> None:
    """By the number of its node, which is another node's here."""

    def recorded(others: ThreadPoolExecutor) -> Any:
        with torchrecorder.Recorder() as recorder:
            y = torch.ones(2, requires_grad=True).sin()
            others.submit(y.mul_, 2).result()
            y.exp()
        return recorder.recording

    with ThreadPoolExecutor(1) as fresh, ThreadPoolExecutor(1) as others:
        others.submit(int).result()  # it starts before the recorder, and numbers nodes from nought
        recording = fresh.submit(recorded, others).result()
    assert structure(recording) == []
    assert flow(recording).splitlines()[1:] == [
        "sin = sin(ones)", "mul = mul?(sin)", "exp = exp(mul)",
    ]


@pytest.mark.parametrize("doubled", [False, True])
def test_a_node_that_only_raises_belongs_to_its_operation(doubled: bool) -> None:
    """It has no number, as leaves have none; nor is one of those taken for the other."""

    def forward(self: Any, x: Tensor, y: Tensor) -> Tensor:
        return torch.heaviside(x * 2 if doubled else x, y).exp() + x

    recording = torchrecorder.record(net(forward), (leaf(3), torch.ones(3)))
    owners = [(grad.name, grad.owner and recording.ops[grad.owner].name)
              for grad in recording.grad_nodes.values() if grad.name != "MulBackward0"]
    assert sorted(owners, key=str) == [
        ("AccumulateGrad", None), ("AddBackward0", "add"), ("ExpBackward0", "exp"),
        ("NotImplemented", "heaviside"),
    ]
    assert [op.kind for op in recording.ops.values() if op.kind == "hidden"] == []
    (add,) = (grad for grad in recording.grad_nodes.values() if grad.name == "AddBackward0")
    ends = [recording.grad_nodes[each.grad].name for each in add.next if each is not None]
    assert ends == ["ExpBackward0", "AccumulateGrad"]


def test_a_write_in_another_thread_that_autograd_does_not_track() -> None:
    """The node stays; what is read afterwards is what was written."""

    def forward(self: Any, x: Tensor) -> Tensor:
        y = x * 1

        def write() -> None:
            with torch.no_grad():
                y.add_(1)

        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        return y * 2

    recording = torchrecorder.record(net(forward), leaf(3))
    assert structure(recording) == []
    assert flow(recording).splitlines() == [
        "mul = mul(x)", "write in place = write in place?(mul)", "mul2 = mul(write in place)",
        "return mul2",
    ]


def test_the_node_that_accumulates_is_known_by_its_leaf() -> None:
    """While it runs, and not by the number that it has not."""
    found = []
    with torchrecorder.Recorder() as recorder:
        leaves = [torch.ones(2, requires_grad=True) for _ in range(2)]
        for each in leaves:
            each.register_post_accumulate_grad_hook(
                lambda tensor: found.append(recorder._instruments.backward.current()))
        (leaves[0] * leaves[1]).sum().backward()
    recording = recorder.recording
    wanted = [run.grad for run in recording.grad_runs
              if recording.grad_nodes[run.grad].name == "AccumulateGrad"]
    assert found == wanted and len({*found}) == 2
