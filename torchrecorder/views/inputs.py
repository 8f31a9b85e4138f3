"""Inputs: draw the many tensors of one argument as one box, where all go to the same places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from torchrecorder.events import ValueId
from torchrecorder.views.view import Box, BoxKind, View

LEAST = 6
"""The minimum size of a group of inputs; fewer are better seen by their names."""


@dataclass(frozen=True)
class GroupInputs:
    """Group the tensors of one argument, such as a ``BlockMask``, that the same boxes read."""

    def __call__(self, view: View) -> View:
        groups = dict(_groups(view))
        if not groups:
            return view
        removed = {box.id for _, group in groups.values() for box in group[1:]}
        boxes = {name: box for name, box in view.boxes.items() if name not in removed}
        for name, (argument, group) in groups.items():
            members = tuple(member for box in group for member in box.members)
            boxes[name] = boxes[name].replace(
                members=members, count=len(group), names=(argument,)
            )
        arrows = tuple(arrow for arrow in view.arrows if arrow.tail not in removed)
        return replace(view, boxes=boxes, arrows=arrows)


def _groups(view: View) -> Iterator[tuple[str, tuple[str, list[Box]]]]:
    """The first of each group, with the name of the argument and the whole group."""
    readers: dict[str, set[str]] = {
        box.id: set() for box in view.boxes.values()
        if box.kind is BoxKind.INPUT and box.count == 1
    }
    for arrow in view.arrows:
        if arrow.tail in readers:
            readers[arrow.tail].add(arrow.head)
    found: dict[tuple[str, str | None, frozenset[str]], list[Box]] = {}
    for name, heads in readers.items():
        box, names = view.boxes[name], view.recording.values[ValueId(name)].names
        argument, _, part = names[0].partition(".") if names else ("", "", "")
        if part:
            found.setdefault((argument, box.cluster, frozenset(heads)), []).append(box)
    for (argument, _, _), group in found.items():
        if len(group) >= LEAST:
            yield group[0].id, (argument, group)
