"""Error markers: the origin of the first NaN or infinity, and of a failed backward pass."""

from __future__ import annotations

from dataclasses import replace

from torchrecorder.annotations.nan_origin import first_bad_grad, first_bad_ops
from torchrecorder.annotations.places import scope_name
from torchrecorder.events import GradId, OpId
from torchrecorder.query.failed_backward import why_backward_failed
from torchrecorder.style.figure import Look, Text
from torchrecorder.style.themes import Theme
from torchrecorder.views.view import Box, View


class ErrorMarkers:
    """Marks the boxes in which the first NaN or infinity appeared, forward or backward, and those
    of the operations at fault if a backward pass failed."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._captions: dict[str, str] = {}
        if view.recording.statistics:
            for found in first_bad_ops(view.recording):
                self._captions[found.node] = f"first {found.kinds}"
            grad = first_bad_grad(view.recording)
            if grad is not None:
                self._captions[grad.node] = f"first {grad.kinds} in backward"
        failure, cause = view.recording.run.failure, why_backward_failed(view.recording)
        if cause is not None:
            self._captions.update((op, text) for op, text in cause.captions.items())
        if failure is not None and failure.backward and failure.op is not None:
            self._captions[failure.op] = "failed in backward"

    def lines(self, box: Box) -> tuple[Text, ...]:
        """The captions of a box."""
        if not self._captions:
            return ()
        found = [member for member in box.members if member in self._captions]
        failed = self.view.recording.failed
        if box.id in failed:  # its own caption says with which error
            found = [member for member in found if member not in failed]
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
