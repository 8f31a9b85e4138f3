"""Frame marks: what recorders know about a running frame, stored on the frame itself."""

from __future__ import annotations

import inspect
from types import FrameType
from typing import Any

GENERATOR_FLAGS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


OUTSIDE: Any = object()
"""The fact about a frame that was running before the recording started."""


class FrameMark(dict[object, Any]):
    """Facts about a frame, by recorder.

    Frames cannot be identified by address, because the frames of two calls in a loop often have the
    same; and references to frames would keep their tensors alive. So the mark is stored in
    ``f_trace``, the attribute for the trace function of debuggers and of coverage. Python deletes
    it with the frame. As a trace function it calls the one that the frame had before, if any.
    """

    def __init__(self, traced_by: Any = None) -> None:
        self.traced_by = traced_by

    def __call__(self, *event: Any) -> None:
        """Called by Python for an event in the frame; None leaves the mark where it is."""
        if self.traced_by is not None:
            self.traced_by = self.traced_by(*event) or self.traced_by

    def __bool__(self) -> bool:
        """Whether the frame has a trace function: otherwise debuggers set their own."""
        return self.traced_by is not None

    def remove(self, frame: FrameType, key: object) -> None:
        """Remove the fact of *key* from *frame*, and the mark if no other is left."""
        self.pop(key, None)
        if not len(self):
            frame.f_trace = self.traced_by


def mark_of(frame: FrameType) -> FrameMark | None:
    """The mark of *frame*, created if necessary.

    None for generators, which may wait at the end of the recording: then nothing could remove it.
    """
    mark = frame.f_trace
    if type(mark) is FrameMark:
        return mark
    if frame.f_code.co_flags & GENERATOR_FLAGS:
        return None
    frame.f_trace = mark = FrameMark(mark)
    return mark
