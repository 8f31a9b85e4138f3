"""RunFile: the file in which a run is saved at its end, or before if it hangs or is told to end.

A thread sees whether the run goes on, and writes while the program may be blocked in C++, where
Python runs no signal handlers. ``SIGTERM``, with which launchers such as ``torchrun`` end the other
processes of a job if one has failed, is received by `faulthandler`: it works in any state of the
program, leaves Python's own handler in place, and the signal is sent again after the file is
written.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from torchrecorder.checks import warn
from torchrecorder.errors import Notice
from torchrecorder.graph.storage import checked_path
from torchrecorder.recording import Recording

TOLD = "told to end (SIGTERM)"
"""The reason for saving a run of a process that is told to end."""


class RunFile:
    """A context around a run, whose recording it saves.

    Args:
        path: The file, which is removed at the beginning, and replaced atomically.
        patience: The seconds without progress after which the unfinished recording is saved.
    """

    def __init__(self, path: str | Path, patience: float) -> None:
        # absolute, because the program may change the folder
        self.path = Path(os.path.abspath(checked_path(path, "save")))
        self.patience = patience
        self._ended = False
        self._process = os.getpid()

    def start(self, progress: Callable[[], object], unfinished: Callable[[str], Recording]) -> None:
        """Begin to watch the run.

        Args:
            progress: Equal at two times if the run did not go on between them.
            unfinished: Returns what was recorded until now, with a reason for reading it.

        Raises:
            OSError: The file cannot be written.
        """
        self.path.unlink(missing_ok=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._partial.touch()
        self._partial.unlink()
        self._signal = _TermSignal()
        self._thread = threading.Thread(
            target=self._watch, args=(progress, unfinished), name="torchrecorder", daemon=True
        )
        self._thread.start()

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """A context in which the run ends and `write` is called; nothing is watched in it.

        A signal that arrives in it is passed on at its end.
        """
        if os.getpid() != self._process:  # a forked process has neither the thread nor the signal
            yield
            return
        self._ended = True
        self._signal.wake()
        try:
            self._thread.join()  # it may be writing
        finally:  # if the user interrupts this, the run ends all the same
            try:
                yield
            finally:
                self._thread.join()  # it reads what is closed next
                self._signal.close()

    def write(self, recording: Recording) -> None:
        """Save *recording*; an error is a warning, because the program may have one of its own."""
        if os.getpid() == self._process:
            try:
                self._replace(recording)
            except Exception as error:
                warn(f"the recording was not saved: {type(error).__name__}: {error}", Notice)

    @property
    def _partial(self) -> Path:
        """The file while it is written."""
        return self.path.with_name(f"unfinished-{self.path.name}")

    def _replace(self, recording: Recording) -> None:
        """Write the file, so that it is complete whenever it exists."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        recording.save(self._partial).replace(self.path)

    def _watch(
        self, progress: Callable[[], object], unfinished: Callable[[str], Recording]
    ) -> None:
        """The thread: see the progress, and write if there is none, until the run ends."""
        last, since, saved = progress(), time.monotonic(), False
        while not self._ended:
            told = self._signal.arrives(max(0.01, min(1.0, self.patience / 4)))
            try:
                now = progress()
                if now != last:
                    last, since = now, time.monotonic()
                    if saved and not self._ended:  # it would be taken for the current state
                        self.path.unlink(missing_ok=True)
                        _tell(f"the run goes on; {self.path} is removed")
                    saved = False
                late = time.monotonic() - since >= self.patience
                if (told or late) and not (saved or self._ended):
                    saved = True
                    self._save(unfinished, TOLD if told else f"no progress for {self.patience:g} s")
            except Exception as error:
                _tell(f"not saved: {type(error).__name__}: {error}")
            if told and self._ended:  # it ends the process, which has not written yet
                self._signal.put_back()
            elif told:
                self._signal.pass_on()

    def _save(self, unfinished: Callable[[str], Recording], reason: str) -> None:
        recording = unfinished(reason)
        if self._ended:  # the whole run is saved
            return
        self._replace(recording)
        failure = recording.run.failure
        reason = reason if failure is None else failure.message
        _tell(f"{reason}: the recording up to here is saved in {self.path}")


def _tell(text: str) -> None:
    """Print a line; a warning would name a line of this thread, and be an error in some programs.
    """
    with contextlib.suppress(Exception):  # of a stream that is closed
        print(f"torchrecorder: {text}", file=sys.stderr)


_WOKEN = b"\0"


get_handler = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_int)(("PyOS_getsig", ctypes.pythonapi))
"""The handler of a signal in the operating system, which is that of Python if Python has one."""

set_handler = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(
    ("PyOS_setsig", ctypes.pythonapi)
)
"""Sets that handler in any thread; ``signal.signal()`` works in the main thread only."""


class _TermSignal:
    """Receives ``SIGTERM`` for a thread. At most one at a time does; nested ones do without."""

    active: _TermSignal | None = None

    def __init__(self) -> None:
        self._before = signal.getsignal(signal.SIGTERM)
        self._woken = threading.Event()
        self._pipe: tuple[int, int] | None = None
        ignored = self._before is signal.SIG_IGN
        if hasattr(faulthandler, "register") and _TermSignal.active is None and not ignored:
            _TermSignal.active = self
            self._pipe = os.pipe()
            os.set_blocking(self._pipe[1], False)
            # what it writes about the Python stack is not read, only that it writes
            faulthandler.register(signal.SIGTERM, file=self._pipe[1], all_threads=False)

    def arrives(self, seconds: float) -> bool:
        """Whether a signal arrives before *seconds* have passed, or `wake` is called."""
        if self._pipe is None:
            self._woken.wait(seconds)
            return False
        poll = select.poll()  # select() refuses the numbers of files in a program with many
        poll.register(self._pipe[0], select.POLLIN)
        if not poll.poll(seconds * 1000):
            return False
        return bool(os.read(self._pipe[0], 1 << 16).strip(_WOKEN))

    def wake(self) -> None:
        """Make `arrives` return."""
        self._woken.set()
        if self._pipe is not None:
            with contextlib.suppress(BlockingIOError):  # it is full, which also wakes
                os.write(self._pipe[1], _WOKEN)

    def put_back(self) -> None:
        """Leave a signal that has arrived to `close`."""
        assert self._pipe is not None
        os.write(self._pipe[1], b"\1")

    def close(self) -> None:
        """Receive no more signals; pass on one that nobody has waited for."""
        self._unregister()
        if self._pipe is not None:
            told = self.arrives(0)
            for end in self._pipe:
                os.close(end)
            if told:
                self.pass_on()

    def pass_on(self) -> None:
        """Send the signal to the handler that the process had before."""
        self._unregister()
        os.kill(os.getpid(), signal.SIGTERM)

    def _unregister(self) -> None:
        if _TermSignal.active is not self:
            return
        _TermSignal.active = None
        changed = signal.getsignal(signal.SIGTERM) is not self._before  # by the program
        handler = get_handler(signal.SIGTERM)
        faulthandler.unregister(signal.SIGTERM)  # puts back the handler from before
        if changed:
            set_handler(signal.SIGTERM, handler)


def _after_fork() -> None:
    """A signal to a child process is not meant for its parent."""
    if _TermSignal.active is not None:
        _TermSignal.active._unregister()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
