"""Times and memory of devices, whose clocks and memory are set by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import torchrecorder
from tests.capture.test_small_instruments import measured, scope
from torchrecorder.capture.probes import device, probes
from torchrecorder.capture.probes.device import DeviceProbe
from torchrecorder.capture.scope import Observer
from torchrecorder.capture.tape import Tape
from torchrecorder.events import BYTES_PEAK, SECONDS_ON_DEVICE, Measured


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


def test_seconds_on_a_device(cuda: Cuda) -> None:
    """Between the events around an op or a node on its device; of all runs of a node, none while a
    graph is made, nor for results and gradients that are elsewhere."""
    tape = Tape()
    watched: Any = DeviceProbe(tape)

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
    watched: Any = DeviceProbe(tape)

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
    watched: Any = DeviceProbe(tape)
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
    monkeypatch.setattr(probes, "DeviceProbe", lambda tape: begun.append(tape) or Observer())
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    with torchrecorder.Recorder():
        torch.ones(1).exp()
        ((call, _),) = torch.cuda._queued_calls[len(waiting):]
        assert not begun
        call()
        assert len(begun) == 1
    assert torch.cuda._queued_calls == waiting
