"""Parallel rows: siblings of which each is connected to its counterpart in another row.

When a language model makes token after token, each layer reads the keys and values that the same
layer has kept in the step before: layer 3 those of layer 3. Where both rows fold, and alike, one
line between the two folds says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torchrecorder.views.fold.sibling_index import Items
from torchrecorder.views.view import Arrow

Seat = tuple[int, int, str]
"""The number of a row, the place in it, and what is there."""

Pair = tuple[int, int]
"""Two rows by their numbers, the smaller first."""


class Parallel:
    """Rows of siblings, and which of them are parallel.

    Args:
        items: What lies beside and inside what.
        rows: The rows.
        counts: Whether an arrow has to lead from counterpart to counterpart.

    Attributes:
        pairs: The rows that are parallel: of one length, with arrows between counterparts.
    """

    def __init__(
        self, items: Items, rows: Sequence[Sequence[str]], counts: Callable[[Arrow], bool]
    ) -> None:
        self.items = items
        self.rows = rows
        self._own = {
            item: (number, place, item)
            for number, row in enumerate(rows)
            for place, item in enumerate(row)
        }
        self._around: dict[str | None, tuple[Seat, ...]] = {None: ()}
        self.pairs: set[Pair] = set()
        if len(rows) > 1:
            for cluster in items.view.clusters.values():
                self._around[cluster.id] = self._seated(cluster.id, cluster.parent)
            self.pairs = self._found(counts)

    def _seated(self, item: str, around: str | None) -> tuple[Seat, ...]:
        """The seats of *item* and of all around it, innermost first."""
        seats = self._around[around]
        return (self._own[item], *seats) if item in self._own else seats

    def _seats(self, box: str) -> tuple[Seat, ...]:
        return self._seated(box, self.items.parent[box])

    def _found(self, counts: Callable[[Arrow], bool]) -> set[Pair]:
        """The rows of one length with arrows only between counterparts, and from the end of one to
        the beginning of the other."""
        aligned: dict[Pair, bool] = {}
        for arrow in self.items.view.arrows:
            tails, heads = self._seats(arrow.tail), self._seats(arrow.head)
            if tails is heads or not tails or not heads or not counts(arrow):
                continue
            here, there = {seat[0] for seat in tails}, {seat[0] for seat in heads}
            for one, place, _ in tails:
                for other, opposite, _ in heads if one not in there else ():
                    last = len(self.rows[one]) - 1
                    if other in here or last != len(self.rows[other]) - 1:
                        continue
                    if (place, opposite) != (last, 0):
                        pair = _pair(one, other)
                        aligned[pair] = aligned.get(pair, True) and place == opposite
        return {pair for pair, is_aligned in aligned.items() if is_aligned}

    def settle(self, groups: Callable[[Sequence[str]], object]) -> None:
        """Keep the pairs of which both rows fold alike, as long as all that are kept are pairs.

        Args:
            groups: Returns what folds of a row, equal for rows of which the same places do.
        """
        while self.pairs:
            folded = {row: groups(self.rows[row]) for pair in self.pairs for row in pair}
            wrong = {(one, other) for one, other in self.pairs if folded[one] != folded[other]}
            if not wrong:
                break
            self.pairs -= wrong

    def spot(self, box: str, item: str) -> tuple[int, int] | None:
        """The place of *box* in the counterpart of *item* in a parallel row; None in no other."""
        own = self._own.get(item) if self.pairs else None
        if own is not None:
            for row, place, member in self._seats(box):
                if place == own[1] and _pair(row, own[0]) in self.pairs:
                    return row, self.items.at[box] - self.items.at[member]
        return None

    def partner(self, box: str, inside: str) -> int | None:
        """The row of *box* that is parallel to one around *inside*."""
        if self.pairs:
            for _, _, member in self._seats(inside):
                spot = self.spot(box, member)
                if spot is not None:
                    return spot[0]
        return None


def _pair(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)
