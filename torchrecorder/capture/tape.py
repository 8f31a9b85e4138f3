"""Tape: collects events, assigns ids, and tracks the current scope and op.

A tape exists only during a run. It holds only text and numbers, so that it keeps no object of the
user alive; live objects that an instrument needs (frames, tensors, modules) stay in the instrument
and are released with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Generic, NamedTuple, TypeVar

from torch.jit import is_tracing  # type: ignore[attr-defined]

from torchrecorder.build import Event
from torchrecorder.capture.scope import Observer, OpenScope
from torchrecorder.events import (
    FunctionId,
    GradId,
    Lost,
    ModuleId,
    OpId,
    OpKind,
    ScopeId,
    ScopeKind,
    Slot,
    SourceLine,
    ValueId,
)
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import Failure

_recorded: ContextVar[tuple[object, ...]] = ContextVar("torchrecorder_recorded", default=())
"""The marks of the recorders that this task belongs to."""

_CUT = object()
"""The mark of a recorder that has ended."""

OTHER_TASKS = "operations of other tasks of the same event loop are not recorded"
"""The note of a run in a task, if other tasks ran operations."""


class OwnTask:
    """A context, for the asyncio task in which it is entered.

    A recorder that is entered in a task records that task and those started from it, because a new
    task copies the context variables of its creator. Entered outside of tasks, it records all tasks
    of its thread.

    Attributes:
        mark: Identifies this task; None for the whole thread. It holds no references, because
            contexts may live long.
        others_ran: Whether another task ran an operation.
    """

    def __init__(self) -> None:
        self.mark: object | None = None
        self.others_ran = False

    def __enter__(self) -> OwnTask:
        if _in_task():
            self.mark = object()
            _recorded.set((*_recorded.get(), self.mark))
        return self

    def __exit__(self, *error: object) -> None:
        _recorded.set(tuple(item for item in _recorded.get() if item is not self.mark))

    def cut(self) -> None:
        """End: from now on, nothing belongs to this recorder."""
        self.mark = _CUT

    def is_cut(self) -> bool:
        """Whether `cut` was called."""
        return self.mark is _CUT

    def is_left(self) -> bool:
        """Whether another task is running, or ``torch.jit.trace`` a function: what the recorder
        reads of tensors would be traced, too."""
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

_IDS = 1_000_000
"""The size of the range of ids of each thread."""


def home_of(name: str) -> int:
    """The number of the thread that assigned an id."""
    return int(name[1:]) // _IDS


_TOUCHING = frozenset(("modules", "functions", "aliases", "custom functions"))
"""The instruments that pass the recorder's aliases to the model, or take them back."""


class FailedAt(NamedTuple):
    """The op and scope in which an exception was raised; in a backward pass, also the grad node."""

    op: OpId | None = None
    scope: ScopeId | None = None
    grad: GradId | None = None
    backward: bool = False


class Ids(Generic[IdT]):
    """Fresh ids with a letter: ``"o0"``, ``"o1"`` ...; *count* is the number of the next one."""

    def __init__(self, letter: str, first: int) -> None:
        self.letter = letter
        self.count = first

    def __call__(self) -> IdT:
        self.count = number = self.count + 1
        return f"{self.letter}{number - 1}"  # type: ignore[return-value]


class Tape:
    """The events of one run, and its current position; *clock* returns seconds."""

    strict = False
    """Raise errors of instruments instead of recording them; for tests."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.number = 0  # of the thread, if several are recorded
        self.positions = itertools.count()
        self.backward_runs = itertools.count()
        self.around: ScopeId | None = None  # the scope in which the thread was started
        self.events: list[Event] = []
        self.write = self.events.append
        self.clock = clock
        self.began = clock()
        self.own = 0.0  # time of the instruments, in seconds
        self.paused: float | None = None
        self.thread = threading.get_ident()
        self.engine: int | None = None  # the engine's thread that is recorded in a backward pass
        self.has_modes: Callable[[], bool] = lambda: False  # whether it runs for this tape
        self.task = OwnTask()
        self.ignores_calls = False  # module calls do not belong to the model
        self.stack: list[OpenScope] = []
        self.index = 0
        self._number_from(0)
        self.functions: set[ScopeId] = set()  # calls of custom autograd functions
        self.last_functions: dict[str, tuple[ScopeId, int]] = {}  # by name: place in the events
        self.shared: dict[Any, Any] = {}  # equal shapes and arguments are kept once
        self.notes: list[str] = []
        self.observers: list[Observer] = []
        self.op: OpId | None = None  # the call that is running
        self.at_return: Callable[..., None] | None = None  # called when the running call returned
        self.inside: list[str] | None = None  # the contents of the Python function that reads
        self.lost = 0
        self.sound = True  # whether all instruments that the user's tensors depend on still work
        self.failed: tuple[int, type] | None = None  # an exception would keep its frames alive
        self.failed_at = FailedAt()

    @classmethod
    def beside(cls, main: Tape, number: int, around: ScopeId | None) -> Tape:
        """The tape of thread *number*, which shares events and positions with *main*."""
        tape = cls(main.clock)
        tape.events, tape.write = main.events, main.write
        tape.positions, tape.backward_runs = main.positions, main.backward_runs
        tape.shared = main.shared
        tape.number, tape.around, tape.began = number, around, main.began
        tape._number_from(number * _IDS)
        return tape

    def _number_from(self, first: int) -> None:
        self.next_op: Ids[OpId] = Ids("o", first)
        self.next_value: Ids[ValueId] = Ids("v", first)
        self.next_scope: Ids[ScopeId] = Ids("s", first)
        self.next_grad: Ids[GradId] = Ids("g", first)
        self.next_module: Ids[ModuleId] = Ids("m", first)
        self.next_function: Ids[FunctionId] = Ids("f", first)

    # Time of the user's code, without that of the instruments ----------------

    def pause(self) -> float:
        """An instrument starts to work: stop the user's time and return it."""
        if self.paused is None:
            self.paused = self.clock()
        return self.paused - self.own

    def resume(self) -> None:
        """The instrument is done: continue the user's time."""
        if self.paused is not None:
            self.own += self.clock() - self.paused
            self.paused = None

    def time(self) -> float:
        """The user's time, in seconds."""
        return (self.clock() if self.paused is None else self.paused) - self.own

    # Position ----------------------------------------------------------------

    def is_elsewhere(self) -> bool:
        """Whether another thread, another task of this thread, or a tracer is running."""
        here = threading.get_ident()
        if here != self.thread:
            return here != self.engine or not self.has_modes()
        return self.task.is_left()

    def records(self, thread: int) -> bool:
        """Whether *thread* is the recorded one, or runs a backward pass for it."""
        return thread == self.thread or thread == self.engine

    @property
    def scope(self) -> ScopeId | None:
        """The innermost running scope."""
        return self.stack[-1].scope if self.stack else self.around

    def next_index(self) -> int:
        """The next position in the run."""
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
        """Open a scope inside the current one."""
        scope, index = self.next_scope(), self.next_index()
        stack = self.stack
        parent = self.around
        if stack:
            parent, recompute = stack[-1].scope, recompute or stack[-1].recompute
        inputs, outputs, seconds, failed = (), (), None, True  # until it is left
        row = Scope(
            scope, parent, index, kind, name, path, cls, module, call, source, recompute,
            inputs, outputs, seconds, failed,
        )
        self.write(row)
        opened = OpenScope(row, state, self.time())
        stack.append(opened)
        return opened

    def state_op(
        self,
        op: OpId,
        name: str,
        inputs: tuple[Slot, ...],
        outputs: tuple[ValueId, ...],
        kind: OpKind = OpKind.HIDDEN,
        scope: ScopeId | None = None,
        recompute: bool = False,
    ) -> Op:
        """Record an op that was not called from Python, in *scope* or the current one, and in the
        Python function that reads its result."""
        if self.inside is not None and scope is None:
            self.inside.append(op)
        scope, index = scope or self.scope, self.next_index()
        row = Op(op, scope, index, kind, name, "", inputs, outputs, (), (), None, None, recompute)
        self.write(row)
        return row

    def fail(self, error: BaseException, op: OpId | None) -> None:
        """Record the place of *error*; the first report is the closest."""
        if self.failed != (id(error), type(error)):
            self.failed, self.failed_at = (id(error), type(error)), FailedAt(op, self.scope)

    def fail_backward(
        self,
        error: BaseException,
        grad: GradId | None,
        op: OpId | None,
        scope: ScopeId | None,
    ) -> None:
        """Record the grad node, op and scope of *error*."""
        if self.failed != (id(error), type(error)):
            self.failed, self.failed_at = (id(error), type(error)), FailedAt(op, scope)
        self.failed_at = self.failed_at._replace(grad=grad, backward=True)

    def conclude_failure(self, error: BaseException) -> Failure:
        """Record that *error* ended the run."""
        known = self.failed == (id(error), type(error))
        place = self.failed_at if known else FailedAt(scope=self.scope)
        op, scope, grad, backward = place
        event = Failure(type(error).__name__, first_line(error), scope, op, backward, grad)
        self.write(event)
        return event

    @contextlib.contextmanager
    def survives_errors(self, instrument: str) -> Iterator[None]:
        """A context in which an instrument may fail; see `lose`."""
        try:
            yield
        except Exception as error:
            self.lose(instrument, error)

    def lose(self, instrument: str, error: BaseException) -> None:
        """Record that an instrument failed; the run goes on.

        All callbacks of PyTorch are guarded by this. Exceptions such as `KeyboardInterrupt`, which
        are not an `Exception`, are the user's and pass.

        Raises:
            BaseException: *error* itself, if the tape is strict.
        """
        if self.records(threading.get_ident()):
            self.resume()
        if Tape.strict:
            raise error
        self.lost += 1
        self.sound = self.sound and instrument not in _TOUCHING
        where = self.stack[-1].event.path if self.stack else ""
        self.write(Lost(instrument, where, f"{type(error).__name__}: {first_line(error)}"))


def first_line(error: BaseException) -> str:
    """The first line of the message of *error*, of limited length."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # the user's own __str__ may raise
        return ""
    return lines[0][:500] if lines else ""
