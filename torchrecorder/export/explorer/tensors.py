"""Tensors: what flows from box to box, who made it and who reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchrecorder.events import ValueId
from torchrecorder.export.explorer.columns import Columns
from torchrecorder.export.explorer.drawn import Drawn
from torchrecorder.style import labels
from torchrecorder.views.view import Arrow


class Tensors:
    """The values on the arrows of an unfolded view, each once for each box it leaves.

    Attributes:
        number: The row of each pair of the place it leaves and the value.
    """

    def __init__(self, drawn: Drawn, columns: Columns) -> None:
        self.drawn = drawn
        self.columns_of = columns
        self.view = drawn.tree.view
        self.number: dict[tuple[int, str], int] = {}
        self.arrows: list[list[int]] = []
        for place, arrow in enumerate(self.view.arrows):
            key = drawn.tree.leaf[arrow.tail], arrow.value or ""
            row = self.number.setdefault(key, len(self.arrows))
            if row == len(self.arrows):
                self.arrows.append([])
            self.arrows[row].append(place)

    def ends(self) -> Iterator[tuple[int, int, str]]:
        """For each arrow the places it joins, and what it carries."""
        leaf = self.drawn.tree.leaf
        for arrow in self.view.arrows:
            yield leaf[arrow.tail], leaf[arrow.head], arrow.value or ""

    def columns(self) -> dict[str, list[Any]]:
        """One list for each thing that is said of every tensor."""
        say, values = self.columns_of, self.view.recording.values
        leaf = self.drawn.tree.leaf
        found = [values.get(ValueId(value)) for _, value in self.number]
        readers = [[self.view.arrows[place] for place in row] for row in self.arrows]
        return {
            "text": [
                say.strings(f"{labels.shape(each.shape)} {each.dtype}" if each else "")
                for each in found
            ],
            "producer": [maker for maker, _ in self.number],
            "consumers": [[leaf[arrow.head] for arrow in row] for row in readers],
            "slots": [[say.strings(_slot(arrow)) for arrow in row] for row in readers],
            "bytes": [each.bytes if each else 0 for each in found],
            "facts": [say.lists(say.facts.tensor(each.id if each else None)) for each in found],
            "look": [self._look(row) for row in self.arrows],
        }

    def _look(self, arrows: list[int]) -> int:
        """The look of its lines if they share one that is not the usual; else -1."""
        light, dark = ([fig.lines[place].look for place in arrows] for fig in self.drawn.opened)
        theme = self.drawn.themes[0]
        if light[0] in (theme.line, theme.gradient) or any(each != light[0] for each in light):
            return -1
        return self.columns_of.look((light[0], dark[0]))


def _slot(arrow: Arrow) -> str:
    return "" if arrow.slot.isdigit() else arrow.slot
