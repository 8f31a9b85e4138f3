"""Headroom: room on the stack for what listening adds to it.

As soon as anybody hears module calls, PyTorch (2.13) puts a frame of its own on top of the
three or four that each call takes. A model that nests just as deep as the program's recursion
limit allows would fail because of us; so the limit is a third higher while we listen.
"""

from __future__ import annotations

import sys

_OURS = 200  # frames of an instrument that works at the deepest place


class Headroom:
    """A context with a higher recursion limit; leaves one that the program sets alone."""

    def __enter__(self) -> Headroom:
        self.before = sys.getrecursionlimit()
        self.raised = self.before + self.before // 3 + _OURS
        sys.setrecursionlimit(self.raised)
        return self

    def __exit__(self, *error: object) -> None:
        if sys.getrecursionlimit() == self.raised:
            sys.setrecursionlimit(self.before)
