"""Greenlets: the stack frames around code that runs in one.

A hook can switch to a greenlet that works on a tensor and switches back, as in nnsight. The frames
of the greenlet end where it was started. What runs around it is its parent: that is suspended, and
goes on when the greenlet is done.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any


def greenlet_around(inner: Any) -> tuple[Any, FrameType | None]:
    """The greenlet that is suspended around *inner*, by default the running one, and its innermost
    frame; None for both outside of greenlets."""
    library = sys.modules.get("greenlet")
    if library is None:
        return None, None
    outer = (library.getcurrent() if inner is None else inner).parent
    return outer, outer.gr_frame if outer is not None else None


def frames_around(frame: FrameType | None) -> Iterator[FrameType]:
    """*frame* and the frames around it, innermost first; nothing for None."""
    greenlet = None
    while frame is not None:
        yield frame
        frame = frame.f_back
        if frame is None:
            greenlet, frame = greenlet_around(greenlet)
