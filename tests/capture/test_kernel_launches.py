"""Launches of Triton kernels are ops; a stand-in for Triton runs them here."""

from __future__ import annotations

import sys
import threading
import types
from typing import Any

import networkx as nx
import pytest
import torch

from tests.capture.kernels import KernelInterface, Tuned, fail, look, multiply, negate
from torchrecorder import Recorder, record

pytest.importorskip("numpy")


@pytest.fixture(autouse=True)
def triton(monkeypatch):
    """Triton seems to be imported."""
    module: Any = types.ModuleType("triton.runtime.jit")
    module.KernelInterface = KernelInterface
    monkeypatch.setitem(sys.modules, module.__name__, module)


class Product(torch.autograd.Function):
    """A product by a kernel, in both directions."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        out = torch.empty_like(a)
        multiply[(len(a),)](a, b, out)
        return out

    @staticmethod
    def backward(ctx, gradient):
        a, b = ctx.saved_tensors
        gradients = torch.empty_like(a), torch.empty_like(b)
        multiply[(len(a),)](gradient, b, gradients[0])
        multiply[(len(a),)](gradient, a, gradients[1])
        return gradients


class Scaled(torch.nn.Module):
    """A vector by a trained one."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(4))

    def forward(self, x):
        return Product.apply(x, self.weight).sum()


def _kernel(recording, name="multiply"):
    (found,) = [op for op in recording.ops.values() if op.name == name]
    return found


def test_what_a_kernel_reads_and_writes():
    """It is an op with the names of its parameters, between what was there and what is."""
    recording = record(Scaled(), torch.rand(4), backward=True)
    kernel = _kernel(recording)
    assert [slot.name for slot in kernel.inputs] == ["a", "b", "out"]
    assert kernel.writes == kernel.outputs != ()
    assert kernel.qualname == "tests.capture.kernels.multiply"
    assert kernel.source.function == "forward" and kernel.seconds > 0
    (weight,) = [value.id for value in recording.values.values() if "weight" in value.names]
    graph = recording.to_networkx()
    assert nx.has_path(graph, weight, recording.outputs[0].value)
    (node,) = [each for each in recording.grad_nodes.values() if each.name == "ProductBackward"]
    assert node.owner == kernel.id


def test_the_run_is_the_same():
    """Kernels get the same arguments, once each."""
    results = []
    for recorded in (False, True):
        torch.manual_seed(0)
        model, x = Scaled(), torch.rand(4)
        if recorded:
            with Recorder(model):
                model(x).backward()
        else:
            model(x).backward()
        results.append(model.weight.grad)
    assert torch.equal(*results)


def test_what_is_written_over_is_read_anew():
    def run(x):
        y = x * 2
        negate[(4,)](y)
        return y + 1

    recording = record(run, torch.ones(4))
    names = [op.name for op in recording.ops.values()]
    assert names == ["mul", "negate", "add"]
    assert _kernel(recording, "add").inputs[0].value == _kernel(recording, "negate").outputs[0]


def test_a_kernel_that_writes_nothing_known():
    """Its writes are not known if they are in code that Python does not show; it is still there."""
    recording = record(lambda x: (look[(4,)](x), x + 1)[1], torch.ones(4))
    assert _kernel(recording, "look").outputs == ()


def test_tuning_is_not_recorded():
    """The autotuner tries a kernel many times: that is one launch."""

    def run(x):
        out = torch.empty_like(x)
        Tuned(multiply)[(4,)](x, x, out)
        return out

    recording = record(run, torch.rand(4))
    assert [op.name for op in recording.ops.values()] == ["empty_like", "multiply"]


def test_a_kernel_in_an_operator_is_a_part_of_it():
    with torch.library._scoped_library("torchrecorder_test", "FRAGMENT") as library:
        library.define("double_product(Tensor a) -> Tensor")

        def implement(a):
            out = torch.empty_like(a)
            multiply[(len(a),)](a, a, out)
            return out

        library.impl("double_product", implement, "CPU")
        recording = record(torch.ops.torchrecorder_test.double_product, torch.rand(4))
    assert [op.name for op in recording.ops.values()] == ["double_product"]


def test_a_kernel_that_fails():
    """The error is the program's, with a note of the kernel."""
    with pytest.raises(AttributeError, match="missing") as caught:
        record(lambda x: fail[(4,)](x, torch.empty_like(x)), torch.rand(4))
    assert any("fail" in note for note in caught.value.__notes__)


def test_triton_is_left_as_it_was():
    plain = KernelInterface.__getitem__
    with Recorder(), Recorder():
        assert KernelInterface.__getitem__ is not plain
    assert KernelInterface.__getitem__ is plain


def test_recorders_inside_each_other_record_a_kernel_once_each():
    x, out = torch.rand(4), torch.empty(4)
    with Recorder() as outer, Recorder() as inner:
        multiply[(4,)](x, x, out)
    assert torch.equal(out, x * x)
    for recorder in (outer, inner):
        assert [op.name for op in recorder.recording.ops.values()].count("multiply") == 1


def test_launches_in_other_threads_are_theirs():
    """They do not get between the operations of this one."""
    x, out = torch.rand(4), torch.empty(4)
    with Recorder() as recorder:
        thread = threading.Thread(target=lambda: multiply[(4,)](x, x, out))
        thread.start()
        thread.join()
        x.exp()
    assert [op.name for op in recorder.recording.ops.values()] == ["exp"]
