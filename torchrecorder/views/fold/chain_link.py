"""ChainLink: the connections between one sibling of a chain and the next."""

from __future__ import annotations

from typing import Any

from torchrecorder.events import OpId
from torchrecorder.graph.running_sums import begins_sum
from torchrecorder.views.bundles import FlowKind
from torchrecorder.views.fold.connections import Connections, counted
from torchrecorder.views.view import Arrow


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
        self.pattern = (self.joins, self.beside, leaves)

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
