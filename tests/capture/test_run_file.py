"""Runs that are saved by the recorder: at their end, or before if they do not go on."""

from __future__ import annotations

import gc
import os
import queue
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import torchrecorder
from torchrecorder import Recorder
from torchrecorder.capture import run_file
from torchrecorder.capture.modes.fast_paths import NOTE
from torchrecorder.events import UNFINISHED

needs_signals = pytest.mark.skipif(os.name != "posix", reason="launchers send signals")
X = torch.ones(1, 2)


@pytest.fixture
def handled() -> Iterator[list[int]]:
    """The signals that a handler of the program has got."""
    got: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: got.append(number))
    yield got
    signal.signal(signal.SIGTERM, before)


def wait_until(condition: Any) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_run_that_ends_leaves_its_recording(tmp_path: Path) -> None:
    """And nothing else: no file, no thread, nothing that is kept alive."""
    path, layer = tmp_path / "new" / "run.json.gz", nn.Linear(2, 2)
    with Recorder(layer, save=path) as recorder:
        output = layer(X)
        instruments = weakref.ref(recorder._instruments)
        assert "torchrecorder" in [each.name for each in threading.enumerate()]
    assert torchrecorder.load(path) == recorder.recording
    assert recorder.recording.run.failure is None and output.requires_grad
    assert [each.name for each in path.parent.iterdir()] == ["run.json.gz"]
    assert "torchrecorder" not in [each.name for each in threading.enumerate()]
    assert run_file._TermSignal.active is None
    gc.collect()
    assert instruments() is None


def test_starting_is_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until all instruments have started, however long that takes; then only what is recorded."""
    start, given = run_file.RunFile.start, []

    def looked_at(self: Any, progress: Any, unfinished: Any) -> None:
        assert progress() != progress()
        given.append(progress)
        start(self, progress, unfinished)

    monkeypatch.setattr(run_file.RunFile, "start", looked_at)
    with Recorder(save=tmp_path / "run.json"):
        (progress,) = given
        before = progress()
        assert before == progress()
        X.exp()
        assert before != progress()


def test_a_run_that_fails_leaves_its_recording(tmp_path: Path) -> None:
    """With the error, which is the program's own; a file of an earlier run is gone before."""
    path = tmp_path / "run.json"
    path.write_text("old")
    with pytest.raises(ValueError, match="no data"):
        with Recorder(save=path):
            assert not path.exists()
            X.exp()
            raise ValueError("no data")
    loaded = torchrecorder.load(path)
    assert loaded.run.failure is not None and loaded.run.failure.message == "no data"
    assert [op.name for op in loaded.ops.values()] == ["exp"]


class Slow(nn.Module):
    """Waits inside a module until *goes_on* is true."""

    def __init__(self, goes_on: Any) -> None:
        super().__init__()
        self.first, self.goes_on = nn.Linear(2, 2), goes_on

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        wait_until(self.goes_on)
        return x.relu()


def test_a_run_without_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Is saved with the place where it waits; that file is gone as soon as the run goes on."""
    path, found = tmp_path / "run.json.gz", []
    model = nn.Sequential(nn.Linear(2, 2), Slow(path.exists))
    with Recorder(model, save=path, save_after=0.2) as recorder:
        model(X)
        found.append(torchrecorder.load(path))
        for _ in range(500):  # again and again, as a run that goes on
            X.exp()
            time.sleep(0.01)
            if not path.exists():
                break
        else:
            pytest.fail("the file is there while the run goes on")
    failure = found[0].run.failure
    assert failure is not None and failure.error == UNFINISHED and failure.communication is None
    assert failure.message.startswith("no progress for 0.2 s in 1 at ")
    assert "test_run_file.py:" in failure.message
    names = [op.name for op in found[0].ops.values()]
    assert names == ["linear", "linear"] and len(found[0].modules) == 4
    assert found[0].run.running == ("s0", "s2") and recorder.recording.run.running == ()
    assert found[0].scopes[failure.scope].failed and found[0].run.grad_mode == "grad"
    table = found[0].summary()
    assert "still running" in table and f"Unfinished: {failure.message}" in table
    assert "failed" not in table.lower()
    told = capsys.readouterr().err
    assert f"no progress for 0.2 s in 1 at {failure.message.rpartition(' ')[2]}" in told
    assert f"the run goes on; {path} is removed" in told
    assert recorder.recording == torchrecorder.load(path)
    assert recorder.recording.run.failure is None


def test_a_program_that_waits_for_a_queue(tmp_path: Path) -> None:
    """It is where it asks for an item, not in the module that implements the queue."""
    path, found, items = tmp_path / "run.json.gz", [], queue.Queue[None]()

    def put() -> None:
        wait_until(path.exists)
        found.append(torchrecorder.load(path))
        items.put(None)

    thread = threading.Thread(target=put)
    thread.start()
    with Recorder(save=path, save_after=0.2):
        X.exp()
        items.get(timeout=30)
    thread.join()
    failure = found[0].run.failure
    assert failure is not None and "test_run_file.py:" in failure.message


def test_a_run_that_goes_on_is_not_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only if it was saved because it did not."""
    looks: list[int] = []
    file = run_file.RunFile(tmp_path / "run.json", 0.6)

    def progress() -> int:
        looks.append(1)
        return len(looks)

    file.start(progress, lambda reason: torchrecorder.record(nn.Tanh(), X))
    wait_until(lambda: len(looks) > 2)
    with file.ending():
        assert capsys.readouterr().err == ""


def test_a_note_about_several_calls_is_there_once() -> None:
    """Also before the end of the run."""
    layer, x = nn.MultiheadAttention(4, 1, batch_first=True).eval(), torch.ones(1, 2, 4)
    with torch.no_grad(), Recorder(layer) as recorder:
        layer(x, x, x)
        layer(x, x, x)
        found = run_file.unfinished(recorder._instruments, "run", "no_grad", "as an example")
    assert found.run.notes == (NOTE, "saved before the end of the run: as an example")


def test_an_operation_and_a_pass_that_do_not_end(tmp_path: Path) -> None:
    """They are in the recording, as failed."""
    path = tmp_path / "run.json.gz"
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    y.register_hook(lambda gradient: wait_until(path.exists))
    with Recorder(save=path, save_after=0.2):
        y.sin().sum().backward()
        found = torchrecorder.load(path)
    assert [(op.name, op.failed) for op in found.ops.values()] == [
        ("sin", False), ("sum", False), ("backward", True)
    ]
    (run,) = found.backward_runs
    assert run.failed and found.grad_runs and found.run.failure.backward
    assert found.run.running == (found.backward_runs[0].op,)
    assert " in " not in found.run.failure.message  # it is the hook that waits, not backward()
    assert "still running" in torchrecorder.make_dot(found).pipe("svg").decode()


@needs_signals
def test_a_program_that_is_told_to_end(tmp_path: Path, handled: list[int]) -> None:
    """The file is written before its own handler is called; it may go on, and ends as usual."""
    path = tmp_path / "run.json.gz"
    before = signal.getsignal(signal.SIGTERM)
    model = Slow(lambda: handled)
    with Recorder(model, save=path) as recorder:
        assert signal.getsignal(signal.SIGTERM) is before
        os.kill(os.getpid(), signal.SIGTERM)
        model(X)
        assert "told to end (SIGTERM)" in torchrecorder.load(path).run.failure.message
    assert handled == [signal.SIGTERM] and torchrecorder.load(path) == recorder.recording
    os.kill(os.getpid(), signal.SIGTERM)
    wait_until(lambda: len(handled) == 2)


@needs_signals
def test_a_handler_that_is_set_in_the_block_stays(tmp_path: Path) -> None:
    """Also after the block; the run is not saved for it."""
    got: list[int] = []
    before = signal.getsignal(signal.SIGTERM)
    try:
        with Recorder(save=tmp_path / "run.json"):
            signal.signal(signal.SIGTERM, lambda number, _: got.append(number))
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: got)
    finally:
        signal.signal(signal.SIGTERM, before)


@needs_signals
def test_a_handler_that_is_set_while_another_thread_records(tmp_path: Path) -> None:
    """It stays when that thread ends the recorder, where ``signal.signal()`` does not work."""
    got: list[int] = []
    before = signal.getsignal(signal.SIGTERM)
    begun, ends = threading.Event(), threading.Event()

    def record() -> None:
        with Recorder(save=tmp_path / "run.json"):
            begun.set()
            ends.wait(30)

    recording = threading.Thread(target=record)
    try:
        recording.start()
        assert begun.wait(30)
        signal.signal(signal.SIGTERM, lambda number, _: got.append(number))
        ends.set()
        recording.join()
        assert run_file.get_handler(signal.SIGTERM)  # else the signal would end the process
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: got)
    finally:
        signal.signal(signal.SIGTERM, before)


@needs_signals
def test_a_child_process_that_is_told_to_end(tmp_path: Path, handled: list[int]) -> None:
    """Its parent is not; and it leaves the parent's file alone."""
    path, other = tmp_path / "run.json", torchrecorder.record(nn.Linear(2, 2), X)
    with Recorder(save=path) as recorder:
        told, inside = os.fork(), os.fork()
        if told == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            time.sleep(60)
            os._exit(0)
        if inside == 0:
            recorder._file.write(other)  # type: ignore[union-attr]
            os._exit(run_file._TermSignal.active is not None)
        assert os.waitpid(inside, 0)[1] == 0 and not path.exists()
        time.sleep(0.1)
        os.kill(told, signal.SIGTERM)
        assert os.waitpid(told, 0)[1] == signal.SIGTERM
        assert run_file._TermSignal.active is not None
    assert not handled and recorder.recording.run.failure is None


@needs_signals
def test_one_of_two_recorders_gets_the_signal(tmp_path: Path, handled: list[int]) -> None:
    """The outer one; both save their run at its end."""
    outer, inner = tmp_path / "outer.json", tmp_path / "inner.json"
    with Recorder(save=outer), Recorder(save=inner, save_after=60):
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: handled)
        assert outer.exists() and not inner.exists()
    assert torchrecorder.load(outer).run.failure is torchrecorder.load(inner).run.failure is None


@needs_signals
def test_the_outer_recorder_gets_the_signal_after_the_inner_has_ended(
    tmp_path: Path, handled: list[int]
) -> None:
    """As it would without the inner one."""
    outer = tmp_path / "outer.json"
    with Recorder(save=outer):
        with Recorder(save=tmp_path / "inner.json"):
            X.exp()
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: handled)
        assert outer.exists()


@needs_signals
def test_a_signal_while_the_run_ends(tmp_path: Path, handled: list[int]) -> None:
    """Is passed on after the whole run is saved: it would end the process before."""
    recording, path = torchrecorder.record(nn.Linear(2, 2), X), tmp_path / "run.json"
    begun, ends, file = threading.Event(), threading.Event(), run_file.RunFile(path, 60)

    def progress() -> None:
        if begun.is_set():
            ends.wait(30)
        begun.set()

    def unfinished(reason: str) -> Any:
        pytest.fail(f"the run has ended: {reason}")

    file.start(progress, unfinished)
    wait_until(begun.is_set)
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Timer(0.1, ends.set).start()
    with file.ending():
        time.sleep(0.1)
        assert not handled and not path.exists()
        file.write(recording)
    wait_until(lambda: handled)
    assert torchrecorder.load(path) == recording


@needs_signals
def test_a_program_that_is_told_to_end_many_times(tmp_path: Path, handled: list[int]) -> None:
    """Before the thread looks: more signals than fit into its pipe do not block the program."""
    begun, looks = threading.Event(), threading.Event()
    file = run_file.RunFile(tmp_path / "run.json", 60)

    def progress() -> None:
        if begun.is_set():
            looks.wait(30)
        begun.set()

    file.start(progress, lambda reason: torchrecorder.record(nn.Linear(2, 2), X))
    wait_until(begun.is_set)
    for _ in range(2000):
        os.kill(os.getpid(), signal.SIGTERM)
    looks.set()
    wait_until(lambda: handled)
    with file.ending():
        pass


@needs_signals
def test_a_thread_whose_program_sets_a_handler(tmp_path: Path, handled: list[int]) -> None:
    """Only the main thread may set one again; the run ends all the same."""
    begun, changed, found = threading.Event(), threading.Event(), list[Any]()

    def run() -> None:
        with Recorder(save=tmp_path / "run.json") as recorder:
            begun.set()
            changed.wait(30)
        found.append(recorder.recording)

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait(30)
    signal.signal(signal.SIGTERM, lambda number, _: handled.append(number))
    changed.set()
    thread.join()
    assert [torchrecorder.load(tmp_path / "run.json")] == found


@needs_signals
def test_a_program_with_many_open_files(tmp_path: Path, handled: list[int]) -> None:
    """select() refuses descriptors above 1023."""
    resource = pytest.importorskip("resource")
    soft, hard = limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip("so many cannot be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1024)]
    try:
        with Recorder(save=tmp_path / "run.json"):
            os.kill(os.getpid(), signal.SIGTERM)
            wait_until(lambda: handled)
            assert (tmp_path / "run.json").exists()
    finally:
        for each in opened:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
