"""A debugger that traces every function, for a block of a test."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def debugger() -> Iterator[None]:
    """A context in which a trace function is called for every event."""
    before = sys.gettrace()
    sys.settrace(_trace)
    try:
        yield
    finally:
        sys.settrace(before)


def _trace(frame: Any, event: str, argument: Any) -> Any:
    return _trace
