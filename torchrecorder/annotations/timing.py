"""Timing: seconds forward and backward.

Times of ops and grad nodes on a device are those of CUDA events if they were recorded, otherwise
the wall-clock time of the call. Time that a scope spends in Python, outside its ops and inner
scopes, belongs to the scope itself, so that the sum over everything in a scope is the time spent
in it.
"""

from __future__ import annotations

from torchrecorder.annotations.amounts import of_seconds
from torchrecorder.annotations.annotation import TIMES, Annotation
from torchrecorder.events import SECONDS_ON_DEVICE, GradId, Gradient
from torchrecorder.graph.nodes import Value
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.median_runs import own_seconds


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


def backward_seconds(recording: RecordedRun) -> dict[str, float]:
    """Seconds of each grad node, over all backward runs.

    The accumulation of a gradient counts at the node that produced the gradient.
    """
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


def first_feeders(recording: RecordedRun) -> dict[GradId, GradId]:
    """For each accumulation node, the first node that passes a gradient to it."""
    found: dict[GradId, GradId] = {}
    for grad in recording.grad_nodes.values():
        for edge in grad.next:
            if edge is not None and recording.grad_nodes[edge.grad].owner is None:
                found.setdefault(edge.grad, grad.id)
    return found


def total_seconds(recording: RecordedRun) -> dict[str, float]:
    """Seconds in forward and backward."""
    return {**forward_seconds(recording), **backward_seconds(recording)}


TIMING = (
    Annotation("forward_time", "Forward", "s", forward_seconds, sum, of_seconds, needs=(TIMES,)),
    Annotation(
        "backward_time", "Backward", "s", backward_seconds, sum, of_seconds, needs=("backward",)
    ),
    Annotation("time", "Time", "s", total_seconds, sum, of_seconds, needs=(TIMES,)),
)
"""Seconds in forward, in backward, and in both."""
