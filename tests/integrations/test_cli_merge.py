"""The command line: the recordings of many processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pytest
import torch
import torch.distributed as dist

import torchrecorder
from tests.capture.processes import process_group
from tests.integrations.test_cli import run
from tests.ranks.made import recorded
from torchrecorder.errors import InvalidArgument
from torchrecorder.integrations.commands import run as run_command
from torchrecorder.integrations.commands.run import DelayedEnd, Parts

X = torch.ones(3, 4)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what four processes recorded, one of which left something out."""
    def job(rank: int) -> None:
        dist.all_reduce(X.clone())
        if rank != 3:
            dist.broadcast(X.clone(), 0)

    for rank, each in enumerate(recorded(job)):
        each.save(tmp_path / f"rank{rank}.json.gz")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_tables_and_problems(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Printed, if no file is named; the exit code tells only if asked to."""
    code, out, _ = run(capsys, "merge", "rank*.json.gz")
    assert code == 0
    assert "ranks 0–3 of 4" in out and "all_reduce" in out and "rank 3 ran no collective" in out
    code, out, _ = run(capsys, "merge", "rank0.json.gz", "rank1.json.gz", "--exit-code")
    assert code == 1 and "no recording of ranks 2–3" in out


def test_a_joined_run_is_not_that_of_a_rank(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is listed as it is, and not joined with what it has already."""
    joined = torchrecorder.merge("rank*.json.gz")
    joined.render("joined.json.gz")
    assert run(capsys, "summary", "joined.json.gz")[0] == 0
    code, _, err = run(capsys, "merge", "joined.json.gz")
    assert code == 2 and "joined.json.gz has the joined run of several processes already" in err
    with pytest.raises(InvalidArgument, match="has the joined run of several processes already"):
        torchrecorder.merge(joined.recording)


def test_paths_are_not_between_the_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program can read stdout; the files are named on stderr."""
    code, out, err = run(capsys, "merge", "rank*.json.gz", "--json", "-o", "a.svg")
    assert code == 0 and json.loads(out)["world"] == 4 and err == "a.svg\n"


def test_lengths_are_checked_before_files_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    """By the name of the flag."""
    code, _, err = run(capsys, "merge", "missing.json", "-n", "0")
    assert (code, err) == (
        2, "torchrecorder: error: -n must be a whole number of at least 1, not 0\n"
    )


@pytest.mark.parametrize("content", [b"{}", b"{\"format\":", b"\x1f\x8b no more", b""])
def test_damaged_files_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    """One of many, or of two."""
    (folder / "rank2.json.gz").write_bytes(content)
    for command in (("merge", "rank*.json.gz"), ("compare", "rank1.json.gz", "rank2.json.gz")):
        code, _, err = run(capsys, *command)
        assert code == 2 and err.startswith("torchrecorder: error: rank2.json.gz: "), err


def test_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Figures are written, and their paths printed; problems on standard error."""
    code, out, err = run(capsys, "merge", "rank*.json.gz", "-o", "a.svg", "-o", "a.json")
    assert (code, out.split()) == (0, ["a.svg", "a.json"])
    (problem,) = err.splitlines()
    assert problem.startswith("torchrecorder: no. 2 of group") and "rank 3 ran no" in problem
    assert "ranks 0–2" in (folder / "a.svg").read_text(encoding="utf-8")
    assert len(torchrecorder.load("a.json").communications) == 3


def test_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was found, for programs."""
    code, out, _ = run(capsys, "merge", "rank*.json.gz", "--json")
    found = json.loads(out)
    assert code == 0 and found["world"] == 4
    assert [each["ranks"] for each in found["lanes"]] == [[0, 1, 2], [3]]
    assert [each["name"] for each in found["collectives"]] == ["all_reduce"]
    assert len(found["problems"]) == 1


def test_no_such_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line of error."""
    code, _, err = run(capsys, "merge", "nowhere.json")
    assert code != 0 and "no file 'nowhere.json'" in err


# A job -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("environment", "known"), [
    ({}, False),
    ({"RANK": "0", "WORLD_SIZE": "1"}, False),
    ({"RANK": "x", "WORLD_SIZE": "2"}, False),
    ({"RANK": "1", "WORLD_SIZE": "2"}, True),
])
def test_a_job_is_known_by_its_environment(environment: dict[str, str], known: bool) -> None:
    """Only a launcher of several processes makes it one of several."""
    parts = Parts.of_job(Path("out/step.html"), environment)
    assert (parts is not None) == known
    if parts is not None:
        assert (parts.folder, parts.rank) == (Path("out/step.html.ranks"), 1)


def test_what_is_left_of_a_job_is_put_together(tmp_path: Path) -> None:
    """A process that never comes is waited for, and then named."""
    first, second, _ = recorded(lambda rank: dist.all_reduce(X.clone()), world=3)
    folder = tmp_path / "a.svg.ranks"
    folder.mkdir()
    for rank, each in enumerate((first, second)):
        each.save(Parts(folder, rank, 3).file)
    run = Parts(folder, 0, 3).together(Event(), patience=0.2)
    assert run.ranks == (0, 1)
    assert run.problems == ("no recording of rank 2",)
    Parts(folder, 1, 3).clear()
    assert sorted(each.name for each in folder.iterdir()) == ["rank0.json.gz"]


def test_a_process_that_is_told_to_end_does_not_wait_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Launchers kill it soon; others that are told at the same time may still write."""
    monkeypatch.setattr("torchrecorder.integrations.commands.run.GRACE", 0.3)
    first, _ = recorded(lambda rank: dist.all_reduce(X.clone()), world=2)
    parts, told = Parts(tmp_path, 0, 2), Event()
    first.save(parts.file)
    told.set()
    before = time.monotonic()
    run = parts.together(told, patience=60.0)
    assert 0.3 <= time.monotonic() - before < 30.0
    assert run.problems == ("no recording of rank 1",)


def test_a_process_that_nobody_told_to_end_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as it has patience, and no longer than for the last one."""
    monkeypatch.setattr(run_command, "GRACE", 0.0)
    first, second = recorded(lambda rank: dist.all_reduce(X.clone()), world=2)
    parts = Parts(tmp_path, 0, 2)
    first.save(parts.file)
    late = Timer(0.5, second.save, [Parts(tmp_path, 1, 2).file])
    late.start()
    assert parts.together(Event(), patience=60.0).problems == ()
    late.join()


def test_what_is_wrong_with_a_job_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the process that writes the figure, which is written all the same."""
    monkeypatch.setattr(run_command, "GRACE", 0.1)
    first, _ = recorded(lambda rank: dist.all_reduce(X.clone()), world=2)
    parts, told = Parts(tmp_path, 0, 2), Event()
    first.save(parts.file)
    told.set()
    path = tmp_path / "step.svg"
    assert run_command._write(first, [path], {}, parts, told) == 0 and path.exists()
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["torchrecorder: no recording of rank 1", f"torchrecorder: wrote {path}"]


def test_the_end_is_delayed() -> None:
    """Until the context ends, when the handler of the program is called; only once it began."""
    calls: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: calls.append(number))
    try:
        with DelayedEnd() as end:
            signal.raise_signal(signal.SIGTERM)
            assert calls == [signal.SIGTERM] and not end.told.is_set()
            end.begin()
            signal.raise_signal(signal.SIGTERM)
            assert len(calls) == 1 and end.told.is_set()
        assert calls == [signal.SIGTERM] * 2
        with DelayedEnd() as end:
            end.begin()
        with DelayedEnd():
            pass
        signal.raise_signal(signal.SIGTERM)
        assert calls == [signal.SIGTERM] * 3
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_signal_that_python_cannot_handle() -> None:
    """That of another thread than the main one stays as it is."""
    with ThreadPoolExecutor(1) as pool, DelayedEnd() as end:
        pool.submit(end.begin).result()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_handler_that_python_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be put back: the signal ends the process as usual."""
    put_back: list[object] = []
    with DelayedEnd() as end:
        monkeypatch.setattr(signal, "signal", lambda number, handler: put_back.append(handler))
        end.begin()
    assert put_back[1:] == [signal.SIG_DFL]


def test_only_the_first_process_writes_the_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second ends when it has saved its recording."""
    monkeypatch.chdir(tmp_path)
    for name, value in (("RANK", "1"), ("WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    (tmp_path / "train.py").write_text("import torch; torch.nn.Linear(4, 2)(torch.ones(3, 4))")
    parts = Parts(tmp_path / "step.svg.ranks", 0, 2)
    parts.folder.mkdir()
    first, _ = recorded(lambda rank: dist.all_reduce(X.clone()), world=2)
    first.save(parts.file)
    with process_group(1, 2):
        code, _, err = run(capsys, "run", "train.py", "-o", "step.svg")
    assert code == 0 and "wrote" not in err
    assert len([*parts.folder.iterdir()]) == 2
    assert not (tmp_path / "step.svg").exists()


@pytest.mark.parametrize("world", [1, 2])
def test_the_end_is_delayed_only_in_a_job_of_several_processes(
    world: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While the figure is written; a process alone ends at once."""
    monkeypatch.chdir(tmp_path)
    for name, value in (("RANK", "0"), ("WORLD_SIZE", str(world))):
        monkeypatch.setenv(name, value)
    handlers: list[object] = []

    def write(*_: object) -> list[Path]:
        handlers.append(signal.getsignal(signal.SIGTERM))
        return []

    monkeypatch.setattr(run_command, "write", write)
    (tmp_path / "train.py").write_text("import torch; torch.nn.Linear(4, 2)(torch.ones(3, 4))")
    before = signal.getsignal(signal.SIGTERM)
    assert run(capsys, "run", "train.py", "-o", "step.svg")[0] == 0
    assert (handlers == [before]) == (world == 1)
    assert signal.getsignal(signal.SIGTERM) is before


TRAIN = """
import os, sys, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank, world_size=2)
torch.set_num_threads(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
for step in range(2):
    model(torch.ones(3, 4)).sum().backward()
dist.barrier()
sys.stdout.flush()
if rank and "die" in sys.argv[1]:
    os._exit(3)
"""


@pytest.mark.slow
def test_a_script_on_two_processes(tmp_path: Path) -> None:
    """Each records itself, and the first writes the figure of both."""
    (tmp_path / "train.py").write_text(TRAIN)
    jobs = [_start(tmp_path, rank, "meeting") for rank in (1, 0)]
    told = [job.communicate(timeout=180)[0] for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], "\n".join(told)
    assert "ranks 0–1" in (tmp_path / "step.svg").read_text(encoding="utf-8")
    run = torchrecorder.merge(str(tmp_path / "step.svg.ranks" / "rank*.json.gz"))
    assert run.problems == () and len(run.lanes) == 1
    assert "all_reduce" in [each.name for each in run.collectives]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="launchers send signals")
def test_a_job_that_a_launcher_ends(tmp_path: Path) -> None:
    """One process dies, and the other is told to end: it writes the figure before."""
    (tmp_path / "train.py").write_text(TRAIN)
    died, first = (_start(tmp_path, rank, "die", "--steps", "0") for rank in (1, 0))
    died.communicate(timeout=180)
    assert died.returncode == 3
    left = tmp_path / "step.svg.ranks" / "rank0.json.gz"
    while first.poll() is None and not left.exists():
        time.sleep(0.05)
    first.send_signal(signal.SIGTERM)
    told = first.communicate(timeout=60)[0]
    assert first.returncode == -signal.SIGTERM, told
    assert "no recording of rank 1" in told and "wrote step.svg" in told
    assert "rank 0" in (tmp_path / "step.svg").read_text(encoding="utf-8")


def _start(folder: Path, rank: int, meeting: str, *flags: str) -> Any:
    command = ["-m", "torchrecorder", "run", "train.py", "-o", "step.svg", *flags, "--"]
    root = Path(torchrecorder.__file__).parents[1]
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", *command, str(folder / meeting)],
        cwd=folder,
        env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
