"""Small facts that probes measure: who waits, what is counted, when memory is released."""

from __future__ import annotations

import contextlib
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from torchrecorder.capture.probes import communications
from torchrecorder.capture.probes.communications import _Pending
from torchrecorder.capture.tape import Tape
from tests.zoo.case import net

# Communication ----------------------------------------------------------------------------


class Clock:
    """A clock that is set."""

    now = 0.0

    def clock(self) -> float:
        """The time."""
        return self.now


def pending(clock: Any, name: str = "all_reduce") -> _Pending:
    """A communication that begins now."""
    return _Pending(clock, SimpleNamespace(name=name), [], True)  # type: ignore[arg-type]


def test_time_of_a_communication_with_its_end() -> None:
    """Until it is done, whoever waits after that; waiting twice adds up."""
    clock = Clock()
    one = pending(clock)
    clock.now = 3.0
    one.done()
    clock.now = 5.0
    one.done()
    assert (one.seconds, one.blocked) == (3.0, None)
    one.waited(4.0)
    clock.now = 9.0
    one.waited(7.0)
    assert (one.seconds, one.blocked) == (3.0, 3.0)


@pytest.mark.parametrize(("name", "seconds"), [("recv", 5.0), ("send", None)])
def test_time_of_a_communication_without_an_end(name: str, seconds: float | None) -> None:
    """Until the first wait was over; what was sent may still be on its way then."""
    clock = Clock()
    one = pending(clock, name)
    for clock.now in (5.0, 8.0):
        one.waited(clock.now - 1.0)
    assert (one.seconds, one.blocked) == (seconds, 2.0)


def test_the_end_of_a_communication_is_asked_for() -> None:
    """Where nobody was told of it yet; once."""
    clock = Clock()
    one, other = pending(clock), pending(clock)
    one.future = SimpleNamespace(done=lambda: True)
    other.future = SimpleNamespace(done=lambda: False)
    clock.now = 2.0
    for each in (one, other, one):
        each.settle()
        clock.now += 1.0
    assert (one.seconds, one.future) == (2.0, None)
    assert other.seconds is None and other.future is not None


class Work:
    """What the program can wait for."""

    def __init__(self, is_done: bool) -> None:
        self.is_done = is_done


@pytest.mark.parametrize("is_done", [False, True])
def test_a_communication_is_asked_only_while_it_runs(is_done: bool, monkeypatch: Any) -> None:
    """One that was done at once has told its end."""
    clock, asked = Clock(), SimpleNamespace(done=lambda: True)

    def when_done(work: Work, tell: Any) -> Any:
        if work.is_done:
            tell()
        return asked

    monkeypatch.setattr(communications, "work_in", lambda result: result)
    monkeypatch.setattr(communications, "when_done", when_done)
    listener: Any = SimpleNamespace(tape=Tape(), _works={})
    begun, work = pending(clock), Work(is_done)
    communications.Communications.ends(listener, begun, work)
    assert begun.future is (None if is_done else asked)
    assert listener._works[id(work)][0]() is work and listener._works[id(work)][1] is begun


def test_what_arrives_at_the_end_of_a_wait_or_a_pass() -> None:
    """The tensor that was waited for, whoever wrote it; of a pass, what began in it."""
    arrived: list[Any] = []
    storages = SimpleNamespace(arrive=arrived.append)
    listener: Any = SimpleNamespace(
        values=SimpleNamespace(storages=storages, named={}), _arrive=arrived.append,
        _working=contextlib.nullcontext, _found=[pending(Clock()) for _ in range(2)],
    )
    tensor = torch.ones(1)
    communications.Communications.waited(listener, (tensor, None, 0.0))
    assert arrived == [tensor]
    for one, is_backward in zip(listener._found, (False, True)):
        one.communication.backward = is_backward
    communications.Communications.backward_ended(listener)
    assert arrived == [tensor, listener._found[1]]


# What is counted --------------------------------------------------------------------------


def test_parameters_of_no_module_are_not_saved() -> None:
    """They are there anyway, as those of modules are; other tensors count."""
    weight, plain = nn.Parameter(torch.ones(4)), torch.ones(8)

    def saved(other: Tensor) -> float:
        x = torch.ones((), requires_grad=True)
        recording = torchrecorder.record(lambda x: x * other, (x,), saved=True)
        return sum(recording.annotations["saved_bytes"].by_node.values())

    assert saved(plain) == plain.nbytes
    assert saved(weight) == 4  # the other factor


@pytest.mark.parametrize("pattern", ["Net", "a.b", "a.b: sin", "a.*"])
def test_a_pattern_that_matches_is_no_reason_to_warn(pattern: str) -> None:
    """The name of the outermost call, or the path of another."""
    inner = net(lambda self, x: x.sin())
    model = net(lambda self, x: self.a(x), a=net(lambda self, x: self.b(x), b=inner))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torchrecorder.record(model, torch.ones(1), keep=[pattern])


def test_an_operation_without_results_has_none_that_are_kept() -> None:
    """Not even an empty list of them."""
    model = net(lambda self, x: x * x.item())
    recording = torchrecorder.record(model, torch.ones(1), keep=["Net: item", "Net: mul"])
    assert list(recording.activations) == ["Net: mul"]


def test_memory_that_is_released_before_anything_ran() -> None:
    """It was released in nothing that has a name."""
    model = nn.Sequential(nn.Linear(2, 2, bias=False))
    with torchrecorder.Recorder(model, memory=True) as recorder:
        del model[0]
        torch.ones(3)
    recording = recorder.recording
    assert recording.run.lost == 0
    (weight,) = (item for item in recording.allocations if item.bytes == 16)
    assert (weight.freed_in, weight.role) == ("", "parameter") and weight.end is not None
