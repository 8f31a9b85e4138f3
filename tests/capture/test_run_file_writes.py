"""Where and how the file of a run is written: closed streams, errors, many open files, options."""

from __future__ import annotations

import gc
import io
import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import torchrecorder
from tests.capture.test_run_file import X, needs_signals, wait_until
from torchrecorder import Recorder
from torchrecorder.capture import run_file
from torchrecorder.errors import InvalidArgument, Notice


@needs_signals
def test_files_that_are_open_in_the_block_are_closed(tmp_path: Path) -> None:
    """The program can record as often as it likes."""
    def opened() -> int:
        gc.collect()
        with Recorder(save=tmp_path / "run.json"):
            X.exp()
        return len(os.listdir("/dev/fd"))

    assert opened() == opened() == opened()


def test_an_inner_recorder_looks_at_times(tmp_path: Path) -> None:
    """It has no signal to wait for, and does not look all the time."""
    looks: list[int] = []
    file = run_file.RunFile(tmp_path / "inner.json", 4)
    with Recorder(save=tmp_path / "run.json"):
        file.start(lambda: looks.append(1), lambda reason: torchrecorder.record(nn.Tanh(), X))
        time.sleep(0.5)
        with file.ending():
            assert len(looks) < 5


def test_an_interrupt_while_the_thread_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends all the same, and is saved."""
    path = tmp_path / "run.json"
    with pytest.raises(KeyboardInterrupt):
        with Recorder(save=path) as recorder:
            X.exp()
            thread = recorder._file._thread  # type: ignore[union-attr]

            def interrupted() -> None:
                monkeypatch.undo()
                raise KeyboardInterrupt

            monkeypatch.setattr(thread, "join", interrupted)
    assert torchrecorder.load(path) == recorder.recording
    thread.join()


def test_a_stream_that_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a recording that cannot be saved: the thread goes on."""
    monkeypatch.setattr("sys.stderr", io.StringIO())
    sys.stderr.close()
    path, calls = tmp_path / "run.json", []
    save = run_file.RunFile._save

    def fails_once(*args: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("full")
        save(*args)

    monkeypatch.setattr(run_file.RunFile, "_save", fails_once)
    with Recorder(save=path, save_after=0.2):
        wait_until(lambda: calls)
        X.exp()
        wait_until(path.exists)
    monkeypatch.undo()


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    """Is an error before the run; afterwards it is no error of the program."""
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "run.json", tmp_path / f"{'long' * 61}.json"):
        with pytest.raises(OSError, match=path.name):
            with Recorder(save=path):
                pytest.fail("the run began")
    with pytest.warns(Notice, match="the recording was not saved: "):
        with Recorder(save=tmp_path / "run.json") as recorder:
            recorder._file.path = tmp_path / "file" / "run.json"  # type: ignore[union-attr]
            X.exp()
    assert len(recorder.recording.ops) == 1


def test_a_folder_that_the_program_removes(tmp_path: Path) -> None:
    """Is made again, as one of results that is emptied for each run."""
    folder = tmp_path / "results"
    with Recorder(save=folder / "run.json") as recorder:
        folder.rmdir()
        X.exp()
    assert torchrecorder.load(folder / "run.json") == recorder.recording


@pytest.mark.parametrize(("options", "message"), [
    ({"save": "run.svg"}, "a recording is saved as .json or .json.gz"),
    ({"save": 3}, "save must be"),
    ({"save_after": 0}, "save_after must be a number of seconds above 0"),
])
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    """Are refused before the run."""
    with pytest.raises(InvalidArgument, match=message):
        Recorder(**options)


def test_where_a_run_without_progress_is(tmp_path: Path) -> None:
    """The line is the program's own, also if it waits in the standard library; an operation that
    takes long has its name."""
    def waits() -> str:
        saved = threading.Event()
        threading.Thread(target=lambda: (wait_until(path.exists), saved.set())).start()
        saved.wait(30)
        return torchrecorder.load(path).run.failure.message  # type: ignore[union-attr]

    class Long(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *args: Any) -> Any:
            return waits()

    path = tmp_path / "run.json"
    with Recorder(save=path, save_after=0.2):
        assert re.fullmatch(r"no progress for 0.2 s at \S*test_run_file_writes.py:\d+", waits())
    with Recorder(save=path, save_after=0.2):
        place = r"no progress for 0.2 s in sin\(\) at \S*test_run_file_writes.py:\d+"
        assert re.fullmatch(place, torch.sin(X.as_subclass(Long)))  # type: ignore[call-overload]


@pytest.mark.parametrize("place", [0, 1])
def test_a_run_that_waits_for_a_communication(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file says for which, of those that have begun."""
    path, found = tmp_path / "run.json", list[Any]()

    def waits(*given: Any) -> None:
        wait_until(path.exists)
        found.append(torchrecorder.load(path))

    monkeypatch.setattr(torch._C._distributed_c10d.Work, "wait", waits)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with Recorder(save=path, save_after=0.1):
            works: Any = [dist.all_reduce(X.clone(), async_op=True) for _ in range(2)]
            works[place].wait()
    finally:
        dist.destroy_process_group()
    (recording,) = found
    assert recording.run.failure.communication == place
    assert len(recording.communications) == 2
