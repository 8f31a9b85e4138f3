"""Inputs: draw many tensors as one box: those of one argument that go to the same places, and the
constants of a line that runs for each weight, such as masks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace

from torchrecorder.events import OpId, ValueId
from torchrecorder.views.view import Arrow, Box, BoxKind, View

LEAST = 6
"""The minimum size of a group of inputs; fewer are better seen by their names."""

LEAST_CONSTANTS = 3
"""The minimum size of a group of constants, as of a fold of the line that reads them."""

InputGroup = tuple[str, list[Box]]
"""The name of a group, and the boxes in it."""


def group_inputs(view: View) -> View:
    """Group the tensors of one argument, such as a ``BlockMask``, that the same boxes read, and the
    constants that one line reads, each for another weight.
    """
    groups = [*_arguments(view), *_constants(view)]
    if not groups:
        return view
    first = {box.id: group[0].id for _, group in groups for box in group}
    boxes = {name: box for name, box in view.boxes.items() if first.get(name, name) == name}
    for name, group in groups:
        members = tuple(member for box in group for member in box.members)
        boxes[group[0].id] = group[0].replace(members=members, count=len(group), names=(name,))
    arrows: dict[Hashable, Arrow] = {}
    for arrow in view.arrows:
        tail = first.get(arrow.tail)
        if tail is None:
            arrows[arrow] = arrow
        else:
            arrows.setdefault((tail, arrow.head), arrow.replace(tail=tail, value=ValueId(tail)))
    return replace(view, boxes=boxes, arrows=tuple(arrows.values()))


def _arguments(view: View) -> Iterator[InputGroup]:
    """The tensors of each argument that the same boxes read."""
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
            yield argument, group


def _constants(view: View) -> Iterator[InputGroup]:
    """The constants that only the same lines read, lines that run for each weight."""
    loops, ops = view.recording.weight_loops, view.recording.ops
    lines: dict[str, set[Hashable]] = {
        box.id: set() for box in (view.boxes.values() if loops else ())
        if box.kind is BoxKind.CONSTANT and box.count == 1
    }
    for arrow in view.arrows if lines else ():
        if arrow.tail in lines:
            head = ops[OpId(arrow.head)] if arrow.head in loops else None
            lines[arrow.tail].add((head.source, head.qualname) if head else None)
    found: dict[Hashable, list[Box]] = {}
    for name, read in lines.items():
        if read and None not in read:
            box = view.boxes[name]
            found.setdefault((box.cluster, frozenset(read)), []).append(box)
    for group in found.values():
        if len(group) >= LEAST_CONSTANTS:
            yield "constants", group
