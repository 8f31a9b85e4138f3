"""Group outputs that come in large numbers, such as those of a cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torchrecorder.views.view import BoxKind, View


@dataclass(frozen=True)
class GroupOutputs:
    """Group outputs of one shape that come from the same box, such as those of a cache.

    Attributes:
        least: The minimum size of a group.
    """

    least: int = 4

    def __call__(self, view: View) -> View:
        large = large_groups(view, self.least, {})
        return joined(view, {head: group[0] for group in large for head in group})


def large_groups(view: View, least: int, origin: Mapping[str, str]) -> list[list[str]]:
    """Groups of at least so many outputs of one shape that come from the same box.

    Args:
        view: Where they are drawn.
        least: The minimum size of a group.
        origin: The box that stands for the one they come from, if another does.
    """
    groups: dict[Any, list[str]] = {}
    for arrow in view.arrows:
        if view.boxes[arrow.head].kind is BoxKind.OUTPUT and arrow.value is not None:
            value = view.recording.values[arrow.value]
            tail = origin.get(arrow.tail, arrow.tail)
            groups.setdefault((tail, value.shape, value.dtype), []).append(arrow.head)
    return [group for group in groups.values() if len(group) >= least]


def joined(view: View, stands: Mapping[str, str]) -> View:
    """*view* with one box for all outputs that the same one stands for."""
    if not stands:
        return view
    counts = Counter(stands.values())
    names: dict[str, list[str]] = {}
    for head, first in stands.items():
        slot = view.recording.outputs[int(head.partition(":")[2])]
        names.setdefault(first, []).append(slot.name)
    boxes = {
        box.id: replace(box, count=counts[box.id], names=tuple(names[box.id]))
        if box.id in counts
        else box
        for box in view.boxes.values()
        if stands.get(box.id, box.id) == box.id
    }
    arrows = tuple(arrow for arrow in view.arrows if arrow.head in boxes)
    return View(view.recording, boxes, view.clusters, arrows)
