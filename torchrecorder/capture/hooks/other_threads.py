"""OtherThreads: notes on threads that ran modules which were not recorded."""

from __future__ import annotations

import re
import threading
from collections import Counter

from torchrecorder.capture.internals.access import current_graph_task


class OtherThreads:
    """Counts calls of modules by the name of the thread that makes them.

    Threads with their own recorder, and those in which autograd runs a backward pass, are not
    counted.
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
        """A module was called, possibly in another thread."""
        if threading.get_ident() not in _recorded and current_graph_task() == -1:
            self._calls[thread_name(threading.current_thread())] += 1

    def notes(self) -> list[str]:
        """A sentence per thread name about calls that were not recorded."""
        return [
            f"{name} ran modules meanwhile ({calls} {'call' if calls == 1 else 'calls'}): "
            "what it ran is not recorded"
            for name, calls in sorted(self._calls.items())
        ]


_recorded: list[int] = []
"""The threads of all active recorders, once for each."""


def thread_name(thread: threading.Thread) -> str:
    """The name of *thread*, without the number that Python adds."""
    name = re.sub(r"-\d+(_\d+)?\b", "", thread.name)
    return name[:1].lower() + name[1:] if name.startswith("Thread") else f"thread {name!r}"
