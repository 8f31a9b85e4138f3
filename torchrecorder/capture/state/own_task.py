"""OwnTask: distinguish calls of an asyncio task from those of other tasks in the same thread.

A recorder that is entered in a task records that task and those started from it, because a new task
copies the context variables of its creator. Entered outside of tasks, it records all tasks of its
thread.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from torch.jit import is_tracing  # type: ignore[attr-defined]

_recorded: ContextVar[tuple[object, ...]] = ContextVar("torchrecorder_recorded", default=())
"""The marks of the recorders that this task belongs to."""

_CUT = object()
"""The mark of a recorder that has ended."""

OTHER_TASKS = "operations of other tasks of the same event loop are not recorded"
"""The note of a run in a task, if other tasks ran operations."""


class OwnTask:
    """A context, for the task in which it is entered.

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
