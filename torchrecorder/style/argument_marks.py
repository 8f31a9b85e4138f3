"""Argument marks: small names of arguments, for lines that enter an op out of order.

Arguments are numbered from left to right, or from top to bottom. Layouts leave the marks out if
the lines enter a box in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torchrecorder.events import ScopeId, Slot, ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.relations import step_of
from torchrecorder.views.bundles import ROLES, Bundle, FlowKind
from torchrecorder.views.view import Arrow, View

COMMUTATIVE = frozenset(
    """
    add add_ mul mul_ multiply maximum minimum max min fmax fmin eq ne allclose isclose equal
    logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor __and__ __or__ __xor__
    hypot dot vdot inner mse_loss l1_loss logaddexp broadcast_tensors meshgrid block_diag
    backward alias join and or xor __rand__ __ror__ __rxor__ radd rmul
    """.split()
)
"""Commutative ops, and ops whose tensors are equivalent."""

SIGNS = {
    "sub": "−", "sub_": "−", "subtract": "−", "div": "÷", "div_": "÷", "divide": "÷",
    "true_divide": "÷", "floor_divide": "÷", "remainder": "%", "fmod": "%", "pow": "^",
    "lt": ">", "le": "≥", "gt": "<", "ge": "≤",
}
"""The mark of the second of two operands; the first one has none."""

SHORT = {
    "query": "q", "key": "k", "value": "v", "attn_mask": "mask", "mask": "mask", "weight": "w",
    "key_padding_mask": "mask", "bias": "b", "condition": "if", "index": "index",
    "target": "target", "indices": "index", "source": "source", "src": "source",
    "start": "start", "stop": "stop", "end": "end", "step": "step",
}
"""Marks of arguments by name; other arguments are marked by their number. The first argument has no
mark beside a named one."""

CHOICE = {"condition": "if", "self": "then", "input": "then", "other": "else"}
"""Marks of the arguments of ``where``."""


class Mark(NamedTuple):
    """A mark at the head of a line."""

    text: str = ""  # the small name
    place: int = -1  # the index of the argument; negative if the mark is always drawn


def argument_marks(view: View, drawn: Sequence[Bundle]) -> dict[int, Mark]:
    """The marks of lines, by index."""
    entering = grouped(
        (bundle.first.head, number) for number, bundle in enumerate(drawn)
        if not view.backward and bundle.flow is FlowKind.TENSOR
    )
    found: dict[int, Mark] = {}
    for head, numbers in entering.items():
        name, slots = _name_and_slots(view, head)
        unordered = name in COMMUTATIVE or len(numbers) < 2
        if not slots or unordered and not any(slot.name in ROLES for slot in slots):
            continue
        arguments = _MarkedArguments(name, slots)
        scope = view.recording.scopes.get(ScopeId(head))
        into = [drawn[item] if scope is None else _into(scope, drawn[item]) for item in numbers]
        marks = {number: arguments.mark(item) for number, item in zip(numbers, into)}
        ordered = [item for item, mark in marks.items() if mark.place >= 0]
        arrows = (drawn[item].first for item in ordered)
        if unordered or len({(arrow.tail, arrow.value) for arrow in arrows}) < 2:
            marks = {item: mark for item, mark in marks.items() if mark.place < 0 and mark.text}
        found.update(marks)
    return found


def _name_and_slots(view: View, head: str) -> tuple[str, tuple[Slot, ...]]:
    """The name and the arguments of an op, or of a module that takes query, key and value."""
    step = step_of(view.recording, head)
    if isinstance(step, Op):
        return step.name, step.inputs
    return (step.cls, step.inputs) if step is not None and attends(step) else ("", ())


def attends(scope: Scope) -> bool:
    """Whether a scope has at least two of the inputs query, key and value."""
    return len(scope.inputs) > 1 and len({slot.name for slot in scope.inputs} & {*ROLES}) > 1


def mark_into(scope: Scope, arrow: Arrow) -> Mark:
    """The mark of *arrow* where it enters the closed *scope*, for any reader inside."""
    bundle = _into(scope, Bundle((arrow,), FlowKind.TENSOR))
    return _MarkedArguments(scope.cls, scope.inputs).mark(bundle)


def _into(scope: Scope, bundle: Bundle) -> Bundle:
    """*bundle* where it enters *scope*: its arrows have the names of the arguments of the scope."""
    names: dict[ValueId | None, str] = {
        slot.value: slot.name for slot in reversed(scope.inputs)
    }
    return bundle._replace(
        arrows=tuple(
            arrow.replace(head=scope.id, slot=names.get(arrow.value, ""))
            for arrow in bundle.arrows
        )
    )


class _MarkedArguments:
    """The arguments of an op or module *name*; *slots* has their names and values."""

    def __init__(self, name: str, slots: Sequence[Slot]) -> None:
        self.name = name
        names = [slot.name for slot in slots]
        ends = [_own_name(slot) for slot in names]
        self.names = ends if len({*ends}) == len(ends) else names
        self.is_first_plain = (
            name != "where"
            and not SHORT.keys().isdisjoint(self.names)
            and self.names[0] not in SHORT
        )
        self.index: dict[str, int] = {}
        for place, name in enumerate(names):
            self.index.setdefault(name, place)
        self.of_value: dict[ValueId | None, list[str]] = grouped(
            (slot.value, slot.name) for slot in slots
        )

    def mark(self, bundle: Bundle) -> Mark:
        """The mark of the line of *bundle* into the op or module."""
        arrow = bundle.first
        taken = {item.slot for item in bundle.arrows}.union(self.of_value.get(arrow.value, ()))
        roles = [role for role in ROLES if role in taken]
        if len(roles) > 1:
            return Mark(" = ".join(roles))
        place = self.index.get(arrow.slot)
        if len(bundle.arrows) > 1 or place is None:
            return Mark()
        if place == 0 and self.is_first_plain:
            return Mark("", place)
        return Mark(_text(self.name, self.names[place], place), place)


def _own_name(slot: str) -> str:
    """Which end of a slice it is; for other arguments, the whole name."""
    around, _, end = slot.rpartition(".")
    return end if around and end in ("start", "stop", "step") else slot


def _text(name: str, slot: str, place: int) -> str:
    if name in SIGNS:
        return SIGNS[name] if place else ""
    if name == "where":
        return CHOICE.get(slot, str(place + 1))
    return SHORT.get(slot, str(place + 1))
