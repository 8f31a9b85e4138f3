"""Marks: where the first NaN or infinity came from."""

from __future__ import annotations

from dataclasses import replace

from torchrecorder.annotations.finite import FirstBad, first_bad_grad, first_bad_op
from torchrecorder.style.figure import Look, Text
from torchrecorder.style.themes import Theme
from torchrecorder.views.view import Box, View


class Marks:
    """Picks out the boxes in which numbers ceased to be finite, forward or backward."""

    def __init__(self, view: View) -> None:
        self._said: dict[str, str] = {}
        if view.recording.statistics:
            self._mark(first_bad_op(view.recording), "")
            self._mark(first_bad_grad(view.recording), " in backward")

    def _mark(self, found: FirstBad | None, where: str) -> None:
        if found is not None:
            kinds = [name for name, number in (("NaN", found.nans), ("Inf", found.infs)) if number]
            self._said[found.node] = f"first {' and '.join(kinds)}{where}"

    def __bool__(self) -> bool:
        return bool(self._said)

    def lines(self, box: Box) -> tuple[Text, ...]:
        """What is to be said on a box."""
        if not self._said:
            return ()
        return tuple(Text(self._said[each]) for each in box.members if each in self._said)

    def look(self, box: Box, look: Look, theme: Theme) -> Look:
        """*look*, as that of a failure if there is something to be said."""
        if not self.lines(box):
            return look
        mark = theme.looks["failed"]
        return replace(
            look, fill=mark.fill, stroke=mark.stroke, text=mark.text, width=mark.width, bold=True
        )
