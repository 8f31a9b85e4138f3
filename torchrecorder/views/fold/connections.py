"""Connections: the arrows into and out of siblings, and the positions of their ends inside."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from torchrecorder.events import GradId, OpId, ScopeId, ScopeKind, ValueId
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.relations import ops_inside, step_of
from torchrecorder.graph.running_sums import sum_sign
from torchrecorder.views.bundles import FlowClassifier, FlowKind
from torchrecorder.views.fold.own_sources import OwnSources
from torchrecorder.views.fold.parallel import Parallel
from torchrecorder.views.fold.sibling_index import SiblingIndex
from torchrecorder.views.hide import STORED_KINDS
from torchrecorder.views.training import training_steps
from torchrecorder.views.view import Arrow, BoxKind


class Connections:
    """The arrows into and out of siblings, and the positions of their ends inside."""

    def __init__(self, items: SiblingIndex) -> None:
        self.items = items
        self.view = items.view
        self._stored = items.view.recording.stored
        self.any_weight: frozenset[str] = items.view.recording.weight_loops
        self.flows = FlowClassifier(items.view)
        self._results: dict[str, Mapping[ValueId, int]] = {}
        self._indices: dict[str, Mapping[ValueId | None, int]] = {}
        self.parallel = Parallel(items)
        self.own_sources = OwnSources(items)

    def read(self, item: str) -> Iterable[Arrow]:
        """The arrows that enter an item, except for optimizer state, whose amount grows with the
        steps before it, up to a limit in LBFGS.
        """
        return self.flows.without_state(self.items.into(item))

    def feeding(self, item: str) -> Iterable[Arrow]:
        """The arrows that leave an item, except for state and arrows out of loops over weights,
        where each weight has its own readers.
        """
        return (
            arrow for arrow in self.flows.without_state(self.items.out_of(item))
            if arrow.tail not in self.any_weight
        )

    def alike(self, first: str, second: str) -> bool:
        """Whether two items show the same boxes and clusters, at the same positions."""
        here, there = self.items.span(first), self.items.span(second)
        return self.sorts[here.start:here.stop] == self.sorts[there.start:there.stop]

    @cached_property
    def sorts(self) -> Sequence[int]:
        """An integer for each item in order, equal for items that look the same."""
        numbers: dict[object, int] = {}
        return [numbers.setdefault(self._sort(item), len(numbers)) for item in self.items.order]

    def _sort(self, item: str) -> tuple[object, ...]:
        if item in self.view.clusters:
            return ("cluster", item in self.view.recording.ops)
        box, recording = self.view.boxes[item], self.view.recording
        if item in recording.running_sums:
            return box.kind, box.count, "sum", sum_sign(recording.ops[OpId(item)])
        step = recording.ops.get(OpId(item)) or recording.grad_nodes.get(GradId(item))
        return box.kind, box.count, step.name if step is not None else ""

    def end(self, box: str, item: str = "") -> object:
        """The end of an arrow from *item* to a box: the box, or a position in the counterpart of
        *item* in a parallel row. All outputs of the run are equal."""
        if self.view.boxes[box].kind is BoxKind.OUTPUT:
            return "out"
        return self.parallel.spot(box, item) or box

    def start(self, arrow: Arrow, item: str, shared: bool = False) -> tuple[object, ...]:
        """The origin of an arrow into *item*; each repeat may read its own parameter.

        It may also read a parameter that an optimizer step has updated, an input of its own unless
        it is *shared* with the previous repeat, or an output of its counterpart in a parallel row.
        """
        stored = self.stored(arrow)
        if arrow.head in self.any_weight:
            return ("weight",) if stored else self._made_of_weight(arrow)
        if stored:
            return stored
        own = None if shared else self.own_sources.of(item).get(arrow.tail)
        if own is not None:
            return (own,)
        spot = self.parallel.spot(arrow.tail, item)
        return (arrow.tail, arrow.value) if spot is None else (spot, self.result(arrow))

    def _made_of_weight(self, arrow: Arrow) -> tuple[object, ...]:
        """The origin of an arrow into a loop over weights, the same for every weight."""
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

    def _outputs(self, step: Op | Scope) -> Mapping[ValueId | None, int]:
        """The index of each result of *step*; a backward pass has one for each weight."""
        if step.id not in self._indices:
            made = step.outputs if isinstance(step, Op) else [slot.value for slot in step.outputs]
            self._indices[step.id] = {value: place for place, value in enumerate(made)}
        return self._indices[step.id]

    def function_result(self, arrow: Arrow) -> int | None:
        """The position of the value on *arrow* among all results in a function.

        Functions of equal structure may have different readers: no next iteration reads the last
        one. None if no function computed the value, or if it is a weight, a gradient or state, of
        which the first iteration may create more than others.
        """
        scope = self.view.recording.scopes.get(ScopeId(arrow.tail))
        if scope is None or scope.kind is not ScopeKind.FUNCTION or arrow.value is None:
            return None
        if self.flows.kind(arrow) is not FlowKind.TENSOR:
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
        """All arguments of the head that have the value of an arrow; the first one is drawn."""
        step = step_of(self.view.recording, arrow.head)
        inputs = step.inputs if step is not None else ()
        return {arrow.slot, *(slot.name for slot in inputs if slot.value == arrow.value)}

    def step(self, first: Arrow, second: Arrow) -> int:
        """The distance between *first* and *second* among the results of one op or closed call.

        0 if they carry the same value, values of different kinds or origins, or values in a loop
        over weights.
        """
        recording = self.view.recording
        maker = step_of(recording, second.tail)
        if maker is None or second.head in self.any_weight:
            return 0
        here, there = (self._outputs(maker).get(arrow.value) for arrow in (first, second))
        if here is None or there is None or first.value is None or second.value is None:
            return 0
        former, latter = recording.values[first.value], recording.values[second.value]
        return there - here if (former.shape, former.dtype) == (latter.shape, latter.dtype) else 0


def counted(things: Iterable[Any]) -> dict[Any, int]:
    """The count of each of *things*, as a plain dict, because thousands of these are compared."""
    found: dict[Any, int] = {}
    for thing in things:
        found[thing] = found.get(thing, 0) + 1
    return found
