"""Overwritten: arguments that operations overwrite without reading. They have no arrows.

`copy_`, and any function with ``out=``, replace the contents of a tensor. A recording lists the old
tensor among the inputs, to say which memory was written. But nothing used its contents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from torchrecorder.events import NO_STORAGE, OpId, ValueId
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.views.view import BoxKind, View

OUT = "out"
"""The argument of functions that write their result into it; its parts are ``out.0`` and so on."""


class Overwritten(NamedTuple):
    """Arguments that are only overwritten, and views that are used for nothing else.

    Attributes:
        inputs: Operations and the names of their arguments.
        views: Operations all of whose results are such arguments.
    """

    inputs: frozenset[tuple[OpId, str]]
    views: frozenset[OpId]


def hide_overwritten(view: View) -> View:
    """Drop the arrows of arguments that are only overwritten, and constants without other arrows.

    Views that are used for nothing else stay, because their time and memory belong to their module.
    They are among the ops that are not drawn.
    """
    inputs, views = overwritten(view.recording)
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


def overwritten(recording: RecordedRun) -> Overwritten:
    """The arguments that operations of *recording* overwrite without reading.

    Only tensors that fill their known memory count: a part that is written stays together with the
    rest. Weights and buffers are left out; their values are versions of one tensor.
    """
    whole: dict[int, int] = {}
    for value in recording.values.values():
        whole[value.storage] = max(value.bytes, whole.get(value.storage, 0))
    inputs = frozenset(
        (op.id, slot)
        for op in recording.ops.values()
        if op.writes
        for slot in _replaced(recording, op, whole)
    )
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
        for slot in op.inputs
        if (slot.name.partition(".")[0] == OUT or (op.name, slot.name) == ("copy_", "self"))
        and values[slot.value].storage in written
        and values[slot.value].bytes == whole[values[slot.value].storage]
        and slot.value not in recording.stored
    ]
    if len(found) < len(op.inputs):
        yield from found


def _is_view(recording: RecordedRun, op: Op) -> bool:
    """Whether all results of *op* are parts of the memory of its first input."""
    if op.writes or not op.inputs or not op.outputs:
        return False
    values = recording.values
    storages = {values[value].storage for value in (op.inputs[0].value, *op.outputs)}
    return len(storages) == 1
