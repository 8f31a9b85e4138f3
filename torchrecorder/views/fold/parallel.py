"""Parallel rows: two rows in which each sibling is connected to its counterpart in the other row.

When a language model generates tokens, each layer reads the keys and values that the same layer
cached in the previous step: layer 3 reads those of layer 3. If both rows fold in the same way, one
line between the two folds represents all these edges. So rows are cut where one of them is: if the
next step also reads the length of the cache of layer 0 alone, layer 0 has a box of its own in every
step, and the others fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from torchrecorder.views.fold.sibling_index import SiblingIndex
from torchrecorder.views.view import Arrow

Seat = tuple[int, int, str]
"""The index of a row, the index in it, and the item."""

RowPair = tuple[int, int]
"""Two rows by their numbers, the smaller first."""

_CROSSING = -1
"""The place of an arrow between siblings that are no counterparts."""


class Parallel:
    """The parallel rows of siblings; empty until `find` is called.

    Args:
        items: The nesting and order of boxes and clusters.

    Attributes:
        pairs: The parallel rows: of equal length, with arrows only between counterparts. True if
            each sibling is connected to its counterpart.
        starts: The siblings that do not fold with the one before, because their counterparts in
            another row do not.
    """

    def __init__(self, items: SiblingIndex) -> None:
        self.items = items
        self.rows: Sequence[Sequence[str]] = ()
        self.pairs: dict[RowPair, bool] = {}
        self.starts: set[str] = set()
        self._own: dict[str, Seat] = {}

    def find(self, rows: Sequence[Sequence[str]], stored: Callable[[Arrow], object]) -> None:
        """Find the pairs among all *rows*; *stored* values, such as weights and buffers, only
        count between rows that no other values connect."""
        self.rows = rows
        self._own = {
            item: (number, place, item)
            for number, row in enumerate(rows)
            for place, item in enumerate(row)
        }
        self.pairs = self._found(stored)

    def _seats(self, item: str | None) -> Iterator[Seat]:
        """The seats of *item* and of all around it, innermost first."""
        own, parent = self._own, self.items.parent
        while item is not None:
            if item in own:
                yield own[item]
            item = parent[item]

    def _found(self, stored: Callable[[Arrow], object]) -> dict[RowPair, bool]:
        """Pairs of rows of equal length with arrows only between counterparts, and from the end of
        one row to the start of the other.

        Rows that only *stored* values connect are a pair too: each call of a layer with batch norm
        updates buffers that its next call reads.
        """
        aligned: dict[RowPair, set[int]] = {}
        by_stored: dict[RowPair, set[int]] = {}
        for arrow in self.items.view.arrows:
            pairs = by_stored if stored(arrow) else aligned
            for tail_row, head_row, tail, head in self._apart(arrow):
                last = len(self.rows[tail_row]) - 1
                if last == len(self.rows[head_row]) - 1 and (tail, head) != (last, 0):
                    places = pairs.setdefault(_pair(tail_row, head_row), set())
                    places.add(tail if tail == head else _CROSSING)
        return {
            pair: len(places) == len(self.rows[pair[0]])
            for pair, places in {**by_stored, **aligned}.items() if _CROSSING not in places
        }

    def _apart(self, arrow: Arrow) -> Iterator[tuple[int, int, int, int]]:
        """Pairs of rows with the tail and the head of *arrow*, and the positions of both."""
        tails, heads = [*self._seats(arrow.tail)], [*self._seats(arrow.head)]
        while tails and heads and tails[-1][0] == heads[-1][0]:
            tails.pop()
            heads.pop()
        for tail_row, tail, _ in tails:
            for head_row, head, _ in heads:
                yield tail_row, head_row, tail, head

    def prune(self, folds: Callable[[Sequence[str]], Set[int]]) -> None:
        """Cut rows where others end a fold, if each of their siblings is connected to one of these.
        Remove pairs whose rows fold differently, then pairs whose rows do not fold, until none is
        left to remove: without its pair, a row may fold alone.

        Args:
            folds: Returns the positions in a row that fold with the one before, none of `starts`.
        """
        folded: dict[int, Set[int]] = {}
        changed = {row for pair in self.pairs for row in pair}
        while changed:
            folded.update((row, folds(self.rows[row])) for row in changed)
            wrong = {pair for pair in self.pairs if folded[pair[0]] != folded[pair[1]]}
            changed = {row for pair in wrong if self.pairs[pair] for row in self._cut(pair, folded)}
            if not changed:
                wrong = wrong or {pair for pair in self.pairs if not folded[pair[0]]}
                self.pairs = {pair: each for pair, each in self.pairs.items() if pair not in wrong}
                changed = {row for pair in wrong for row in pair}

    def _cut(self, pair: RowPair, folded: Mapping[int, Set[int]]) -> Iterator[int]:
        """Cut the rows of a pair where only one of them folds, if something is left that folds;
        the rows that are changed."""
        both = folded[pair[0]] & folded[pair[1]]
        for row in pair if both else ():
            starts = {item for at, item in enumerate(self.rows[row]) if at not in both}
            if folded[row] != both and not starts <= self.starts:
                self.starts |= starts
                yield row

    def ends(self, row: Sequence[str]) -> Iterator[int]:
        """The ends of the parts of *row* that are not cut."""
        yield from (place for place, item in enumerate(row) if item in self.starts)
        yield len(row)

    def spot(self, box: str, item: str) -> tuple[int, int] | None:
        """The position of *box* in the counterpart of *item* in a parallel row, if it is in one."""
        own = self._own.get(item) if self.pairs else None
        if own is not None:
            for row, place, member in self._seats(box):
                if place == own[1] and _pair(row, own[0]) in self.pairs:
                    return row, self.items.at[box] - self.items.at[member]
        return None


def _pair(first: int, second: int) -> RowPair:
    return (first, second) if first < second else (second, first)
