"""Small facts about whole runs: what is said of errors, what is live, and where the run is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch.utils.checkpoint import checkpoint

import torchrecorder
from tests.structure import structure
from tests.zoo.case import net
from torchrecorder.capture.exported import advice
from torchrecorder.capture.internals.table import BACKWARD_CALLS, SAVED_TENSORS
from torchrecorder.capture.live_modules import LiveModules
from torchrecorder.testing import Builder

X = torch.ones(2)


class OnnxModel:
    """A model of the other library."""

    __module__ = "onnx.onnx_ml_pb2"


@pytest.mark.parametrize(
    ("model", "found"),
    [(OnnxModel(), "onnx.load()"), (3, ""), ({}, "load_state_dict()"), (X, "record(model, x)"),
     ("a/net.PT", "torch.load()"), ("net.unknown", "(.pt2)")],
)
def test_advice_on_what_is_no_model(model: Any, found: str) -> None:
    """By what it is; none for what nobody can know."""
    assert found in advice(model) and bool(advice(model)) == bool(found)


class Two(torch.autograd.Function):
    """Gives two tensors, and fails in backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Run."""
        ctx.set_materialize_grads(False)
        return x * 1, x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Fail."""
        raise ValueError


def test_an_error_in_backward_shows_which_gradients_were_missing() -> None:
    """A result that was not used has none."""
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(ValueError) as caught, torchrecorder.Recorder():
        Two.apply(x)[1].sum().backward()  # type: ignore[no-untyped-call]
    (note,) = caught.value.__notes__
    assert "`TwoBackward`, given gradients none, float32[2], " in note


@pytest.mark.skipif(not SAVED_TENSORS.present, reason="not seen in this version")
def test_saved_tensors_are_not_counted_unless_they_are_meant() -> None:
    """Neither with gradients nor without."""
    x = torch.ones(2, requires_grad=True)
    for saved in (True, False):
        with torchrecorder.Recorder(saved=saved) as recorder:
            x.sin()
        assert bool(recorder.recording.annotations["saved_bytes"].by_node) is saved


def test_what_is_live_of_a_recording_without_its_run() -> None:
    """No modules, and tensors whose type and sizes are known."""
    run = Builder("Net")
    with run.scope("Net"):
        known, number = run.input("x", (2, 3), "int8"), run.input("y", ())
        strange, ragged = run.input("z", (2,), "unknown"), run.input("w", (2, -1))
        run.op("cat", known, number, strange, ragged)
    recording, live = run.recording(), LiveModules({})
    made = [live.fn(recording, value) for value in (known, number)]
    assert [(item.shape, item.dtype, item.device.type) for item in made] == [
        ((2, 3), torch.int8, "meta"), ((), torch.float32, "meta")]
    others = [strange, ragged, *recording.scopes, *recording.ops]
    assert [live.fn(recording, item) for item in others] == [None] * 4


def test_weights_without_a_shape_are_not_read() -> None:
    """By what a module computes unseen, which reads its other weights."""

    def forward(self: Any, x: Tensor) -> Tensor:
        with torch._C.DisableTorchFunction():
            return x + 1

    model = net(forward, weight=nn.Parameter(torch.ones(2)), later=UninitializedParameter())
    recording = torchrecorder.record(model, X)
    (unseen,) = (op for op in recording.ops.values() if op.kind == "hidden")
    assert [slot.name for slot in unseen.inputs] == ["x", "weight"]
    assert structure(recording) == []


def test_a_call_that_is_computed_again_is_where_the_run_is() -> None:
    """In the backward pass too, where nothing around it runs again."""
    seen: list[tuple[str, ...]] = []

    def look(self: Any, x: Tensor) -> Tensor:
        seen.append(recorder.scopes)
        return x.sin()

    def forward(self: Any, x: Tensor) -> Tensor:
        return checkpoint(self.inner, x, use_reentrant=False).cos()  # type: ignore[no-any-return]

    model = net(forward, inner=net(look))
    with torchrecorder.Recorder(model) as recorder:
        model(torch.ones(2, requires_grad=True)).sum().backward()
    assert seen == [("Net", "inner"), ("inner",)]


def test_a_graph_of_gradients_may_be_asked_for_by_position() -> None:
    """As by name."""
    with torchrecorder.Recorder() as recorder:
        x = torch.ones(3, requires_grad=True)
        for create_graph in (False, True):
            torch.autograd.grad(x.exp(), x, torch.ones(3), None, create_graph)
        torch.autograd.grad(x.exp(), x, torch.ones(3))
    assert [run.create_graph for run in recorder.recording.backward_runs] == [False, True, False]


@pytest.mark.skipif(not BACKWARD_CALLS.present, reason="function modes do not see that call")
def test_the_pass_of_record_has_the_arguments_of_a_call() -> None:
    """As if the program had called ``torch.autograd.backward``."""
    recording = torchrecorder.record(nn.Linear(3, 1), torch.ones(1, 3), backward=True)
    *_, op = recording.ops.values()
    assert dict(op.arguments) == {"retain_graph": "False", "create_graph": "False"}
