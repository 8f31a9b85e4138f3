"""Tape: the list of events of a run, with the current scope, op and time.

A tape exists only during a run. It holds only text and numbers, so that it keeps no object of the
user alive. The objects that an instrument needs (frames, tensors, modules) stay in the instrument
and are released with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextvars import ContextVar
from typing import Any, Generic, NamedTuple, TypeVar, Union

from torchrecorder.build import Event
from torchrecorder.capture.internals.access import is_tracing
from torchrecorder.capture.scope import Observer, OpenScope
from torchrecorder.events import (
    FunctionId, GradId, Lost, ModuleId, OpId, OpKind, ScopeId, ScopeKind, ScopeLeft, Slot,
    SourceLine, ValueId, new_tuple,
)
from torchrecorder.graph.failure import Failure
from torchrecorder.graph.nodes import Op, Scope

_recorded: ContextVar[tuple[object, ...]] = ContextVar("torchrecorder_recorded", default=())
"""For each recorder that records the current task, its `OwnTask.mark`."""

_RaisingLine = Callable[..., Union[SourceLine, None]]

_ENDED = object()
"""The mark of a recorder that has ended; no task has it."""

OTHER_TASKS = "operations of other tasks of the same event loop are not recorded"
"""The note of a recording, if other tasks of the event loop ran operations."""


class OwnTask:
    """A context that tells the recorded asyncio task from others.

    A recorder that is entered in a task records that task and those started from it, because a new
    task copies the context variables of its creator. Entered outside of tasks, it records all tasks
    of its thread.
    """

    def __init__(self) -> None:
        # identifies this task; None for the whole thread. An object without references, because the
        # contexts of tasks may live long
        self.mark: object | None = None
        self.others_ran = False  # whether another task ran an operation

    def __enter__(self) -> OwnTask:
        if _in_task():
            self.mark = object()
            _recorded.set((*_recorded.get(), self.mark))
        return self

    def __exit__(self, *error: object) -> None:
        _recorded.set(tuple(item for item in _recorded.get() if item is not self.mark))

    def end(self) -> None:
        """From now on, no task belongs to this recorder."""
        self.mark = _ENDED

    def has_ended(self) -> bool:
        """Whether `end` was called."""
        return self.mark is _ENDED

    def is_left(self) -> bool:
        """Whether another task is running, or ``torch.jit.trace``, which would also trace what the
        recorder reads of tensors."""
        if is_tracing():
            return True
        if self.mark is None or self.mark in _recorded.get():
            return False
        self.others_ran = True
        return True


def _in_task() -> bool:
    try:
        return asyncio.current_task() is not None
    except RuntimeError:  # no event loop runs
        return False


IdT = TypeVar("IdT", bound=str)

_IDS_PER_THREAD = 1_000_000
"""Each recorded thread numbers its events in a range of this size."""


def thread_of_id(name: str) -> int:
    """The number of the recorded thread that assigned this id."""
    return int(name[1:]) // _IDS_PER_THREAD


_ALIAS_INSTRUMENTS = frozenset(("modules", "functions", "aliases", "custom functions"))
"""The instruments that exchange the user's tensors for aliases, and back; see `alias`."""


class FailedAt(NamedTuple):
    """The op and scope that raised an exception; in a backward pass, also the autograd node."""

    op: OpId | None = None
    scope: ScopeId | None = None
    grad: GradId | None = None
    backward: bool = False


class Ids(Generic[IdT]):
    """Generates ids, ``"o0"``, ``"o1"`` ...; *count* is the number of the next one."""

    def __init__(self, letter: str, first: int) -> None:
        self.letter = letter
        self.count = first

    def __call__(self) -> IdT:
        self.count = number = self.count + 1
        return f"{self.letter}{number - 1}"  # type: ignore[return-value]


class Tape:
    """The events of one run and its current state; *clock* returns seconds."""

    strict = False
    """Whether errors of instruments are raised instead of recorded; set by tests."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.number = 0  # of the recorded thread; 0 for that of the recorder
        self.positions = itertools.count()
        self.backward_runs = itertools.count()
        self.outer_scope: ScopeId | None = None  # the scope in which the thread was started
        self.scope: ScopeId | None = None  # the innermost open scope
        self.events: list[Event] = []
        self.write = self.events.append
        self.clock = clock
        self.began = clock()
        self.overhead = 0.0  # seconds in instruments
        self.paused: float | None = None
        self.thread = threading.get_ident()
        self.engine_thread: int | None = None  # of autograd, if it runs the backward pass
        self.has_modes: Callable[[], bool] = lambda: False  # whether that runs for this tape
        self.task = OwnTask()
        self.ignores_calls = False  # module calls do not belong to the model
        self.stack: list[OpenScope] = []
        self.index = 0
        self._number_from(0)
        self.functions: set[ScopeId] = set()  # calls of custom autograd functions
        self.sharding: set[ScopeId] = set()  # regions in which FSDP gathers weights
        self.last_functions: dict[str, tuple[ScopeId, int]] = {}  # by name: scope, index in events
        self.shared: dict[Any, Any] = {}  # equal shapes and arguments are kept once
        self.notes: list[str] = []
        self.observers: list[Observer] = []
        self.op: OpId | None = None  # the call that is running
        self.at_return: Callable[..., None] | None = None  # called after the running op
        self.inside: list[str] | None = None  # ids in the Python function that reads a tensor
        self.lost = 0
        self.aliases_work = True  # no instrument that exchanges tensors for aliases has failed
        self.failed: tuple[int, type] | None = None  # of the exception, which keeps frames alive
        self.failed_at = FailedAt()

    @classmethod
    def for_thread(cls, main: Tape, number: int, around: ScopeId | None) -> Tape:
        """The tape of thread *number*, started in the scope *around*; shares the events of *main*.
        """
        tape = cls(main.clock)
        tape.events, tape.write = main.events, main.write
        tape.positions, tape.backward_runs = main.positions, main.backward_runs
        tape.shared = main.shared
        tape.number, tape.began = number, main.began
        tape.scope = tape.outer_scope = around
        tape._number_from(number * _IDS_PER_THREAD)
        return tape

    def _number_from(self, first: int) -> None:
        self.next_op: Ids[OpId] = Ids("o", first)
        self.next_value: Ids[ValueId] = Ids("v", first)
        self.next_scope: Ids[ScopeId] = Ids("s", first)
        self.next_grad: Ids[GradId] = Ids("g", first)
        self.next_module: Ids[ModuleId] = Ids("m", first)
        self.next_function: Ids[FunctionId] = Ids("f", first)

    # Time of the user's code, without that of the instruments. A signal handler or a finalizer may
    # run operations at any place inside these functions, and so pause and resume.

    def pause(self) -> float:
        """Stop the user's clock, because an instrument begins to work; returns its time."""
        paused = self.paused
        if paused is None:
            self.paused = paused = self.clock()
        return paused - self.overhead

    def resume(self) -> None:
        """Continue the user's clock, because the instrument is done."""
        paused, self.paused = self.paused, None
        if paused is not None:
            self.overhead += self.clock() - paused

    def time(self) -> float:
        """The seconds on the user's clock, which excludes the time of instruments."""
        paused = self.paused
        return (self.clock() if paused is None else paused) - self.overhead

    # Position ----------------------------------------------------------------

    def is_elsewhere(self) -> bool:
        """Whether the current thread or task is not the recorded one, or is being traced."""
        here = threading.get_ident()
        if here != self.thread:
            return here != self.engine_thread or not self.has_modes()
        return self.task.is_left()

    def records(self, thread: int) -> bool:
        """Whether *thread* is the recorded one, or runs a backward pass for it."""
        return thread == self.thread or thread == self.engine_thread

    def next_index(self) -> int:
        """Assign the next index in run order."""
        index = next(self.positions)
        self.index = index + 1
        return index

    def enter(
        self,
        kind: ScopeKind,
        name: str,
        path: str = "",
        cls: str = "",
        module: ModuleId | None = None,
        call: int = 0,
        source: SourceLine | None = None,
        state: Any = None,
        recompute: bool = False,
    ) -> OpenScope:
        """Open a scope inside the current one, and write its event."""
        scope, index = self.next_scope(), self.next_index()
        stack, parent = self.stack, self.scope
        recompute = recompute or bool(stack) and stack[-1].recompute
        inputs, outputs, seconds, failed = (), (), None, True  # until the scope is closed
        row = Scope(
            scope, parent, index, kind, name, path, cls, module, call, source, recompute,
            inputs, outputs, seconds, failed,
        )
        self.write(row)
        opened = OpenScope(row, state, self.time())
        stack.append(opened)
        self.scope = scope
        return opened

    def reopen(self, opened: OpenScope, around: Collection[OpenScope]) -> None:
        """Open a scope again, which its `ScopeLeft` then ends a second time; *around* it are the
        scopes in which it began."""
        self.stack.append(opened)
        self.scope = opened.scope
        opened.around = around
        opened.started = self.time() - _seconds(opened)

    def end(self, opened: OpenScope, outputs: tuple[Slot, ...] | None, failed: bool) -> None:
        """Write the end of a scope that was left. The time of a later part of a generator counts in
        the scopes around its call, and not in those that run around the part."""
        before, seconds = _seconds(opened), self.time() - opened.started
        row = opened.scope, opened.inputs, outputs, seconds, failed
        opened.left = new_tuple(ScopeLeft, row)
        self.write(opened.left)
        if opened.around is not None:
            for running in self.stack:
                if running not in opened.around:
                    running.started += seconds - before
            for outer in opened.around:
                if outer.left is not None and outer not in self.stack:
                    outer.left = outer.left._replace(seconds=_seconds(outer) + seconds - before)
                    self.write(outer.left)

    def leave(self) -> OpenScope:
        """Remove the innermost scope, whose event the caller writes."""
        left = self.stack.pop()
        self.scope = self.stack[-1].scope if self.stack else self.outer_scope
        return left

    def write_op(
        self,
        op: OpId,
        name: str,
        inputs: tuple[Slot, ...],
        outputs: tuple[ValueId, ...],
        kind: OpKind = OpKind.HIDDEN,
        scope: ScopeId | None = None,
        recompute: bool = False,
    ) -> Op:
        """Write an op that was not called from Python.

        It is in *scope*, by default the current one, and in the Python function that reads its
        result.
        """
        if self.inside is not None and scope is None:
            self.inside.append(op)
        scope, index = scope or self.scope, self.next_index()
        row = Op(op, scope, index, kind, name, "", inputs, outputs, (), (), None, None, recompute)
        self.write(row)
        return row

    def fail(self, error: BaseException, op: OpId | None) -> None:
        """Record where *error* was raised; the first call, from the innermost op, counts."""
        if self.failed != (id(error), type(error)):
            self.failed, self.failed_at = (id(error), type(error)), FailedAt(op, self.scope)

    def fail_backward(
        self, error: BaseException, grad: GradId | None, op: OpId | None, scope: ScopeId | None
    ) -> None:
        """Record the autograd node, op and scope in which *error* was raised in backward."""
        if self.failed != (id(error), type(error)):
            self.failed, self.failed_at = (id(error), type(error)), FailedAt(op, scope)
        self.failed_at = self.failed_at._replace(grad=grad, backward=True)

    def conclude_failure(
        self, error: BaseException, communication: int | None, raising_line: _RaisingLine
    ) -> None:
        """Write the event that *error* ended the run, in a wait for a *communication*.

        Its line is that of *raising_line*, which is `Sources.raising_line`.
        """
        known = self.failed == (id(error), type(error))
        place = self.failed_at if known else FailedAt(scope=self.scope)
        op, scope, grad, backward = place
        line = raising_line(error.__traceback__, backward=backward)
        kind, message = type(error).__name__, first_line(error)
        self.write(Failure(kind, message, scope, op, backward, grad, communication, line))

    @contextlib.contextmanager
    def survives_errors(self, instrument: str) -> Iterator[None]:
        """A context that passes exceptions of an instrument to `record_error`."""
        try:
            yield
        except Exception as error:
            self.record_error(instrument, error)

    def record_error(self, instrument: str, error: BaseException) -> None:
        """Write the event that an instrument failed; the run goes on.

        Every function that PyTorch calls back passes its `Exception` here. `KeyboardInterrupt` and
        others that are not an `Exception` are the user's, and propagate.

        Raises:
            BaseException: *error* itself, if the tape is strict.
        """
        if self.records(threading.get_ident()):
            self.resume()
        if Tape.strict:
            raise error
        self.lost += 1
        self.aliases_work = self.aliases_work and instrument not in _ALIAS_INSTRUMENTS
        where = self.stack[-1].event.path if self.stack else ""
        self.write(Lost(instrument, where, f"{type(error).__name__}: {first_line(error)}"))


def _seconds(opened: OpenScope) -> float:
    """The seconds of a scope until its last end."""
    return (opened.left.seconds or 0.0) if opened.left is not None else 0.0


def first_line(error: BaseException) -> str:
    """The first line of the message of *error*; what follows 500 characters is ``…``."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # the user's own __str__ may raise
        return ""
    line = lines[0] if lines else ""
    return line if len(line) <= 500 else f"{line[:500]}…"
