"""Time and memory on a GPU; skipped where there is none."""

from __future__ import annotations

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
