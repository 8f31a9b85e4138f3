"""Draw inner tensors as boxes of their own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from torchrecorder.events import ScopeId, ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import step_of
from torchrecorder.views.view import Arrow, Box, BoxKind, View


def show_tensors(view: View, repeats: Sequence[Sequence[str]] = ()) -> View:
    """Draw the tensor on each arrow between two computing boxes as a box.

    An output has a box already. A box in a fold stands for the tensor of each repeat. What one of
    the siblings of *repeats* passes to another stays an arrow, as in their fold; so does a tensor
    that a box returns as it is given.
    """
    passed = _passed(view, repeats)
    flows = _flows(view, passed)
    arrows = [
        arrow for number, arrow in enumerate(view.arrows)
        if arrow.value not in flows or number in passed
    ]
    for value, parts in flows.items():
        tails = dict.fromkeys(arrow.tail for arrow in parts)
        arrows.extend(Arrow(tail, value, value) for tail in tails)
        heads = dict.fromkeys((arrow.head, arrow.slot) for arrow in parts)
        arrows.extend(Arrow(value, head, value, slot) for head, slot in heads)
    return replace(view, boxes=_boxes(view, flows), arrows=tuple(arrows))


def _passed(view: View, repeats: Sequence[Sequence[str]]) -> set[int]:
    """The arrows, by index, from one sibling of a group to another, and from a box that was given
    the same tensor."""
    group_of = {item: number for number, group in enumerate(repeats) for item in group}

    def siblings(box: str) -> dict[int, str]:
        around = (box, *view.nesting.around(view.boxes[box].cluster))
        return {group_of[item]: item for item in around if item in group_of}

    around = {box: siblings(box) for box in view.boxes}
    given = {(arrow.head, arrow.value) for arrow in view.arrows}
    return {
        number
        for number, arrow in enumerate(view.arrows)
        if (arrow.tail, arrow.value) in given or any(
            around[arrow.head].get(group, sibling) != sibling
            for group, sibling in around[arrow.tail].items()
        )
    }


def _flows(view: View, passed: Collection[int]) -> dict[ValueId, list[Arrow]]:
    """The arrows of each value that gets a box, without those that are *passed* on."""
    flows = grouped(
        (arrow.value, arrow) for number, arrow in enumerate(view.arrows)
        if arrow.value is not None and arrow.value not in view.boxes and number not in passed
    )
    return {
        value: parts
        for value, parts in flows.items()
        if any(view.boxes[arrow.head].kind is not BoxKind.OUTPUT for arrow in parts)
    }


def _boxes(view: View, flows: dict[ValueId, list[Arrow]]) -> dict[str, Box]:
    nesting, order = view.nesting, {box: place for place, box in enumerate(view.boxes)}
    made: dict[str, list[Box]] = {}
    for value, parts in flows.items():
        ends = (view.boxes[end] for arrow in parts for end in (arrow.tail, arrow.head))
        inner = (box.cluster for box in ends if box.kind is not BoxKind.OUTPUT)
        around = nesting.common(inner)
        box = Box(value, BoxKind.TENSOR, around, (value,))
        repeats = view.copies(box)
        if repeats > 1:
            found = _of_repeats(view, parts[0].tail, value, repeats)
            members = tuple(item for item in found if item == value or item not in flows)
            box = box.replace(members=members, instances=found)
        last = max((arrow.tail for arrow in parts), key=order.__getitem__)
        made.setdefault(last, []).append(box)
    moved = {member for row in made.values() for tensor in row for member in tensor.members}
    boxes: dict[str, Box] = {}
    for box in view.boxes.values():
        kept = tuple(member for member in box.members if member not in moved)
        boxes[box.id] = box if len(kept) == len(box.members) else box.replace(members=kept)
        boxes.update((tensor.id, tensor) for tensor in made.get(box.id, ()))
    return boxes


def _of_repeats(view: View, tail: str, value: ValueId, repeats: int) -> tuple[ValueId, ...]:
    """The tensors in place of *value* that the box *tail* made in so many repeats around it; only
    *value* if they are unknown."""
    recording, members = view.recording, view.boxes[tail].members
    inside = frozenset(members)
    calls = [one for one in members if one in recording.ops] if tail in recording.ops else [
        one for one in members
        if one in recording.scopes and recording.scopes[ScopeId(one)].parent not in inside
    ]
    found = in_each(recording, calls, value)
    rounds, rest = divmod(len(found), repeats)  # of a fold at the tail, in each of which it is made
    return (value,) if rest else found[found.index(value) % rounds::rounds]


def in_each(
    recording: RecordedRun, calls: Sequence[str], value: ValueId
) -> tuple[ValueId, ...]:
    """The results of *calls* at the index of *value*; only *value* if it is no result of them."""
    if len(calls) < 2:
        return (value,)
    rows = [results(recording, call) for call in calls]
    place = next((row.index(value) for row in rows if value in row), None)
    if place is None:
        return (value,)
    return tuple([row[place] for row in rows if place < len(row)])


def results(recording: RecordedRun, item: str) -> tuple[ValueId, ...]:
    """The results of an op or scope, in their order; empty for anything else."""
    step = step_of(recording, item)
    if isinstance(step, Op):
        return step.outputs
    return tuple([slot.value for slot in step.outputs]) if step is not None else ()
