"""Progress: says on a terminal what takes long, and stays silent elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TextIO

_PATIENCE = 1.5
_BLANK = "\r\x1b[K"


class Progress:
    """Shows a line on *stream* while its block takes longer than a second or two."""

    def __init__(self, stream: TextIO | None = None, patience: float = _PATIENCE) -> None:
        self._stream = stream or sys.stderr
        self._patience = patience
        self._doing = ""
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Progress:
        if self._stream.isatty():
            self._thread = threading.Thread(target=self._show, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def say(self, doing: str) -> None:
        """What is being done now."""
        self._doing = doing

    def _show(self) -> None:
        started = time.monotonic()
        shown = False
        wait = self._patience
        while not self._done.wait(wait):
            passed = time.monotonic() - started
            self._stream.write(f"{_BLANK}{self._doing} ... {passed:.0f} s")
            self._stream.flush()
            shown, wait = True, 0.5
        if shown:
            self._stream.write(_BLANK)
            self._stream.flush()
