"""Flops: floating-point operations, as PyTorch's formulas count them; on request."""

from __future__ import annotations

from torchrecorder.annotations.amounts import of_flops
from torchrecorder.annotations.annotation import Annotation, measured
from torchrecorder.events import FLOPS_BACKWARD, FLOPS_FORWARD

FLOPS = Annotation(
    "flops", "FLOPs", "FLOP", measured(FLOPS_FORWARD), sum, of_flops, needs=("flops",)
)
"""Floating-point operations forward, by op; by scope where no op was seen."""

BACKWARD_FLOPS = Annotation(
    "backward_flops", "Backward FLOPs", "FLOP", measured(FLOPS_BACKWARD), sum, of_flops,
    needs=("flops", "backward"),
)
"""Floating-point operations backward, by grad node."""
