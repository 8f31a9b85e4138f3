"""OtherThreads: say which threads ran modules that this recorder could not hear."""

from __future__ import annotations

import re
import threading
from collections import Counter

from torchrecorder.capture.internals.access import current_graph_task


class OtherThreads:
    """Counts calls of modules by the name of the thread that makes them.

    Threads that have a recorder of their own are not counted, nor are those in which autograd
    runs a backward pass.
    """

    def __init__(self) -> None:
        self._own = threading.get_ident()
        self._calls: Counter[str] = Counter()

    def __enter__(self) -> OtherThreads:
        with _lock:
            _recorded[self._own] += 1
        return self

    def __exit__(self, *error: object) -> None:
        with _lock:
            _recorded[self._own] -= 1
            if not _recorded[self._own]:
                del _recorded[self._own]

    def count(self) -> None:
        """A module was called, perhaps in another thread."""
        if threading.get_ident() not in _recorded and current_graph_task() == -1:
            self._calls[_name()] += 1

    def notes(self) -> list[str]:
        """What was not recorded, a sentence for each name."""
        return [
            f"{name} ran modules meanwhile ({calls} {'call' if calls == 1 else 'calls'}): "
            "what it ran is not recorded"
            for name, calls in sorted(self._calls.items())
        ]


_lock = threading.Lock()
_recorded: Counter[int] = Counter()
"""How many recorders listen to each thread."""


def _name() -> str:
    """The name of this thread without the numbers that Python counts threads with."""
    name = re.sub(r"-\d+(_\d+)?\b", "", threading.current_thread().name)
    return name[:1].lower() + name[1:] if name.startswith("Thread") else f"thread {name!r}"
