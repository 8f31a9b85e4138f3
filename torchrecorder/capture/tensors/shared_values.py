"""SharedValues: tables of tensors of several threads that share their entries."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor

from torchrecorder.capture.tape import Tape, home_of
from torchrecorder.capture.tensors.describe import node_behind
from torchrecorder.capture.tensors.entries import Entry
from torchrecorder.capture.tensors.tensor_table import Values
from torchrecorder.events import OpId, ValueId


class SharedValues(Values):
    """The value of each living tensor of all recorded threads; *main* is that of the first."""

    def __init__(self, tape: Tape, main: Values | None = None) -> None:
        super().__init__(tape, main)
        shared = main if isinstance(main, SharedValues) else None
        self.family: dict[int, Values] = {} if shared is None else shared.family
        self.family[tape.number] = self
        self.lock: AbstractContextManager[Any] = threading.RLock() if not shared else shared.lock

    def read(self, tensor: Tensor) -> ValueId:
        """The current value of *tensor*, after taking over the grad nodes behind it."""
        with self.lock:
            entry = self.entries.get(id(tensor))
            if entry is not None:
                home = home_of(entry.value)
                node = None if home == self.tape.number else node_behind(tensor)
                if node is not None:
                    self.autograd.adopt(node, self.family[home].autograd)
            return super().read(tensor)

    def note(self, *args: Any, **kwargs: Any) -> ValueId:
        """Add a tensor as a new value."""
        with self.lock:
            return super().note(*args, **kwargs)

    def wrote(self, tensor: Tensor, entry: Entry, op: OpId) -> ValueId:
        """*op* wrote *tensor* in place."""
        with self.lock:
            return super().wrote(tensor, entry, op)
