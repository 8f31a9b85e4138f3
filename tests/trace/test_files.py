"""Traces as files: what is read of those of a profiler, and where a recording is laid in time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from torchrecorder.errors import InvalidArgument
from torchrecorder.graph.nodes import BackwardRun, GradRun
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder
from torchrecorder.trace.reading import slices_in
from torchrecorder.trace.slices import Kernel, Slice
from torchrecorder.trace.writing import BACKWARD, FORWARD, events, write


def read(folder: Path, *found: dict[str, Any]) -> list[Slice]:
    """The slices of these events."""
    path = folder / "trace.json"
    path.write_text(json.dumps({"traceEvents": found}))
    return slices_in(path)


def ran(
    name: str, ts: float, dur: float | None = 0, cat: str = "cpu_op", tid: int = 1, **args: Any
) -> dict[str, Any]:
    """An event that took some microseconds."""
    event = {"ph": "X", "cat": cat, "name": name, "ts": ts, "pid": 0, "tid": tid, "args": args}
    return event if dur is None else {**event, "dur": dur}


def allocated(ts: float, size: int, tid: int = 1) -> dict[str, Any]:
    """An event of memory."""
    return {"ph": "i", "name": "[memory]", "ts": ts, "pid": 0, "tid": tid, "args": {"Bytes": size}}


def test_slices_of_the_cpu_alone(tmp_path: Path) -> None:
    """Without a duration they took no time; others are not slices."""
    found = read(
        tmp_path, ran("a", 5, 3), ran("b", 6, None),
        ran("c", 7, cat="python_function"), {"ph": "B", "cat": "cpu_op", "name": "d", "ts": 0},
    )
    assert [(each.name, each.begin, each.end) for each in found] == [
        ("a", 5.0, 8.0), ("b", 6.0, 6.0)
    ]


def test_kernels_have_the_call_that_launched_them(tmp_path: Path) -> None:
    """Else the first operator of their number; the gap is from the call on, and is not negative."""
    kernel = {"cat": "kernel", "tid": 9}
    found = read(
        tmp_path,
        ran("aten::mm", 0, 50, **{"External id": 3}),
        ran("aten::mm inside", 1, 40, **{"External id": 3}),
        ran("launch", 10, 5, cat="cuda_runtime", correlation=8),
        ran("launch again", 11, 5, cat="cuda_runtime", correlation=8, **{"External id": 4}),
        ran("gemm", 30, 2e6, **kernel, correlation=8, **{"External id": 3}),
        ran("early", 9, 1e6, **kernel, correlation=8),
        ran("copy", 31, 1e6, cat="gpu_memcpy", tid=9, correlation=99, **{"External id": 3}),
        ran("of nobody", 32, 1e6, **kernel, **{"External id": 4}),
    )
    assert {each.name: each.kernels for each in found if each.kernels} == {
        "launch": (Kernel("gemm", 2.0, 20 / 1e6), Kernel("early", 1.0, 0.0)),
        "aten::mm": (Kernel("copy", 1.0, None),),
    }


def test_memory_belongs_to_the_innermost_slice_at_that_time(tmp_path: Path) -> None:
    """Of its thread; what is freed counts against what is allocated; slices come in any order."""
    found = read(
        tmp_path, ran("late", 60, 10), ran("inner", 10, 10), ran("outer", 0, 50),
        ran("other", 0, 100, tid=2),
        allocated(12, 100), allocated(20, -30), allocated(21, 7), allocated(50, -8),
        allocated(55, 1), allocated(60, 5), allocated(61, 5, tid=3), allocated(5, 3, tid=2),
    )
    assert {each.name: (each.allocated, each.freed) for each in found} == {
        "inner": (70.0, 0.0), "outer": (0.0, 1.0), "late": (5.0, 0.0), "other": (3.0, 0.0)
    }


def test_what_ends_together_is_inside(tmp_path: Path) -> None:
    """Also where the sum of begin and duration is not the number that is written as the end."""
    assert 0.7 + 0.1 < 0.8
    found = read(
        tmp_path, ran("outer", 0, 0.8), ran("inner", 0.7, 0.1), ran("behind", 0.8, 0.1),
        allocated(0.8, 4, tid=2), ran("alone", 0.7, 0.1, tid=2),
    )
    assert {each.name: each.end for each in found} == {
        "outer": 0.8, "inner": 0.8, "behind": 0.9, "alone": 0.8
    }
    assert [each.name for each in found if each.allocated] == ["alone"]


def test_what_is_no_trace(tmp_path: Path) -> None:
    """The message names the file."""
    with pytest.raises(InvalidArgument, match="trace.json is not a trace of torch.profiler: "):
        read(tmp_path, {"ph": "X", "cat": "cpu_op", "name": "a"})


def timed(**seconds: float | None) -> Recording:
    """A module with two operations, one of which has two arguments, and one beside it."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.op("sin", run.input(), grads=("SinBackward0",))
        run.op("cos", x, grads=("CosBackward0",))
    run.op("backward", x)
    found = run.recording()
    for table in ("scopes", "ops"):
        rows = getattr(found, table).values()
        told = {row.id: row.replace(seconds=seconds.get(row.name)) for row in rows}
        found = replace(found, **{table: MappingProxyType(told)})
    return found


def laid(recording: Recording, thread: int = FORWARD) -> dict[str, tuple[float, float]]:
    """The begin and the duration of each slice, in seconds."""
    found = [event for event in events(recording) if event["ph"] == "X" and event["tid"] == thread]
    return {each["name"]: (each["ts"] / 1e6, each["dur"] / 1e6) for each in found}


def test_calls_follow_each_other() -> None:
    """With what a module took itself before, between and behind what ran in it; a module takes no
    less than that, and what has no time takes none."""
    assert laid(timed(Net=9.0, sin=2.0, cos=1.0, backward=4.0)) == {
        "Net": (0.0, 9.0), "sin": (2.0, 2.0), "cos": (6.0, 1.0), "backward": (9.0, 4.0)
    }
    assert laid(timed(Net=1.0, sin=2.0)) == {
        "Net": (0.0, 2.0), "sin": (0.0, 2.0), "cos": (2.0, 0.0), "backward": (2.0, 0.0)
    }


def test_grad_nodes_run_from_their_call_on() -> None:
    """In the order in which they ran, in each pass; one without a time takes none."""
    found = timed(Net=3.0, sin=1.0, backward=5.0)
    sin, cos = found.grad_nodes
    call = next(op.id for op in found.ops.values() if op.name == "backward")
    runs = [(cos, 0, 0, 2.0), (sin, 0, 1, None), (sin, 1, 0, 1.0), (cos, 1, 1, 0.5)]
    grad_runs = tuple(GradRun(*one, (), (), False) for one in reversed(runs))
    backward = BackwardRun(0, call, 5.0, False, False)
    found = replace(found, grad_runs=grad_runs, backward_runs=(backward,))
    entries = [event for event in events(found) if event["tid"] == BACKWARD and event["ph"] == "X"]
    assert [(each["name"], each["ts"] / 1e6, each["dur"] / 1e6) for each in entries] == [
        ("CosBackward0", 3.0, 2.0), ("SinBackward0", 5.0, 0.0),
        ("SinBackward0", 0.0, 1.0), ("CosBackward0", 1.0, 0.5),
    ]
    named = [event["args"]["name"] for event in events(found) if event["name"] == "thread_name"]
    assert named == ["calls", "grad nodes"]


def test_what_is_shown_of_a_call() -> None:
    """The path and class of a module, the function of an operation."""
    found = [event["args"] for event in events(timed(sin=1.0)) if event["ph"] == "X"]
    module, op = found[:2]
    assert module == {"id": "s0", "class": "Net"}
    assert op["function"] == "torch.sin" and "class" not in op


@pytest.mark.parametrize("wrong", [None, [1], "text"])
def test_arguments_that_no_profiler_writes(tmp_path: Path, wrong: Any) -> None:
    """The file is no trace."""
    with pytest.raises(InvalidArgument, match="trace.json is not a trace of torch.profiler"):
        read(tmp_path, {**ran("a", 5), "args": wrong})


def test_names_of_files(tmp_path: Path) -> None:
    """JSON, compressed or not."""
    recording = timed(sin=1.0)
    with pytest.raises(InvalidArgument, match="a trace is called .json or .json.gz, not 'a.txt'"):
        write(recording, tmp_path / "a.txt")
    assert write(recording, tmp_path / "a.JSON").read_bytes().startswith(b"{")
    assert write(recording, tmp_path / "a.json.gz").read_bytes().startswith(b"\x1f\x8b")
    with pytest.raises(InvalidArgument, match="this recording of Net has no times"):
        write(timed(), tmp_path / "b.json")


def test_arguments_with_the_names_of_other_facts() -> None:
    """The facts come first."""
    found = timed(sin=1.0)
    own = (("function", "f"), ("id", "3"), ("dim", "1"))
    ops = {key: op.replace(arguments=own) for key, op in found.ops.items()}
    entries = [event["args"] for event in events(replace(found, ops=ops)) if event["ph"] == "X"]
    shown = next(about for about in entries if about["id"] == "o0")
    assert (shown["function"], shown["dim"]) == ("torch.sin", "1")
