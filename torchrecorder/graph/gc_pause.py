"""Pause the cyclic garbage collector while thousands of small objects are made."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_gc() -> Iterator[None]:
    """A context without runs of the cyclic garbage collector, which would double the cost.

    A run makes about ten small objects per op, a figure about as many per box; every few hundred
    of them would start a collection over all objects of PyTorch. None of them is part of a cycle.
    Other cycles are collected after the block.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
