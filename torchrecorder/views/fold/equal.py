"""Equal: siblings of equal structure fold if their connections are equal, in a chain or side by
side.

In a chain, each sibling feeds the next; side by side, all have the same boxes before and after
them. Their other inputs and readers must be the same for all of them, or their counterparts in a
parallel row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from torchrecorder.graph.structural_hash import without_numbers
from torchrecorder.views.bundles import FlowKind
from torchrecorder.views.fold.chain_link import ChainLink
from torchrecorder.views.fold.connections import Connections, counted
from torchrecorder.views.fold.sibling_index import SiblingIndex


class Equal:
    """Finds siblings of equal structure with equal connections.

    *keys* are the fold keys of scopes and blocks, None for an item that cannot fold; *worth*
    returns whether a group of siblings is worth folding.
    """

    def __init__(
        self,
        items: SiblingIndex,
        keys: Mapping[str, object],
        worth: Callable[[Sequence[str]], bool],
    ) -> None:
        self.items = items
        self.keys = keys
        self.worth = worth
        self.connections = Connections(items)

    def alike(self, first: str, second: str) -> bool:
        """Whether two items show the same boxes and clusters."""
        return self.connections.alike(first, second)

    def key(self, item: str) -> None:
        """None: counterparts in equal siblings are found by position, not by key."""

    def groups(self, around: str | None) -> Iterator[tuple[str, ...]]:
        """The groups of siblings in a cluster that may be drawn as one."""
        for row in _rows(self.items, around, self.keys):
            found = self._split(row)
            if len(found) > 1 and self.has_parallel_rows:
                found = self._split(row)
            for _, group in found:
                yield group

    @cached_property
    def has_parallel_rows(self) -> bool:
        """Whether there are parallel rows. They are searched only if a row does not fold as a
        whole."""
        clusters = (None, *self.items.view.clusters)
        rows = [row for around in clusters for row in _rows(self.items, around, self.keys)]
        self.connections.parallel.find(rows, self.connections.stored)
        self.connections.parallel.prune(self._worth_folding)
        return bool(self.connections.parallel.pairs)

    def _worth_folding(self, row: Sequence[str]) -> list[tuple[int, int]]:
        """The start and length of each group of a row that is worth a fold."""
        return [(start, len(group)) for start, group in self._split(row) if self.worth(group)]

    def _split(self, row: Sequence[str]) -> list[tuple[int, tuple[str, ...]]]:
        """The groups in a row, each with its start."""
        found, start = list[tuple[int, tuple[str, ...]]](), 0
        while start < len(row):
            end = _chain(self.connections, row, start)
            if end < len(row):
                end = max(end, _side_by_side(self.connections, row, start))
            found.append((start, tuple(row[start:end])))
            start = end
        return found


def _rows(items: SiblingIndex, around: str | None, keys: Mapping[str, object]) -> list[list[str]]:
    """Siblings next to each other that have equal keys."""
    rows: list[list[str]] = []
    last: object = None
    for item in items.children(around):
        key = keys.get(item)
        if key is not None and key == last:
            rows[-1].append(item)
        else:
            rows.append([item])
        last = key
    return [row for row in rows if len(row) > 1]


def _chain(connections: Connections, row: Sequence[str], start: int) -> int:
    """The end of the chain that begins at *start*."""
    end = start + 1
    pattern: Any = None
    while end < len(row) and connections.alike(row[start], row[end]):
        link = ChainLink(connections, row[end - 1], row[end])
        if not link.joins or (pattern is not None and link.pattern != pattern):
            break
        if pattern is None and not link.begins_at(row[start]):
            break
        pattern = link.pattern
        end += 1
    while end > start + 1 and not _feeds_like_others(connections, row[end - 1], pattern[2]):
        end -= 1
    return end


def _feeds_like_others(connections: Connections, last: str, leaves: Mapping[Any, int]) -> bool:
    """Whether the last sibling of a chain feeds all boxes outside it that the others feed."""
    at, start = connections.items.at, connections.items.at[last]
    own = counted(
        (connections.end(arrow.head, last), at[arrow.tail] - start)
        for arrow in connections.feeding(last)
    )
    return all(own.get(end, 0) >= count for end, count in leaves.items() if end[0] != "out")


def _side_by_side(connections: Connections, row: Sequence[str], start: int) -> int:
    """The end of the siblings that are side by side with the one at *start*."""
    wanted = _surroundings(connections, row[start])
    end = start + 1
    while end < len(row) and connections.alike(row[start], row[end]):
        if _surroundings(connections, row[end]) != wanted:
            break
        end += 1
    return end


def _surroundings(connections: Connections, item: str) -> Any:
    """The inputs and readers of *item*, except for readers of weights that it creates or
    updates."""
    at, start = connections.items.at, connections.items.at[item]
    before = counted(
        (connections.start(arrow, item)[0], at[arrow.head] - start)
        for arrow in connections.into(item)
    )
    after = counted(
        (connections.end(arrow.head, item), without_numbers(arrow.slot), at[arrow.tail] - start,
         connections.function_result(arrow))
        for arrow in connections.feeding(item)
        if connections.flows.kind(arrow) is not FlowKind.WEIGHT
    )
    return before, after
