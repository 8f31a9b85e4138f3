"""The profiler's numbers: those of its own tables, whichever way they come."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import torchrecorder as tr
from tests import real_models
from torchrecorder.capture.probes.profiled import slices_of
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import GradId
from torchrecorder.trace.slices import MARK, owned

CPU = [ProfilerActivity.CPU]


def profiled(run, *, backward=True):
    """A model with its backward under a profiler: the recorder, and the profiler."""
    recorder_of = None
    with profile(activities=CPU, profile_memory=True) as prof:
        with tr.Recorder(run.model, profiler=prof) as recorder_of:
            output = run.model(*run.args, **(run.kwargs or {}))
            if backward:
                output.sum().backward()
    return recorder_of, prof


def mlp():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    return model, torch.randn(16, 64)


class Run:
    """A model and what it is given."""

    def __init__(self, model, *args):
        self.model, self.args, self.kwargs = model, args, None


@pytest.mark.parametrize("name", ["resnet18", "vit"])
def test_numbers_are_those_of_the_profilers_table(name):
    """By name of operator: calls, time on the CPU and memory, to the microsecond and the byte."""
    recorder, prof = profiled(real_models.make(name))
    found = list(owned(slices_of(prof)))
    count, seconds, memory = Counter(), Counter(), Counter()
    for each, _, own in found:
        count[each.name] += 1
        seconds[each.name] += own
        memory[each.name] += each.allocated - each.freed
    for row in prof.key_averages():
        if row.key.startswith("aten::") and row.key != "[memory]":
            assert count[row.key] == row.count
            assert seconds[row.key] == pytest.approx(row.self_cpu_time_total, abs=1)
            assert memory[row.key] == row.self_cpu_memory_usage
    recording = recorder.recording
    theirs = sum(own for _, owner, own in found if owner and owner[0] in "og")
    ours = sum(recording.annotations["cpu_time"].by_node.values()) * 1e6
    assert ours == pytest.approx(theirs, abs=1)
    assert not any(owner is None for each, owner, _ in found if each.name == "aten::addmm")


def test_an_op_has_what_its_operators_took():
    """All convolutions of a ResNet, from both sides."""
    recorder, prof = profiled(real_models.make("resnet18"), backward=False)
    recording = recorder.recording
    numbers = recording.annotations["cpu_time"].by_node
    ours = sum(numbers[op.id] for op in recording.ops.values() if op.name == "conv2d")
    (row,) = (each for each in prof.key_averages() if each.key == "aten::conv2d")
    assert ours * 1e6 == pytest.approx(row.cpu_time_total, abs=1)
    (row,) = (each for each in prof.key_averages() if each.key == "aten::relu_")
    ours = sum(numbers[op.id] for op in recording.ops.values() if op.name == "relu")
    assert ours * 1e6 == pytest.approx(row.cpu_time_total, abs=1)


def test_backward_is_that_of_the_same_sequence_number():
    """A mark in the engine's slice names the node whose op has autograd's number for it."""
    recorder, prof = profiled(Run(*mlp()))
    recording = recorder.recording
    number = {(each.name, each.time_range.start): each.sequence_nr for each in prof.events()}
    forward = {number[each.name, each.begin]: owner for each, owner, _ in owned(slices_of(prof))
               if owner and owner[0] == "o" and each.name == "aten::addmm"}
    nodes = [(number[each.name, each.begin], owner) for each, owner, _ in owned(slices_of(prof))
             if each.name == "AddmmBackward0"]
    assert len(nodes) == 2
    for sequence, owner in nodes:
        assert recording.grad_nodes[GradId(owner)].owner == forward[sequence]
        assert recording.annotations["cpu_time"].by_node[owner] > 0


def test_a_saved_trace_has_the_same_numbers(tmp_path):
    """Compressed or not, also for a recording that was loaded."""
    recorder, prof = profiled(Run(*mlp()))
    recording = recorder.recording
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress((tmp_path / "trace.json").read_bytes()))
    plain = tr.record(*mlp(), backward=True)
    loaded = tr.load(recording.save(tmp_path / "run.json"))
    assert loaded.measured == recording.measured
    for found in (loaded.attach_trace(tmp_path / "trace.json"), loaded.attach_trace(packed)):
        for name in ("cpu_time", "memory_allocated", "memory_freed"):
            ours, theirs = (each.annotations[name].by_node for each in (found, recording))
            assert ours.keys() == theirs.keys()
            scale = 1e6 if name == "cpu_time" else 1
            for node, number in ours.items():
                assert number * scale == pytest.approx(theirs[node] * scale, abs=0.5)
    with pytest.raises(InvalidArgument, match="of another run"):
        tr.record(nn.Tanh(), torch.ones(2)).attach_trace(packed)
    assert "cpu_time" not in plain.annotations


def test_record_profiles_itself():
    """With one flag; figures and tables have the numbers."""
    model, x = mlp()
    recording = tr.record(model, x, profile=True, backward=True)
    assert recording.annotations["memory_allocated"].total() >= 16 * 64 * 4
    assert recording.annotations["profiled_flops"].total() > 2 * 16 * 64 * 64
    assert "forward" in recording.summary(columns=["cpu_time"])
    assert any("CPU" in row.text for row in tr.figure(recording, color_by="cpu_time").legend)


def test_the_run_is_unchanged():
    """Outputs and gradients bit for bit; an op that fails leaves no range open."""
    model, x = mlp()
    plain = model(x)
    with profile(activities=CPU) as prof, tr.Recorder(model, profiler=prof) as recorder:
        with pytest.raises(RuntimeError):
            torch.ones(2) @ torch.ones(3)
        output = model(x)
    assert torch.equal(plain, output)
    names = [each.name for each in prof.events() if each.name.startswith(MARK)]
    assert len(names) == len(recorder.recording.ops) + len(recorder.recording.scopes)
    assert any(name.endswith(" 0") for name in names), "paths are for people"


def test_a_profiler_that_runs_is_not_asked():
    """Its numbers come when it has ended, and its own table is whole."""
    model, x = mlp()
    with profile(activities=CPU) as prof:
        with tr.Recorder(model, profiler=prof) as recorder:
            model(x)
        with pytest.warns(UserWarning, match="still running"):
            assert "cpu_time" not in recorder.recording.annotations
    assert "cpu_time" in recorder.recording.annotations
    assert any(row.key == "aten::addmm" for row in prof.key_averages())


def test_what_cannot_be_profiled_is_refused(tmp_path):
    """With a sentence that says what is wrong."""
    model, x = mlp()
    with pytest.raises(InvalidArgument, match="profiler must be a torch.profiler.profile"):
        tr.Recorder(model, profiler=True)
    with pytest.raises(InvalidArgument, match="real tensors"):
        tr.record(model, x, profile=True, fake=True)
    recording = tr.record(model, x)
    not_ours = "is not a Chrome trace|no range of torchrecorder"
    for text in ("no json", "{}", '{"traceEvents": 3}', "[]"):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(InvalidArgument, match=not_ours):
            recording.attach_trace(tmp_path / "bad.json")
    with pytest.raises(FileNotFoundError, match="give the file that prof.export_chrome_trace"):
        recording.attach_trace(tmp_path / "missing.json")
    with pytest.raises(InvalidArgument, match="json"):
        recording.to_trace(tmp_path / "trace.txt")
    with pytest.raises(InvalidArgument, match="no times"):
        tr.record(model, x, fake=True).to_trace(tmp_path / "trace.json")


def traced_on_a_device():
    """A trace as Kineto writes it: an op with two kernels, one of them a copy."""
    def entry(cat, name, ts, dur, tid=7, **args):
        return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur,
                "args": args}

    return [
        entry("cpu_op", f"{MARK}s0 Linear", 90, 200),
        entry("cpu_op", f"{MARK}o0", 100, 100),
        entry("cpu_op", "aten::linear", 110, 80, **{"External id": 5}),
        entry("cuda_runtime", "cudaLaunchKernel", 120, 10, correlation=40),
        entry("cuda_runtime", "cudaMemcpyAsync", 140, 20, correlation=41),
        entry("kernel", "sgemm", 150, 30, tid=3, correlation=40),
        entry("gpu_memcpy", "Memcpy HtoD", 185, 5, tid=3, correlation=41),
        {"ph": "i", "name": "[memory]", "pid": 1, "tid": 7, "ts": 115, "args": {"Bytes": 512}},
        {"ph": "i", "name": "[memory]", "pid": 1, "tid": 7, "ts": 195, "args": {"Bytes": -128}},
    ]


def test_kernels_belong_to_the_op_that_launched_them(tmp_path):
    """Time on the device, kernels, and how long they waited, from a trace written down."""
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": traced_on_a_device()}))
    recording = tr.record(nn.Linear(4, 2), torch.ones(1, 4)).attach_trace(path)
    numbers = {name: recording.annotations[name].by_node["o0"] for name in (
        "cpu_time", "device_time", "kernels", "launch_gap", "memory_allocated", "memory_freed")}
    assert numbers == pytest.approx({
        "cpu_time": 80e-6, "device_time": 35e-6, "kernels": 2, "launch_gap": 75e-6,
        "memory_allocated": 512, "memory_freed": 128})


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_on_a_device_numbers_are_those_of_the_profilers_table():
    """Kernels and their time, of both passes, and the saved trace says the same."""
    model, x = mlp()
    recording = tr.record(model.cuda(), x.cuda(), profile=True, backward=True)
    assert recording.annotations["kernels"].total() > 3
    with profile(activities=[*CPU, ProfilerActivity.CUDA]) as prof:
        with tr.Recorder(model, profiler=prof) as recorder:
            model(x.cuda()).sum().backward()
    theirs = sum(row.self_device_time_total for row in prof.key_averages()
                 if row.device_type.name == "CPU")
    ours = sum(recorder.recording.annotations["device_time"].by_node.values()) * 1e6
    assert 0 < ours <= theirs + 1


def test_a_trace_of_a_recording_nests(tmp_path):
    """Slices of the order, nesting and durations that were recorded."""
    model, x = mlp()
    recording = tr.record(model, x, backward=True)
    found = json.loads(recording.to_trace(tmp_path / "out.json").read_text())["traceEvents"]
    slices = {each["args"]["id"]: each for each in found if each["ph"] == "X"}
    assert {*recording.ops, *recording.scopes} <= slices.keys()
    for op in recording.ops.values():
        mine = slices[op.id]
        assert mine["dur"] == pytest.approx(op.seconds * 1e6, abs=0.01)
        for scope in recording.within(op.scope):
            around = slices[scope]
            assert around["ts"] <= mine["ts"] + 0.002
            assert mine["ts"] + mine["dur"] <= around["ts"] + around["dur"] + 0.01
    begins = [slices[op]["ts"] for op in recording.ops]
    assert begins == sorted(begins)
    nodes = [each for each in found if each["tid"] == 2 and each["ph"] == "X"]
    assert len(nodes) == len(recording.grad_runs)
    assert recording.to_trace(tmp_path / "out.json.gz").read_bytes()[:2] == b"\x1f\x8b"


class Event:
    """An event as the profiler gives it."""

    def __init__(self, name="aten::add", is_async=False, device="CPU"):
        self.name, self.is_async, self.id, self.thread = name, is_async, 1, 1
        self.device_type = type("Device", (), {"name": device})
        self.time_range = type("Range", (), {"start": 1.0, "end": 3.0})
        self.self_cpu_memory_usage, self.self_device_memory_usage, self.flops = -8, 16, None
        self.cpu_children = self.kernels = ()


def test_which_events_are_slices():
    """Those on the CPU that begin and end in one thread; not changes of memory."""
    events = [Event(), Event(is_async=True), Event("[memory]"), Event("gemm", device="CUDA")]
    found = slices_of(type("Profiler", (), {"events": lambda self: events})())
    assert [(item.name, item.begin, item.end) for item in found] == [("aten::add", 1.0, 3.0)]
    assert (found[0].allocated, found[0].freed, found[0].flops) == (16.0, 8.0, 0.0)
