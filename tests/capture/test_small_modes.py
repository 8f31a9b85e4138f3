"""Small facts about calls below Python, calls that return what they were given, and recorders."""

from __future__ import annotations

import threading
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from tests.notation import flow
from tests.structure import structure
from torchrecorder.capture.internals.access import function_modes
from torchrecorder.capture.internals.processes import in_use
from torchrecorder.capture.modes import higher_order
from torchrecorder.capture.modes.higher_order import _run_recorded, active_recorders
from torchrecorder.capture.tape import Tape

pytestmark = pytest.mark.usefixtures("strict")


class Compares(nn.Module):
    """Looks at its numbers before it computes."""

    def __init__(self, held: Any) -> None:
        super().__init__()
        self.held = held

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        if torch.equal(x, self.held):
            x = x + 1
        return x * 2


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize(
    ("kind", "name"), [(nn.Buffer, "held"), (nn.Parameter, "held"), (Tensor.clone, "const")])
def test_a_script_that_compares_its_input(kind: Any, name: str, inference: bool) -> None:
    """With what it holds, which was not read before; with and without versions of tensors."""
    script = torch.jit.script(Compares(kind(torch.ones(2))))
    with torch.inference_mode(inference):
        recording = torchrecorder.record(script, torch.ones(2))
    assert flow(recording).splitlines() == [
        f"equal = equal(0, {name})", "add = add(0)", "mul = mul(add)", "return mul"]
    assert structure(recording) == []


@pytest.mark.parametrize("used", [False, True])
def test_a_pass_that_makes_nothing_new(used: bool) -> None:
    """It gives the gradient that it was given, or None, and is an operation all the same."""
    y, unused = (torch.ones(2, requires_grad=True) * number for number in (1, 2))
    with torchrecorder.Recorder() as recorder:
        given = torch.ones(2)
        (found,) = torch.autograd.grad(y, y if used else unused, given, allow_unused=True)
        given.exp()
    recording = recorder.recording
    assert found is (given if used else None)
    ones, grad, exp = recording.ops.values()
    assert (grad.name, grad.outputs, exp.inputs[0].value) == ("grad", (), ones.outputs[0])
    assert [run.op for run in recording.backward_runs] == [grad.id] and structure(recording) == []


def test_only_recorders_that_record_are_active() -> None:
    """The innermost last; none when all are over."""
    assert active_recorders() == ()
    with torchrecorder.Recorder() as outer:
        with torchrecorder.Recorder() as inner:
            assert [item.functions for item in active_recorders()] == [
                each._instruments.functions for each in (outer, inner)
            ] == function_modes()
        assert [item.functions for item in active_recorders()] == [outer._instruments.functions]
    assert active_recorders() == ()


@pytest.mark.parametrize("failing", ["_suspend_and_compile", "suspended"])
def test_what_fails_around_an_operator_is_lost_to_each_recorder(
    monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """When the recorders are suspended, and when they go on."""
    plain = getattr(higher_order, failing)

    def fail() -> None:
        raise KeyError("no")

    def fails(active: Any) -> Any:
        if failing != "suspended":
            fail()
        stack = plain(active)
        stack.callback(fail)
        return stack

    monkeypatch.setattr(Tape, "strict", False)
    monkeypatch.setattr(higher_order, failing, fails)
    with pytest.warns(UserWarning, match="could not record 1 fact .*: KeyError: 'no'"):
        with torchrecorder.Recorder() as outer:
            with torchrecorder.Recorder() as inner:
                with higher_order._unrecorded():
                    pass
                torch.ones(2)
    lost = [each.recording.run.lost for each in (outer, inner)]
    assert lost == [1, 1] and [len(each.recording.ops) for each in (outer, inner)] == [1, 1]


class Unavailable:
    """``torch.distributed`` of a PyTorch that was built without it."""

    @staticmethod
    def is_available() -> bool:
        """It is not."""
        return False


def test_the_graph_of_an_operator_runs_in_any_thread() -> None:
    """In one without a recorder it is not recorded."""
    found: list[int] = []
    graph = SimpleNamespace(forward=lambda number: found.append(number + 1), code="")
    run = _run_recorded(graph, [])
    thread = threading.Thread(target=run, args=(1,))
    thread.start()
    thread.join()
    assert found == [2]


def test_a_pytorch_that_cannot_communicate(monkeypatch: Any) -> None:
    """It has no group, and cannot be asked for one."""
    monkeypatch.setitem(__import__("sys").modules, "torch.distributed", Unavailable)
    assert not in_use()


class Made(torch.autograd.Function):
    """Makes a leaf, reads it, and returns it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # type: ignore[override]
        """Run."""
        made = torch.ones(2, requires_grad=True)
        made.sin()
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        """The gradient of one is that of the other."""
        return gradient


def test_a_leaf_that_a_custom_function_returns_is_one_no_longer() -> None:
    """Its gradient flows on to the input of the function, although it was read as a leaf."""
    with torchrecorder.Recorder() as recorder:
        x = torch.zeros(2, requires_grad=True)
        Made.apply(x).exp()  # type: ignore[no-untyped-call]
    recording = recorder.recording
    exp = next(op for op in recording.ops.values() if op.name == "exp")
    edge = recording.values[exp.inputs[0].value].grad
    assert edge is not None and recording.grad_nodes[edge.grad].name == "MadeBackward"


@pytest.mark.parametrize("end, wanted", [(4, ["add_", "mul_"]), (3, ["add", "add_", "mul_"])])
def test_the_writes_that_make_a_value_are_numbered(end: int, wanted: list[str]) -> None:
    """In their order; what was there before is the first, unless nothing of it is left."""
    with torchrecorder.Recorder() as recorder:
        whole = torch.zeros(4) + 0
        left, right = whole[:2], whole[2:end].data
        left.add_(1)
        right.mul_(2)
        whole.sum()
    recording = recorder.recording
    (join,) = (op for op in recording.ops.values() if op.name == "join")
    makers = [recording.ops[recording.values[slot.value].producer or join.id].name
              for slot in join.inputs]
    assert [slot.name for slot in join.inputs] == [str(place) for place in range(len(wanted))]
    assert makers == wanted


@pytest.mark.parametrize("inference", [False, True])
def test_a_tensor_that_is_given_other_memory(inference: bool) -> None:
    """Is written by that, although its version stays; what was given is only read."""

    def run(x: Tensor) -> Tensor:
        first, second = x * 1, x * 2
        first.data = second
        return first + second

    with torch.inference_mode(inference):
        recording = torchrecorder.record(run, torch.ones(2))
    assert flow(recording).splitlines() == [
        "mul = mul(x)", "mul2 = mul(x)", "set_data! = set_data(mul, mul2)",
        "add = add(set_data, mul2)", "return add"]


@pytest.mark.parametrize("opens", [False, True])
def test_attention_is_opened_unless_it_must_be_one_operation(opens: bool) -> None:
    """As it must be to be found in compiled graphs."""
    attention, x = nn.MultiheadAttention(4, 2), torch.ones(3, 1, 4, requires_grad=True)
    with torchrecorder.Recorder(attention) as recorder:
        recorder._instruments.functions.opens = opens
        attention(x, x, x)
    names = {op.name for op in recorder.recording.ops.values()}
    assert ("multi_head_attention_forward" in names) is not opens
    assert ("linear" in names) is opens


def test_a_gradient_that_no_backward_pass_keeps() -> None:
    """Whoever reads it is warned once, at the own line."""
    with torchrecorder.Recorder(), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        y = torch.ones(2, requires_grad=True) * 2
        assert y.grad is None
    assert [warning.filename for warning in heard] == [__file__]
