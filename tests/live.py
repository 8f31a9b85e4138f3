"""Live: how many bytes of tensors are alive at once, as PyTorch's allocator reports them.

The profiler writes down each allocation and each release, whoever made it: ops inside ops, and
copies that no mode hears of. The numbers are those asked for, the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch.profiler import ProfilerActivity, profile


class Live(NamedTuple):
    """Bytes that came to be alive."""

    peak: int  # at most at once
    left: int  # in the end


def live_bytes(action: Callable[[], Any]) -> Live:
    """What *action* had alive at once, and what it left; in bytes, beyond what was there."""
    now = peak = 0
    for size in allocations(action):
        now += size
        peak = max(peak, now)
    return Live(peak, now)


def allocations(action: Callable[[], Any]) -> list[int]:
    """The bytes of each allocation while *action* runs, in order; below nought when released."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        action()
    events = [
        (each.start_ns(), each.nbytes())
        for each in profiled.profiler.kineto_results.events()
        if each.name() == "[memory]"
    ]
    return [size for _, size in sorted(events, key=lambda each: each[0])]
