"""Arrows of a compared recording that the drawn recording does not have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from torchrecorder.events import OpId, ValueId
from torchrecorder.graph.nodes import Op
from torchrecorder.views.view import Arrow, View

Read = tuple[str, str]
"""A value, and the op that reads it."""


def with_former(view: View, instead: Mapping[Read, ValueId]) -> tuple[View, frozenset[Read]]:
    """*view* with an arrow for each value that was read *instead*, if another box made it.

    Returns:
        The view, and the reads for which an arrow was added.
    """
    arrows: list[Arrow] = []
    turned: set[Read] = set()
    for arrow in view.arrows:
        arrows.append(arrow)
        reads = [(str(arrow.value), op.id) for op in _readers(view, arrow)]
        olds = {instead.get(read) for read in reads}
        old = olds.pop() if len(olds) == 1 else None
        if old is None:
            continue
        tail = view.box_of.get(old, arrow.tail)
        if tail not in (arrow.tail, arrow.head):
            arrows.append(Arrow(tail, arrow.head, old, arrow.slot))
            turned.update(reads)
    return (replace(view, arrows=tuple(arrows)) if turned else view), frozenset(turned)


def _readers(view: View, arrow: Arrow) -> Iterator[Op]:
    """The ops in the head of an arrow that read what it carries."""
    for member in view.boxes[arrow.head].members:
        op = view.recording.ops.get(OpId(member))
        if op is not None and any(slot.value == arrow.value for slot in op.inputs):
            yield op
