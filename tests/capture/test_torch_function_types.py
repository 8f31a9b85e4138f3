"""Classes that are no tensors but take part in torch functions: their calls are ops."""

from __future__ import annotations

import pytest
import torch

import torchrecorder
from tests.structure import structure


class Box:
    """Holds a tensor; torch functions work on it."""

    def __init__(self, t):
        self.t = t

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        def opened(value):
            if isinstance(value, (list, tuple)):
                return [opened(each) for each in value]
            return value.t if isinstance(value, Box) else value

        return cls(func(*map(opened, args), **(kwargs or {})))

    def __repr__(self):
        raise RuntimeError("asked")


def edges(recording):
    """Ops and where each of their inputs comes from."""
    assert structure(recording) == []
    values, ops = recording.values, recording.ops

    def source(slot):
        value = values[slot.value]
        return ops[value.producer].name if value.producer else value.names[0]

    return [(op.name, *map(source, op.inputs)) for op in ops.values()]


def test_a_call_on_such_an_object_is_an_op():
    """It reads the tensor inside, and what comes of it leads on."""

    def double_sine(x):
        return torch.sin(Box(x)).t * 2

    recording = torchrecorder.record(double_sine, torch.ones(2))
    assert edges(recording) == [("sin", "x"), ("mul", "sin")]


def test_lists_of_them_and_gradients():
    """As stacking does; the backward pass has its path too."""

    def stacked(x, y):
        return torch.stack([Box(x), Box(y * 3)]).t.sum()

    given = [torch.ones(2, requires_grad=True) for _ in range(2)]
    recording = torchrecorder.record(stacked, tuple(given), backward=True)
    names = [edge for edge in edges(recording) if edge[0] != "backward"]
    assert names == [("mul", "y"), ("stack", "x", "mul"), ("sum", "stack")]
    assert {grad.owner for grad in recording.grad_nodes.values() if "Stack" in grad.name} == {"o1"}


def test_tensor_dictionaries():
    """Stacked and concatenated, their tensors lead on."""
    tensordict = pytest.importorskip("tensordict")

    def forward(x):
        first = tensordict.TensorDict({"a": x}, batch_size=[2])
        second = tensordict.TensorDict({"a": x * 2}, batch_size=[2])
        return torch.cat([first, second], 0)["a"] + 1

    recording = torchrecorder.record(forward, torch.ones(2, 3))
    found = edges(recording)
    assert found[-1][0] == "add" and ("mul", "x") in found
    reached = {value.producer for value in recording.values.values() if value.producer}
    assert reached <= set(recording.ops)


class Tagged(torch.Tensor):
    """A class of the user's own, such as that of images."""


VIEWS = {
    "getitem": lambda x: x[0],
    "t": lambda x: x.t(),
    "expand": lambda x: x[1].expand(3, 4),
    "view": lambda x: x.view(8)[2:6].view(2, 2),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_a_subclass_of_a_view_is_of_this_view(name, grad):
    """And neither of what it is a view of, nor of a later one of the same memory."""
    def run(x):
        part = VIEWS[name](x)
        later = part[None]
        return part.as_subclass(Tagged) * 2, later

    x = torch.ones(2, 4, requires_grad=grad)
    recording = torchrecorder.record(run, (x,))
    (mul,) = (op for op in recording.ops.values() if op.name == "mul")
    value = recording.values[mul.inputs[0].value]
    while value.kind == "Tagged":
        value = recording.values[recording.ops[value.producer].inputs[0].value]
    assert recording.ops[value.producer].name == name
