"""Draw inner tensors as boxes of their own."""

from __future__ import annotations

from dataclasses import replace

from torchrecorder.events import ValueId
from torchrecorder.views.view import Arrow, Box, BoxKind, View


def show_tensors(view: View) -> View:
    """Put a box for the tensor into each arrow between two boxes that compute.

    A value that is only an output gets no second box.
    """
    flows = _flows(view)
    arrows = [arrow for arrow in view.arrows if arrow.value not in flows]
    for value, parts in flows.items():
        tails = dict.fromkeys(arrow.tail for arrow in parts)
        arrows.extend(Arrow(tail, value, value) for tail in tails)
        heads = dict.fromkeys((arrow.head, arrow.slot) for arrow in parts)
        arrows.extend(Arrow(value, head, value, slot) for head, slot in heads)
    return replace(view, boxes=_boxes(view, flows), arrows=tuple(arrows))


def _flows(view: View) -> dict[ValueId, list[Arrow]]:
    """The arrows of each value that is to get a box."""
    flows: dict[ValueId, list[Arrow]] = {}
    for arrow in view.arrows:
        if arrow.value is not None and arrow.value not in view.boxes:
            flows.setdefault(arrow.value, []).append(arrow)
    return {
        value: parts
        for value, parts in flows.items()
        if any(view.boxes[arrow.head].kind is not BoxKind.OUTPUT for arrow in parts)
    }


def _boxes(view: View, flows: dict[ValueId, list[Arrow]]) -> dict[str, Box]:
    nesting = view.nesting
    made: dict[str, list[Box]] = {}
    for value, parts in flows.items():
        ends = (view.boxes[end] for arrow in parts for end in (arrow.tail, arrow.head))
        inner = (box.cluster for box in ends if box.kind is not BoxKind.OUTPUT)
        around = nesting.common(inner)
        made.setdefault(parts[0].tail, []).append(
            Box(value, BoxKind.TENSOR, around, (value,))
        )
    boxes: dict[str, Box] = {}
    for box in view.boxes.values():
        kept = tuple(member for member in box.members if member not in flows)
        boxes[box.id] = box if len(kept) == len(box.members) else box.replace(members=kept)
        boxes.update((tensor.id, tensor) for tensor in made.get(box.id, ()))
    return boxes
