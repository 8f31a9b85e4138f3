"""Equal siblings fold if their connections are equal: in a chain, or side by side.

In a chain, each sibling feeds the next; side by side, all have the same boxes before and after
them. Their other inputs and readers must be the same for all of them, or their counterparts in a
parallel row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from torchrecorder.events import GradId, OpId, ScopeId, ScopeKind, ValueId
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.ops_inside import ops_inside
from torchrecorder.views.bundles import FlowKind, FlowClassifier
from torchrecorder.views.hide import STORED_KINDS
from torchrecorder.views.fold.sibling_index import SiblingIndex
from torchrecorder.graph.structural_hash import without_numbers
from torchrecorder.views.fold.own_sources import OwnSources
from torchrecorder.views.fold.parallel import Parallel
from torchrecorder.views.training import training_steps
from torchrecorder.views.view import Arrow, BoxKind


class Equal:
    """Finds siblings of equal structure with equal connections.

    *keys* are the fold keys of scopes and blocks, None if one cannot be folded; *worth* tells
    whether a group of siblings is worth a fold.
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
        """Counterparts in equal siblings are found by their positions, not by keys."""

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
        """Whether there are parallel rows; only searched if a row does not fold as a whole."""
        clusters = (None, *self.items.view.clusters)
        rows = [row for around in clusters for row in _rows(self.items, around, self.keys)]
        self.connections.parallel.find(rows, self.connections.stored)
        self.connections.parallel.settle(self._worth_folding)
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
        link = _ChainLink(connections, row[end - 1], row[end])
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
    own = _counted(
        (connections.end(arrow.head, last), at[arrow.tail] - start)
        for arrow in connections.feeding(last)
    )
    return all(own.get(end, 0) >= count for end, count in leaves.items() if end[0] != "out")


class Connections:
    """The arrows into and out of siblings, and the positions of their ends inside."""

    def __init__(self, items: SiblingIndex) -> None:
        self.items = items
        self.view = items.view
        self._into: dict[str, list[Arrow]] = {}
        self._out_of: dict[str, list[Arrow]] = {}
        self._stored = items.view.recording.stored
        self.any_weight: frozenset[str] = items.view.recording.weight_loops
        self.flows = FlowClassifier(items.view)
        self._results: dict[str, Mapping[ValueId, int]] = {}
        self._indices: dict[OpId, Mapping[ValueId | None, int]] = {}
        self.parallel = Parallel(items)
        self.own_sources = OwnSources(items)

    def into(self, item: str) -> Sequence[Arrow]:
        """The arrows that enter an item from outside."""
        if item not in self._into:
            span, at = self.items.span(item), self.items.at
            arrows = self._inside(item, self.items.entering)
            self._into[item] = [arrow for arrow in arrows if at[arrow.tail] not in span]
        return self._into[item]

    def out_of(self, item: str) -> Sequence[Arrow]:
        """The arrows that leave an item."""
        if item not in self._out_of:
            span, at = self.items.span(item), self.items.at
            arrows = self._inside(item, self.items.leaving)
            self._out_of[item] = [arrow for arrow in arrows if at[arrow.head] not in span]
        return self._out_of[item]

    def read(self, item: str) -> Iterator[Arrow]:
        """The arrows that enter an item, except for state: a step of an optimizer has as much of
        it as there were steps before, up to a limit in LBFGS.
        """
        return (arrow for arrow in self.into(item) if not self.flows.is_state(arrow))

    def feeding(self, item: str) -> Iterator[Arrow]:
        """The arrows that leave an item, except for state and those from lines that run for each
        weight: each weight has readers of its own.
        """
        return (
            arrow for arrow in self.out_of(item)
            if arrow.tail not in self.any_weight and not self.flows.is_state(arrow)
        )

    def _inside(self, item: str, arrows: Mapping[str, Sequence[Arrow]]) -> Iterator[Arrow]:
        """Those of *arrows*, by box, that belong to the boxes of an item."""
        return (arrow for box in self.items.inside(item) for arrow in arrows.get(box, ()))

    def alike(self, first: str, second: str) -> bool:
        """Whether two items show the same boxes and clusters, at the same positions."""
        here, there = self.items.span(first), self.items.span(second)
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
        """The end of an arrow from *item* to a box: the box, or a position in the counterpart of
        *item* in a parallel row. All outputs of the run are equal."""
        if self.view.boxes[box].kind is BoxKind.OUTPUT:
            return "out"
        return self.parallel.spot(box, item) or box

    def start(self, arrow: Arrow, item: str) -> tuple[object, ...]:
        """The origin of an arrow into *item*; each repeat may read its own parameter.

        It may also read a parameter that an optimizer step has updated, an input of its own, or an
        output of its counterpart in a parallel row.
        """
        stored = self.stored(arrow)
        if arrow.head in self.any_weight:
            return ("weight",) if stored else self._made_of_weight(arrow)
        if stored:
            return stored
        own = self.own_sources.of(item).get(arrow.tail)
        if own is not None:
            return (own,)
        spot = self.parallel.spot(arrow.tail, item)
        return (arrow.tail, arrow.value) if spot is None else (spot, self.result(arrow))

    def _made_of_weight(self, arrow: Arrow) -> tuple[object, ...]:
        """The origin of what a line that runs for each weight reads, whichever weight it is of."""
        if self.view.boxes[arrow.tail].kind is BoxKind.CONSTANT:
            return ("constant",)
        maker = self.view.recording.ops.get(OpId(arrow.tail))
        if maker is not None and maker.id in self.any_weight:
            return maker.source, maker.qualname
        return (arrow.tail,)

    def result(self, arrow: Arrow) -> int | None:
        """The index of the result of an op that an arrow carries."""
        op = self.view.recording.ops.get(OpId(arrow.tail))
        return self._outputs(op).get(arrow.value) if op is not None else None

    def _outputs(self, op: Op) -> Mapping[ValueId | None, int]:
        """The index of each result of *op*; a backward pass has one for each weight."""
        if op.id not in self._indices:
            self._indices[op.id] = {value: place for place, value in enumerate(op.outputs)}
        return self._indices[op.id]

    def function_result(self, arrow: Arrow) -> int | None:
        """The place of what *arrow* carries among all that ran in a function.

        Functions of equal structure may have other readers for each result: the last round of a
        loop is not read by a next one. None if no function made it, or if it is a weight, gradient
        or state, of which the first round may make more than others.
        """
        scope = self.view.recording.scopes.get(ScopeId(arrow.tail))
        if scope is None or scope.kind is not ScopeKind.FUNCTION or arrow.value is None:
            return None
        if arrow.tail not in self.view.boxes or self.flows.kind(arrow) is not FlowKind.TENSOR:
            return None
        if scope.id not in self._results:
            self._results[scope.id] = self._result_places(scope.id)
        return self._results[scope.id].get(arrow.value)

    @cached_property
    def _steps(self) -> Collection[str | None]:
        return training_steps(self.view.recording)

    def _result_places(self, scope: ScopeId) -> Mapping[ValueId, int]:
        ops = self.view.recording.ops
        inside = sorted(ops_inside(self.view.recording, [scope]), key=lambda op: ops[op].index)
        shown = (ops[op] for op in inside if ops[op].scope not in self._steps)
        made = dict.fromkeys(value for op in shown for value in op.outputs)
        return {value: place for place, value in enumerate(made)}

    def stored(self, arrow: Arrow) -> tuple[object, ...]:
        """The role and shape of the parameter or buffer that an arrow carries; else empty."""
        value, kind = arrow.value, self.view.boxes[arrow.tail].kind
        if value is None or not (value in self._stored or kind in STORED_KINDS):
            return ()
        role = self._stored.get(value, kind)
        return role.value, self.view.recording.values[value].shape

    def slots(self, arrow: Arrow) -> set[str]:
        """All arguments of its head that have the value of an arrow; the first of them is drawn."""
        recording, head = self.view.recording, arrow.head
        step = recording.ops.get(OpId(head)) or recording.scopes.get(ScopeId(head))
        inputs = step.inputs if step is not None else ()
        return {arrow.slot, *(slot.name for slot in inputs if slot.value == arrow.value)}

    def step(self, first: Arrow, second: Arrow) -> int:
        """The distance between *first* and *second* among the results of one op.

        0 if they carry the same value, or values of different forms or origins, or in a line that
        runs for each weight.
        """
        if second.head in self.any_weight:
            return 0
        op = self.view.recording.ops.get(OpId(second.tail))
        if op is None or first.value == second.value or first.value is None or second.value is None:
            return 0
        places = self._outputs(op)
        if first.value not in places or second.value not in places:
            return 0
        values = self.view.recording.values
        former, latter = values[first.value], values[second.value]
        if (former.shape, former.dtype) != (latter.shape, latter.dtype):
            return 0
        return places[second.value] - places[first.value]


class _ChainLink:
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
        for arrow in entering:
            if at[arrow.tail] not in here:
                spot = (arrow.tail, at[arrow.head] - there.start, arrow.slot)
                step = connections.step(before[spot], arrow) if spot in before else 0
                if step:
                    self.stepping.add(spot)
                    self.beside.add((*spot, step))
                else:
                    self.beside.add((*connections.start(arrow, second), *spot[1:]))
        leaves = _counted(
            (connections.end(arrow.head, first), at[arrow.tail] - here.start)
            for arrow in connections.feeding(first)
            if at[arrow.head] not in there
        )
        self.joins = _counted(
            (at[join.tail] - here.start, at[join.head] - there.start, join.slot,
             connections.function_result(join))
            for join in joins
        )
        self._entering = [(at[join.head] - there.start, join) for join in joins]
        self.pattern = (self.joins, self.beside, leaves)

    def begins_at(self, first: str) -> bool:
        """Whether *first* has an input for each value that the others read from the previous one.

        Values that the previous sibling has updated are excepted: weights, which a module or an
        optimizer has from the beginning, gradients, or the state that the first step creates.
        """
        entries: set[tuple[int, str]] = set()
        for arrow in self.connections.read(first):
            if self.connections.flows.step(arrow.head) and self.connections.stored(arrow):
                continue
            place = self.connections.items.at[arrow.head] - self.connections.items.at[first]
            if (arrow.tail, place, arrow.slot) not in self.stepping:
                start = self.connections.start(arrow, first)
                names = self.connections.slots(arrow)
                entries |= {(place, name) for name in names
                            if (*start, place, name) not in self.beside}
        flows, joined = self.connections.flows, set[tuple[int, str]]()
        updated = set[tuple[int, str]]()
        for place, join in self._entering:
            ends = {(place, name) for name in self.connections.slots(join)}
            joined |= ends
            if flows.kind(join) is not FlowKind.TENSOR:
                updated |= ends
        return entries <= joined <= entries | updated


def _counted(things: Iterable[Any]) -> dict[Any, int]:
    """The number of equal *things*; a plain dict, because thousands of these are compared."""
    found: dict[Any, int] = {}
    for thing in things:
        found[thing] = found.get(thing, 0) + 1
    return found


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
    """What *item* reads and feeds, except for the readers of weights that it makes or updates."""
    at, start = connections.items.at, connections.items.at[item]
    before = _counted(
        (connections.start(arrow, item)[0], at[arrow.head] - start)
        for arrow in connections.into(item)
    )
    after = _counted(
        (connections.end(arrow.head, item), without_numbers(arrow.slot), at[arrow.tail] - start,
         connections.function_result(arrow))
        for arrow in connections.feeding(item)
        if connections.flows.kind(arrow) is not FlowKind.WEIGHT
    )
    return before, after
