"""consistent: events that refer to nothing which was not stated.

Where an instrument failed, an event may name an operation, a value, a scope or a node whose own
event was never written. Such references are taken out, so that a recording can be built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Optional, TypeVar

from torchrecorder.events import (
    BackwardRan,
    Event,
    GradEdge,
    GradNodeFound,
    GradNodeMade,
    GradNodeRan,
    ModuleSeen,
    OpCalled,
    Role,
    RunFailed,
    ScopeEntered,
    ScopeLeft,
    Slot,
    Statistics,
    ValueSeen,
)

_Id = TypeVar("_Id", bound=str)


def consistent(events: Sequence[Event]) -> list[Event]:
    """*events* without references to what none of them states."""
    stated = _Stated(events)
    kept = (_REPAIRS[type(each)](stated, each) if type(each) in _REPAIRS else each
            for each in events)
    return [each for each in kept if each is not None]


class _Stated:
    """The ids that events state."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.ids: set[str] = set()
        for event in events:
            if isinstance(event, (ModuleSeen, ValueSeen, OpCalled, ScopeEntered, GradNodeFound)):
                self.ids.add(event[0])

    def one(self, found: _Id | None) -> _Id | None:
        """An id, if it is stated."""
        return found if found in self.ids else None

    def some(self, found: Iterable[_Id]) -> tuple[_Id, ...]:
        """Those that are stated."""
        return tuple(each for each in found if each in self.ids)

    def slots(self, found: Iterable[Slot]) -> tuple[Slot, ...]:
        """Those whose values are stated."""
        return tuple(each for each in found if each.value in self.ids)

    def edge(self, found: GradEdge | None) -> GradEdge | None:
        """An edge, if its node is stated."""
        return found if found is not None and found.grad in self.ids else None


def _module(stated: _Stated, event: ModuleSeen) -> ModuleSeen:
    return event._replace(
        parameters=stated.slots(event.parameters), buffers=stated.slots(event.buffers)
    )


def _value(stated: _Stated, event: ValueSeen) -> ValueSeen:
    producer = stated.one(event.producer)
    unmade = producer is None and event.role is Role.INNER
    role = Role.CONSTANT if unmade else event.role
    return event._replace(producer=producer, role=role, grad=stated.edge(event.grad))


def _op(stated: _Stated, event: OpCalled) -> OpCalled:
    return event._replace(
        scope=stated.one(event.scope),
        inputs=stated.slots(event.inputs),
        outputs=stated.some(event.outputs),
        writes=stated.some(event.writes),
    )


def _entered(stated: _Stated, event: ScopeEntered) -> ScopeEntered:
    return event._replace(parent=stated.one(event.parent), module=stated.one(event.module))


def _left(stated: _Stated, event: ScopeLeft) -> ScopeLeft | None:
    if event.scope not in stated.ids:
        return None
    return event._replace(inputs=stated.slots(event.inputs), outputs=stated.slots(event.outputs))


def _grad(stated: _Stated, event: GradNodeFound) -> GradNodeFound:
    return event._replace(
        owner=stated.one(event.owner),
        scope=stated.one(event.scope),
        next=tuple(map(stated.edge, event.next)),
        variable=stated.one(event.variable),
    )


def _of_stated(stated: _Stated, event: Any) -> Any:
    """Facts about a node; none if the node is not stated."""
    return event if event[0] in stated.ids else None


def _made(stated: _Stated, event: GradNodeMade) -> GradNodeMade | None:
    return event if {event.grad, event.by} <= stated.ids else None


def _backward(stated: _Stated, event: BackwardRan) -> BackwardRan | None:
    return event if event.op in stated.ids else None


def _failed(stated: _Stated, event: RunFailed) -> RunFailed:
    return event._replace(
        scope=stated.one(event.scope), op=stated.one(event.op), grad=stated.one(event.grad)
    )


_REPAIRS: dict[type, Callable[[_Stated, Any], Optional[Event]]] = {
    ModuleSeen: _module,
    ValueSeen: _value,
    OpCalled: _op,
    ScopeEntered: _entered,
    ScopeLeft: _left,
    GradNodeFound: _grad,
    GradNodeRan: _of_stated,
    GradNodeMade: _made,
    BackwardRan: _backward,
    Statistics: _of_stated,
    RunFailed: _failed,
}
