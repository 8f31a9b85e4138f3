"""DeviceWatched: time and memory on a GPU, where the CPU's clock is not sufficient.

Ops and grad nodes are bracketed by CUDA events on their stream. The events are read after the run,
so that the run never waits. Memory is the number of bytes of the caching allocator, read around
every op; a new peak of the allocator within an op counts too. Peak statistics are never reset.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchrecorder.capture.observer import Given, Observer
from torchrecorder.capture.scope import OpenScope
from torchrecorder.capture.tape import Tape
from torchrecorder.events import BYTES_PEAK, SECONDS_ON_DEVICE, GradId, Measured, OpId


def in_use() -> bool:
    """Whether this process works on a CUDA device."""
    return torch.cuda.is_available() and torch.cuda.is_initialized()


class DeviceWatched(Observer):
    """Brackets ops and grad nodes with events, and follows memory by scope."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.device = torch.cuda.current_device()
        self._started: dict[str, Any] = {}
        self._pairs: list[tuple[str, Any, Any]] = []
        self._peaks: dict[str, int] = {}
        self._highest = self._memory()[1]

    # Time ---------------------------------------------------------------------------

    def op_begins(self, op: OpId) -> None:
        self._start(op)

    def op_ended(self, op: OpId) -> None:
        self._stop(op)
        self._look(op)

    def node_begins(self, grad: GradId, run: int, given: Given) -> None:
        """A grad node is submitted to the device of its gradients."""
        if any(isinstance(item, Tensor) and item.is_cuda for item in given):
            self._start(f"{grad} {run}")

    def node_ended(self, grad: GradId, run: int) -> None:
        self._stop(f"{grad} {run}")
        self._look(grad)

    def _start(self, key: str) -> None:
        if torch.cuda.is_current_stream_capturing():
            return  # timing events cannot be part of a CUDA graph
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._started[key] = event

    def _stop(self, key: str) -> None:
        started = self._started.pop(key, None)
        if started is not None:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._pairs.append((key.partition(" ")[0], started, event))

    # Memory -------------------------------------------------------------------------

    def scope_entered(self, scope: OpenScope) -> None:
        """Memory allocated at the start counts too."""
        self._look(None)

    def scope_left(self, scope: OpenScope, outputs: list[tuple[str, Tensor]]) -> None:
        """Read memory before the scope ends."""
        self._look(None)

    def _look(self, node: str | None) -> None:
        now, highest = self._memory()
        if highest > self._highest:
            now = self._highest = highest
        around = [item.scope for item in self.tape.stack]
        for place in [*around, *([node] if node is not None else [])]:
            self._peaks[place] = max(now, self._peaks.get(place, 0))

    def _memory(self) -> tuple[int, int]:
        """Allocated bytes: current and peak."""
        stats = torch.cuda.memory_stats_as_nested_dict(self.device)["allocated_bytes"]["all"]
        return stats["current"], stats["peak"]

    def finish(self) -> None:
        """Synchronize the device once, and read all events."""
        if self._pairs:
            torch.cuda.synchronize(self.device)
        for node, started, ended in self._pairs:
            self.tape.write(Measured(SECONDS_ON_DEVICE, node, started.elapsed_time(ended) / 1000))
        for node, peak in self._peaks.items():
            self.tape.write(Measured(BYTES_PEAK, node, peak))
        self._pairs.clear()
