"""Shared: settings of the process that are made once, however many recorders are active."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

User = TypeVar("User")

_ABSENT: Any = object()


class SharedPatch(Generic[User]):
    """A setting that the first user makes and the last one undoes, in any order and thread.

    Args:
        setting: Creates a context in which the setting is made.

    Attributes:
        users: Those who need it now; a new tuple after each change, so that callbacks in any
            thread can read it.
    """

    def __init__(self, setting: Callable[[], contextlib.AbstractContextManager[object]]) -> None:
        self.users: tuple[User, ...] = ()
        self._setting = setting
        self._made = contextlib.ExitStack()
        self._lock = threading.RLock()

    def add(self, user: User) -> None:
        """*user* needs the setting from now on."""
        with self._lock:
            if not self.users:
                self._made.enter_context(self._setting())
            self.users = (*self.users, user)

    def remove(self, user: User) -> None:
        """*user* no longer needs it; nothing happens if it did not."""
        with self._lock:
            self.users = tuple([item for item in self.users if item is not user])
            if not self.users:
                self._made.close()


@contextlib.contextmanager
def replaced(owner: Any, name: str, new: Any) -> Iterator[None]:
    """A context in which the attribute *name* of a class or module is *new*.

    If the program has replaced it in turn, that stays.
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


_OURS = 200  # frames of an instrument that works at the deepest place


_lock = threading.Lock()
_raised: list[int] = []
_before: list[int] = []
"""The limits of active recorders, and the original limit."""


class RaisedRecursionLimit:
    """A context with a higher recursion limit; a limit set by the program inside is kept.

    With global module hooks, PyTorch (2.13) adds a frame to the three or four of each module call.
    A model that nests as deep as the recursion limit allows would fail, so the limit is a third
    higher while recording.
    """

    def __enter__(self) -> RaisedRecursionLimit:
        with _lock:
            limit = sys.getrecursionlimit()
            if not _raised:
                _before[:] = [limit]
            self.raised = limit + limit // 3 + _OURS
            _raised.append(self.raised)
            sys.setrecursionlimit(self.raised)
        return self

    def __exit__(self, *error: object) -> None:
        with _lock:
            is_ours = sys.getrecursionlimit() == max(_raised)
            _raised.remove(self.raised)
            if is_ours:
                sys.setrecursionlimit(max(_raised or _before))
