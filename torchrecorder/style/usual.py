"""The dtype that needs no mention, because most of the run is in it."""

from __future__ import annotations

from collections import Counter

from torchrecorder.graph.recording import Recording


def usual_dtype(recording: Recording) -> str:
    """The floating-point dtype of most values; ``float32`` where there are none."""
    floating = Counter(
        value.dtype for value in recording.values.values() if "float" in value.dtype
    )
    return max(floating, key=lambda dtype: (floating[dtype], dtype), default="float32")
