"""Ctrl-C at any time: it reaches the user, and no hook or patch stays."""

from __future__ import annotations

import functools
import gc
import signal
import sys
import threading

import pytest
import torch
from torch import nn

import torchrecorder
from torchrecorder.capture.autograd.hidden_ops import HiddenOps
from torchrecorder.capture.hooks.deferred_recorder import DeferredRecorder
from torchrecorder.capture.hooks.other_threads import OtherThreads
from torchrecorder.capture.hooks.python_calls import PythonCalls
from torchrecorder.capture.modes.function_mode import FunctionMode
from torchrecorder.capture.module_registry import ModuleRegistry
from torchrecorder.capture.state.force_eager import ForceEager
from torchrecorder.capture.state.interrupts import interrupts_held
from torchrecorder.capture.state.shared_patch import SharedPatch
from torchrecorder.testing.inert import _of_process


@pytest.fixture(autouse=True)
def raises_interrupts():
    """The usual handler, also where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted_in(monkeypatch, owner, name):
    """Send one SIGINT when a method begins."""
    method, left = getattr(owner, name), [signal.SIGINT]

    @functools.wraps(method)
    def call(*args, **kwargs):
        if left:
            signal.raise_signal(left.pop())
        return method(*args, **kwargs)

    monkeypatch.setattr(owner, name, call)


def patches():
    """How many recorders each patch of the process still serves, and what else they change."""
    shared = [item for item in gc.get_objects() if isinstance(item, SharedPatch)]
    account = _of_process()
    account["patches"] = sum(len(item.users) for item in shared)
    account["new threads"] = threading.getprofile()
    account["finders"] = [*sys.meta_path]
    account["traced"] = sys._getframe(1).f_trace
    account["handler"] = signal.getsignal(signal.SIGINT)
    return account


WHILE_ENTERING = [
    (OtherThreads, "__enter__"),
    (FunctionMode, "__enter__"),
    (SharedPatch, "add"),
]
WHILE_LEAVING = [
    (ForceEager, "_remove_import_hook"),
    (torchrecorder.Recorder, "_file_ending"),
    (OtherThreads, "__exit__"),
    (FunctionMode, "__exit__"),
    (PythonCalls, "__exit__"),
    (SharedPatch, "remove"),
]


@pytest.mark.parametrize("owner, name", [*WHILE_ENTERING, *WHILE_LEAVING])
def test_while_instruments_are_installed_or_removed(monkeypatch, owner, name):
    """The interrupt is held back until this is done."""
    model, x = nn.Linear(3, 3), torch.ones(2, 3)
    torchrecorder.record(model, x)
    before = patches()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        interrupted_in(patch, owner, name)
        with torchrecorder.Recorder(model):
            model(x).sum().backward()
    assert patches() == before


@pytest.mark.parametrize("owner, name", [*WHILE_ENTERING, *WHILE_LEAVING])
def test_while_a_deferred_recorder_begins_or_ends(monkeypatch, owner, name):
    """Also in the hooks in which it does so, between modes of the program."""
    model, x, before = nn.Linear(3, 3), torch.ones(2, 3), patches()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        interrupted_in(patch, owner, name)
        with DeferredRecorder(lambda module, frame: module is model):
            for _ in range(2):
                model(x)
    assert patches() == before


@pytest.mark.parametrize("owner, name", [(HiddenOps, "find_unread"), (ModuleRegistry, "finish")])
def test_while_the_recording_is_completed(monkeypatch, owner, name):
    """There is no recording then."""
    model, x, before = nn.Linear(3, 3), torch.ones(2, 3), patches()
    recorder = torchrecorder.Recorder(model)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        interrupted_in(patch, owner, name)
        with recorder:
            model(x)
    assert patches() == before
    assert recorder.scopes == () and not recorder.is_backward
    with pytest.raises(torchrecorder.RecorderInUse):
        recorder.recording


def test_while_buffers_are_put_back(monkeypatch):
    """`record` puts all of them back."""
    model = nn.Sequential(nn.BatchNorm1d(3), nn.BatchNorm1d(3))
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        interrupted_in(patch, torchrecorder.capture.state.restore._Buffers, "put_back")
        torchrecorder.record(model, torch.rand(4, 3))
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())


def test_the_handler_of_the_program_is_called_once():
    """With the number of the signal, after the block."""
    calls = []
    signal.signal(signal.SIGINT, lambda number, frame: calls.append((number, frame is None)))
    with interrupts_held(), interrupts_held():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert calls == []
    assert calls == [(signal.SIGINT, False)]


def test_other_threads_and_handlers_are_left_alone():
    """Only the main thread may set handlers; one that is no function is kept."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    seen = []

    def hold():
        with interrupts_held():
            seen.append(signal.getsignal(signal.SIGINT))

    hold()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_IGN, signal.default_int_handler]
