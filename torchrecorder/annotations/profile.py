"""Profile: operations counted by PyTorch's formulas, and measurements by a profiler."""

from __future__ import annotations

from collections.abc import Callable

from torchrecorder.annotations.amounts import exact, of_bytes, of_flops, of_seconds
from torchrecorder.annotations.annotation import DEVICE, Annotation, measured
from torchrecorder.events import (
    BYTES_ALLOCATED,
    BYTES_FREED,
    FLOPS_BACKWARD,
    FLOPS_FORWARD,
    FLOPS_PROFILED,
    KERNELS,
    SECONDS_ON_CPU,
    SECONDS_OF_GAPS,
    SECONDS_OF_KERNELS,
)

FLOPS = (
    # in forward, by op; by scope if no op was recorded
    Annotation("flops", "FLOPs", "FLOP", measured(FLOPS_FORWARD), sum, of_flops, needs=("flops",)),
    # in backward, by grad node
    Annotation(
        "backward_flops", "Backward FLOPs", "FLOP", measured(FLOPS_BACKWARD), sum, of_flops,
        needs=("flops", "backward"),
    ),
)
"""Floating-point operations, counted by PyTorch's formulas."""


def _profiled(
    name: str, title: str, unit: str, quantity: str, show: Callable[[float], str], *needs: str
) -> Annotation:
    """An annotation of a quantity that a profiler measured, for ops and grad nodes."""
    needed = ("profile", *needs)
    return Annotation(name, title, unit, measured(quantity), sum, show, needs=needed, passes=True)


PROFILE = (
    # in PyTorch's operators on the CPU
    _profiled("cpu_time", "CPU", "s", SECONDS_ON_CPU, of_seconds),
    # of the kernels that it launched, including copies and memsets
    _profiled("device_time", "Device", "s", SECONDS_OF_KERNELS, of_seconds, DEVICE),
    # that it launched, including copies and memsets
    _profiled("kernels", "Kernels", "", KERNELS, exact, DEVICE),
    # between the launch and the start of its kernels
    _profiled("launch_gap", "Launch gap", "s", SECONDS_OF_GAPS, of_seconds, DEVICE),
    # net, by operators that allocated more than they freed
    _profiled("memory_allocated", "Allocated", "B", BYTES_ALLOCATED, of_bytes),
    # net, by operators that freed more than they allocated
    _profiled("memory_freed", "Freed", "B", BYTES_FREED, of_bytes),
    # of operators that the profiler has formulas for
    _profiled("profiled_flops", "Profiled FLOPs", "FLOP", FLOPS_PROFILED, of_flops),
)
"""Measurements by a profiler."""
