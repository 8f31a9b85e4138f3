"""Spans: how many rows a box of a scope may fill when it is open.

What leaves a box and is read only some rows further down keeps a column free below it.
Unless others stand in that column, or run through it sideways, the open box can have it:
then what stands beside the box need not wait for its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from torchrecorder.layout.layered.ordering import Grid

Own = Mapping[int, Sequence[int]]
"""For each row the nodes of the lines that come from one box."""


class Spans:
    """What is where in the grid of a scope.

    Args:
        grid: Boxes and passing lines.
        across: Where they are.
        detours: Nodes from or to which a line runs through a gap to a lane on the right.
    """

    def __init__(
        self, grid: Grid, across: Sequence[float], detours: Iterable[tuple[int, int]]
    ) -> None:
        self.across = across
        self.members: dict[int, list[int]] = {}
        self.crossing: dict[int, list[tuple[int, int]]] = {}
        self.detours: dict[int, list[int]] = {}
        for node, row in enumerate(grid.row):
            self.members.setdefault(row, []).append(node)
        for one, other, _ in grid.edges:
            self.crossing.setdefault(grid.row[other], []).append((one, other))
        for gap, node in detours:
            self.detours.setdefault(gap, []).append(node)

    def last(self, box: int, row: int, reach: int, own: Own) -> int:
        """The last row up to *reach* that a box in *row* can fill."""
        mine = {box, *(node for nodes in own.values() for node in nodes)}
        while row < reach and row + 1 in own and self._is_free(box, row + 1, own[row + 1], mine):
            row += 1
        return row

    def _is_free(self, box: int, row: int, own: Sequence[int], mine: set[int]) -> bool:
        """Whether everything in a row, and in the gap before it, is on one side of a box."""
        places = [self.across[node] for node in own]
        low, high, middle = min(places), max(places), self.across[box]
        for node in self.members[row]:
            at = self.across[node]
            if node not in mine and (low <= at <= high or (at < low) != (at < middle)):
                return False
        return not any(
            (self.across[one] < middle) != (self.across[other] < middle)
            for one, other in self.crossing.get(row, ())
            if one not in mine and other not in mine
        ) and not any(
            node not in mine and self.across[node] < middle for node in self.detours.get(row, ())
        )
