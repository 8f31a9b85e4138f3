"""Results: which result of a closed function an arrow carries."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from torchrecorder.events import OpId, ScopeId, ScopeKind, ValueId
from torchrecorder.graph.ops_inside import ops_inside
from torchrecorder.views.bundles import FlowClassifier, FlowKind
from torchrecorder.views.training import training_steps
from torchrecorder.views.view import Arrow, View


class FunctionResults:
    """The results of the functions that are boxes of a view.

    Functions of equal structure may have other readers for each result: the last round of a loop
    is not read by a next one. So their results are compared where arrows are.

    Args:
        view: The view.
        flows: The kinds of its arrows.
    """

    def __init__(self, view: View, flows: FlowClassifier) -> None:
        self.view = view
        self.flows = flows
        self._known: dict[str, Mapping[ValueId, int]] = {}

    def of(self, arrow: Arrow) -> int | None:
        """The place of what *arrow* carries among all that ran in a function.

        None if no function made it, or if it is a weight, gradient or state, of which the first
        round may make more than others.
        """
        scope = self.view.recording.scopes.get(ScopeId(arrow.tail))
        if scope is None or scope.kind is not ScopeKind.FUNCTION or arrow.value is None:
            return None
        if arrow.tail not in self.view.boxes or self.flows.kind(arrow) is not FlowKind.TENSOR:
            return None
        if scope.id not in self._known:
            self._known[scope.id] = self._places(scope.id)
        return self._known[scope.id].get(arrow.value)

    @cached_property
    def _steps(self) -> Collection[str | None]:
        return training_steps(self.view.recording)

    def _places(self, scope: ScopeId) -> Mapping[ValueId, int]:
        ops = self.view.recording.ops
        inside = sorted(ops_inside(self.view.recording, [scope]), key=lambda op: ops[op].index)
        shown = (OpId(op) for op in inside if ops[op].scope not in self._steps)
        made = (value for op in shown for value in ops[op].outputs)
        return {value: place for place, value in enumerate(dict.fromkeys(made))}
