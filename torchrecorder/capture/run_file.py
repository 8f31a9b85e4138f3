"""RunFile: the file in which a run is saved at its end, or before if it hangs or is told to end.

A thread sees whether the run goes on, and writes while the program may be blocked in C++, where
Python runs no signal handlers. ``SIGTERM``, with which launchers such as ``torchrun`` end the other
processes of a job if one has failed, is received by `faulthandler`: it works in any state of the
program, leaves Python's own handler in place, and the signal is sent again after the file is
written.

The recorded thread may go on meanwhile: nothing here changes what the instruments have. Events are
only ever appended, and an event that is still missing is repaired as one that no instrument wrote.
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
from types import FrameType
from typing import Any

import torch

from torchrecorder.build import Event, build
from torchrecorder.capture.hooks.greenlets import frames_around
from torchrecorder.capture.instruments import Instruments
from torchrecorder.capture.internals.access import frames_of_threads
from torchrecorder.capture.internals.engine import ENGINE_CODE
from torchrecorder.capture.modes.call import Call
from torchrecorder.capture.modes.function_mode import OpRecorder
from torchrecorder.capture.scope import scopes_around
from torchrecorder.checks import warn
from torchrecorder.errors import Notice
from torchrecorder.events import UNFINISHED, Communication, OpKind
from torchrecorder.graph.failure import Failure
from torchrecorder.graph.nodes import BackwardRun, Scope
from torchrecorder.graph.recording import RunDone, RunFacts
from torchrecorder.graph.saved_files import checked_path
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
        self._thread: threading.Thread | None = None

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
        # a forked process has neither the thread nor the signal
        if self._thread is None or os.getpid() != self._process:
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


_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep


def unfinished(instruments: Instruments, name: str, grad_mode: str, reason: str) -> Recording:
    """What was recorded until now. Its failure says where the run is, with the *reason* for saving
    it now."""
    tape, sent = instruments.tape, instruments.started.sent
    events: list[Event] = [*tape.events]
    frames = [*frames_around(frames_of_threads().get(tape.thread))]
    running = [*_running_calls(frames)]
    events += (call.row(OpKind.CALLED, (), (), None, failed=True) for call in running)
    not_ended = *(each.scope for each in [*tape.stack]), *(call.op for call in running)
    for run in [*instruments.backward.running]:
        replaced = tuple(run.replacements)
        events.append(BackwardRun(run.number, run.op, None, run.create_graph, True, replaced))
    rank = None
    if sent is not None:
        events += sent.rows()
        rank = sent.rank()
    events.append(_place(instruments, events, frames, running, reason))
    seconds = tape.clock() - tape.began - tape.overhead
    notes = (*dict.fromkeys(tape.notes), f"saved before the end of the run: {reason}")
    facts = RunFacts(
        str(torch.__version__), grad_mode, notes, seconds=seconds, rank=rank, running=not_ended
    )
    return build([*events, RunDone(name, facts)], Recording)


def _running_calls(frames: list[FrameType]) -> Iterator[Call]:
    """The calls of torch functions that run in *frames*, innermost first."""
    for frame in frames:
        if frame.f_code is OpRecorder.run_op.__code__:
            call: Any = frame.f_locals.get("call")
            if hasattr(call, "op"):
                yield call


def _place(
    instruments: Instruments,
    events: list[Event],
    frames: list[FrameType],
    running: list[Call],
    reason: str,
) -> Failure:
    """Where the run is: the communication that blocks it, or else the call, module and line."""
    tape, sent = instruments.tape, instruments.started.sent
    sources = instruments.regions.sources
    backward = any(frame.f_code is ENGINE_CODE for frame in frames)
    blocked = None
    if sent is not None:
        in_cpp = bool(frames) and not sources.is_user(frames[0])
        in_cpp = in_cpp and (tape.op is None or frames[0].f_code is ENGINE_CODE)
        blocked = sent.blocked_in(in_cpp=in_cpp, backward=backward)
    # a program that waits for a queue or a file is not looked for in the module that implements it
    own = [frame for frame in frames if not _is_standard(frame)]
    lines = filter(None, map(sources.line_of, [*own, *frames]))
    line = next((f" at {line.place}" for line in lines), "")
    if blocked is not None:
        known = [event for event in events if isinstance(event, Communication)][blocked]
        scope, op, grad, backward = known.scope, known.op, known.grad, known.backward
    else:
        stack, grad = [*tape.stack], None
        scope, op = stack[-1].scope if stack else None, None if backward else tape.op
        reason += "".join(f" in {call.facts.name}()" for call in running if call.op == op)
    entered = {event.id: event for event in events if isinstance(event, Scope)}
    path = next(filter(None, (around.path for around in scopes_around(entered, scope))), "")
    where = f" in {path}" if path else ""
    return Failure(UNFINISHED, f"{reason}{where}{line}", scope, op, backward, grad, blocked)


def _is_standard(frame: FrameType) -> bool:
    """Whether *frame* runs Python's standard library."""
    file = frame.f_code.co_filename
    return file.startswith(_STANDARD_LIBRARY) and "site-packages" not in file
