"""Profile: measurements of ops and grad nodes by a profiler."""

from __future__ import annotations

from torchrecorder.annotations.amounts import exact, of_bytes, of_flops, of_seconds
from torchrecorder.annotations.annotation import DEVICE, Annotation, measured
from torchrecorder.events import (
    BYTES_ALLOCATED,
    BYTES_FREED,
    FLOPS_PROFILED,
    KERNELS,
    SECONDS_ON_CPU,
    SECONDS_OF_GAPS,
    SECONDS_OF_KERNELS,
)

NEEDS = ("profile",)
ON_DEVICE = ("profile", DEVICE)

CPU_TIME = Annotation(
    "cpu_time", "CPU", "s", measured(SECONDS_ON_CPU), sum, of_seconds, needs=NEEDS, passes=True
)
"""Seconds in PyTorch's operators on the CPU, as the profiler measured them."""

DEVICE_TIME = Annotation(
    "device_time", "Device", "s", measured(SECONDS_OF_KERNELS), sum, of_seconds, needs=ON_DEVICE,
    passes=True,
)
"""Seconds of the kernels that it launched, including copies and memsets."""

KERNEL_COUNT = Annotation(
    "kernels", "Kernels", "", measured(KERNELS), sum, exact, needs=ON_DEVICE, passes=True
)
"""Number of kernels, copies and memsets that it launched."""

LAUNCH_GAP = Annotation(
    "launch_gap", "Launch gap", "s", measured(SECONDS_OF_GAPS), sum, of_seconds, needs=ON_DEVICE,
    passes=True,
)
"""Seconds between the launch and the start of its kernels."""

ALLOCATED = Annotation(
    "memory_allocated", "Allocated", "B", measured(BYTES_ALLOCATED), sum, of_bytes, needs=NEEDS,
    passes=True,
)
"""Net bytes that its operators allocated, for operators that allocated more than they freed."""

FREED = Annotation(
    "memory_freed", "Freed", "B", measured(BYTES_FREED), sum, of_bytes, needs=NEEDS, passes=True
)
"""Net bytes that its operators freed, for operators that freed more than they allocated."""

PROFILED_FLOPS = Annotation(
    "profiled_flops", "Profiled FLOPs", "FLOP", measured(FLOPS_PROFILED), sum, of_flops,
    needs=NEEDS, passes=True,
)
"""Floating-point operations, for operators that the profiler has formulas for."""
