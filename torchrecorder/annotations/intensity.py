"""Arithmetic intensity: floating-point operations per byte that operations read and write."""

from __future__ import annotations

from torchrecorder.annotations.annotation import Annotation, Ratio
from torchrecorder.annotations.memory import new_bytes
from torchrecorder.annotations.statistics import number
from torchrecorder.events import FLOPS_FORWARD, NO_STORAGE, OpKind, ValueId
from torchrecorder.graph.memory_access import LEAVES_UNSET, PART_READ, PART_WRITTEN, contents_read
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import own_outputs


def intensity(recording: RecordedRun) -> dict[str, float]:
    """FLOPs per byte, for each op that moves memory; 0 if its FLOPs were not counted.

    It is infinite for a scope with FLOPs of ops that were not recorded: they count with the others.
    """
    flops = recording.measured.get(FLOPS_FORWARD, {})
    moved = moved_bytes(recording) if flops else {}
    return {node: Ratio(flops.get(node, 0), moved.get(node, 0)) for node in {**moved, **flops}}


def moved_bytes(recording: RecordedRun) -> dict[str, float]:
    """For each op that moves memory, the bytes that it reads and writes, without backward passes
    and recomputation in them."""
    new, views = new_bytes(recording), _views(recording)
    backward = {run.op for run in recording.backward_runs}
    found: dict[str, float] = {}
    for op in recording.ops.values():
        if op.kind is OpKind.PASS or op.recompute or op.id in backward or op.name in LEAVES_UNSET:
            continue
        written = new[op.id] + _bytes_in_place(recording, op)
        if written or not op.outputs:  # otherwise it returns views
            found[op.id] = written + _bytes_read(recording, op, views, new[op.id])
    return {op: moved for op, moved in found.items() if moved}


def _bytes_in_place(recording: RecordedRun, op: Op) -> int:
    values, part = recording.values, PART_WRITTEN.get(op.name)
    for slot in op.inputs:
        if slot.name == part:
            return values[slot.value].bytes
    return sum(values[value].bytes for value in own_outputs(values, op) if value in op.writes)


def _bytes_read(
    recording: RecordedRun, op: Op, views: dict[ValueId, tuple[ValueId, int]], made: float
) -> float:
    """The bytes that *op*, whose new results have *made* bytes, reads. What it reads twice counts
    once, and several views of a tensor count no more than the tensor."""
    values, part = recording.values, PART_READ.get(op.name)
    looked_up = op.inputs[part].value if part is not None else None
    found: dict[ValueId, float] = {}
    for value in {slot.value: None for slot in contents_read(op)}:
        whole, shown = views.get(value, (value, values[value].bytes))
        read = min(shown, made) if value == looked_up else shown
        found[whole] = min(found.get(whole, 0) + read, values[whole].bytes)
    return sum(found.values())


def _views(recording: RecordedRun) -> dict[ValueId, tuple[ValueId, int]]:
    """For each view, the tensor that it is a view of, and the bytes of it that it shows: those of
    an expanded tensor are fewer than its elements have."""
    values, found = recording.values, dict[ValueId, tuple[ValueId, int]]()
    for op in recording.ops.values():
        sources = {values[slot.value].storage: slot.value for slot in reversed(op.inputs)}
        sources.pop(NO_STORAGE, None)
        for value in op.outputs:
            source = sources.get(values[value].storage)
            if source is not None and value not in op.writes:
                whole, shown = found.get(source, (source, values[source].bytes))
                found[value] = whole, min(shown, values[value].bytes)
    return found


INTENSITY = Annotation(
    "intensity", "Intensity", "FLOP/B", intensity, Ratio.of_sums, number, logarithmic=True,
    needs=("flops",),
)
"""Floating-point operations per byte; of several ops, all FLOPs per all bytes."""
