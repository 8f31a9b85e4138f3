"""Time and memory on a GPU; skipped where there is none."""

from __future__ import annotations

import subprocess
import sys

import networkx as nx
import pytest
import torch

import torchrecorder as tr

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def model():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(2048, 2048) for _ in range(4)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(2048, 8)).cuda()


def test_device_time_of_ops_and_nodes():
    """Events tell the time of the kernels, in both directions."""
    net, x = model(), torch.rand(4096, 2048, device="cuda")
    recording = tr.record(net, x, backward=True, repeat=3)
    seconds = recording.measured["device seconds"]
    linear = [op.id for op in recording.ops.values() if op.name == "linear"]
    assert all(seconds[op] > 0 for op in linear)
    assert seconds[linear[0]] > 5 * seconds[linear[-1]]
    assert recording.annotations["backward_time"].total() > 0
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    net(x)
    stop.record()
    torch.cuda.synchronize()
    total = start.elapsed_time(stop) / 1000
    assert recording.annotations["forward_time"].total() == pytest.approx(total, rel=0.5)


def test_peak_memory_by_scope():
    """The peak of the run is at least what is saved, and that of a layer no more."""
    net, x = model(), torch.rand(4096, 2048, device="cuda")
    with tr.Recorder(net) as recorder:
        net(x).sum().backward()
    peaks = recorder.recording.annotations["peak_bytes"]
    whole = peaks.by_node["s0"]
    assert whole >= peaks.by_node["s1"] > x.untyped_storage().nbytes()
    assert whole <= torch.cuda.max_memory_allocated()


def test_nodes_in_threads_of_the_engine_are_recorded():
    """On a GPU grad nodes run in another thread: order, time and modules are right there too."""
    net = model()
    seen = []
    recorder = tr.Recorder(net)
    with recorder:
        y = net(torch.rand(16, 2048, device="cuda"))
        y.register_hook(lambda gradient: seen.append((recorder.scopes, recorder.is_backward)))
        y.sum().backward()
    recording = recorder.recording
    names = [recording.grad_nodes[each.grad].name for each in recording.grad_runs]
    assert names[:2] == ["SumBackward0", "AddmmBackward0"]
    assert seen == [(("Sequential", "4"), True)]
    assert recording.run.lost == 0


def test_a_program_that_moves_its_model_during_the_run():
    """Time and memory are measured from the first use of the device on."""
    code = """
import torch, torchrecorder
assert not torch.cuda.is_initialized()
with torchrecorder.Recorder() as recorder:
    model = torch.nn.Linear(2048, 2048).cuda()
    model(torch.rand(4096, 2048).cuda()).sum().backward()
recording = recorder.recording
(linear,) = [op.id for op in recording.ops.values() if op.name == "linear"]
assert recording.measured["device seconds"][linear] > 0
assert recording.annotations["peak_bytes"].by_node[linear] > 4096 * 2048 * 4
assert recording.run.lost == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_a_model_on_the_cpu_where_a_device_is_in_use():
    """Its memory is that of its tensors, and its times those of the clock."""
    torch.rand(8, device="cuda")
    net = torch.nn.Linear(64, 64)
    recording = tr.record(net, torch.rand(16, 64), memory=True)
    assert recording.annotations["peak_bytes"].total() > 16 * 64 * 4
    assert "device seconds" not in recording.measured


def test_what_is_scattered_has_a_path():
    """DataParallel makes tensors in C++, inside a custom function that marks their stream."""
    net = torch.nn.DataParallel(torch.nn.Linear(4, 4))
    x = torch.rand(8, 4, requires_grad=True)
    recording = tr.record(net, x)
    (given,), (made,) = recording.scopes[recording.roots[0]].inputs, recording.outputs
    assert nx.has_path(recording.to_networkx(), given.value, made.value)


def test_peak_statistics_of_the_user_are_not_reset():
    """What the user measures goes on being measured."""
    torch.rand(1 << 24, device="cuda")
    before = torch.cuda.max_memory_allocated()
    with tr.Recorder():
        torch.rand(8, device="cuda").exp()
    assert torch.cuda.max_memory_allocated() >= before


def test_gradients_are_the_same_bits():
    """Events between kernels change no number."""

    def gradients(record):
        net, x = model(), torch.ones(64, 2048, device="cuda")
        if record:
            with tr.Recorder(net, stats=True):
                net(x).sum().backward()
        else:
            net(x).sum().backward()
        return [each.grad.clone() for each in net.parameters()]

    assert all(torch.equal(a, b) for a, b in zip(gradients(False), gradients(True)))


def test_kernels_of_triton_are_ops():
    """An autotuned one too, which is tried many times first; with the time on the device."""
    pytest.importorskip("triton")
    from tests.capture import triton_kernels

    def run(a, b):
        out = torch.empty_like(a)
        triton_kernels.multiply[triton_kernels.grid(a.numel())](a, b, out, a.numel())
        return out

    a, b = torch.rand(2, 1 << 20, device="cuda")
    for _ in range(2):
        recording = tr.record(run, (a, b))
        assert [op.name for op in recording.ops.values()] == ["empty_like", "multiply"]
        (kernel,) = [op for op in recording.ops.values() if op.name == "multiply"]
        assert [slot.name for slot in kernel.inputs] == ["a", "b", "out"]
        assert recording.outputs[0].value in kernel.outputs
        assert recording.measured["device seconds"][kernel.id] > 0
