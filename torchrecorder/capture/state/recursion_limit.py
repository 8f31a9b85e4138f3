"""Headroom: room on the stack for what listening adds to it.

As soon as anybody hears module calls, PyTorch (2.13) puts a frame of its own on top of the
three or four that each call takes. A model that nests just as deep as the program's recursion
limit allows would fail because of us; so the limit is a third higher while we listen.
"""

from __future__ import annotations

import sys
import threading

_OURS = 200  # frames of an instrument that works at the deepest place


_lock = threading.Lock()
_raised: list[int] = []
_before: list[int] = []
"""The limits of the recorders that listen now, and the one from before them all."""


class Headroom:
    """A context with a higher recursion limit; leaves one that the program sets alone."""

    def __enter__(self) -> Headroom:
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
