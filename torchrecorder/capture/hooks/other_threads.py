"""OtherThreads: notes on threads whose module calls were not recorded."""

from __future__ import annotations

import re
import threading
from collections import Counter

from torchrecorder.capture.internals.access import current_graph_task


class OtherThreads:
    """Counts module calls in other threads, by the name of the thread.

    Threads with a recorder, and threads in which autograd runs a backward pass, do not count.
    """

    def __init__(self) -> None:
        self._own = threading.get_ident()
        self._calls: Counter[str] = Counter()

    def __enter__(self) -> OtherThreads:
        _recorded.append(self._own)
        return self

    def __exit__(self, *error: object) -> None:
        _recorded.remove(self._own)

    def count(self) -> None:
        """Count a module call of the current thread, if that is no recorded one."""
        if threading.get_ident() not in _recorded and current_graph_task() == -1:
            self._calls[thread_name(threading.current_thread())] += 1

    def notes(self) -> list[str]:
        """A note for each name of a thread with calls."""
        return [
            f"{name} ran modules meanwhile ({calls} {'call' if calls == 1 else 'calls'}): "
            "what it ran is not recorded"
            for name, calls in sorted(self._calls.items())
        ]


_recorded: list[int] = []
"""The ids of the threads of active recorders, one for each recorder."""


def thread_name(thread: threading.Thread) -> str:
    """The name of *thread* without the number that Python appends."""
    name = re.sub(r"-\d+(_\d+)?\b", "", thread.name)
    return name[:1].lower() + name[1:] if name.startswith("Thread") else f"thread {name!r}"
