"""Workers: processes that record one rank each, and leave what they recorded in a folder."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import traceback
from collections.abc import Callable, Iterable
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from torchrecorder.errors import InvalidArgument, TorchRecorderError
from torchrecorder.planning.layout import Layout
from torchrecorder.ranks.digest import Digest
from torchrecorder.ranks.packed import Shared
from torchrecorder.recording import LIMIT, Recording, load


class Job(NamedTuple):
    """What every process does.

    Attributes:
        factory: Makes the model, or a step, given the mesh.
        layout: The mesh.
        backward: Run the backward pass, too.
        name: Name of the recordings; empty for that of the model's class.
    """

    factory: Callable[[Any], Any]
    layout: Layout
    backward: bool
    name: str


def check_factory(factory: object) -> None:
    """Find what other processes cannot be given before one is started.

    Raises:
        InvalidArgument: It cannot be called, or not be imported by other processes.
    """
    if not callable(factory):
        raise InvalidArgument(
            "plan takes a function that makes a model, given the mesh, not an object of type "
            f"{type(factory).__name__}"
        )
    try:
        pickle.dumps(factory)
    except Exception as error:
        raise InvalidArgument(
            "plan runs the factory in other processes, which have to be able to import it: "
            f"define it at the top level of a module or script ({error})"
        ) from None


class Workers:
    """Runs ranks of a *job*, up to *number* at a time; *folder* is where they leave results."""

    def __init__(self, job: Job, folder: Path, number: int) -> None:
        self.job = job
        self.folder = folder
        self.number = number
        self.shared = Shared()

    def run(self, ranks: Iterable[int]) -> dict[int, Digest]:
        """The digests of these ranks.

        Raises:
            Exception: What the factory or the model raised, with a note that says where.
        """
        waiting = list(ranks)[::-1]
        running: dict[int, tuple[int, BaseProcess]] = {}
        found: dict[int, Digest] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self.number:
                    rank = waiting.pop()
                    process = self._start(rank)
                    running[process.sentinel] = rank, process
                for sentinel in wait([*running]):
                    rank, process = running.pop(sentinel)  # type: ignore[arg-type]
                    process.join()
                    found[rank] = self._result(rank, process.exitcode)
        finally:
            for _, process in running.values():
                process.terminate()
            for _, process in running.values():
                process.join()
        return found

    def recording(self, rank: int) -> Recording:
        """What a rank that was run recorded."""
        return load(self.folder / f"{rank}.json", limit=max(LIMIT, 2**34))

    def _start(self, rank: int) -> BaseProcess:
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=_work, args=(self.job, rank, self.folder), daemon=True)
        process.start()
        return process

    def _result(self, rank: int, code: int | None) -> Digest:
        failed = self.folder / f"{rank}.error"
        if failed.exists():
            raise _read(failed, self.job.layout.text(rank))
        done = self.folder / f"{rank}.digest"
        if not done.exists():
            raise TorchRecorderError(
                f"the process of {self.job.layout.text(rank)} ended with exit code {code}. A "
                "script that calls plan does so below 'if __name__ == \"__main__\":', as for any "
                "use of multiprocessing"
            )
        return self.shared.unpacked(done.read_bytes())


def _work(job: Job, rank: int, folder: Path) -> None:
    """Record one rank; the whole life of a process."""
    import gc

    gc.disable()  # half of the time: each operator on fake tensors leaves many small objects
    try:
        from torchrecorder.capture.planned import leave_recording

        leave_recording(job, rank, folder)
    except Exception as error:
        _leave(folder / f"{rank}.error", error)
    os._exit(0)  # nothing is left to be put away, and that takes a second


def _leave(path: Path, error: Exception) -> None:
    """Write an exception, or a text of it where it is none that can be read again."""
    told = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    notes = list(getattr(error, "__notes__", ()))
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:
        data = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(pickle.dumps((data, notes, told)))
    unfinished.replace(path)


def _read(path: Path, where: str) -> Exception:
    """The exception of another process, with its notes and traceback."""
    data, notes, told = pickle.loads(path.read_bytes())
    error: Exception = pickle.loads(data)
    lines = [line for line in told.splitlines() if line not in notes]
    error.__notes__ = [  # type: ignore[attr-defined]
        *notes, f"torchrecorder: raised in a plan, by {where}:\n" + "\n".join(lines)
    ]
    return error


def number_of_processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
