"""EarlyReads: tensors that the run read before it called the module that holds them.

``model.to(device)`` reads every parameter and buffer, as an initialization, a copy or a penalty on
weights does. If the model is called later, it names the values that were read before. A tensor that
no module holds is named by the source of the first call that reads it and has a name for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.describe import innermost
from torchrecorder.capture.tensors.entries import Entry
from torchrecorder.events import Role, ValueId
from torchrecorder.graph.nodes import Value


class EarlyReads:
    """The values that tensors from before the run had when they were first read."""

    def __init__(self, tape: Tape, entries: Mapping[int, Entry]) -> None:
        self.tape = tape
        self.entries = entries
        self.unnamed: dict[int, Role] = {}  # tensors without a name, by id
        self._first: dict[int, tuple[Entry, ValueId, int]] = {}
        self._parameters: dict[str, Entry] = {}  # the first that a line gave this name

    def add(self, entry: Entry, place: int) -> None:
        """The value of *entry* is written at *place* in the events, or soon after."""
        self._first[entry.key] = entry, entry.value, place
        if not entry.names:
            self.unnamed[entry.key] = entry.role

    def name(self, tensor: Tensor, role: Role, names: tuple[str, ...]) -> ValueId | None:
        """The first value of *tensor*, which is known by these *names* from now on; None if
        nothing has read it."""
        key = id(innermost(tensor))
        self.unnamed.pop(key, None)
        known = self._first.get(key)
        if known is None or known[0] is not self.entries.get(key):
            return None
        entry, first, place = known
        rows = (self.tape.events[at] for at in range(place, len(self.tape.events)))
        row = next(row for row in rows if type(row) is Value and row.id == first)
        trainable = row.requires_grad and role is Role.PARAMETER
        self.tape.write(row.replace(role=role, names=names, trainable=trainable))
        if entry.value == first:
            entry.role, entry.names = role, names
        return first

    def name_by_line(self, tensor: Tensor, name: str) -> None:
        """A line calls *tensor* by this *name*. If it calls several parameters so, as that of a
        loop over all weights, they have none: the name of a parameter tells it from others.
        """
        key = id(tensor)
        role, entry = self.unnamed[key], self._first[key][0]
        if entry is not self.entries.get(key):  # of a tensor that is gone
            del self.unnamed[key]
            return
        other = self._parameters.setdefault(name, entry) if role is Role.PARAMETER else entry
        if other is entry:
            self.name(tensor, role, (name,))
            return
        del self.unnamed[key]
        first = other()
        if first is not None and other.names == (name,):
            self.name(first, role, ())

    def name_inputs(
        self, tensors: list[tuple[str, Tensor]], called: list[tuple[str, Any]] | None
    ) -> None:
        """Name arguments of an outermost call by what the program *called* them there. `forward`
        names those without a name; and all, if the recorder itself calls the model."""
        for name, value in called or ():
            if id(value) in self.unnamed:
                self.name_by_line(value, name)
        for _, tensor in tensors:
            self.unnamed.pop(id(tensor), None)
            entry = self.entries.get(id(tensor)) if called is None else None
            if entry is not None and entry.role is Role.CONSTANT:
                self.name(tensor, entry.role, ())

    def clear(self) -> None:
        """Forget every tensor."""
        self._first.clear()
        self._parameters.clear()
