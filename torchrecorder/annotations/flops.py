"""Flops: floating-point operations, counted by PyTorch's formulas on request."""

from __future__ import annotations

from torchrecorder.annotations.amounts import of_flops
from torchrecorder.annotations.annotation import Annotation, measured
from torchrecorder.events import FLOPS_BACKWARD, FLOPS_FORWARD

FLOPS = Annotation(
    "flops", "FLOPs", "FLOP", measured(FLOPS_FORWARD), sum, of_flops, needs=("flops",)
)
"""Floating-point operations in forward, by op; by scope if no op was recorded."""

BACKWARD_FLOPS = Annotation(
    "backward_flops", "Backward FLOPs", "FLOP", measured(FLOPS_BACKWARD), sum, of_flops,
    needs=("flops", "backward"),
)
"""Floating-point operations in backward, by grad node."""
