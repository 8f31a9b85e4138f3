"""Outputs: hide outputs that the program uses later, and group large numbers of the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from torchrecorder.events import MODES, TRANSPARENT, FunctionId, ScopeId, ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.structural_hash import without_numbers
from torchrecorder.views.quiet_ops import is_identity, returns_no_tensor
from torchrecorder.views.training import drawn_backwards
from torchrecorder.views.view import Box, BoxKind, View
from torchrecorder.views.without import without

MIN_GROUPED = 4
"""The minimum number of grouped outputs."""


@dataclass(frozen=True)
class HideReadOutputs:
    """Hide outputs of outermost calls that a later op reads, such as the input of a loss."""

    quiet: Collection[str] = ()  # ops that are not drawn

    def __call__(self, view: View) -> View:
        read, outputs = read_later(view.recording, self.quiet), view.recording.outputs
        return without(view, [
            box.id
            for box in view.boxes.values()
            if box.kind is BoxKind.OUTPUT and outputs[_number(box.id)].value in read
        ])


def _number(box: str) -> int:
    """The outputs of the run that the box of an output stands for."""
    return int(box.partition(":")[2])


def read_later(recording: RecordedRun, quiet: Collection[str] = ()) -> set[ValueId]:
    """Values that an outermost call returned and a later op reads, such as a backward call.

    Ops that are *quiet* do not count.
    """
    roots: dict[ScopeId | None, ScopeId | None] = {None: None}
    made_in: dict[ValueId, tuple[ScopeId, int]] = {}
    for scope in recording.scopes.values():
        grouped = FunctionId(scope.id) in recording.function_calls  # which the program calls
        outermost = roots[scope.parent] is None and scope.kind not in MODES and not grouped
        is_root = outermost and scope.kind not in TRANSPARENT
        roots[scope.id] = scope.id if is_root else roots[scope.parent]
        if outermost:
            made_in.update((slot.value, (scope.id, scope.index)) for slot in scope.outputs)
    backwards = drawn_backwards(recording)

    def counts(op: Op) -> bool:
        if op.recompute or returns_no_tensor(op) and op.id not in backwards:
            return False
        return is_identity(op) or op.id not in quiet

    return {
        value
        for value, (root, index) in made_in.items()
        for op in map(recording.ops.__getitem__, recording.consumers.get(value, ()))
        if roots.get(op.scope) != root and op.index > index and counts(op)
    }


def group_outputs(view: View) -> View:
    """Group outputs of one shape from the same box, such as those of a cache or of the iterations
    of a loop."""
    return joined(view, {head: group[0] for group in large_groups(view) for head in group})


def large_groups(
    view: View, origin: Mapping[str, str] = MappingProxyType({})
) -> list[list[str]]:
    """Groups of at least `MIN_GROUPED` outputs of one shape that come from the same box, or from
    boxes that have the same *origin*. Those of a loop with varying sizes may have any.

    Two outputs are enough if the box stands for several, and their names differ in numbers alone.
    """
    groups: dict[Any, list[str]] = {}
    rounds: dict[Any, list[str]] = {}
    for arrow in view.arrows:
        if view.boxes[arrow.head].kind is BoxKind.OUTPUT and arrow.value is not None:
            value = view.recording.values[arrow.value]
            tail = origin.get(arrow.tail, arrow.tail)
            varies = value.producer in view.recording.varying_sizes
            shape = len(value.shape) if varies else value.shape
            key = tail, shape, value.dtype, view.recording.differences.get(value.id)
            groups.setdefault(key, []).append(arrow.head)
            if arrow.tail in origin or view.copies(view.boxes[arrow.tail]) > 1:
                name = view.recording.outputs[_number(arrow.head)].name
                rounds.setdefault((*key, without_numbers(name)), []).append(arrow.head)
    large = [group for group in groups.values() if len(group) >= MIN_GROUPED]
    taken = {head for group in large for head in group}
    return large + [group for group in rounds.values() if len(group) > 1 and group[0] not in taken]


def joined(view: View, first_of: Mapping[str, str]) -> View:
    """*view* with one box for each group of outputs."""
    if not first_of:
        return view
    groups = grouped((first, head) for head, first in first_of.items())
    boxes = {
        box.id: _group(view, box, groups[box.id]) if box.id in groups else box
        for box in view.boxes.values()
        if first_of.get(box.id, box.id) == box.id
    }
    arrows = tuple(arrow for arrow in view.arrows if arrow.head in boxes)
    return replace(view, boxes=boxes, arrows=arrows)


def _group(view: View, box: Box, heads: Sequence[str]) -> Box:
    """*box* as the box of all outputs *heads*; if their shapes differ, they are its instances. A
    tensor that is returned again and again, as that of an encoder by each step of a decoder, counts
    once."""
    slots = [view.recording.outputs[_number(head)] for head in heads]
    shapes = {view.recording.values[slot.value].shape for slot in slots}
    instances = tuple(heads) if len(shapes) > 1 else ()
    names = tuple(slot.name for slot in slots)
    count = len({slot.value for slot in slots})
    return box.replace(count=count, names=names, instances=instances)


def joined_outputs(view: View, repeats: Sequence[Sequence[str]]) -> View:
    """*view* with outputs grouped if they come from the same box after folding."""
    groups = large_groups(view, _stand_ins(view, repeats))
    first = {head: group[0] for group in groups for head in group}
    arrows = dict.fromkeys(
        arrow.replace(head=first[arrow.head]) if arrow.head in first else arrow
        for arrow in view.arrows
    )
    return joined(replace(view, arrows=tuple(arrows)), first)


def _stand_ins(view: View, repeats: Sequence[Sequence[str]]) -> Mapping[str, str]:
    """For each box with outputs, the first of the outermost repeated siblings around it."""
    first = {item: group[0] for group in repeats for item in group}
    found: dict[str, str] = {}
    for arrow in view.arrows:
        if view.boxes[arrow.head].kind is BoxKind.OUTPUT:
            around = view.nesting.around(view.boxes[arrow.tail].cluster)
            for item in filter(first.__contains__, (arrow.tail, *around)):
                found[arrow.tail] = first[item]
    return found
