"""Flops: floating-point operations, as PyTorch's formulas count them; on request."""

from __future__ import annotations

from torchrecorder.annotations.annotation import Annotation
from torchrecorder.graph.recording import Recording

FORWARD = "flops"
BACKWARD = "backward flops"
UNITS = ("", "k", "M", "G", "T", "P", "E")


def of_flops(number: float) -> str:
    """Operations in three digits: ``4.09 GFLOP``."""
    scaled, unit = float(number), 0
    while abs(scaled) >= 999.5 and unit + 1 < len(UNITS):
        scaled, unit = scaled / 1000, unit + 1
    digits = 0 if abs(scaled) >= 99.95 or not unit else 1 if abs(scaled) >= 9.995 else 2
    return f"{scaled:.{digits}f} {UNITS[unit]}FLOP"


def forward_flops(recording: Recording) -> dict[str, float]:
    """Operations forward, by op; by scope where no op was seen."""
    return dict(recording.measured.get(FORWARD, {}))


def backward_flops(recording: Recording) -> dict[str, float]:
    """Operations backward, by grad node."""
    return dict(recording.measured.get(BACKWARD, {}))


FLOPS = Annotation("flops", "FLOPs", "FLOP", forward_flops, sum, of_flops)
"""Floating-point operations forward."""

BACKWARD_FLOPS = Annotation(
    "backward_flops", "Backward FLOPs", "FLOP", backward_flops, sum, of_flops
)
"""Floating-point operations backward."""
