"""What custom functions compute in code that is not recorded is an op, with what it reads."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from tests.reach import disagreements
from torchrecorder import record
from torchrecorder.events import OpKind

np = pytest.importorskip("numpy")


class _Function(torch.autograd.Function):
    """Computes the gradients of a product of vectors, *x* and *w*."""

    @staticmethod
    def backward(ctx, *gradients):
        return (gradients[0], gradients[0], *[None] * (len(ctx.needs_input_grad) - 2))


class Filled(_Function):
    """Writes to memory that it makes, past PyTorch."""

    @staticmethod
    def forward(ctx, x, w):
        out = torch.empty_like(x)
        np.multiply(x.numpy(), w.numpy(), out=out.numpy())
        return out


class Cleared(_Function):
    """Adds to zeros, past PyTorch."""

    @staticmethod
    def forward(ctx, x, w):
        out = torch.zeros(4)
        array = out.numpy()
        array += x.numpy() * w.numpy()
        return out


class Taken(_Function):
    """Takes an array back, as PyTorch's tutorial on NumPy does."""

    @staticmethod
    def forward(ctx, x, w):
        x, w = x.detach(), w.detach()
        return torch.as_tensor(x.numpy() * w.numpy(), dtype=x.dtype)


class Returned(_Function):
    """Returns a tensor that no recorded op made."""

    @staticmethod
    def forward(ctx, x, w):
        return _in_c(x.numpy() * w.numpy())


class Replayed(_Function):
    """Writes to tensors that were there before, as the replay of a CUDA graph does."""

    at, result = torch.zeros(4), torch.zeros(4)

    @staticmethod
    def forward(ctx, x, w):
        Replayed.at.copy_(x)
        with torch._C.DisableTorchFunction():
            np.multiply(Replayed.at.numpy(), w.numpy(), out=Replayed.result.numpy())
        return Replayed.result.detach()


class Deeper(_Function):
    """Hands out what a module in it returns, in a region."""

    @staticmethod
    def forward(ctx, x, w):
        with torch.inference_mode():
            x = torch.nn.Sigmoid()(x)
            out = torch.empty(4)
            np.multiply(x.numpy(), w.numpy(), out=out.numpy())
        return _in_c(out.numpy())


def _in_c(array):
    with torch._C.DisableTorchFunction():
        return torch.from_numpy(array)


def _recorded(function, trained=(True, True)):
    x, w = (torch.rand(4, requires_grad=needed) for needed in trained)

    def run(x, w):
        return (function.apply(x * 1, w * 1) * 2).sum()

    return record(run, (x, w))


def _read(recording, name):
    """The names of the ops whose results the only op with this name reads, in any order."""
    (op,) = [op for op in recording.ops.values() if op.name == name]
    makers = [recording.values[slot.value].producer for slot in op.inputs]
    return sorted(recording.ops[maker].name for maker in makers if maker is not None)


@pytest.mark.parametrize("trained", [(True, True), (False, True), (True, False)])
@pytest.mark.parametrize(
    "function, op, read",
    [
        (Filled, "Filled", ["empty_like", "mul", "mul"]),
        (Cleared, "Cleared", ["mul", "mul", "zeros"]),
        (Taken, "as_tensor", ["detach", "detach"]),
        (Returned, "Returned", ["mul", "mul"]),
        (Deeper, "Deeper", ["mul", "sigmoid"]),
    ],
)
def test_what_is_handed_out_is_read(function, op, read, trained):
    """Also by a function that has no gradient for it."""
    recording = _recorded(function, trained)
    assert _read(recording, op) == read
    assert recording.run.lost == 0
    (node,) = [each for each in recording.grad_nodes.values() if function.__name__ in each.name]
    assert recording.ops[node.owner].name == op


def test_what_is_copied_elsewhere_is_read():
    """And what has a gradient, even if nothing tells of it."""
    recording = _recorded(Replayed)
    assert _read(recording, "Replayed") == ["copy_", "detach", "mul"]
    recording = _recorded(Replayed, (False, True))
    assert _read(recording, "Replayed") == ["copy_", "detach", "mul"]


class Twice(torch.nn.Module):
    """Applies a function to what it has returned, with a weight."""

    def __init__(self, function):
        super().__init__()
        self.function, self.weight = function, torch.nn.Parameter(torch.rand(4))

    def forward(self, x):
        return self.function.apply(self.function.apply(x, self.weight) * 2, self.weight)


@pytest.mark.parametrize("function", [Filled, Cleared, Taken, Returned, Replayed])
def test_every_gradient_has_a_path(function):
    run = SimpleNamespace(model=Twice(function), args=(torch.rand(4),), kwargs=None)
    assert disagreements(record(run.model, run.args), run) == []


def test_results_are_read_after_another_function_ran():
    """Each is that of its own function."""

    def run(x, w):
        first, second = Filled.apply(x.exp(), w), Taken.apply(x.sin(), w)
        return (first * 2 + second * 3).sum()

    recording = record(run, (torch.rand(4, requires_grad=True), torch.rand(4, requires_grad=True)))
    assert _read(recording, "Filled") == ["empty_like", "exp"]
    assert _read(recording, "as_tensor") == ["detach", "detach"]


class Parts(torch.autograd.Function):
    """Fills two tensors."""

    @staticmethod
    def forward(ctx, x):
        first, second = torch.empty_like(x), x.new_empty(2)
        first.numpy()[:], second.numpy()[:] = x.numpy(), x.numpy()[:2]
        return first, second

    @staticmethod
    def backward(ctx, first, second):
        return first


def test_two_results_are_of_one_op():
    def run(x):
        first, second = Parts.apply(x * 1)
        return first.sum() + second.sum()

    recording = record(run, torch.rand(4, requires_grad=True))
    assert _read(recording, "Parts") == ["empty_like", "mul", "new_empty"]
    (op,) = [op for op in recording.ops.values() if op.name == "Parts"]
    assert [recording.values[value].shape for value in op.outputs] == [(4,), (2,)]


class Spike(_Function):
    """Begins with zeros, and writes where all can see it."""

    @staticmethod
    def forward(ctx, x, w):
        out = torch.zeros_like(x)
        out[x > w] = 1
        return out


class Looked(_Function):
    """Reads a number, which goes into no tensor."""

    @staticmethod
    def forward(ctx, x, w):
        assert float(x.sum()) >= 0
        return x * w


class Dummy(_Function):
    """Has a gradient for an argument that it does not use, so that it runs in backward."""

    @staticmethod
    def forward(ctx, x, dummy):
        return x * 2


@pytest.mark.parametrize("function", [Spike, Looked, Dummy])
def test_functions_that_are_seen(function):
    """They have no hidden op."""
    recording = _recorded(function, (False, True))
    assert OpKind.HIDDEN not in {op.kind for op in recording.ops.values()}


def test_a_function_of_a_constant_that_is_seen():
    """A leaf that nothing names is a constant, from which the result is known to come."""
    leaf = torch.rand(4, requires_grad=True)
    recording = record(lambda x: Dummy.apply(leaf, x).sum(), torch.rand(4))
    assert OpKind.HIDDEN not in {op.kind for op in recording.ops.values()}


class Sometimes(_Function):
    """Records something in every second call only."""

    @staticmethod
    def forward(ctx, x, w, looks):
        if looks:
            return _in_c(x.numpy())
        with torch._C.DisableTorchFunction():
            return x * w


def test_each_call_reads_its_own():
    """One that hands nothing out reads what it has gradients for, and not what another read."""

    def run(x, w):
        first = Sometimes.apply(x.exp(), w, True)
        return first.sum() + Sometimes.apply(x.sin(), w, False).sum()

    recording = record(run, (torch.rand(4, requires_grad=True), torch.rand(4, requires_grad=True)))
    hidden = [op for op in recording.ops.values() if op.kind is OpKind.HIDDEN]
    values = [[recording.values[slot.value] for slot in op.inputs] for op in hidden]
    makers = [[recording.ops[v.producer].name for v in row if v.producer] for row in values]
    assert makers == [["exp"], ["sin"]]
