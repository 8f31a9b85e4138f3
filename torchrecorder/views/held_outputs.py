"""Held outputs: tensors that a module returns and no operation made, such as a learned query, a
cache, or a weight that ``nn.Identity`` returns as it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile

from torchrecorder.events import ScopeId, ScopeKind, Slot, ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Scope
from torchrecorder.views.view import Nesting


class HeldOutputs:
    """The outputs of module calls in which nothing ran.

    What reads such a tensor after the call, in code that was given it, reads it from the call.
    """

    def __init__(
        self, empty: Iterable[Scope], scopes: Mapping[ScopeId, Scope], nesting: Nesting
    ) -> None:
        self._scopes, self._nesting = scopes, nesting
        calls = (call for call in empty if call.kind is ScopeKind.MODULE)
        self._calls = grouped((slot.value, call) for call in calls for slot in call.outputs)

    def of(self, call: Scope) -> list[Slot]:
        """The tensors that *call* returned and was not given."""
        if call.kind is not ScopeKind.MODULE:
            return []
        given = {slot.value for slot in call.inputs}
        return [slot for slot in call.outputs if slot.value not in given]

    def returned_by(self, value: ValueId, cluster: str | None, index: float) -> ScopeId | None:
        """The last call that returned *value* to the code at this place, or None."""
        for call in reversed(self._calls.get(value, ())):
            if call.index < index and self._is_passed(value, call.parent, cluster):
                return call.id
        return None

    def _is_passed(self, value: ValueId, tail: str | None, head: str | None) -> bool:
        """Whether modules around *tail* return *value*, and those around *head* are given it."""
        both = self._nesting.common([tail, head])
        return all(
            any(slot.value == value for slot in (scope.outputs if returns else scope.inputs))
            for around, returns in ((tail, True), (head, False))
            for name in takewhile(lambda each: each != both, self._nesting.around(around))
            if (scope := self._scopes[ScopeId(name)]).kind is ScopeKind.MODULE
        )
