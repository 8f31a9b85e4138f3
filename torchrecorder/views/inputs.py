"""Inputs: draw many tensors as one box: those of one argument that go to the same places, the
constants of a line that runs for each weight, such as masks, and the state of an optimizer that is
of one kind, such as ``exp_avg``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
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
    """Group the tensors of one argument, such as a ``BlockMask``, that the same boxes read, the
    constants that one line reads, each for another weight, and those of several weights that the
    same boxes read.
    """
    groups = [
        *_read_together(view, BoxKind.INPUT, argument_of),
        *_constants(view),
        *_read_together(view, BoxKind.CONSTANT, _of_any_weight),
    ]
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


def _read_together(
    view: View, kind: BoxKind, group_of: Callable[[str], str]
) -> Iterator[InputGroup]:
    """The tensors of *kind* whose names are of one group, if they have one, and that the same boxes
    read."""
    readers: dict[str, set[str]] = {
        box.id: set() for box in view.boxes.values() if box.kind is kind and box.count == 1
    }
    for arrow in view.arrows if readers else ():
        if arrow.tail in readers:
            readers[arrow.tail].add(arrow.head)
    found: dict[tuple[str, str | None, frozenset[str]], list[Box]] = {}
    for box_id, heads in readers.items():
        box, names = view.boxes[box_id], view.recording.values[ValueId(box_id)].names
        group = group_of(names[0]) if names else ""
        if group:
            found.setdefault((group, box.cluster, frozenset(heads)), []).append(box)
    for (group, _, _), boxes in found.items():
        if len(boxes) >= LEAST:
            yield group, boxes


def argument_of(name: str) -> str:
    """The argument of which the tensor called *name* is a part."""
    argument, _, part = name.partition(".")
    return argument if part else ""


def _of_any_weight(name: str) -> str:
    """*name* for whichever weight: ``*.exp_avg`` for ``fc.weight.exp_avg``."""
    weight, _, kind = name.rpartition(".")
    return f"*.{kind}" if weight and not kind.isdigit() else ""


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
