"""DeviceProbe: time and memory on a GPU, where the CPU's clock is not sufficient.

Each op and autograd node is bracketed by CUDA events on the current streams of the devices in use.
The events are read after the run, so that the run never synchronizes. Memory is the allocated bytes
of the caching allocators, read after every op and node; a new peak within one counts too. Peak
statistics are not reset.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from torchrecorder.capture.internals.access import FakeTensor
from torchrecorder.capture.scope import Gradients, Observer, OpenScope
from torchrecorder.capture.tape import Tape
from torchrecorder.events import BYTES_PEAK, SECONDS_ON_DEVICE, GradId, Measured, OpId, ValueId

_Events = dict[int, Any]
"""An event on the current stream of each device."""


class DeviceProbe(Observer):
    """Brackets ops and autograd nodes with events, and stores the peak memory of scopes."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.used = False  # whether a result of an op, or a gradient, was on a GPU
        self._highest: dict[int, int] = {}  # by observed device: its last peak
        self._started: dict[str, _Events] = {}
        self._ended: tuple[str, _Events, _Events] | None = None  # the op whose results come next
        self._pairs: list[tuple[str, Any, Any]] = []
        self._peaks: dict[str, int] = {}
        self._now: int | None = None  # bytes in use, until the next op

    # Time ---------------------------------------------------------------------------

    def op_begins(self, op: OpId) -> None:
        self._start(op)

    def op_ended(self, op: OpId) -> None:
        started = self._started.pop(op, None)
        if started:
            self._ended = op, started, self._events()
        self._record_memory(op)

    def op_made(self, op: OpId, name: str, made: list[tuple[ValueId, Tensor]]) -> None:
        """Keep the events of the device on which the op had its results."""
        ended, self._ended = self._ended, None
        device = _device_of(tensor for _, tensor in made)
        if device is None:
            return
        self.used = True
        self._watch(device)
        if ended is not None and ended[0] == op and device in ended[1]:
            self._pairs.append((op, ended[1][device], ended[2][device]))

    def node_begins(self, grad: GradId, run: int, given: Gradients) -> None:
        """Start the time of a node on the device of its gradients."""
        device = _device_of(given)
        if device is not None:
            self.used = True
            self._start(f"{grad} {run}", [device])

    def node_ended(self, grad: GradId, run: int) -> None:
        started = self._started.pop(f"{grad} {run}", None)
        for device, begun in (started or {}).items():
            self._pairs.append((grad, begun, self._events([device])[device]))
        self._record_memory(grad)

    def _start(self, key: str, devices: Iterable[int] | None = None) -> None:
        self._now = None
        self._watch_first()
        if not torch.cuda.is_current_stream_capturing():  # a CUDA graph has no timing events
            self._started[key] = self._events(devices)

    def _watch_first(self) -> None:
        """Observe the current device, which may be initialized only now."""
        if not self._highest:
            self._watch(torch.cuda.current_device())

    def _watch(self, device: int) -> None:
        if device not in self._highest:
            self._highest[device] = self._memory(device)[1]

    def _events(self, devices: Iterable[int] | None = None) -> _Events:
        found: _Events = {}
        for device in self._highest if devices is None else devices:
            event = found[device] = torch.Event(f"cuda:{device}", enable_timing=True)
            event.record()
        return found

    # Memory -------------------------------------------------------------------------

    def scope_entered(self, scope: OpenScope) -> None:
        """Read memory at the beginning, which counts too."""
        self._record_memory(None)

    def scope_left(self, scope: OpenScope, outputs: list[tuple[str, Tensor]]) -> None:
        """Read memory before the scope ends."""
        self._record_memory(None)

    def _record_memory(self, node: str | None) -> None:
        now = self._now
        if now is None:
            self._watch_first()
            now = self._now = sum(map(self._bytes, self._highest))
        around = [item.scope for item in self.tape.stack]
        for place in [*around, *([node] if node is not None else [])]:
            self._peaks[place] = max(now, self._peaks.get(place, 0))

    def _bytes(self, device: int) -> int:
        """The bytes in use, or the peak if it has risen since the last call."""
        now, highest = self._memory(device)
        if highest > self._highest[device]:
            now = self._highest[device] = highest
        return now

    def _memory(self, device: int) -> tuple[int, int]:
        """The allocated bytes: current and peak."""
        stats = torch.cuda.memory_stats_as_nested_dict(device)["allocated_bytes"]["all"]
        return stats["current"], stats["peak"]

    def finish(self) -> None:
        """Synchronize the devices once, and read all events."""
        if not self.used:
            return
        for device in self._highest:
            torch.cuda.synchronize(device)
        for node, started, ended in self._pairs:
            self.tape.write(Measured(SECONDS_ON_DEVICE, node, started.elapsed_time(ended) / 1000))
        for node, peak in self._peaks.items():
            self.tape.write(Measured(BYTES_PEAK, node, peak))
        self._pairs.clear()


def _device_of(tensors: Iterable[Any]) -> int | None:
    """The device of the first tensor that is on a GPU."""
    for item in tensors:
        if isinstance(item, Tensor) and item.is_cuda and not isinstance(item, FakeTensor):
            return item.get_device()
    return None
