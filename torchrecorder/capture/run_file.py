"""RunFile: the file in which a run is saved at its end, or before if it hangs or is told to end.

A thread sees whether the run goes on, and writes while the program may be blocked in C++, where
Python runs no signal handlers. ``SIGTERM``, with which launchers such as ``torchrun`` end the other
processes of a job if one has failed, is received by `faulthandler`: it works in any state of the
program, leaves Python's own handler in place, and the signal is sent again after the file is
written.
"""

from __future__ import annotations

import contextlib
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
        self._writing = threading.Lock()  # held from the end of the run to that of the file
        self._ended = False
        self._process = os.getpid()

    def start(self, progress: Callable[[], object], unfinished: Callable[[str], Recording]) -> None:
        """Begin to watch the run.

        Args:
            progress: Equal at two times if the run did not go on between them.
            unfinished: Returns what was recorded until now, with a reason for reading it.
        """
        self._progress, self._unfinished = progress, unfinished
        self.path.unlink(missing_ok=True)
        self._signal = _TermSignal()
        self._thread = threading.Thread(target=self._watch, name="torchrecorder", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """A context in which the run ends and `write` is called; nothing is watched after it."""
        if os.getpid() != self._process:  # a forked process has neither the thread nor the signal
            yield
            return
        try:
            with self._writing:
                try:
                    yield
                finally:
                    self._ended = True
                    del self._progress, self._unfinished  # they keep what the run used alive
        finally:
            self._signal.leave()
            self._thread.join()
            self._signal.close()

    def write(self, recording: Recording) -> None:
        """Save *recording*; an error is a warning, because the program may have one of its own."""
        if os.getpid() == self._process:
            try:
                self._replace(recording)
            except Exception as error:
                warn(f"the recording was not saved: {type(error).__name__}: {error}", Notice)

    def _replace(self, recording: Recording) -> None:
        """Write the file, so that it is complete whenever it exists."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_name(f"unfinished-{self.path.name}")
        recording.save(unfinished).replace(self.path)

    def _watch(self) -> None:
        """The thread: see the progress, and write if there is none, until the run ends."""
        last, since, saved = self._progress(), time.monotonic(), False
        while not self._ended:
            told = self._signal.arrives(min(1.0, self.patience / 4))
            with self._writing:
                now = self._progress() if not self._ended else last
                if now != last:
                    last, since = now, time.monotonic()
                    if saved:  # it would be taken for the current state
                        self.path.unlink(missing_ok=True)
                    saved = False
                late = time.monotonic() - since >= self.patience
                if (told or late) and not (saved or self._ended):
                    self._save(TOLD if told else f"no progress for {self.patience:g} s")
                    saved = True
            if told:
                self._signal.pass_on()

    def _save(self, reason: str) -> None:
        try:
            recording = self._unfinished(reason)
            self._replace(recording)
        except Exception as error:
            text = f"not saved: {type(error).__name__}: {error}"
        else:
            text = f"saved in {self.path}"
            failure = recording.run.failure
            reason = reason if failure is None else failure.message
        # no warning: it would name a line of this thread, and be an error in some programs
        print(f"torchrecorder: {reason}: the recording up to here is {text}", file=sys.stderr)


_LEFT = b"\0"


class _TermSignal:
    """Receives ``SIGTERM`` for a thread. At most one at a time does; nested ones do without."""

    active: _TermSignal | None = None

    def __init__(self) -> None:
        self._before = signal.getsignal(signal.SIGTERM)
        self._left = threading.Event()
        self._pipe: tuple[int, int] | None = None
        ignored = self._before is signal.SIG_IGN
        if hasattr(faulthandler, "register") and _TermSignal.active is None and not ignored:
            _TermSignal.active = self
            self._pipe = os.pipe()
            os.set_blocking(self._pipe[1], False)
            # what it writes about the Python stack is not read, only that it writes
            faulthandler.register(signal.SIGTERM, file=self._pipe[1], all_threads=False)

    def arrives(self, seconds: float) -> bool:
        """Whether a signal arrives before *seconds* have passed, or `leave` is called."""
        if self._pipe is None:
            self._left.wait(seconds)
            return False
        if not select.select([self._pipe[0]], [], [], seconds)[0]:
            return False
        return bool(os.read(self._pipe[0], 1 << 16).strip(_LEFT))

    def leave(self) -> None:
        """Receive no more signals; `arrives` returns."""
        self._unregister()
        self._left.set()
        if self._pipe is not None:
            os.write(self._pipe[1], _LEFT)

    def close(self) -> None:
        """Pass on a signal that nobody has waited for."""
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
        faulthandler.unregister(signal.SIGTERM)
        now = signal.getsignal(signal.SIGTERM)
        if now is not self._before and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, now)  # the program has set it in the meantime


def _after_fork() -> None:
    """A signal to a child process is not meant for its parent."""
    if _TermSignal.active is not None:
        _TermSignal.active._unregister()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
