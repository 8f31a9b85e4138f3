"""Which operations share a kernel of Inductor, and what is left where none are known."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch import nn

import torchrecorder as tr
from torchrecorder.capture.internals.compiler import MadeKernel, tracks_kernels

pytest.importorskip("torch._dynamo")


class Fusing(nn.Module):
    """A product, and three operations that Inductor makes one kernel of."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        """Run."""
        return self.linear(x).relu().add(1).sigmoid()


def check_kernels(recording):
    """The three are in one kernel, which is not that of the product."""
    ops = {op.id: op.name for op in recording.ops.values()}
    product, fused = recording.fused_kernels
    assert [ops[each] for each in fused.ops] == ["relu", "add", "sigmoid"]
    assert "fused" in fused.name and [ops[each] for each in product.ops] == ["linear"]
    assert recording.annotations["kernel"].by_node == dict(zip(ops, (1, 2, 2, 2)))
    legend = tr.figure(recording, color_by="kernel").legend
    assert [row.text for row in legend] == ["Kernel", "1", "2"]
    shapes = {each.name: each for each in tr.figure(recording, depth=2).shapes}
    assert f"kernel 2: {fused.name}" in shapes["relu"].tooltip


@pytest.fixture
def reported_kernels():
    """A PyTorch that reports kernels; to find out imports Inductor, which takes seconds."""
    if not tracks_kernels():
        pytest.skip("this PyTorch does not tell of kernels")


@pytest.mark.usefixtures("reported_kernels")
def test_ops_of_one_kernel(monkeypatch, tmp_path):
    """By the names of nodes that Inductor gives; here those that it was seen to give."""

    def reported(graph, inputs):
        product, relu, add, sigmoid = (
            node.name for node in graph.graph.nodes if node.op.startswith("call_")
        )
        kernels = [
            MadeKernel("extern_kernels.addmm", (product,), "ab/c.py"),
            MadeKernel("cpp_fused_add_relu_sigmoid_0", (sigmoid, relu, add), "ab/c.py"),
        ]
        return graph.forward, kernels

    monkeypatch.setattr("torchrecorder.capture.compiled.traced.lowered", reported)
    recording = tr.record(Fusing(), torch.ones(2, 8), compiled="inductor")
    check_kernels(recording)
    assert tr.load(recording.save(tmp_path / "run.json")) == recording


@pytest.mark.slow
@pytest.mark.usefixtures("reported_kernels")
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("grad", [True, False])
def test_ops_of_one_kernel_of_the_real_inductor(grad):
    """With and without gradients, where it compiles another graph."""
    with torch.set_grad_enabled(grad):
        recording = tr.record(Fusing(), torch.ones(2, 8), compiled="inductor")
    check_kernels(recording)


@pytest.mark.usefixtures("reported_kernels")
def test_without_kernels_graphs_are_left(monkeypatch):
    """Where Inductor fails, as without a C++ compiler, the graphs are there, and a note."""

    def fails(graph, inputs):
        raise RuntimeError("no C++ compiler")

    monkeypatch.setattr("torchrecorder.capture.compiled.traced.lowered", fails)
    with pytest.warns(UserWarning, match="no kernels"):
        recording = tr.record(Fusing(), torch.ones(2, 8), compiled="inductor")
    assert len(recording.compiled_graphs) == 1 and recording.fused_kernels == ()
