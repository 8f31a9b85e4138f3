"""NaN markers: the origin of the first NaN or infinity."""

from __future__ import annotations

from dataclasses import replace

from torchrecorder.annotations.nan_origin import first_bad_grad, first_bad_ops
from torchrecorder.annotations.places import scope_name
from torchrecorder.events import GradId, OpId
from torchrecorder.style.figure import Look, Text
from torchrecorder.style.themes import Theme
from torchrecorder.views.view import Box, View


class NanMarkers:
    """Marks the boxes in which the first NaN or infinity appeared, forward or backward."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._captions: dict[str, str] = {}
        if view.recording.statistics:
            for found in first_bad_ops(view.recording):
                self._captions[found.node] = f"first {found.kinds}"
            grad = first_bad_grad(view.recording)
            if grad is not None:
                self._captions[grad.node] = f"first {grad.kinds} in backward"

    def __bool__(self) -> bool:
        return bool(self._captions)

    def lines(self, box: Box) -> tuple[Text, ...]:
        """The captions of a box."""
        if not self._captions:
            return ()
        found = [member for member in box.members if member in self._captions]
        return tuple(Text(self._captions[item] + self._place(box, item)) for item in found)

    def _place(self, box: Box, node: str) -> str:
        """The sibling of a fold; empty for other boxes."""
        if self.view.copies(box) == 1:
            return ""
        recording = self.view.recording
        grad = recording.grad_nodes.get(GradId(node))
        op = recording.ops.get(OpId(node) if grad is None else grad.owner or OpId(""))
        place = scope_name(recording, op.scope) if op is not None else ""
        return f" in {place}" if place else ""

    def look(self, box: Box, look: Look, theme: Theme, *, heated: bool = False) -> Look:
        """*look*, or that of a failure if the box has a mark.

        If the fill shows a number (*heated*), only the outline is marked.
        """
        if not self.lines(box):
            return look
        mark = theme.looks["failed"]
        found = replace(look, stroke=mark.stroke, width=mark.width, bold=True)
        return found if heated else replace(found, fill=mark.fill, text=mark.text)
