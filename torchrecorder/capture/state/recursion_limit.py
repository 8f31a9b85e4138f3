"""The recursion limit: raised for the frames that recording adds.

With global module hooks, PyTorch (2.13) adds a frame to the three or four of each module call. A
model that nests as deep as the recursion limit allows would fail, so the limit is a third higher
while recording.
"""

from __future__ import annotations

import sys
import threading

_OURS = 200  # frames of an instrument that works at the deepest place


_lock = threading.Lock()
_raised: list[int] = []
_before: list[int] = []
"""The limits of active recorders, and the original limit."""


class RaisedRecursionLimit:
    """A context with a higher recursion limit; a limit set by the program inside is kept."""

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
