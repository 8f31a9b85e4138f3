"""Equal siblings fold if they are wired alike: in a chain, or side by side.

In a chain each feeds the next; side by side they have the same boxes before and after them.
What else they read or feed must be the same for all of them, or their counterparts in a parallel
row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from torchrecorder.events import GradId, OpId, ScopeId
from torchrecorder.views.bundles import FlowKind, FlowClassifier
from torchrecorder.views.hide import STORED
from torchrecorder.views.fold.sibling_index import Items
from torchrecorder.graph.structural_hash import without_numbers
from torchrecorder.views.fold.parallel import Parallel
from torchrecorder.views.view import Arrow, BoxKind


class Equal:
    """Finds siblings of equal structure that are wired alike.

    Args:
        items: What is to be folded.
        keys: What scopes and blocks that repeat have in common; None if one cannot repeat.
        worth: Whether a group of siblings is worth a fold.
    """

    def __init__(
        self, items: Items, keys: Mapping[str, object], worth: Callable[[Sequence[str]], bool]
    ) -> None:
        self.items = items
        self.keys = keys
        self.worth = worth
        self.wiring = Connections(items)

    def alike(self, one: str, other: str) -> bool:
        """Whether two items show the same."""
        return self.wiring.alike(one, other)

    def key(self, item: str) -> None:
        """Counterparts in equal siblings are found by their places, not by keys."""

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
        """Whether there are any; looked for where a row does not fold as a whole without."""
        clusters = (None, *self.items.view.clusters)
        rows = [row for around in clusters for row in _rows(self.items, around, self.keys)]
        self.wiring.parallel.find(rows, self.wiring.stored)
        self.wiring.parallel.settle(self._worthy)
        return bool(self.wiring.parallel.pairs)

    def _worthy(self, row: Sequence[str]) -> list[tuple[int, int]]:
        """Place and length of what folds of a row."""
        return [(start, len(group)) for start, group in self._split(row) if self.worth(group)]

    def _split(self, row: Sequence[str]) -> list[tuple[int, tuple[str, ...]]]:
        """The groups in a row, each with its place."""
        found, start = list[tuple[int, tuple[str, ...]]](), 0
        while start < len(row):
            end = _chain(self.wiring, row, start)
            if end < len(row):
                end = max(end, _side_by_side(self.wiring, row, start))
            found.append((start, tuple(row[start:end])))
            start = end
        return found


def _rows(items: Items, around: str | None, keys: Mapping[str, object]) -> list[list[str]]:
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


def _chain(wiring: Connections, row: Sequence[str], start: int) -> int:
    """Where the chain that begins at *start* ends."""
    end = start + 1
    pattern: Any = None
    while end < len(row) and wiring.alike(row[start], row[end]):
        link = _Link(wiring, row[end - 1], row[end])
        if not link.joins or (pattern is not None and link.pattern != pattern):
            break
        if pattern is None and not link.begins_at(row[start]):
            break
        pattern = link.pattern
        end += 1
    while end > start + 1 and not _leads_where(wiring, row[end - 1], pattern[2]):
        end -= 1
    return end


def _leads_where(wiring: Connections, last: str, leaves: Mapping[Any, int]) -> bool:
    """Whether the last of a chain feeds all boxes beside the chain that the others feed."""
    at, start = wiring.items.at, wiring.items.at[last]
    own = _counted(
        (wiring.end(arrow.head, last), at[arrow.tail] - start) for arrow in wiring.out_of(last)
    )
    return all(own.get(end, 0) >= count for end, count in leaves.items() if end[0] != "out")


class Connections:
    """The arrows into and out of siblings, and the places where they end inside."""

    def __init__(self, items: Items) -> None:
        self.items = items
        self.view = items.view
        self._into: dict[str, list[Arrow]] = {}
        self._out_of: dict[str, list[Arrow]] = {}
        self._stored = items.view.recording.stored
        self.flows = FlowClassifier(items.view)
        self.parallel = Parallel(items)

    def into(self, item: str) -> Sequence[Arrow]:
        """The arrows that enter an item."""
        if item not in self._into:
            span, at, entering = self.items.span(item), self.items.at, self.items.entering
            self._into[item] = [
                arrow
                for box in self.items.inside(item)
                for arrow in entering.get(box, ())
                if at[arrow.tail] not in span
            ]
        return self._into[item]

    def out_of(self, item: str) -> Sequence[Arrow]:
        """The arrows that leave an item."""
        if item not in self._out_of:
            span, at, leaving = self.items.span(item), self.items.at, self.items.leaving
            self._out_of[item] = [
                arrow
                for box in self.items.inside(item)
                for arrow in leaving.get(box, ())
                if at[arrow.head] not in span
            ]
        return self._out_of[item]

    def alike(self, one: str, other: str) -> bool:
        """Whether two items show the same boxes and clusters in the same places."""
        here, there = self.items.span(one), self.items.span(other)
        return self.sorts[here.start:here.stop] == self.sorts[there.start:there.stop]

    @cached_property
    def sorts(self) -> Sequence[int]:
        """A small number for each item in order, equal for items of equal appearance."""
        numbers: dict[object, int] = {}
        return [numbers.setdefault(self._sort(item), len(numbers)) for item in self.items.order]

    def _sort(self, item: str) -> tuple[object, ...]:
        if item in self.view.clusters:
            return ("cluster", item in self.view.recording.ops)
        box, recording = self.view.boxes[item], self.view.recording
        step = recording.ops.get(OpId(item)) or recording.grad_nodes.get(GradId(item))
        return box.kind, box.count, step.name if step is not None else ""

    def end(self, box: str, item: str = "") -> object:
        """Where an arrow out of *item* ends: in a box, or in the counterpart of *item* in a
        parallel row; outputs of the run are all alike."""
        if self.view.boxes[box].kind is BoxKind.OUTPUT:
            return "out"
        return self.parallel.spot(box, item) or box

    def start(self, arrow: Arrow, item: str) -> tuple[object, ...]:
        """What an arrow into *item* brings from where; each repeat may read a parameter of its own.

        So it may where the step of an optimizer has updated these parameters, and what its
        counterpart in a parallel row has made.
        """
        stored = self.stored(arrow)
        if stored:
            return stored
        spot = self.parallel.spot(arrow.tail, item)
        return (arrow.tail, arrow.value) if spot is None else (spot, self.result(arrow))

    def result(self, arrow: Arrow) -> int | None:
        """Which of the results of an op an arrow brings."""
        op = self.view.recording.ops.get(OpId(arrow.tail))
        if op is None or arrow.value is None or arrow.value not in op.outputs:
            return None
        return op.outputs.index(arrow.value)

    def stored(self, arrow: Arrow) -> tuple[object, ...]:
        """The role and shape of a parameter or buffer that an arrow brings; else empty."""
        value, kind = arrow.value, self.view.boxes[arrow.tail].kind
        if value is None or not (value in self._stored or kind in STORED):
            return ()
        role = self._stored.get(value, kind)
        return role.value, self.view.recording.values[value].shape

    def slots(self, arrow: Arrow) -> set[str]:
        """The arguments as which an arrow enters, of which it is drawn as the first."""
        recording, head = self.view.recording, arrow.head
        step = recording.ops.get(OpId(head)) or recording.scopes.get(ScopeId(head))
        inputs = step.inputs if step is not None else ()
        return {arrow.slot, *(slot.name for slot in inputs if slot.value == arrow.value)}

    def step(self, one: Arrow, other: Arrow) -> int:
        """By how many *other* is further among the results of an op that both come from.

        0 where they bring the same, or where that cannot be told.
        """
        op = self.view.recording.ops.get(OpId(other.tail))
        if op is None or one.value == other.value or one.value is None or other.value is None:
            return 0
        if one.value not in op.outputs or other.value not in op.outputs:
            return 0
        values = self.view.recording.values
        mine, yours = values[one.value], values[other.value]
        if (mine.shape, mine.dtype) != (yours.shape, yours.dtype):
            return 0
        return op.outputs.index(other.value) - op.outputs.index(one.value)


class _Link:
    """How one sibling of a chain hangs on the one before."""

    def __init__(self, wiring: Connections, one: str, other: str) -> None:
        self.wiring = wiring
        at, here, there = wiring.items.at, wiring.items.span(one), wiring.items.span(other)
        joins = [arrow for arrow in wiring.into(other) if at[arrow.tail] in here]
        before = {
            (arrow.tail, at[arrow.head] - here.start, arrow.slot): arrow
            for arrow in wiring.into(one)
        }
        self.beside, self.stepping = set[Any](), set[tuple[str, int, str]]()
        for arrow in wiring.into(other):
            if at[arrow.tail] not in here:
                spot = (arrow.tail, at[arrow.head] - there.start, arrow.slot)
                step = wiring.step(before[spot], arrow) if spot in before else 0
                if step:
                    self.stepping.add(spot)
                    self.beside.add((*spot, step))
                else:
                    self.beside.add((*wiring.start(arrow, other), *spot[1:]))
        leaves = _counted(
            (wiring.end(arrow.head, one), at[arrow.tail] - here.start)
            for arrow in wiring.out_of(one)
            if at[arrow.head] not in there
        )
        self.joins = _counted(
            (at[join.tail] - here.start, at[join.head] - there.start, join.slot) for join in joins
        )
        self._entering = [(at[join.head] - there.start, join) for join in joins]
        self.pattern = (self.joins, self.beside, leaves)

    def begins_at(self, first: str) -> bool:
        """Whether *first* has the chain's entries where the others hang on.

        It may have none where the others read what the one before has updated: weights, which a
        module has from the beginning, gradients, or the state that the first step makes.
        """
        entries: set[tuple[int, str]] = set()
        for arrow in self.wiring.into(first):
            place = self.wiring.items.at[arrow.head] - self.wiring.items.at[first]
            if (arrow.tail, place, arrow.slot) not in self.stepping:
                start = self.wiring.start(arrow, first)
                names = self.wiring.slots(arrow)
                entries |= {(place, name) for name in names
                            if (*start, place, name) not in self.beside}
        flows, joined = self.wiring.flows, set[tuple[int, str]]()
        updated = set[tuple[int, str]]()
        for place, join in self._entering:
            ends = {(place, name) for name in self.wiring.slots(join)}
            joined |= ends
            if flows.kind(join) is not FlowKind.TENSOR:
                updated |= ends
        return entries <= joined <= entries | updated


def _counted(things: Iterable[Any]) -> dict[Any, int]:
    """How often each is there; a plain dict, as these are compared by the thousand."""
    found: dict[Any, int] = {}
    for thing in things:
        found[thing] = found.get(thing, 0) + 1
    return found


def _side_by_side(wiring: Connections, row: Sequence[str], start: int) -> int:
    """Where the siblings that stand beside the one at *start* end."""
    wanted = _surroundings(wiring, row[start])
    end = start + 1
    while end < len(row) and wiring.alike(row[start], row[end]):
        if _surroundings(wiring, row[end]) != wanted:
            break
        end += 1
    return end


def _surroundings(wiring: Connections, item: str) -> Any:
    at, start = wiring.items.at, wiring.items.at[item]
    before = _counted(
        (wiring.start(arrow, item)[0], at[arrow.head] - start) for arrow in wiring.into(item)
    )
    after = _counted(
        (wiring.end(arrow.head, item), without_numbers(arrow.slot), at[arrow.tail] - start)
        for arrow in wiring.out_of(item)
    )
    return before, after
