"""DelayedEnd: a process that is told to end first writes what it has recorded.

When one process of a job fails, launchers such as ``torchrun`` tell all others to end with
``SIGTERM``, and kill those that have not ended after a while.
"""

from __future__ import annotations

import signal
import threading
from typing import Any


class DelayedEnd:
    """A context in which ``SIGTERM`` is delayed to the end of the context, once `begin` is called.

    Signals are unchanged outside of the main thread, where Python cannot handle them.

    Attributes:
        told: Set when the process is told to end.
    """

    def __init__(self) -> None:
        self.told = threading.Event()
        self._begun = False
        self._previous: Any = None

    def __enter__(self) -> DelayedEnd:
        return self

    def begin(self) -> None:
        """Delay the signal from now on."""
        if threading.current_thread() is threading.main_thread():
            self._begun = True
            self._previous = signal.signal(signal.SIGTERM, lambda *_: self.told.set())

    def __exit__(self, *error: object) -> None:
        if not self._begun:
            return
        # it is None for a handler that was set outside of Python
        signal.signal(signal.SIGTERM, self._previous or signal.SIG_DFL)
        if self.told.is_set():
            signal.raise_signal(signal.SIGTERM)
