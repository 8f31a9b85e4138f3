"""Profile: what a profiler measured of ops and grad nodes."""

from __future__ import annotations

from torchrecorder.annotations.amounts import exact, of_bytes, of_flops, of_seconds
from torchrecorder.annotations.annotation import Annotation, measured
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

CPU_TIME = Annotation(
    "cpu_time", "CPU", "s", measured(SECONDS_ON_CPU), sum, of_seconds, needs=NEEDS, passes=True
)
"""Seconds in PyTorch's operators on the CPU, as the profiler measured them."""

DEVICE_TIME = Annotation(
    "device_time", "Device", "s", measured(SECONDS_OF_KERNELS), sum, of_seconds, needs=NEEDS,
    passes=True,
)
"""Seconds that the kernels took which it launched, copies and memsets included."""

KERNEL_COUNT = Annotation(
    "kernels", "Kernels", "", measured(KERNELS), sum, exact, needs=NEEDS, passes=True
)
"""How many kernels, copies and memsets it launched."""

LAUNCH_GAP = Annotation(
    "launch_gap", "Launch gap", "s", measured(SECONDS_OF_GAPS), sum, of_seconds, needs=NEEDS,
    passes=True,
)
"""Seconds from the launches of its kernels until they began."""

ALLOCATED = Annotation(
    "memory_allocated", "Allocated", "B", measured(BYTES_ALLOCATED), sum, of_bytes, needs=NEEDS,
    passes=True,
)
"""Bytes that its operators took from the allocator, less what each gave back itself."""

FREED = Annotation(
    "memory_freed", "Freed", "B", measured(BYTES_FREED), sum, of_bytes, needs=NEEDS, passes=True
)
"""Bytes that its operators gave back to the allocator, less what each took itself."""

PROFILED_FLOPS = Annotation(
    "profiled_flops", "Profiled FLOPs", "FLOP", measured(FLOPS_PROFILED), sum, of_flops,
    needs=NEEDS, passes=True,
)
"""Floating-point operations of the operators that the profiler counts them for."""
