"""All operations, and what autograd made of them."""

from __future__ import annotations

import pytest
import torch

from tests.figures import arrows, boxes, clusters, network, view_of
from torchrecorder import Recorder
from torchrecorder.style.draw import draw
from torchrecorder.testing import Builder
from torchrecorder.views.auto_depth import max_depth
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind


def test_grad_nodes_are_shown_in_the_direction_of_the_data() -> None:
    """Each op becomes a cluster of the nodes that autograd made for it; one is not framed."""
    recording = network()
    view = view_of(recording, depth=max_depth(recording), grad_nodes=True)
    assert arrows(view) == [
        "TBackward0 -> MmBackward0",
        "TBackward0 -> MmBackward0",
        "x -> TBackward0",
        "MmBackward0 -> ReluBackward0",
        "ReluBackward0 -> TBackward0",
        "x -> skip",
        "MmBackward0 -> AddBackward0",
        "skip -> AddBackward0",
        "AddBackward0 -> out:0",
    ]
    assert clusters(view)[-2:] == ["linear", "linear"] and "relu" not in clusters(view)
    titles = [shape.label[0].text for shape in draw(view).shapes]
    assert "relu: ReluBackward0" in titles and "MmBackward0" in titles


def test_what_the_first_of_several_grad_nodes_reads_goes_into_it() -> None:
    """It is behind the node that makes the result."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.op("exp", run.input("x"), grads=("ExpBackward0",))
        run.op("std", x, grads=("VarBackward0", "SqrtBackward0"))
    recording = run.recording()
    assert arrows(view_of(recording, depth=max_depth(recording), grad_nodes=True)) == [
        "VarBackward0 -> SqrtBackward0",
        "x -> ExpBackward0",
        "ExpBackward0 -> VarBackward0",
        "SqrtBackward0 -> out:0",
    ]


def test_no_number_of_levels_shows_grad_nodes() -> None:
    """The last level is that of the operations."""
    recording = network()
    assert view_of(recording, depth=99) == view_of(recording, depth=max_depth(recording))


@pytest.mark.parametrize("parameters", [False, True])
def test_all_operations_without_frames_around_single_ones(parameters: bool) -> None:
    """A module of a single operation is that operation; beside its weights it is a frame."""
    recording = network()
    view = view_of(recording, depth="ops", parameters=parameters)
    linear, relu, add = (len([box for box in boxes(view) if name in box]) for name in (
        "linear", "relu", "add"
    ))
    assert ("body.0" in clusters(view)) == parameters == (linear == 2)
    assert ("body.0" in boxes(view)) != parameters and add == 1 and relu == parameters
    assert len(view.boxes) > 6


def test_operations_open_to_their_grad_nodes_in_pages() -> None:
    """What is in them stands for them when they are closed, as for any other frame."""
    recording = network()
    unfolded = make_view(recording, ViewOptions(grad_nodes=True, depth=9)).unfolded
    linear = next(op.id for op in recording.ops.values() if op.name == "linear")
    assert unfolded is not None
    assert {linear, *(grad.id for grad in recording.owned[linear])} <= {
        *unfolded().members[linear]
    }


LINEAR = torch.nn.Linear(3, 3)
X = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("run", "closed"),
    [
        (lambda: LINEAR(X), 0),
        (lambda: LINEAR(X).sum().backward(), 1),
        (lambda: LINEAR(X).backward(X), 0),
        (lambda: LINEAR(LINEAR(X)), 2),
        (lambda: torch.nn.Sequential(LINEAR)(X).sum(), 1),
    ],
)
def test_an_outermost_module_of_one_operation_is_closed_beside_others(run, closed: int) -> None:
    """Alone, it is what the figure is about."""
    with Recorder() as recorder:
        run()
    kinds = [box.kind for box in make_view(recorder.recording).boxes.values()]
    assert kinds.count(BoxKind.MODULE) == closed


@pytest.mark.parametrize("again", [False, True])
def test_what_runs_again_in_backward_is_no_second_model(again: bool) -> None:
    """The box of the model is opened beside that of the backward pass, however few are wanted."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        for name in ("a", "b"):
            with run.scope(name):
                h = run.op("exp", h)
    run.op("backward", h)
    if again:
        with run.scope("block", recompute=True):
            for name in ("block.c", "block.d"):
                with run.scope(name, recompute=True):
                    h = run.op("cos", h)
    view = make_view(run.recording(), ViewOptions(max_boxes=2))
    assert boxes(view) == ["x", "a", "b", "backward"]
