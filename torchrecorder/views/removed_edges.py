"""Removed edges: arrows of the first of two compared recordings that the second one lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from torchrecorder.events import ValueId
from torchrecorder.views.view import Arrow, BoxKind, View

DrawnEdge = tuple[str, str]
"""A value, and the op that reads it or the box of an output."""


def with_former(
    view: View, instead: Mapping[DrawnEdge, ValueId]
) -> tuple[View, frozenset[DrawnEdge]]:
    """*view* with an arrow for each value that was read *instead*, if another box computed it.

    Returns:
        The view, and the reads for which an arrow was added.
    """
    arrows: list[Arrow] = []
    changed: set[DrawnEdge] = set()
    for arrow in view.arrows:
        arrows.append(arrow)
        reads = [(str(arrow.value), reader) for reader in readers(view, arrow)]
        olds = {instead.get(read) for read in reads}
        old = olds.pop() if len(olds) == 1 else None
        if old is None:
            continue
        tail = view.box_of.get(old, arrow.tail)
        if tail not in (arrow.tail, arrow.head):
            arrows.append(Arrow(tail, arrow.head, old, arrow.slot))
            changed.update(reads)
    return (replace(view, arrows=tuple(arrows)) if changed else view), frozenset(changed)


def readers(view: View, arrow: Arrow) -> Iterator[str]:
    """The ops in the head of an arrow that read its value, or the box of an output."""
    head = view.boxes[arrow.head]
    if head.kind is BoxKind.OUTPUT:
        yield head.id
    for op in dict.fromkeys(view.recording.consumers.get(arrow.value or ValueId(""), ())):
        if view.box_of.get(op) == head.id:
            yield op
