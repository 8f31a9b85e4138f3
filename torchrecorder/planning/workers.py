"""Workers: processes that each record one rank and write the result to a folder."""

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
from torchrecorder.planning.translate import MeshLayout
from torchrecorder.ranks.digest import Digest
from torchrecorder.ranks.digest_codec import DigestDecoder
from torchrecorder.recording import LIMIT, Recording, load


class TracebackOfRank(Exception):
    """The traceback of an exception in the process of a rank, as text."""


class PlanJob(NamedTuple):
    """The job of each process of a planned run; see `torchrecorder.plan`."""

    factory: Callable[[Any], Any]
    layout: MeshLayout
    backward: bool
    name: str | None  # by default the class of the model


def check_factory(factory: object) -> None:
    """Refuse a *factory* that is not callable or that other processes cannot import."""
    if not callable(factory):
        raise InvalidArgument(
            "factory must be a function that takes the mesh and returns a model, not an object of "
            f"type {type(factory).__name__}"
        )
    try:
        pickle.dumps(factory)
    except Exception as error:
        raise InvalidArgument(
            "plan runs the factory in other processes, which must be able to import it: "
            f"define it at the top level of a module or script ({error})"
        ) from None


class Workers:
    """Records ranks of a *job*, up to *number* in parallel; they write results to *folder*."""

    def __init__(self, job: PlanJob, folder: Path, number: int) -> None:
        self.job = job
        self.folder = folder
        self.number = number
        self.decoder = DigestDecoder()

    def run(self, ranks: Iterable[int]) -> dict[int, Digest]:
        """The digests of these ranks.

        Raises:
            Exception: An exception of the factory or the model, with a note that names the rank.
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
        """The recording of a rank that was run."""
        return load(self.folder / f"{rank}.json", limit=max(LIMIT, 2**34))

    def _start(self, rank: int) -> BaseProcess:
        context = multiprocessing.get_context("spawn")
        arguments = self.job, rank, self.folder
        process = context.Process(target=_record_rank, args=arguments, daemon=True)
        process.start()
        return process

    def _result(self, rank: int, code: int | None) -> Digest:
        failed = self.folder / f"{rank}.error"
        if failed.exists():
            raise _read_error(failed, self.job.layout.text(rank))
        done = self.folder / f"{rank}.digest"
        if not done.exists():
            raise TorchRecorderError(
                f"the process of {self.job.layout.text(rank)} exited with code {code}. A "
                "script must call plan inside 'if __name__ == \"__main__\":', as for any use of "
                "multiprocessing"
            )
        return self.decoder.decode(done.read_bytes())


def _record_rank(job: PlanJob, rank: int, folder: Path) -> None:
    """Record one rank, and exit; the target of a process."""
    import gc

    gc.disable()  # saves half of the time: fake tensors allocate many small objects
    try:
        from torchrecorder.capture.planned import write_recording

        mesh = dict(zip(job.layout.names, job.layout.sizes))
        write_recording(folder, rank, job.factory, mesh, backward=job.backward, name=job.name)
    except Exception as error:
        _write_error(folder / f"{rank}.error", error)
    os._exit(0)  # skips the cleanup of the interpreter, which takes a second


def _write_error(path: Path, error: Exception) -> None:
    """Write an exception; without its attributes, or its text, if it cannot be pickled."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    notes = list(getattr(error, "__notes__", ()))
    data = _pickled(lambda: error) or _pickled(lambda: type(error)(*error.args))
    if data is None:
        data = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(pickle.dumps((data, notes, text)))
    unfinished.replace(path)


def _pickled(make: Callable[[], Exception]) -> bytes | None:
    """What *make* returns as bytes; None if another process could not make it again."""
    try:
        data = pickle.dumps(make())
        pickle.loads(data)
        return data
    except Exception:
        return None


def _read_error(path: Path, where: str) -> Exception:
    """The exception of another process, with its notes and traceback."""
    data, notes, text = pickle.loads(path.read_bytes())
    error: Exception = pickle.loads(data)
    lines = [line for line in text.splitlines() if line not in notes]
    error.__notes__ = [*notes, f"torchrecorder: raised in plan by {where}"]  # type: ignore
    error.__cause__ = TracebackOfRank("\n".join(lines))
    return error


def number_of_processors() -> int:
    """The number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
