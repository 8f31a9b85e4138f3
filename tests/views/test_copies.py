"""Copies that only hand a tensor on to Python, or are only kept, are no boxes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import torchrecorder
from torchrecorder.events import OpId
from torchrecorder.recording import Recording
from torchrecorder.style.unread import unread
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.quiet_ops import copies
from torchrecorder.views.view import BoxKind


def shown(recording: Recording, **options: Any) -> list[str]:
    """The operations that are boxes, by name."""
    view = make_view(recording, ViewOptions(depth=9, **options))
    view.check()
    return [recording.ops[OpId(box)].name for box in view.boxes if box in recording.ops]


def test_copies_of_which_python_reads_a_number() -> None:
    """They are drawn with queries; the caption of what they copy says what read it."""
    def run(x: torch.Tensor) -> float:
        loss = x.exp().sum()
        return float(loss.detach().clone().reshape(1).double().item())

    recording = torchrecorder.record(run, torch.rand(3))
    assert shown(recording) == ["exp", "sum"]
    assert shown(recording, queries=True) == [
        "exp", "sum", "detach", "clone", "reshape", "double", "item"
    ]
    view = make_view(recording, ViewOptions(depth=9))
    (last,) = [op.id for op in recording.ops.values() if op.name == "sum"]
    assert unread(view)[last] == "read by item"


def test_copies_that_are_only_kept() -> None:
    """Other operations that nothing reads are drawn, and copies that are results of the run."""
    kept = []

    def run(x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        kept.append(y.detach())
        y.cos()
        y.double()
        return y.sin().clone()

    assert shown(torchrecorder.record(run, torch.rand(3))) == [
        "exp", "cos", "double", "sin", "clone"
    ]


def test_parts_of_which_only_the_shape_is_read() -> None:
    """As in ``x[0].shape``; a part that is a number for Python neither. What is forgotten, such as
    the result of ``transpose``, is drawn."""

    def program(x: torch.Tensor) -> torch.Tensor:
        x.transpose(0, 1)
        rows, first = x[0].shape[0], x[0, 0].item()
        return x * rows * (first > 0)

    assert shown(torchrecorder.record(program, torch.ones(2, 3))) == ["transpose", "mul", "mul"]
    assert "getitem" in shown(torchrecorder.record(program, torch.ones(2, 3)), queries=True)


def test_copies_of_a_line_that_an_operation_reads_elsewhere() -> None:
    """The last state of a loop is not read, but those before are: its round is like the others."""
    cell = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def run(h: torch.Tensor) -> None:
        for _ in range(4):
            h = cell(h)
            h.sum().backward()
            h = h.detach()

    recording = torchrecorder.record(run, torch.rand(2, 4))
    assert shown(recording).count("detach") == 1
    view = make_view(recording)
    assert [cluster.count for cluster in view.clusters.values() if cluster.count > 1] == [4]


def test_the_output_of_a_model_of_which_only_python_reads_a_copy() -> None:
    """It is an output, as if Python had read it itself."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    with torchrecorder.Recorder(model) as recorder:
        model(torch.rand(2, 4)).detach().cpu().tolist()
    view = make_view(recorder.recording)
    assert "detach" not in shown(recorder.recording)
    (output,) = (box.id for box in view.boxes.values() if box.kind is BoxKind.OUTPUT)
    assert [arrow.head for arrow in view.arrows].count(output) == 1


def test_numbers_that_only_a_condition_compares() -> None:
    """A tensor that is made of them is drawn where an operation reads it."""
    def run(x: torch.Tensor, uses: bool) -> torch.Tensor:
        limit = torch.tensor(4)
        y = x.sin() if limit > 3 else x.cos()
        return y * limit if uses else y

    assert shown(torchrecorder.record(run, (torch.rand(3), False))) == ["sin"]
    assert shown(torchrecorder.record(run, (torch.rand(3), True))) == ["tensor", "sin", "mul"]


def test_what_lazy_layers_ask_of_their_weights() -> None:
    """Their first call reads ``weight.data`` for its device, one of them without gradients."""
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.Flatten(), nn.LazyLinear(2))
    recording = torchrecorder.record(model, torch.ones(2, 1, 5, 5))
    assert "data" in {op.name for op in recording.ops.values()}
    assert "data" not in shown(recording) and "set_data" in shown(recording)


@pytest.mark.parametrize("in_place", [False, True])
def test_a_reshape_that_writes_is_drawn(in_place: bool) -> None:
    """It changes the tensor for all that read it later."""
    run = Builder("Net")
    with run.scope("Net"):
        made = run.op("exp", run.input("x"))
        if in_place:
            reshaped = run.op("squeeze_", made, writes=made)
        else:
            reshaped = run.op("squeeze", made)
        run.op("item", reshaped, outputs=0)
        run.op("cos", made)
    recording = run.recording()
    _, reshape, *_ = recording.ops
    assert copies(recording) == (frozenset() if in_place else {reshape})
