"""Memory: bytes of new tensors, of tensors saved for backward, of gradients; the peak."""

from __future__ import annotations

from torchrecorder.annotations.amounts import of_bytes
from torchrecorder.annotations.annotation import Annotation, measured
from torchrecorder.annotations.parameter_owners import leaf_gradients, set_gradients
from torchrecorder.annotations.parameters import stored
from torchrecorder.events import BYTES_PEAK, BYTES_SAVED, GradId, OpKind, Role, ScopeId
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import recomputed


def new_bytes(recording: RecordedRun) -> dict[str, float]:
    """For each op, the bytes of its results in new memory, not of views and writes in place;
    without recomputation."""
    found: dict[str, float] = {op.id: 0 for op in recording.ops.values() if not op.recompute}
    known: set[int] = set()
    for value in recording.values.values():
        seen = value.storage in known
        if value.storage >= 0:
            known.add(value.storage)
        op = recording.ops.get(value.producer) if value.producer is not None else None
        if op is None or op.id not in found or seen:
            continue
        if op.kind is not OpKind.PASS and value.id not in op.writes:
            found[op.id] += value.bytes
    return found


def gradient_bytes(recording: RecordedRun) -> dict[str, float]:
    """For each parameter with a gradient, the bytes of the gradient; for a shard, of the shard."""
    counted = {value.id for value in stored(recording, Role.PARAMETER)}
    received = leaf_gradients(recording).items()
    found: dict[str, float] = {leaf: one.bytes for leaf, one in received if leaf in counted}
    assigned = set_gradients(recording).items()
    return found | {leaf: size for leaf, size in assigned if leaf in counted}


def saved_bytes(recording: RecordedRun) -> dict[str, float]:
    """For each grad node and checkpoint, the bytes that it saved, without recomputation."""
    again, nodes, scopes = recomputed(recording), recording.grad_nodes, recording.scopes

    def is_recomputed(item: str) -> bool:
        if GradId(item) in nodes:
            return nodes[GradId(item)].owner in again
        return ScopeId(item) in scopes and scopes[ScopeId(item)].recompute

    measured = recording.measured.get(BYTES_SAVED, {})
    return {item: amount for item, amount in measured.items() if not is_recomputed(item)}


OUTPUT_BYTES = Annotation("output_bytes", "Output size", "B", new_bytes, sum, of_bytes)
"""Bytes of new tensors that ops returned."""

SAVED_BYTES = Annotation("saved_bytes", "Saved", "B", saved_bytes, sum, of_bytes, needs=("saved",))
"""Bytes saved for backward, by grad node; a tensor counts at the first node that saves it."""

GRADIENT_BYTES = Annotation(
    "gradient_bytes", "Grads size", "B", gradient_bytes, sum, of_bytes, needs=("backward",)
)
"""Bytes of the gradients of parameters."""

PEAK_BYTES = Annotation(
    "peak_bytes", "Peak", "B", measured(BYTES_PEAK), max, of_bytes, needs=("memory",)
)
"""Peak memory during the run: of tensors, or as the device reports it."""
