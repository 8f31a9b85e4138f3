"""Shared sources: inputs and constants of which each sibling reads one, in several rows.

The batches of a list are read by the steps of every epoch, and again where the model is evaluated.
If all these rows fold, so do the batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.fold.own_sources import FEWEST, OwnSources

InTurn = tuple[str, ...]
"""The boxes that siblings read in turn, each once."""

SiblingRow = Sequence[str]
"""Siblings of equal structure, next to each other."""


class SharedSources:
    """The shared sources of the items of a view; empty until `find` is called.

    Attributes:
        rows: For the boxes of sources in order, the rows that read them.
        sources_of: For each of these boxes, the number of its sources.
    """

    def __init__(self, sources: OwnSources) -> None:
        self.sources = sources
        self._keep({})

    def find(self, rows: Iterable[SiblingRow]) -> None:
        """Find the sources of *rows*."""
        found: dict[InTurn, list[SiblingRow]] = {}
        for row in rows:
            if len(row) >= FEWEST or is_block(row[0]):
                for taken in self._taken(row):
                    found.setdefault(taken, []).append(row)
        self._keep({taken: read for taken, read in found.items() if self._only(taken, read)})

    def _taken(self, row: SiblingRow) -> Iterator[InTurn]:
        """The sources that the siblings of *row* read in turn, in one place."""
        read = [{common: box for box, common in self.sources.shared(item).items()} for item in row]
        for common in read[0]:
            boxes = [each[common] for each in read if common in each]
            turns = tuple(dict.fromkeys(boxes))
            alone = len(turns) < (2 if is_block(row[0]) else FEWEST)
            if not alone and boxes == [turns[k % len(turns)] for k in range(len(row))]:
                yield turns

    def _only(self, taken: InTurn, rows: Sequence[SiblingRow]) -> bool:
        """Whether only *rows* read the boxes *taken*, and what reads all of them at once."""
        items = self.sources.items
        inside = {box for row in rows for item in row for box in items.inside(item)}
        others: dict[str, set[str]] = {}
        for box in taken:
            for arrow in items.leaving[box]:
                if arrow.head not in inside:
                    others.setdefault(arrow.head, set()).add(box)
        together = all(len(read) == len(taken) for read in others.values())
        return together and len({items.parent[box] for box in taken}) == 1

    def _keep(self, rows: Mapping[InTurn, list[SiblingRow]]) -> None:
        """Let the sources be those that *rows* read."""
        self.rows = rows
        self.sources_of = {box: place for place, taken in enumerate(rows) for box in taken}
        self._readers = [{item for row in read for item in row} for read in rows.values()]

    def settle(self, folds: Callable[[SiblingRow], bool]) -> bool:
        """Remove the sources of rows that do not fold as a whole; whether any were removed."""
        kept = {taken: rows for taken, rows in self.rows.items() if all(map(folds, rows))}
        changed = len(kept) < len(self.rows)
        self._keep(kept)
        return changed

    def number(self, box: str, item: str) -> int | None:
        """The number of the sources, if *box* is one of which *item* reads its own."""
        found = self.sources_of.get(box)
        return found if found is not None and item in self._readers[found] else None

    def groups(self, siblings: Sequence[str]) -> Iterator[InTurn]:
        """The sources that fold as soon as *siblings* do, the first that read them."""
        for taken, rows in self.rows.items():
            if rows[0][0] == siblings[0]:
                yield taken
