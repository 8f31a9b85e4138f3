"""Progress: a line on the terminal during long work.

It appears only if stderr is a terminal, after one and a half seconds, and is erased at the end.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TextIO

PATIENCE = 1.5
"""Seconds before the line appears."""

_BEAT = 0.1
_TURNS = "|/-\\"


class Progress:
    """Shows the current stage: ``progress.now("recording")`` inside its ``with`` block."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.stage = ""
        self._started = time.monotonic()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def now(self, stage: str) -> None:
        """Set the current stage."""
        self.stage = stage

    def __enter__(self) -> Progress:
        if self.stream.isatty():
            self._thread = threading.Thread(target=self._show, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self) -> None:
        if self._over.wait(PATIENCE):
            return
        turn = 0
        while not self._over.wait(_BEAT):
            seconds = time.monotonic() - self._started
            mark = _TURNS[turn % len(_TURNS)]
            self.stream.write(f"\r\x1b[K{mark} {self.stage} … {seconds:.0f} s")
            self.stream.flush()
            turn += 1
        self.stream.write("\r\x1b[K")
        self.stream.flush()
