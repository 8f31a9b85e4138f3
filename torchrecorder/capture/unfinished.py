"""unfinished: the recording of a run that has not ended, which another thread reads.

The recorded thread may be blocked in C++, or go on meanwhile: nothing here changes what the
instruments have. Events are only ever appended, and an event that is still missing is repaired as
one that no instrument wrote.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch

from torchrecorder.build import Event, build
from torchrecorder.capture.instruments import Instruments
from torchrecorder.capture.internals.access import frames_of_threads
from torchrecorder.capture.internals.engine import ENGINE_CODE
from torchrecorder.capture.modes.call import Call
from torchrecorder.capture.modes.function_mode import OpRecorder
from torchrecorder.capture.scope import scopes_around
from torchrecorder.events import UNFINISHED, Communication, OpKind
from torchrecorder.graph.failure import Failure
from torchrecorder.graph.nodes import BackwardRun, Scope
from torchrecorder.graph.recording import RunDone, RunFacts
from torchrecorder.recording import Recording


_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep


def unfinished(instruments: Instruments, name: str, grad_mode: str, reason: str) -> Recording:
    """What was recorded until now. Its failure says where the run is, with the *reason* for saving
    it now."""
    tape, sent = instruments.tape, instruments.started.sent
    events: list[Event] = [*tape.events]
    frames = [*_frames_of(tape.thread)]
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
    notes = (*tape.notes, f"saved before the end of the run: {reason}")
    facts = RunFacts(
        str(torch.__version__), grad_mode, notes, seconds=seconds, rank=rank, running=not_ended
    )
    return build([*events, RunDone(name, facts)], Recording)


def _frames_of(thread: int) -> Iterator[FrameType]:
    """The frames that *thread* runs, innermost first."""
    frame = frames_of_threads().get(thread)
    while frame is not None:
        yield frame
        frame = frame.f_back


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
