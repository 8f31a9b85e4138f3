"""FunctionInsides: what custom functions computed in code that is not recorded.

Such code reads tensors through NumPy arrays or addresses, and writes to memory that is left for it.
It has run if a result of the function comes from nothing that the function was given, as far as
the recorded ops tell, but autograd says that it does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from torchrecorder.capture.modes.op_schema import LEAVES_UNSET
from torchrecorder.capture.tape import Tape
from torchrecorder.events import OpId, ScopeId, ScopeLeft, ValueId
from torchrecorder.graph.nodes import Op, Scope

_MEMORY = LEAVES_UNSET - {"resize_", "resize_as_"} | {"new_zeros", "zeros", "zeros_like"}
"""Ops that make memory; of the tensors that they are given, they read the form only."""

_FROM_PYTHON = frozenset("as_tensor asarray from_dlpack from_numpy frombuffer tensor".split())
"""Ops that take their data from Python objects."""


class Unseen(NamedTuple):
    """What unseen code read to compute a result of a custom function.

    Attributes:
        read: The values that it read.
        taken_by: The ops that took its result from Python; none if it wrote to a tensor.
    """

    read: list[ValueId]
    taken_by: list[Op]


class FunctionInsides:
    """Finds what was recorded inside of the custom functions of a run."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape

    def last(self, name: str) -> FunctionInside | None:
        """The last call of the custom function with this name; None if nothing was recorded."""
        found = self.tape.last_functions.get(name)
        return None if found is None else FunctionInside(found[0], self._ops_inside(*found))

    def _ops_inside(self, function: ScopeId, place: int) -> list[Op]:
        """The ops in the scope of a function, which was opened at a *place* among the events."""
        inside, ops = {function}, dict[OpId, Op]()
        events = self.tape.events
        for event in map(events.__getitem__, range(place, len(events))):
            if isinstance(event, Scope):
                if event.parent in inside:
                    inside.add(event.id)
            elif isinstance(event, Op):
                if event.scope in inside:
                    ops[event.id] = event
            elif isinstance(event, ScopeLeft) and event.scope == function:
                break
        return [*ops.values()]


class FunctionInside:
    """The ops that were recorded inside one call of a custom function."""

    def __init__(self, scope: ScopeId, ops: Sequence[Op]) -> None:
        self.scope = scope
        self._makers = {value: op for op in ops for value in op.outputs}
        copied = dict.fromkeys(value for op in ops for value in op.writes)
        for slot in (slot for op in ops for slot in op.inputs):
            copied.pop(slot.value, None)
        handed_out = [slot.value for op in ops if not op.outputs for slot in op.inputs]
        self._taken = dict.fromkeys([*handed_out, *copied])

    def unseen(
        self,
        value: ValueId,
        given: Collection[ValueId],
        are_constants: Callable[[Collection[ValueId]], bool],
    ) -> Unseen | None:
        """What unseen code read to compute *value* from what the function was *given*.

        None if *value* was made outside, or is known to come from something besides memory, data
        of Python, and values that *are_constants*.
        """
        behind = self._behind([value])
        sources = behind.difference(self._makers)
        if value in sources or not behind.isdisjoint(given) or not are_constants(sources):
            return None
        makers = [self._makers[item] for item in behind.difference(sources)]
        takers = [op for op in makers if op.name in _FROM_PYTHON and not op.inputs]
        return Unseen(self.read_unseen(given, behind), takers)

    def read_unseen(
        self, given: Collection[ValueId], known: Collection[ValueId] = ()
    ) -> list[ValueId]:
        """What is handed to Python or copied for others to read, and what else is *given*.

        Without what is *known*, and memory that is only there to be written to.
        """
        found = [item for item in self._taken if item not in known and not self._is_memory(item)]
        behind = self._behind(found)
        return found + [value for value in given if value not in behind]

    def _is_memory(self, value: ValueId) -> bool:
        maker = self._makers.get(value)
        return maker is not None and maker.name in _MEMORY

    def _behind(self, values: Sequence[ValueId]) -> set[ValueId]:
        """*values*, and all that they were computed from."""
        found, waiting = set[ValueId](), [*values]
        while waiting:
            value = waiting.pop()
            maker = self._makers.get(value)
            if value not in found and maker is not None and not self._is_memory(value):
                waiting += [slot.value for slot in maker.inputs]
            found.add(value)
        return found
