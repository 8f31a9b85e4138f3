"""Once: what is computed from a recording is kept with it, for calls with many names in turn."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from torchrecorder.graph.recording import RecordedRun

KeptT = TypeVar("KeptT")


def once(compute: Callable[[RecordedRun], KeptT]) -> Callable[[RecordedRun], KeptT]:
    """A decorator that computes the same as a cached property does, in a higher layer.

    The result is neither saved nor copied with the recording.
    """
    name = f"{compute.__module__}.{compute.__qualname__}"

    @functools.wraps(compute)
    def kept(recording: RecordedRun) -> KeptT:
        found = vars(recording)
        if name not in found:
            found[name] = compute(recording)
        return found[name]  # type: ignore[no-any-return]

    return kept
