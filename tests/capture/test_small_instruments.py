"""Instruments one method at a time: devices, memory and profilers, by hand."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import torchrecorder
from torchrecorder.capture.observer import Observer
from torchrecorder.capture.probes import device, flops, memory, probes, profiled
from torchrecorder.capture.probes.device import DeviceWatched
from torchrecorder.capture.probes.memory import MemoryWatched
from torchrecorder.capture.probes.probes import Extras, Started
from torchrecorder.capture.tape import Tape
from torchrecorder.events import BYTES_PEAK, SECONDS_ON_DEVICE, Allocation, Measured
from torchrecorder.graph.median_runs import COUNTING
from torchrecorder.trace.slices import MARK, Kernel

# A device ---------------------------------------------------------------------------------


class Cuda:
    """Devices with clocks and a memory that are set by hand."""

    def __init__(self) -> None:
        self.clocks = {"cuda:3": 0.0, "cuda:5": 0.0}
        self.current, self.peak = 0, 0
        self.capturing, self.initialized = False, True
        self.synchronized: list[int] = []
        self.elsewhere = 0
        outer = self

        class Event:
            def __init__(self, device: str, *, enable_timing: bool) -> None:
                assert enable_timing
                self.device = device

            def record(self) -> None:
                self.at = outer.clocks[self.device]

            def elapsed_time(self, other: Any) -> float:
                return float(other.at - self.at)

        self.Event = Event

    def is_initialized(self) -> bool:
        """Whether it is used."""
        return self.initialized

    def current_device(self) -> int:
        """Its number."""
        return 3

    def is_current_stream_capturing(self) -> bool:
        """Whether a graph is made."""
        return self.capturing

    def synchronize(self, device: int) -> None:
        """Wait."""
        self.synchronized.append(device)

    def memory_stats_as_nested_dict(self, device: int) -> Any:
        """Bytes."""
        found = self.current, self.peak
        if device != 3:
            found = self.elsewhere, self.elsewhere
        return {"allocated_bytes": {"all": dict(zip(("current", "peak"), found))}}


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    """A device in the place of that of PyTorch."""
    made = Cuda()
    monkeypatch.setattr(device, "torch", SimpleNamespace(cuda=made, Event=made.Event))
    return made


def measured(tape: Tape, what: str) -> dict[str, float]:
    """The numbers on a tape."""
    found = (event for event in tape.events if isinstance(event, Measured))
    return {event.node: event.amount for event in found if event.quantity == what}


def scope(name: str) -> Any:
    """A call that is open."""
    return SimpleNamespace(scope=name)


def test_a_device_is_in_use_once_it_is_initialized(cuda: Cuda) -> None:
    """One that is only there is left alone."""
    assert device.in_use()
    cuda.initialized = False
    assert not device.in_use()


def test_seconds_on_a_device(cuda: Cuda) -> None:
    """Between the events around an op or a node on its device; of all runs of a node, none while a
    graph is made, nor for results and gradients that are elsewhere."""
    tape = Tape()
    watched: Any = DeviceWatched(tape)

    def op(name: str, made: Tensor | None) -> None:
        watched.op_begins(name)
        cuda.clocks["cuda:3"] += 500.0
        cuda.clocks["cuda:5"] += 125.0
        watched.op_ended(name)
        if made is not None:
            watched.op_made(name, "relu", [("v1", torch.ones(1)), ("v2", made)])

    op("o1", on_device(3))
    op("o2", torch.ones(1))
    op("o3", None)
    op("o4", on_device(5))  # the first on that device: when it began is not known
    op("o5", on_device(5))
    cuda.capturing = True
    op("o6", on_device(3))
    cuda.capturing = False
    for run in (0, 1):
        watched.node_begins("g1", run, (None, on_device(5)))
        cuda.clocks["cuda:5"] += 250.0
        watched.node_ended("g1", run)
    watched.node_begins("g2", 0, (None, torch.ones(1)))
    watched.node_ended("g2", 0)
    watched.finish()
    seconds = [event for event in tape.events if isinstance(event, Measured)
               and event.quantity == SECONDS_ON_DEVICE]
    assert [(event.node, event.amount) for event in seconds] == [
        ("o1", 0.5), ("o5", 0.125), ("g1", 0.25), ("g1", 0.25)
    ]
    assert cuda.synchronized == [3, 5]


def on_device(number: int) -> Tensor:
    """A tensor that seems to be on this device."""
    facts = {"is_cuda": True, "get_device": lambda self: number}
    there: Any = type("There", (Tensor,), facts)
    return torch.ones(1).as_subclass(there)


def test_peaks_on_a_device(cuda: Cuda) -> None:
    """What is allocated on all devices after each step, or a new peak within it; of all that is
    open."""
    cuda.current = cuda.peak = 100
    tape = Tape()
    watched: Any = DeviceWatched(tape)

    def op(name: str, current: int, peak: int, device: int = 3) -> None:
        watched.op_begins(name)
        cuda.current, cuda.peak = current, peak
        watched.op_ended(name)
        watched.op_made(name, "relu", [("v1", on_device(device))])

    tape.stack = [scope("s0"), scope("s1")]
    watched.scope_entered(tape.stack[-1])
    op("o1", 50, 100)
    op("o2", 60, 300)
    op("o3", 60, 300)
    tape.stack.pop()
    watched.node_begins("g1", 0, (on_device(3),))
    cuda.current = cuda.peak = 400
    watched.node_ended("g1", 0)
    watched.scope_left(tape.stack[-1], [])
    cuda.elsewhere = 1000
    op("o4", 10, 400, 5)
    op("o5", 10, 400, 5)
    watched.finish()
    assert measured(tape, BYTES_PEAK) == {
        "s0": 1010, "s1": 300, "o1": 50, "o2": 300, "o3": 60, "g1": 400, "o4": 10, "o5": 1010
    }


def test_a_device_that_the_run_does_not_use(cuda: Cuda) -> None:
    """Is not asked for the peaks of operations on a CPU."""
    cuda.current = cuda.peak = 100
    tape = Tape()
    watched: Any = DeviceWatched(tape)
    watched.op_begins("o1")
    watched.op_ended("o1")
    watched.op_made("o1", "relu", [("v1", torch.ones(1))])
    watched.finish()
    assert not watched.used and not tape.events and not cuda.synchronized
    watched.node_begins("g1", 0, (on_device(3),))
    assert watched.used


def test_a_device_that_is_first_used_during_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is watched from then on; if none is, no call is left behind."""
    waiting = list(torch.cuda._queued_calls)
    begun: list[Tape] = []
    monkeypatch.setattr(probes, "DeviceWatched", lambda tape: begun.append(tape) or Observer())
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    with torchrecorder.Recorder():
        torch.ones(1).exp()
        ((call, _),) = torch.cuda._queued_calls[len(waiting):]
        assert not begun
        call()
        assert len(begun) == 1
    assert torch.cuda._queued_calls == waiting


# What is asked for ------------------------------------------------------------------------


def test_nothing_is_measured_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each instrument is started if it is asked for; that of the device if one is used."""
    assert not any(vars(Extras()).values())

    def started(**chosen: Any) -> tuple[list[str], list[str]]:
        tape, inside = Tape(), Tape()
        values = SimpleNamespace(storages=None, named={}, entries={})
        backward: Any = SimpleNamespace(autograd=SimpleNamespace(values=values))
        running: Any = None
        with contextlib.ExitStack() as stack:
            Extras(**chosen).start(Started(), tape, backward, running, stack)
        assert not inside.events
        return [type(each).__name__ for each in tape.observers], tape.notes

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert started() == ([], [])
    assert started(stats=True) == (["StatisticsTaken"], [])
    assert started(keep=["a"]) == (["TensorsKept"], [])
    assert started(replay=True) == (["NodesKept"], [])
    assert started(memory=True) == (["MemoryWatched"], [])
    assert started(flops=True) == ([], [COUNTING])
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(probes, "DeviceWatched", lambda tape: "device")
    assert started()[0] == ["str"]


def test_operations_are_counted() -> None:
    """Twice the products, forward and backward."""
    recording = torchrecorder.record(lambda x: x @ x, torch.ones(2, 2, requires_grad=True),
                                     flops=True, backward=True)
    assert sum(recording.annotations["flops"].by_node.values()) == 16
    assert sum(recording.annotations["backward_flops"].by_node.values()) == 32


def test_operators_that_are_only_traced_are_noted_once() -> None:
    """However many there are; they run."""
    counting: Any = object.__new__(flops.FlopsCounted)
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
    yield MemoryWatched(Tape(), backward)


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
             enumerate([(10, 1, 3), (5, 2, None), (100, 4, None)])]  # fmt: skip
    watched._write_peaks(found)
    assert watched.windows == {"s1": (2, 3), "o1": (3, 4), "s0": (0, 4)}
    assert measured(watched.tape, BYTES_PEAK) == {"s1": 15, "o1": 105, "s0": 105}


def test_names_of_kernels() -> None:
    """Those that adopt what was just made are no views."""
    aten = torch.ops.aten
    assert memory._name(aten.add.Tensor) == "aten::add" and memory._name(len) == ""
    gives = [memory._gives_arguments(each) for each in (
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

    made: Any = profiled.Ranges()
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
             "sequence_nr": -1, "self_cpu_memory_usage": 0, "self_device_memory_usage": 0,
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
        event("b", 1.0, 3.0, self_cpu_memory_usage=-2, self_device_memory_usage=4, sequence_nr=8),
        event("[memory]", 1.0, 1.0), event("c", 1.0, 2.0, is_async=True), event("k", 1, 2, **gpu),
    )
    assert (one.name, one.begin, one.end, one.allocated, one.freed, one.flops) == (
        "a", 1.0, 3.0, 5, 7, 9
    )
    assert (other.allocated, other.freed, other.sequence, other.flops) == (4, 2, 8, 0)


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
