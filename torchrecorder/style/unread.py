"""Unread: unused inputs, and operations whose results are unused, are drawn small."""

from __future__ import annotations

from dataclasses import replace

from torchrecorder.events import OpId
from torchrecorder.style.figure import Look, Text
from torchrecorder.views.view import Box, BoxKind, View


def unread(view: View) -> frozenset[str]:
    """The inputs and operations without outgoing edges.

    Operations that write, fail, communicate or have no outputs have side effects, and are excluded.
    """
    if view.backward:
        return frozenset()
    used = {arrow.tail for arrow in view.arrows}
    used.update(run.op for run in view.recording.backward_runs)
    return frozenset(
        box.id for box in view.boxes.values() if box.id not in used and _is_idle(view, box)
    )


def _is_idle(view: View, box: Box) -> bool:
    if box.kind is BoxKind.INPUT:
        return True
    op = view.recording.ops.get(OpId(box.id))
    if op is None or box.kind is not BoxKind.OP or op.failed:
        return False
    return bool(op.outputs) and not op.writes


def small(label: tuple[Text, ...], look: Look) -> tuple[tuple[Text, ...], Look]:
    """The label and look of an unused box: its title, and a dotted outline."""
    titles = tuple(text for text in label if text.part == "title")
    return (*titles, Text("not read")), replace(look, dash="dotted")
