"""The recorder's own time is kept out of what it reports."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import torchrecorder as tr
from torchrecorder.capture import recorder as recorders
from torchrecorder.capture.hooks.backward import BackwardRuns
from torchrecorder.capture.hooks.modules import ModuleScopes
from torchrecorder.capture.hooks.regions import Regions
from torchrecorder.capture.modes.function_mode import OpRecorder
from torchrecorder.capture.tape import Tape
from torchrecorder.events import ScopeKind


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_time_stands_still_while_an_instrument_works():
    """What passes between pause and resume is the recorder's."""
    clock = Clock()
    tape = Tape(clock=clock)
    opened = tape.enter(ScopeKind.MODULE, "a")
    clock.now += 1
    tape.pause()
    clock.now += 10
    assert tape.time() - opened.started == 1
    tape.resume()
    clock.now += 2
    assert tape.time() - opened.started == 3
    assert tape.overhead == 10


def test_pausing_twice_counts_once():
    """An instrument that calls on another."""
    clock = Clock()
    tape = Tape(clock=clock)
    tape.pause()
    clock.now += 1
    tape.pause()
    clock.now += 1
    tape.resume()
    clock.now += 5
    tape.resume()
    assert (tape.overhead, tape.time()) == (2, 5)


class Counting:
    """A clock that goes on by one with each look at it: looks of ours are time of ours."""

    def __init__(self):
        self.looks = 0

    def __call__(self):
        self.looks += 1
        return float(self.looks)


def test_scopes_and_nodes_take_only_the_users_time(monkeypatch):
    """With a clock that only we wind, the parts never take more than the whole."""
    monkeypatch.setattr(recorders, "Tape", lambda: Tape(clock=Counting()))
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    with tr.Recorder(model) as recorder:
        model(torch.ones(2, 4)).sum().backward()
    recording = recorder.recording
    inner = sum(recording.scopes[each].seconds for each in ("s1", "s2"))
    assert recording.scopes["s0"].seconds >= inner
    assert recording.backward_runs[0].seconds >= sum(ran.seconds for ran in recording.grad_runs)
    assert recording.run.seconds >= recording.scopes["s0"].seconds
    assert recording.run.overhead > 0


OURS = [
    (ModuleScopes, "_enter"), (ModuleScopes, "_returned"), (Regions, "locate"),
    (OpRecorder, "_writes"), (OpRecorder, "_outputs"),
    (BackwardRuns, "behind"), (BackwardRuns, "describe"),
]


@pytest.mark.parametrize(("owner", "name"), OURS, ids=lambda part: getattr(part, "__name__", part))
def test_time_of_the_recorder_is_nobodys(owner, name, monkeypatch):
    """Neither of an operation, nor of a module, nor of a node in backward, nor of the run."""
    now, passed, plain = [0.0], [], getattr(owner, name)

    def slow(*args, **kwargs):
        now[0] += 1.0
        passed.append(name)
        return plain(*args, **kwargs)

    monkeypatch.setattr(owner, name, slow)
    monkeypatch.setattr(recorders, "Tape", lambda: Tape(lambda: now[0]))
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    recording = tr.record(model, torch.ones(1, 2), backward=True)
    timed = (*recording.ops.values(), *recording.scopes.values(), *recording.grad_runs)
    assert {item.seconds for item in (*timed, *recording.backward_runs)} == {0.0}
    assert recording.run.seconds == 0.0 and recording.run.overhead == len(passed) > 0
