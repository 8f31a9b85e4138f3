"""Timing: seconds in forward and backward.

Times of ops and grad nodes on a device are those of CUDA events if they were recorded, otherwise
the wall-clock time of the call. Time that a scope spends in Python, outside its ops and inner
scopes, belongs to the scope itself, so that the sum over everything in a scope is the time spent
in it.
"""

from __future__ import annotations

from collections.abc import Callable

from torchrecorder.annotations.amounts import exact, of_bytes, of_flops, of_seconds
from torchrecorder.annotations.annotation import DEVICE, TIMES, Annotation, measured
from torchrecorder.events import (
    BYTES_ALLOCATED, BYTES_FREED, FLOPS_BACKWARD, FLOPS_FORWARD, FLOPS_PROFILED, KERNELS,
    SECONDS_OF_GAPS, SECONDS_OF_KERNELS, SECONDS_ON_CPU, SECONDS_ON_DEVICE, GradId, Gradient,
)
from torchrecorder.graph.median_runs import own_seconds
from torchrecorder.graph.nodes import Value
from torchrecorder.graph.once import once
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import recomputed


@once
def forward_seconds(recording: RecordedRun) -> dict[str, float]:
    """Seconds of each op, and of each scope outside its ops and inner scopes.

    Backward passes and recomputation in them are left out. With device times, scopes have no time
    of their own, because those exist only for ops.
    """
    device = recording.measured.get(SECONDS_ON_DEVICE, {})
    backward = {run.op for run in recording.backward_runs}
    found: dict[str, float] = {}
    for op in recording.ops.values():
        if op.seconds is not None and not op.recompute and op.id not in backward:
            there = device and any(_is_cuda(recording.values[value]) for value in op.outputs)
            found[op.id] = device.get(op.id, op.seconds) if there else op.seconds
    if device:
        return found
    for scope, seconds in own_seconds(recording).items():
        if not recording.scopes[scope].recompute:
            found[scope] = seconds
    return found


def _is_cuda(tensor: Value | Gradient) -> bool:
    return tensor.device.startswith("cuda")


@once
def backward_seconds(recording: RecordedRun) -> dict[str, float]:
    """Seconds of each grad node; those of ``AccumulateGrad`` count for the node before it."""
    device = recording.measured.get(SECONDS_ON_DEVICE, {})
    feeders = first_feeders(recording)
    found: dict[str, float] = {}
    for ran in recording.grad_runs:
        place = feeders.get(ran.grad, ran.grad)
        there = device and any(map(_is_cuda, filter(None, ran.given)))
        if ran.seconds is not None and not there:
            found[place] = found.get(place, 0.0) + ran.seconds
    for grad, seconds in device.items():
        if grad in recording.grad_nodes:
            found[grad] = found.get(grad, 0.0) + seconds
    return found


def backward_flops(recording: RecordedRun) -> dict[str, float]:
    """Floating-point operations of each grad node, with those of a pass that it runs itself."""
    nodes, again, found = recording.grad_nodes, recomputed(recording), dict[str, float]()
    for place, amount in recording.measured.get(FLOPS_BACKWARD, {}).items():
        grad = nodes.get(GradId(place))
        while grad is not None and grad.owner in again and grad.made_by is not None:
            place, grad = grad.made_by, nodes.get(grad.made_by)
        found[place] = found.get(place, 0) + amount
    return found


def first_feeders(recording: RecordedRun) -> dict[GradId, GradId]:
    """For each ``AccumulateGrad`` node, the first node whose gradient it receives."""
    found: dict[GradId, GradId] = {}
    for grad in recording.grad_nodes.values():
        for edge in grad.next:
            if edge is not None and recording.grad_nodes[edge.grad].owner is None:
                found.setdefault(edge.grad, grad.id)
    return found


TIMING = (
    Annotation("forward_time", "Forward", "s", forward_seconds, sum, of_seconds, needs=(TIMES,)),
    Annotation(
        "backward_time", "Backward", "s", backward_seconds, sum, of_seconds, needs=("backward",)
    ),
    Annotation(
        "time", "Time", "s", lambda run: {**forward_seconds(run), **backward_seconds(run)}, sum,
        of_seconds, needs=(TIMES,),
    ),
)
"""Seconds in forward, in backward, and in both."""


FLOPS = (
    # in forward, by op; by scope if no op was recorded
    Annotation("flops", "FLOPs", "FLOP", measured(FLOPS_FORWARD), sum, of_flops, needs=("flops",)),
    # in backward, by grad node
    Annotation(
        "backward_flops", "Backward FLOPs", "FLOP", backward_flops, sum, of_flops,
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
