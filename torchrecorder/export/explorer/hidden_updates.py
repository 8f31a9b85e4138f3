"""Hidden updates: buffers from and to ops that are not drawn, such as the count of batches.

A figure counts them on the lines between closed modules. In a page everything can be opened, and
these ops have no box even then, so that the arrows of its view do not carry the buffers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torchrecorder.events import MODES, Slot, ValueId
from torchrecorder.graph.nodes import Op
from torchrecorder.views.tree import Tree


class HiddenUpdate(NamedTuple):
    """A buffer that one op wrote and another one reads, at least one of which is not drawn.

    Attributes:
        value: The buffer.
        tail: The place of the op that wrote it, or of the module around that op.
        around: The innermost scope or fold that the buffer leaves.
        head: The place of the module around the op that reads it.
        slot: The name of the argument that it is there.
    """

    value: ValueId
    tail: int
    around: int
    head: int
    slot: str


def hidden_updates(tree: Tree) -> tuple[HiddenUpdate, ...]:
    """The updates of buffers from one module to another that no arrow of the view carries."""
    return () if tree.view.backward else tuple(_Updates(tree).all())


class _Updates:
    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.recording = tree.view.recording
        self.place = {
            place.id: number for number, place in enumerate(tree.places) if not place.fold
        }

    def all(self) -> Iterator[HiddenUpdate]:
        """Those that ops without a box read."""
        hidden = self.recording.bookkeeping.difference(self.place)
        for op in self.recording.ops.values() if hidden else ():
            head = self._module(op) if op.id in hidden else None
            for slot in op.inputs if head is not None else ():
                producer = self.recording.values[slot.value].producer
                if producer is not None and head is not None:
                    yield from self._from(self.recording.ops[producer], slot, head)

    def _from(self, producer: Op, slot: Slot, head: int) -> Iterator[HiddenUpdate]:
        """The update by *producer*, if it leaves the module around it."""
        own, module = self.place.get(producer.id), self._module(producer)
        tail, around = (module, module) if own is None else (own, self.tree.places[own].parent)
        if tail is not None and around is not None:
            if next(self.tree.apart(around, head), None) is not None:
                yield HiddenUpdate(slot.value, tail, around, head, slot.name)

    def _module(self, op: Op) -> int | None:
        """The place of the innermost module around an op that is not drawn, if it can be opened."""
        scopes = self.recording.scopes
        scope = scopes.get(op.scope) if op.scope is not None else None
        while scope is not None and scope.id not in self.place and scope.kind in MODES:
            scope = scopes.get(scope.parent) if scope.parent is not None else None
        if scope is None or scope.id not in self.tree.view.clusters:
            return None
        return self.place.get(scope.id)
