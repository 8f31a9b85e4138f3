"""GC pause: stops the cyclic garbage collector while thousands of small objects are created."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_gc() -> Iterator[None]:
    """A context in which the cyclic garbage collector does not run: it would double the time.

    A run creates about ten small objects per op, a figure as many per box, and the import of a
    module some hundreds. Every few hundred of them would start a collection over all objects of
    PyTorch, although none is part of a cycle. Other cycles are collected after the block.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
