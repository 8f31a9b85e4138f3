"""RecordedThreads: record the threads that recorded threads start.

``threading.Thread.start`` is patched: it sets an attribute ``run`` on the thread, which removes
itself, enters the instruments in the new thread, and calls the original ``run``.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torchrecorder.capture.hooks.other_threads import thread_name
from torchrecorder.capture.hooks.source import InternalWork
from torchrecorder.capture.instruments import Instruments, thread_instruments
from torchrecorder.capture.internals.access import DisableTorchFunction, call_of_thread, get_frame
from torchrecorder.capture.modes.python_functions import unwrapped
from torchrecorder.capture.state.shared_patch import SharedPatch, replaced
from torchrecorder.capture.tape import Tape
from torchrecorder.events import ScopeId, ScopeLeft


class RecordedThreads:
    """A context in which the threads that recorded threads start are recorded too."""

    def __init__(self, main: Instruments) -> None:
        self.main = main
        self.by_thread = {main.tape.thread: main}
        main.modules.threads = self.by_thread
        self.threads: list[RecordedThread] = []

    def __enter__(self) -> RecordedThreads:
        _starts.add(self)
        return self

    def __exit__(self, *error: object) -> None:
        _starts.remove(self)
        for thread in self.threads:
            with self.main.tape.survives_errors("threads"):
                thread.end()
            self.main.tape.lost += thread.lost

    def record(self, thread: threading.Thread) -> None:
        """Record *thread*, which is about to start, if a recorded thread starts it."""
        with self.main.tape.survives_errors("threads"):
            starter = self.by_thread.get(threading.get_ident())
            if starter is not None and not starter.tape.is_elsewhere():
                with contextlib.suppress(InternalWork):  # close regions that have ended
                    starter.modules.regions.locate(get_frame(2))
                number, scope = len(self.threads) + 1, starter.tape.scope
                recorded = RecordedThread(self, thread_name(thread), number, scope)
                self.threads.append(recorded)
                before = vars(thread).get("run")
                vars(thread)["run"] = functools.partial(recorded.run, thread, before)


@dataclass(eq=False)
class RecordedThread:
    """A thread that is recorded."""

    owner: RecordedThreads
    name: str
    number: int  # counted from 1
    scope: ScopeId | None  # in which it was started
    instruments: Instruments | None = None
    lost: int = 0

    def run(self, thread: threading.Thread, before: Callable[[], None] | None) -> None:
        """Replaces ``run`` of *thread*; *before* is its instance attribute ``run``, or None."""
        instruments, call = None, thread.run
        try:
            if before is None:
                vars(thread).pop("run", None)
            else:
                vars(thread)["run"] = before
            call = thread.run
            instruments = self._enter()
            if instruments is not None:
                call = self._scoped(instruments, thread)
        except Exception as error:
            self.owner.main.tape.record_error("threads", error)
        if instruments is None:
            return call()
        try:
            call()
        except BaseException as error:
            self._leave(instruments, error)
            raise
        self._leave(instruments, None)

    def _scoped(self, instruments: Instruments, thread: threading.Thread) -> Callable[[], None]:
        """A function that runs *thread* in a scope with the name of its target function."""
        target, args, kwargs = call_of_thread(thread)
        named = getattr(unwrapped(target), "__name__", "") if target else ""
        call = instruments.modules.call
        return functools.partial(call, named or self.name, target, args, kwargs, thread.run)

    def _enter(self) -> Instruments | None:
        """Enter the instruments in this thread, unless the recorder has ended."""
        main = self.owner.main
        with _lock, DisableTorchFunction():
            if self.owner not in _starts.users:
                return None
            tape = Tape.for_thread(main.tape, self.number, self.scope)
            tape.pause()
            instruments = self.instruments = thread_instruments(tape, main)
            self.owner.by_thread[tape.thread] = instruments
        instruments.__enter__()
        tape.resume()
        return instruments

    def _leave(self, instruments: Instruments, error: BaseException | None) -> None:
        """Exit the instruments; if the recorder is still active, write the end of the thread."""
        tape = instruments.tape
        with tape.survives_errors("threads"):
            tape.pause()
            instruments.__exit__()
            with _lock, DisableTorchFunction():
                if not tape.task.has_ended():
                    instruments.finish(functools.partial(instruments.modules.leave_all, error))
                    self._merge_into_main(tape)

    def end(self) -> None:
        """End the recording of this thread, which may still be running, with the recorder."""
        with _lock:
            if self.instruments is None or self.instruments.tape.task.has_ended():
                return
            tape = self.instruments.tape
            for opened in reversed(tape.stack):
                with contextlib.suppress(IndexError):
                    seconds = tape.time() - opened.started
                    tape.write(ScopeLeft(opened.scope, opened.inputs, (), seconds, False))
            tape.notes.append(f"{self.name} was still running when the recording ended")
            self._merge_into_main(tape)

    def _merge_into_main(self, tape: Tape) -> None:
        """Add the notes and errors of this thread to the recorder, at its end."""
        tape.task.end()
        self.owner.main.tape.notes.extend(tape.notes)
        self.lost = tape.lost
        self.owner.by_thread.pop(tape.thread, None)


_lock = threading.RLock()
_plain_start: Any = threading.Thread.start


def _start(self: threading.Thread) -> None:
    """Replaces ``threading.Thread.start``."""
    for item in _starts.users:
        item.record(self)
    _plain_start(self)


_starts: SharedPatch[RecordedThreads] = SharedPatch(
    lambda: replaced(threading.Thread, "start", _start)
)
