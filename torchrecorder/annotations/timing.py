"""Timing: seconds forward and backward.

Where a run gives device times (CUDA events), those stand for ops and grad nodes; else it
is wall-clock time of the call. Time a scope spends outside its ops and inner scopes, in
Python, belongs to the scope itself, so that the sum over all that lies in a scope is the
time spent in it.
"""

from __future__ import annotations

from torchrecorder.annotations.amounts import of_seconds
from torchrecorder.annotations.annotation import TIMES, Annotation
from torchrecorder.events import SECONDS_ON_DEVICE, GradId
from torchrecorder.graph.nodes import GradRun, Op
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.median_runs import own_seconds


def forward_seconds(recording: RecordedRun) -> dict[str, float]:
    """Seconds of each op, and of each scope outside its ops and inner scopes.

    Backward passes are left out, and so is what ran in them again. Where ops ran on a
    device, scopes have no time of their own: the device knows only ops.
    """
    device = recording.measured.get(SECONDS_ON_DEVICE, {})
    backward = {run.op for run in recording.backward_runs}
    found: dict[str, float] = {}
    for op in recording.ops.values():
        if op.seconds is not None and not op.recompute and op.id not in backward:
            there = device and _is_on_device(recording, op)
            found[op.id] = device.get(op.id, op.seconds) if there else op.seconds
    if device:
        return found
    for scope, seconds in own_seconds(recording).items():
        if not recording.scopes[scope].recompute:
            found[scope] = seconds
    return found


def _is_on_device(recording: RecordedRun, op: Op) -> bool:
    return any(recording.values[value].device.startswith("cuda") for value in op.outputs)


def backward_seconds(recording: RecordedRun) -> dict[str, float]:
    """Seconds of each grad node, over all backward runs.

    Adding to the gradient of a parameter or input counts at the node that gave it.
    """
    device = recording.measured.get(SECONDS_ON_DEVICE, {})
    feeders = first_feeders(recording)
    found: dict[str, float] = {}
    for ran in recording.grad_runs:
        place = feeders.get(ran.grad, ran.grad)
        if ran.seconds is not None and not (device and _ran_on_device(ran)):
            found[place] = found.get(place, 0.0) + ran.seconds
    for grad, seconds in device.items():
        if grad in recording.grad_nodes:
            found[grad] = found.get(grad, 0.0) + seconds
    return found


def _ran_on_device(ran: GradRun) -> bool:
    return any(item is not None and item.device.startswith("cuda") for item in ran.given)


def first_feeders(recording: RecordedRun) -> dict[GradId, GradId]:
    """For each accumulation, the first node that an op owns and that gives to it."""
    found: dict[GradId, GradId] = {}
    for grad in recording.grad_nodes.values():
        for edge in grad.next:
            if edge is not None and recording.grad_nodes[edge.grad].owner is None:
                found.setdefault(edge.grad, grad.id)
    return found


def total_seconds(recording: RecordedRun) -> dict[str, float]:
    """Both directions."""
    return {**forward_seconds(recording), **backward_seconds(recording)}


FORWARD_TIME = Annotation(
    "forward_time", "Forward", "s", forward_seconds, sum, of_seconds, needs=(TIMES,)
)
"""Seconds forward."""

BACKWARD_TIME = Annotation(
    "backward_time", "Backward", "s", backward_seconds, sum, of_seconds, needs=("backward",)
)
"""Seconds backward."""

TIME = Annotation("time", "Time", "s", total_seconds, sum, of_seconds, needs=(TIMES,))
"""Seconds in both directions."""
