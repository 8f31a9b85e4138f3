"""Unread arguments: tensors whose contents an operation does not use. They have no arrows.

`copy_`, and any function with ``out=``, replace the contents of a tensor. A recording lists the old
tensor among the inputs, to say which memory was written. But nothing used its contents.

`randn_like(x)` and `x.new_zeros(3)` only read the shape, dtype and device of ``x``, as
``torch.randn(x.shape)`` does, which has no arrow either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from torchrecorder.events import NO_STORAGE, OpId, ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.memory_access import read_for_form, replaced
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.views.view import BoxKind, View


class Overwritten(NamedTuple):
    """Arguments that are only overwritten, and views that are used for nothing else."""

    inputs: frozenset[tuple[OpId, str]]  # operations and the names of their arguments
    views: frozenset[OpId]  # operations all of whose results are such arguments


def hide_unread_arguments(view: View) -> View:
    """Drop the arrows of arguments that are only overwritten, or of which only the form is read,
    and constants without other arrows.

    Views that are used for nothing else stay, because their time and memory belong to their module.
    They are among the ops that are not drawn.
    """
    inputs, views = overwritten(view.recording)
    inputs |= _read_for_their_form(view.recording)
    if not inputs:
        return view
    arrows = tuple(
        arrow
        for arrow in view.arrows
        if arrow.head not in views and (arrow.head, arrow.slot) not in inputs
    )
    idle = {arrow.tail for arrow in view.arrows} - {arrow.tail for arrow in arrows}
    boxes = {
        box.id: box
        for box in view.boxes.values()
        if box.id not in idle or box.kind is not BoxKind.CONSTANT
    }
    return replace(view, boxes=boxes, arrows=arrows)


def _read_for_their_form(recording: RecordedRun) -> frozenset[tuple[OpId, str]]:
    """The arguments of which operations only read the form; not those that nothing else reads, as
    they would be unused without their arrow."""
    found = grouped(
        (value, (op.id, name)) for op in recording.ops.values() for name, value in read_for_form(op)
    )
    given = {slot.value for slot in recording.outputs}
    return frozenset(
        argument for value, arguments in found.items() for argument in arguments
        if value in given or not {op for op, _ in arguments}.issuperset(recording.consumers[value])
    )


def overwritten(recording: RecordedRun) -> Overwritten:
    """The arguments that operations of *recording* overwrite without reading.

    Only tensors that fill their known memory count: a part that is written stays together with the
    rest. Weights and buffers are left out; their values are versions of one tensor.
    """
    whole: dict[int, int] = {}
    writing = [op for op in recording.ops.values() if op.writes]
    for value in recording.values.values() if writing else ():
        whole[value.storage] = max(value.bytes, whole.get(value.storage, 0))
    inputs = frozenset((op.id, slot) for op in writing for slot in _replaced(recording, op, whole))
    return Overwritten(inputs, _idle_views(recording, inputs) if inputs else frozenset())


def _idle_views(
    recording: RecordedRun, inputs: frozenset[tuple[OpId, str]]
) -> frozenset[OpId]:
    """The views that only *inputs* read, directly or through other such views."""
    found: set[OpId] = set()
    given = {slot.value for slot in recording.outputs}

    def is_idle(reader: OpId, value: ValueId) -> bool:
        slots = recording.ops[reader].inputs
        return reader in found or all(
            (reader, slot.name) in inputs for slot in slots if slot.value == value
        )

    for op in sorted(recording.ops.values(), key=attrgetter("index"), reverse=True):
        if _is_view(recording, op) and given.isdisjoint(op.outputs):
            readers = [
                (reader, value)
                for value in op.outputs
                for reader in recording.consumers.get(value, ())
            ]
            if readers and all(is_idle(reader, value) for reader, value in readers):
                found.add(op.id)
    return frozenset(found)


def _replaced(recording: RecordedRun, op: Op, whole: dict[int, int]) -> Iterator[str]:
    """The arguments of *op* that it overwrites as a whole, if it reads others."""
    values = recording.values
    written = {values[value].storage for value in op.writes} - {NO_STORAGE}
    found = [
        slot.name
        for slot in replaced(op)
        if values[slot.value].storage in written
        and values[slot.value].bytes == whole[values[slot.value].storage]
        and slot.value not in recording.stored
    ]
    if len(found) < len(op.inputs):
        yield from found


def _is_view(recording: RecordedRun, op: Op) -> bool:
    """Whether all results of *op* are parts of the memory of its first input."""
    if op.writes or not op.inputs:
        return False
    values = recording.values
    storages = {values[value].storage for value in (op.inputs[0].value, *op.outputs)}
    return len(storages) == 1
