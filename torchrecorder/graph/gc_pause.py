"""Pause the cyclic garbage collector while thousands of small objects are made."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Without passes of the cyclic garbage collector, which would double the cost.

    A run leaves some ten small facts per op, a figure as many for each box; each few hundred
    would start a pass over everything that PyTorch keeps. None of them is part of a cycle.
    Cycles of others are collected as ever after the block.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
