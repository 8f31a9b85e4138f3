"""Equal: siblings of equal structure fold if their connections are equal, in a chain or side by
side.

In a chain, each sibling feeds the next; side by side, all have the same boxes before and after
them. Their other inputs and readers must be the same for all of them, or their counterparts in a
parallel row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

from torchrecorder.events import OpId
from torchrecorder.graph.running_sums import begins_sum
from torchrecorder.graph.structural_hash import without_numbers
from torchrecorder.views.bundles import FlowKind
from torchrecorder.views.fold.connections import Connections, counted
from torchrecorder.views.fold.own_sources import OwnSources, folds
from torchrecorder.views.fold.sibling_index import SiblingIndex
from torchrecorder.views.view import Arrow


class Equal:
    """Finds siblings of equal structure with equal connections.

    *keys* are the fold keys of scopes and blocks, None for an item that cannot fold.
    """

    def __init__(self, items: SiblingIndex, keys: Mapping[str, object]) -> None:
        self.items = items
        self.keys = keys

    @cached_property
    def connections(self) -> Connections:
        """The arrows into and out of siblings."""
        return Connections(self.items)

    @property
    def own_sources(self) -> OwnSources:
        """The own inputs of siblings."""
        return self.connections.own_sources

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
        self.connections.parallel.prune(self._folded)
        return bool(self.connections.parallel.pairs)

    def _folded(self, row: Sequence[str]) -> set[int]:
        """The positions in a row that fold with the one before."""
        own, found = self.own_sources, self._split(row)
        return {
            place
            for start, group in found if folds(self.items, group, own)
            for place in range(start + 1, start + len(group))
        }

    def _split(self, row: Sequence[str]) -> list[tuple[int, tuple[str, ...]]]:
        """The groups in a row, each with its start."""
        found, start = list[tuple[int, tuple[str, ...]]](), 0
        for stop in self.connections.parallel.ends(row):
            part = row[:stop]
            while start < stop:
                end = _chain(self.connections, part, start)
                if end < stop:
                    end = max(end, _side_by_side(self.connections, part, start))
                found.append((start, tuple(row[start:end])))
                start = end
        return found


def _rows(items: SiblingIndex, around: str | None, keys: Mapping[str, object]) -> list[list[str]]:
    """Siblings next to each other that have equal keys."""
    found = groupby(items.children(around), keys.get)
    rows = [[*row] for key, row in found if key is not None]
    return [row for row in rows if len(row) > 1]


def _chain(connections: Connections, row: Sequence[str], start: int) -> int:
    """The end of the chain that begins at *start*."""
    end = start + 1
    pattern: Pattern | None = None
    while end < len(row) and connections.alike(row[start], row[end]):
        link = ChainLink(connections, row[end - 1], row[end])
        if not link.joins or (pattern is not None and link.pattern != pattern):
            break
        if pattern is None and not link.begins_at(row[start]):
            break
        pattern = link.pattern
        end += 1
    leaves = pattern.leaves if pattern is not None else {}
    while end > start + 1 and not _feeds_like_others(connections, row[end - 1], leaves):
        end -= 1
    return end


class Pattern(NamedTuple):
    """The connections of a sibling that must be equal along a chain.

    Attributes:
        joins: The arrows from the sibling before.
        beside: The origins of the other arrows into it.
        leaves: The ends of the arrows out of the sibling before, except for *joins*.
    """

    joins: Mapping[Any, int]
    beside: Collection[Any]
    leaves: Mapping[Any, int]


class ChainLink:
    """The connections between a sibling of a chain and the one before."""

    def __init__(self, connections: Connections, first: str, second: str) -> None:
        self.connections = connections
        items = connections.items
        at, here, there = items.at, items.span(first), items.span(second)
        entering = [*connections.read(second)]
        joins = [arrow for arrow in entering if at[arrow.tail] in here]
        before = {
            (arrow.tail, at[arrow.head] - here.start, arrow.slot): arrow
            for arrow in connections.read(first)
        }
        self.beside, self.stepping = set[Any](), set[tuple[str, int, str]]()
        self._read_by_both = {
            (arrow.tail, at[arrow.head] - there.start) for arrow in entering
        } & {(tail, place) for tail, place, _ in before}
        for arrow in entering:
            if at[arrow.tail] not in here:
                spot = (arrow.tail, at[arrow.head] - there.start, arrow.slot)
                step = connections.step(before[spot], arrow) if spot in before else 0
                if step:
                    self.stepping.add(spot)
                    self.beside.add((*spot, step))
                else:
                    self.beside |= self._starts(arrow, second, spot[1])
        leaves = counted(
            (connections.end(arrow.head, first), at[arrow.tail] - here.start)
            for arrow in connections.feeding(first)
            if at[arrow.head] not in there
        )
        self.joins = counted(
            (at[join.tail] - here.start, at[join.head] - there.start, join.slot,
             connections.function_result(join))
            for join in joins
        )
        self._entering = [(at[join.head] - there.start, join) for join in joins]
        self.pattern = Pattern(self.joins, self.beside, leaves)

    def _starts(self, arrow: Arrow, item: str, place: int) -> set[Any]:
        """The origin of each arrow into a position in *item*, with the arguments that it enters."""
        shared = (arrow.tail, place) in self._read_by_both
        start = self.connections.start(arrow, item, shared)
        return {(*start, place, name) for name in self.connections.slots(arrow)}

    def begins_at(self, first: str) -> bool:
        """Whether *first* has an input for each value that the other siblings read from the
        previous one.

        Updated values need none: weights, which exist from the beginning, gradients, optimizer
        state that the first step creates, or a sum that starts at 0.
        """
        entries: set[tuple[int, str]] = set()
        for arrow in self.connections.read(first):
            if self.connections.flows.step(arrow.head) and self.connections.stored(arrow):
                continue
            place = self.connections.items.at[arrow.head] - self.connections.items.at[first]
            if (arrow.tail, place, arrow.slot) not in self.stepping:
                starts = self._starts(arrow, first, place)
                entries |= {start[-2:] for start in starts - self.beside}
        flows, joined = self.connections.flows, set[tuple[int, str]]()
        updated = set[tuple[int, str]]()
        items, ops = self.connections.items, self.connections.view.recording.ops
        for place, join in self._entering:
            ends = {(place, name) for name in self.connections.slots(join)}
            joined |= ends
            counterpart = ops.get(OpId(items.order[items.at[first] + place]))
            begins = counterpart is not None and begins_sum(counterpart)
            if begins or flows.kind(join) is not FlowKind.TENSOR:
                updated |= ends
        if self.connections.view.backward:
            return entries <= joined  # no arrow leads into the first node of a pass
        return entries <= joined <= entries | updated


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
        for arrow in connections.items.into(item)
    )
    after = counted(
        (connections.end(arrow.head, item), without_numbers(arrow.slot), at[arrow.tail] - start,
         connections.function_result(arrow))
        for arrow in connections.feeding(item)
        if connections.flows.kind(arrow) is not FlowKind.WEIGHT
    )
    return before, after
