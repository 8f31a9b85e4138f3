"""OwnTask: tell what an asyncio task runs from what other tasks of the same thread run.

A recorder that is entered in a task belongs to that task, and to those that are started from it:
a new task copies the context variables of the one that makes it. Entered anywhere else, it hears
all tasks of its thread.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar

_recorded: ContextVar[tuple[object, ...]] = ContextVar("torchrecorder_recorded", default=())
"""The marks of the recorders that this task belongs to."""

_CUT = object()
"""The mark of a recorder that nothing belongs to any more."""

OTHER_TASKS = "other tasks of the same event loop ran operations meanwhile: they are not recorded"
"""The note of a run in a task, if others were heard and left out."""


class OwnTask:
    """A context, for the task in which it is entered.

    Attributes:
        mark: What tells this task; None if all of the thread is meant. It refers to nothing, as
            contexts may live long.
        others_ran: Whether another task was seen meanwhile.
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
        """From now on nothing that runs is meant."""
        self.mark = _CUT

    def is_cut(self) -> bool:
        """Whether that was said."""
        return self.mark is _CUT

    def is_left(self) -> bool:
        """Whether another task runs now."""
        if self.mark is None or self.mark in _recorded.get():
            return False
        self.others_ran = True
        return True


def _in_task() -> bool:
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        return asyncio.current_task() is not None
    except RuntimeError:  # no event loop runs
        return False
