"""SharedPatch: a patch of the process that is applied once for all active recorders."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

User = TypeVar("User")

_ABSENT: Any = object()


class SharedPatch(Generic[User]):
    """A patch that the first user applies and the last one removes, in any order and thread.

    Args:
        setting: Creates a context in which the patch is applied.

    Attributes:
        users: The current users; a new tuple after each change, so that callbacks in any thread can
            iterate over it.
    """

    def __init__(self, setting: Callable[[], contextlib.AbstractContextManager[object]]) -> None:
        self.users: tuple[User, ...] = ()
        self._setting = setting
        self._made = contextlib.ExitStack()
        self._lock = threading.RLock()

    def add(self, user: User) -> None:
        """Add *user*; the first one applies the patch."""
        with self._lock:
            if not self.users:
                self._made.enter_context(self._setting())
            self.users = (*self.users, user)

    def remove(self, user: User) -> None:
        """Remove *user*, if it was added; the last one removes the patch."""
        with self._lock:
            self.users = tuple([item for item in self.users if item is not user])
            if not self.users:
                self._made.close()


@contextlib.contextmanager
def replaced(owner: Any, name: str, new: Any) -> Iterator[None]:
    """A context in which the attribute *name* of *owner*, a class or module, is *new*.

    If the program replaces the attribute in the meantime, its replacement stays.
    """
    before = vars(owner).get(name, _ABSENT)
    setattr(owner, name, new)
    try:
        yield
    finally:
        if vars(owner).get(name) is new:
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)


_OWN_FRAMES = 200
"""The maximum number of frames of an instrument."""


@contextlib.contextmanager
def _higher_limit() -> Iterator[None]:
    before = sys.getrecursionlimit()
    raised = before + before // 3 + _OWN_FRAMES
    sys.setrecursionlimit(raised)
    try:
        yield
    finally:
        if sys.getrecursionlimit() == raised:
            sys.setrecursionlimit(before)


_limit: SharedPatch[RaisedRecursionLimit] = SharedPatch(_higher_limit)


class RaisedRecursionLimit:
    """A context with a higher recursion limit; a limit that the program sets inside is kept.

    With global module hooks, PyTorch (2.13) has one more frame per module call than the usual three
    or four. So that models of any depth still run, the limit is a third higher while recording.
    """

    def __enter__(self) -> RaisedRecursionLimit:
        _limit.add(self)
        return self

    def __exit__(self, *error: object) -> None:
        _limit.remove(self)
