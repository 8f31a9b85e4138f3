"""Interrupts: hold Ctrl-C back while hooks and patches are installed or removed."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

from torchrecorder.capture.internals.access import get_frame


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """A context at whose end an interrupt (``SIGINT``) that arrives in it is handled.

    Else a ``KeyboardInterrupt`` between two steps would leave hooks behind for good. Python runs
    signal handlers in the main thread only; other threads are not interrupted.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    arrived: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: arrived.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if arrived:
            handler(signal.SIGINT, get_frame())
