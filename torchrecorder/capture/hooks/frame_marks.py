"""Marks in stack frames, which tell two calls of a function apart.

The frames of two calls in a loop often have the same address, and references to frames would keep
their tensors alive. So each frame that was seen gets a mark in ``f_trace``, the attribute for the
trace function of debuggers. Python deletes it with the frame, and it traces nothing.
"""

from __future__ import annotations

from types import FrameType
from typing import Any


class FrameMark(dict[object, Any]):
    """The call of a frame, for each recorder; None for a frame without a call of its own."""

    def __call__(self, *event: object) -> None:
        """Called by Python if tracing starts while the frame runs; None means no tracing."""


def mark_of(frame: FrameType) -> FrameMark | None:
    """The mark of *frame*, new if it has none; None if it has the trace function of a debugger."""
    mark = frame.f_trace
    if mark is None:
        mark = frame.f_trace = FrameMark()
    return mark if type(mark) is FrameMark else None
