"""Instruments one method at a time: memory and profilers, by hand."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import torchrecorder
from torchrecorder.capture.probes import flops, memory, probes, profiled
from torchrecorder.capture.probes.memory import MemoryProbe
from torchrecorder.capture.probes.probes import Probes, Started
from torchrecorder.capture.tape import Tape
from torchrecorder.events import BYTES_PEAK, Allocation, Measured
from torchrecorder.graph.median_runs import COUNTING
from torchrecorder.trace.slices import MARK, Kernel


def measured(tape: Tape, what: str) -> dict[str, float]:
    """The numbers on a tape."""
    found = (event for event in tape.events if isinstance(event, Measured))
    return {event.node: event.amount for event in found if event.quantity == what}


def scope(name: str) -> Any:
    """A call that is open."""
    return SimpleNamespace(scope=name)


# What is asked for ------------------------------------------------------------------------


def test_nothing_is_measured_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each instrument is started if it is asked for; that of the device if one is used."""
    assert not any(vars(Probes()).values())

    def started(**chosen: Any) -> tuple[list[str], list[str]]:
        tape, inside = Tape(), Tape()
        values = SimpleNamespace(storages=None, named={}, entries={})
        backward: Any = SimpleNamespace(autograd=SimpleNamespace(values=values))
        running: Any = None
        with contextlib.ExitStack() as stack:
            Probes(**chosen).start(Started(), tape, backward, running, stack)
        assert not inside.events
        return [type(each).__name__ for each in tape.observers], tape.notes

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert started() == ([], [])
    assert started(stats=True) == (["StatisticsProbe"], [])
    assert started(keep=["a"]) == (["TensorKeeper"], [])
    assert started(replay=True) == (["ReplayProbe"], [])
    assert started(memory=True) == (["MemoryProbe"], [])
    assert started(flops=True) == ([], [COUNTING])
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(probes, "DeviceProbe", lambda tape: "device")
    assert started()[0] == ["str"]


def test_operations_are_counted() -> None:
    """Twice the products, forward and backward."""
    recording = torchrecorder.record(lambda x: x @ x, torch.ones(2, 2, requires_grad=True),
                                     flops=True, backward=True)
    assert sum(recording.annotations["flops"].by_node.values()) == 16
    assert sum(recording.annotations["backward_flops"].by_node.values()) == 32


def test_operators_that_are_only_traced_are_noted_once() -> None:
    """However many there are; they run."""
    counting: Any = object.__new__(flops.FlopProbe)
    counting.tape = Tape()
    for number in range(2):
        ran = counting.run_operator(lambda *given, **named: (given, named), (number,), {"a": 1})
        assert ran == ((number,), {"a": 1})
    assert counting.tape.notes == [flops.UNCOUNTED]


# Memory -----------------------------------------------------------------------------------


@pytest.fixture
def watched() -> Iterator[Any]:
    """An instrument for memory on a tape of its own."""
    from torchrecorder.capture.tensors.storage import Storages

    values = SimpleNamespace(storages=Storages(), named={})
    backward: Any = SimpleNamespace(
        autograd=SimpleNamespace(values=values), current=lambda: None, last_started=lambda: None
    )
    yield MemoryProbe(Tape(), backward)


@pytest.mark.parametrize(("shows", "ignores", "seen"), [
    (True, False, True), (True, True, True), (False, False, True), (False, True, False),
])
def test_kernels_that_allocate(
    shows: bool, ignores: bool, seen: bool, watched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are seen, unless the recorder itself runs higher-order operators."""
    monkeypatch.setattr(memory, "SHOWS_OPERATORS", shows)
    watched.tape.ignores_calls = ignores
    with watched:
        kept = torch.ones(5)
    assert ([amount for amount, _, _ in watched.begun.values()] == [20]) == seen
    assert kept.sum() == 5


def test_memory_is_allocated_in_what_runs(watched: Any) -> None:
    """Ops and nodes, not calls: what is released in a call was released after the last op."""
    watched._begin("o1")
    watched.scope_entered(scope("s1"))
    assert watched._node == "o1"
    watched.node_begins("g1", 0, ())
    assert watched._node == "g1"


def test_peaks_of_live_bytes(watched: Any) -> None:
    """The most that was allocated at once while something was open."""
    for place, allocated in (("s0", 2), ("s1", 1), ("o1", 0)):
        watched._begin(place)
        for _ in range(allocated):
            watched.moment += 1
    watched._end("s1")
    watched.moment += 1
    for place in ("o1", "s0"):
        watched._end(place)
    found = [Allocation(n, size, "", begin, "", end, "", -1) for n, (size, begin, end) in
             enumerate([(10, 1, 3), (5, 2, None), (100, 4, None)])]
    watched._write_peaks(found)
    assert watched.windows == {"s1": (2, 3), "o1": (3, 4), "s0": (0, 4)}
    assert measured(watched.tape, BYTES_PEAK) == {"s1": 15, "o1": 105, "s0": 105}


def test_names_of_kernels() -> None:
    """Those that adopt what was just made are no views."""
    aten = torch.ops.aten
    assert memory._name(aten.add.Tensor) == "aten::add" and memory._name(len) == ""
    gives = [memory._returns_aliases(each) for each in (
        aten.add.Tensor, aten.add_.Tensor, aten.t.default, aten.lift_fresh.default, len
    )]
    assert gives == [False, True, True, False, False]


def test_tensors_among_the_arguments_of_a_kernel() -> None:
    """Also in lists, one level deep."""
    a, b, c = (torch.ones(1) for _ in range(3))
    assert memory._tensors(a) == [a] and memory._tensors(3) == [] == memory._tensors("ab")
    assert [id(each) for each in memory._tensors((a, 1, [b, 2, [c]]))] == [id(a), id(b)]
    assert memory._tensors({"x": a}.values()) == [a]


# A profiler -------------------------------------------------------------------------------


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Writes down which ranges begin and end."""
    log: list[str] = []

    @contextlib.contextmanager
    def profiler_range(name: str) -> Iterator[None]:
        log.append(f"+{name.removeprefix(MARK)}")
        yield
        log.append(f"-{name.removeprefix(MARK)}")

    monkeypatch.setattr(profiled, "profiler_range", profiler_range)
    return log


def test_ranges_of_a_profiler(ranges: list[str]) -> None:
    """Of calls, ops and nodes; those that an exception left are ended with what is around."""
    def call(name: str, path: str) -> Any:
        return SimpleNamespace(scope=name, event=SimpleNamespace(path=path, name="Net"))

    made: Any = profiled.ProfilerRanges()
    made.scope_entered(call("s0", ""))
    made.scope_entered(call("s1", "fc"))
    made.op_begins("o0")
    made.op_ended("o0")
    made.node_begins("g0", 0, ())
    made.scope_left(call("s1", "fc"), [])
    assert ranges == ["+s0 Net", "+s1 fc", "+o0", "-o0", "+g0", "-g0", "-s1 fc"]
    ranges.clear()
    made.op_begins("o1")
    made.op_begins("o2")
    made.op_ended("o9")
    made.scope_left(call("s0", ""), [])
    assert ranges == ["+o1", "+o2", "-o2", "-o1", "-s0 Net"]
    ranges.clear()
    made.op_begins("o3")
    made.finish()
    assert ranges == ["+o3", "-o3"]


def event(name: str, start: float, end: float, **facts: Any) -> Any:
    """An event of a profiler."""
    usual = {"device_type": SimpleNamespace(name="CPU"), "is_async": False, "thread": 1, "id": 0,
             "self_cpu_memory_usage": 0, "self_device_memory_usage": 0,
             "flops": None, "kernels": [], "cpu_children": []}
    times = SimpleNamespace(start=start, end=end)
    return SimpleNamespace(name=name, time_range=times, **{**usual, **facts})


def slices(*events: Any) -> Any:
    """Those of the events."""
    return profiled.slices_of(SimpleNamespace(events=lambda: events))


def test_slices_of_a_profiler() -> None:
    """What ran on the CPU: bytes that were allocated and freed, on either side."""
    gpu = {"device_type": SimpleNamespace(name="CUDA")}
    (one, other) = slices(
        event("a", 1.0, 3.0, self_cpu_memory_usage=5, self_device_memory_usage=-7, flops=9),
        event("b", 1.0, 3.0, self_cpu_memory_usage=-2, self_device_memory_usage=4),
        event("[memory]", 1.0, 1.0), event("c", 1.0, 2.0, is_async=True), event("k", 1, 2, **gpu),
    )
    assert (one.name, one.begin, one.end, one.allocated, one.freed, one.flops) == (
        "a", 1.0, 3.0, 5, 7, 9
    )
    assert (other.allocated, other.freed, other.flops) == (4, 2, 0)


def test_kernels_that_an_event_launched() -> None:
    """With their seconds, and the seconds from the launch to their begin, where it is known."""
    gpu = {"device_type": SimpleNamespace(name="CUDA")}
    launches = [event("cudaLaunchKernel", 10.0, 11.0, id=4),
                event("cuLaunchKernel", 20.0, 21.0, id=5)]
    kernels = [SimpleNamespace(name="k", duration=3.0), SimpleNamespace(name="l", duration=4.0)]
    ran = [event("k", 15.0, 18.0, id=4, **gpu), event("l", 19.0, 23.0, id=5, **gpu)]
    others = [event("aten::add", 0.0, 1.0, id=4), event("cudaMalloc", 0.0, 1.0, id=6)]
    op = event("a", 5.0, 30.0, kernels=kernels, cpu_children=[*others, *launches])
    assert slices(op, *ran)[0].kernels == (Kernel("k", 3e-6, 5e-6), Kernel("l", 4e-6, 0.0))
    assert slices(op, *ran[:1])[0].kernels == (Kernel("k", 3e-6, None), Kernel("l", 4e-6, None))


def test_a_profiler_that_has_stopped() -> None:
    """It has results."""
    running, done = SimpleNamespace(kineto_results=None), SimpleNamespace(kineto_results=1)
    for wrapped in (lambda inner: inner, lambda inner: SimpleNamespace(profiler=inner)):
        assert profiled.is_done(wrapped(done)) and not profiled.is_done(wrapped(running))
    assert not profiled.is_done(object())
