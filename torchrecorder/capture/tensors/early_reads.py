"""EarlyReads: tensors that an op reads before their module is called.

``model.to(device)``, an initialization, a copy or a penalty on weights reads parameters. When the
model is called later, the values get the names that they have there. A tensor of no module is named
by the first line of code that reads it under a name.
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
    """The first values of tensors that existed before the run."""

    def __init__(self, tape: Tape, entries: Mapping[int, Entry]) -> None:
        self.tape = tape
        self.entries = entries
        self.unnamed: dict[int, Role] = {}  # tensors without a name, by id
        self._first: dict[int, tuple[Entry, ValueId, int]] = {}
        self._parameters: dict[str, Entry] = {}  # the first with this name in a line

    def add(self, entry: Entry, place: int) -> None:
        """Add *entry*; its value is among the events from index *place* on."""
        self._first[entry.key] = entry, entry.value, place
        if not entry.names:
            self.unnamed[entry.key] = entry.role

    def name(self, tensor: Tensor, role: Role, names: tuple[str, ...]) -> ValueId | None:
        """Set role and names of the first value of *tensor*, and return the value; None if no op
        has read it."""
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
        """Name *tensor* as a line of code does, unless the line names several parameters so: in a
        loop over weights, the name of the variable identifies none of them."""
        key = id(tensor)
        role, entry = self.unnamed[key], self._first[key][0]
        if entry is not self.entries.get(key):  # the tensor no longer exists
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
        """Name the arguments of an outermost call as the program does: *called*, by name.

        The parameters of ``forward`` name the others; all, if the recorder itself calls the model.
        """
        for name, value in called or ():
            if id(value) in self.unnamed:
                self.name_by_line(value, name)
        for _, tensor in tensors:
            self.unnamed.pop(id(tensor), None)
            entry = self.entries.get(id(tensor)) if called is None else None
            if entry is not None and entry.role is Role.CONSTANT:
                self.name(tensor, entry.role, ())

    def clear(self) -> None:
        """Remove all tensors."""
        self._first.clear()
        self._parameters.clear()
