"""Bundles: several arrows of a view that are drawn as one line.

A training step has an arrow for every gradient, weight and buffer that passes from one box to
another. More than three arrows between the same two boxes are drawn as one line. Two or more are
enough for updated weights, buffers and optimizer state, and for one tensor that is query, key and
value. No arrow is left out, and none is in two bundles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from operator import itemgetter
from typing import NamedTuple

from torchrecorder.events import OpId, Role, ScopeId, ValueId, names_gradient
from torchrecorder.graph.nodes import Value
from torchrecorder.views.full_view import KIND_OF_ROLE
from torchrecorder.views.view import Arrow, BoxKind, View

MAX_SINGLE_ARROWS = 3
"""Up to this number, arrows between two boxes are drawn separately."""


ROLES = ("query", "key", "value")
"""Arguments of attention; a tensor that is used as several of them is one line."""


class FlowKind(str, Enum):
    """The kind of tensor that an arrow carries; the values are used in counts."""

    GRADIENT = "gradient"
    WEIGHT = "weight"  # a parameter with a new value
    BUFFER = "buffer"  # a buffer with a new value
    STATE = "state tensor"  # from one step of an optimizer or averaging to another
    TENSOR = "tensor"

    def counted(self, number: int) -> str:
        """``62 gradients``."""
        return f"{number} {self.value}{'s' * (number != 1)}"


FLOW_OF = {Role.PARAMETER: FlowKind.WEIGHT, Role.BUFFER: FlowKind.BUFFER}
"""The kind of an arrow with a new value of a parameter or buffer."""

UPDATES = (FlowKind.WEIGHT, FlowKind.BUFFER, FlowKind.STATE)
"""Kinds that pass from one call of a module or optimizer to the next."""


class Bundle(NamedTuple):
    """Arrows with the same tail and head that are drawn as one line."""

    arrows: tuple[Arrow, ...]  # at least one
    flow: FlowKind  # the kind of their tensors
    # lines with the same tail and trunk may share their first segment; empty for a single
    # arrow, which shares it with arrows of the same value
    trunk: str = ""

    @property
    def first(self) -> Arrow:
        """The first of the arrows."""
        return self.arrows[0]


class FlowClassifier:
    """Classifies the arrows of a view by the kind of tensor that they carry."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._stored = view.recording.stored
        self._steps = view.recording.weight_updates
        self._memory = view.recording.stored_memory

    def all(self) -> list[FlowKind]:
        """The kind of tensor on each arrow of the view."""
        return [self.kind(arrow) for arrow in self.view.arrows]

    def kind(self, arrow: Arrow, *, is_between_rounds: bool = False) -> FlowKind:
        """The kind of tensor on *arrow*, which may lead from one iteration of a loop to the
        next."""
        if self.view.backward or arrow.value is None:
            return FlowKind.TENSOR
        if self.view.boxes[arrow.tail].kind in _MADE_BEFORE:
            return FlowKind.TENSOR
        value = self.view.recording.values[arrow.value]
        if is_gradient(value):
            return FlowKind.GRADIENT
        role = self._role(value)
        if role is not None and not self._is_returned(arrow, value):
            return FLOW_OF[role]
        if not self._steps:
            return FlowKind.TENSOR
        tail, head = self.step(arrow.tail), self.step(arrow.head)
        between = tail and head and (tail != head or is_between_rounds)
        return FlowKind.STATE if between and not value.requires_grad else FlowKind.TENSOR

    def without_state(self, arrows: Iterable[Arrow]) -> Iterable[Arrow]:
        """The *arrows* but those with state from one step of an optimizer or averaging to
        another."""
        if not self._steps:
            return arrows
        return (arrow for arrow in arrows if self.kind(arrow) is not FlowKind.STATE)

    def _role(self, value: Value) -> Role | None:
        """The role of a parameter or buffer, also for a value that was written into one; else
        None."""
        if value.producer is not None and value.storage in self._memory:
            producer = self.view.recording.ops.get(value.producer)
            if producer is not None and value.id in producer.writes:
                return self._memory[value.storage]
        return self._stored.get(value.id)

    def _is_returned(self, arrow: Arrow, value: Value) -> bool:
        """Whether a module call returned its weight *value* as it was before the call."""
        scope = self.view.recording.scopes.get(ScopeId(arrow.tail))
        return (
            scope is not None
            and any(slot.value == value.id for slot in scope.outputs)
            and value.producer not in self.view.boxes[arrow.tail].members
        )

    def step(self, box: str) -> ScopeId | None:
        """The step of an optimizer or averaging at or around a box."""
        op = self.view.recording.ops.get(OpId(box))
        scope = ScopeId(box) if op is None else op.scope
        return None if scope is None else self._steps.get(scope)


def is_gradient(value: Value) -> bool:
    """Whether *value* is the gradient of a leaf that a backward pass of the run computed."""
    return bool(value.names) and value.role is Role.INNER and names_gradient(value.names)


_MADE_BEFORE = frozenset((*KIND_OF_ROLE.values(), BoxKind.OUTPUT))


def bundles(view: View, flows: Sequence[FlowKind] | None = None) -> tuple[Bundle, ...]:
    """The bundles of *view*, in the order of their first arrows. *flows* are the kinds of their
    tensors, if known."""
    flows = FlowClassifier(view).all() if flows is None else flows
    together: dict[tuple[str, str, FlowKind, bool], list[int]] = {}
    attended: dict[Arrow, list[int]] = {}
    for place, arrow in enumerate(view.arrows):
        if arrow.slot in ROLES:
            attended.setdefault(arrow.replace(slot=""), []).append(place)
            continue
        key = arrow.tail, arrow.head, flows[place], arrow.some
        together.setdefault(key, []).append(place)
    trunks: dict[tuple[object, ...], str] = {}
    found: list[tuple[int, Bundle]] = []
    for places in attended.values():
        alike = tuple(view.arrows[place] for place in places)
        found.append((places[0], Bundle(alike, flows[places[0]])))
    for (_, _, flow, _), places in together.items():
        arrows = tuple(view.arrows[place] for place in places)
        shared = "" if flow is FlowKind.TENSOR else flow.value
        if len(arrows) <= (1 if flow in UPDATES else MAX_SINGLE_ARROWS):
            found += [(place, Bundle((view.arrows[place],), flow, shared)) for place in places]
            continue
        if not shared:
            carried = values_of(arrows) or (arrows[0].tail, arrows[0].head)
            shared = trunks.setdefault(carried, f"{flow.value} {len(trunks)}")
        found.append((places[0], Bundle(arrows, flow, shared)))
    return tuple(bundle for _, bundle in sorted(found, key=itemgetter(0)))


def values_of(arrows: Iterable[Arrow]) -> tuple[ValueId, ...]:
    """The values on *arrows*, without duplicates."""
    return tuple(dict.fromkeys(arrow.value for arrow in arrows if arrow.value is not None))
