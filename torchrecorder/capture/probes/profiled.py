"""ProfilerRanges: ops, scopes and autograd nodes as ranges of a profiler, and its measurements.

The profiler is that of the user, or of ``record(..., profile=True)``. It links kernels, copies and
memory to the calls that launched them; the recorder only marks ops and scopes as ranges. An
autograd node is marked by an empty range inside the slice in which the engine runs the node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from torchrecorder.capture.internals.access import profiler_range
from torchrecorder.capture.scope import Gradients, Observer, OpenScope
from torchrecorder.checks import Check
from torchrecorder.events import GradId, OpId
from torchrecorder.trace.slices import MARK, Kernel, Slice

PROFILER = Check(
    "a torch.profiler.profile",
    lambda value: callable(getattr(value, "events", None)) and hasattr(value, "key_averages"),
)


CALLS = ("cuda", "cuLaunch", "hip", "xpu", "ze")
"""The prefixes of names of runtime and driver calls."""


class ProfilerRanges(Observer):
    """Creates a ``record_function`` range for each op and scope, and marks autograd nodes."""

    def __init__(self) -> None:
        self._open: list[tuple[str, Any]] = []

    def op_begins(self, op: OpId) -> None:
        self._enter(op, MARK + op)

    def op_ended(self, op: OpId) -> None:
        self._leave(op)

    def scope_entered(self, scope: OpenScope) -> None:
        """Begin a range; its name contains the path, for readers of the trace."""
        self._enter(scope.scope, f"{MARK}{scope.scope} {scope.event.path or scope.event.name}")

    def scope_left(self, scope: OpenScope, outputs: list[tuple[str, Tensor]]) -> None:
        self._leave(scope.scope)

    def node_begins(self, grad: GradId, run: int, given: Gradients) -> None:
        with profiler_range(MARK + grad):
            pass

    def finish(self) -> None:
        """Close open ranges."""
        while self._open:
            self._open.pop()[1].__exit__(None, None, None)

    def _enter(self, id: str, name: str) -> None:
        opened = profiler_range(name)
        opened.__enter__()
        self._open.append((id, opened))

    def _leave(self, id: str) -> None:
        """End the range, and after an exception the open ranges inside it."""
        if any(item == id for item, _ in self._open):
            while self._open:
                last, opened = self._open.pop()
                opened.__exit__(None, None, None)
                if last == id:
                    break


def is_done(profiler: Any) -> bool:
    """Whether *profiler* has stopped; reading its events earlier would corrupt them."""
    inner = getattr(profiler, "profiler", profiler)
    return getattr(inner, "kineto_results", None) is not None


def slices_of(profiler: Any) -> list[Slice]:
    """The CPU slices of *profiler*, each with the kernels that it launched."""
    events = list(profiler.events())
    begun = {event.id: event.time_range.start for event in events if not _is_on_cpu(event)}
    return [
        _slice(event, begun)
        for event in events
        if _is_on_cpu(event) and not event.is_async and event.name != "[memory]"
    ]


def _is_on_cpu(event: Any) -> bool:
    return event.device_type.name == "CPU"  # type: ignore[no-any-return]


def _slice(event: Any, begun: Mapping[int, float]) -> Slice:
    own = float(event.self_cpu_memory_usage)
    device = float(event.self_device_memory_usage)
    return Slice(
        name=event.name,
        begin=event.time_range.start,
        end=event.time_range.end,
        thread=event.thread,
        allocated=max(own, 0.0) + max(device, 0.0),
        freed=max(-own, 0.0) + max(-device, 0.0),
        flops=float(event.flops or 0),
        kernels=tuple(_kernels(event, begun)),
    )


def _kernels(event: Any, begun: Mapping[int, float]) -> Iterator[Kernel]:
    """The kernels that *event* launched, linked by the correlation ids of runtime calls."""
    calls = [child for child in event.cpu_children if child.name.startswith(CALLS)]
    calls = [call for call in calls if call.id in begun]
    for place, kernel in enumerate(event.kernels):
        gap = None
        if len(calls) == len(event.kernels):
            gap = max(begun[calls[place].id] - calls[place].time_range.start, 0.0) / 1e6
        yield Kernel(kernel.name, kernel.duration / 1e6, gap)
