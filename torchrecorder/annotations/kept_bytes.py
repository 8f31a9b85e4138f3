"""Kept bytes: what is kept for backward, what gradients take, how high memory rose."""

from __future__ import annotations

from torchrecorder.annotations.amounts import of_bytes
from torchrecorder.annotations.annotation import Annotation
from torchrecorder.events import Role
from torchrecorder.graph.recording import Recording

SAVED = "saved bytes"
PEAK = "peak bytes"


def saved_bytes(recording: Recording) -> dict[str, float]:
    """For each grad node, the bytes that it keeps and no node before it does."""
    return dict(recording.measured.get(SAVED, {}))


def gradient_bytes(recording: Recording) -> dict[str, float]:
    """For each parameter that got a gradient, the bytes of it."""
    found: dict[str, float] = {}
    for ran in recording.grad_runs:
        leaf = recording.grad_nodes[ran.grad].variable
        if leaf is None or recording.values[leaf].role is not Role.PARAMETER:
            continue
        for gradient in ran.given:
            if gradient is not None:
                found[leaf] = gradient.bytes
    return found


def peak_bytes(recording: Recording) -> dict[str, float]:
    """For each scope and op, the most memory that the device had given out while it ran."""
    return dict(recording.measured.get(PEAK, {}))


SAVED_BYTES = Annotation("saved_bytes", "Saved", "B", saved_bytes, sum, of_bytes)
"""Bytes kept for backward."""

GRADIENT_BYTES = Annotation("gradient_bytes", "Grads size", "B", gradient_bytes, sum, of_bytes)
"""Bytes of the gradients of parameters."""

PEAK_BYTES = Annotation("peak_bytes", "Peak", "B", peak_bytes, max, of_bytes)
"""The most memory given out while it ran, where the device says it."""
