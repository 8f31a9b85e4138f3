"""Memory: the memory of tensors over the time of a run, its peak, and the tensors in it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from torchrecorder.annotations import unmeasured
from torchrecorder.annotations.amounts import of_bytes
from torchrecorder.annotations.memory import PEAK_BYTES
from torchrecorder.annotations.places import op_in_words, op_name, scope_name
from torchrecorder.checks import takes, whole_number
from torchrecorder.console import encodable
from torchrecorder.errors import InvalidArgument, UnknownAnnotation
from torchrecorder.events import (
    GRAD_SUFFIX, STORED, Allocation, GradId, OpId, Role, ScopeId, ScopeKind,
)
from torchrecorder.export.area_chart import AreaChart, Phase
from torchrecorder.export.chart_files import write_chart
from torchrecorder.export.table.alignment import Column, table
from torchrecorder.graph.nodes import Value
from torchrecorder.graph.recording import RecordedRun

KINDS = {
    "parameters": "#0072b2",
    "buffers": "#b0589a",
    "optimizer": "#7a6fc0",
    "gradients": "#56b4e9",
    "inputs": "#009e73",
    "others": "#9aa1ab",
    "activations": "#e08a3c",
    "backward": "#e3c53f",
}
"""Kinds of memory with their colors, the longest-lived first: parameters and buffers; state and
temporaries of the optimizer; gradients of parameters; inputs; other tensors from before the run;
tensors created in forward; tensors created in backward, except gradients of parameters."""


class Moment(NamedTuple):
    """One allocation or release of memory.

    Attributes:
        node: The op, grad node or scope that ran; empty for the state before the run.
        place: The node in words.
        change: Bytes that were allocated, or released if negative.
        live: Bytes in use afterwards.
        phase: ``"forward"``, ``"backward"`` or ``"optimizer"``.
    """

    node: str
    place: str
    change: int
    live: int
    phase: str


class Held(NamedTuple):
    """Memory that is in use at some moment.

    Attributes:
        bytes: Its size.
        name: The name of the tensor, or of the op that computed it.
        kind: One of `KINDS`.
        shape: The shape of the first tensor in this memory; empty if none was recorded.
        made_in: Id of the op, grad node or scope that ran when it was allocated.
        freed_in: Id of the one that ran when it was released; empty if it outlived the run.
    """

    bytes: int
    name: str
    kind: str
    shape: tuple[int, ...]
    made_in: str
    freed_in: str


class Memory:
    """The memory of all tensors of a run, over time; ``print(memory)`` shows the peak.

    Args:
        recording: A run that was recorded with ``memory=True``.

    Attributes:
        moments: Every change, in order; the first is the state before the run.
        peak: The most bytes that were in use at once.
        peak_at: The index of the moment with the peak.

    Raises:
        UnknownAnnotation: On any access, if the run was recorded without ``memory=True``.

    Example:
        >>> import torch, torchrecorder
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
        >>> recording = torchrecorder.record(model, torch.ones(2, 4), memory=True)
        >>> recording.memory.peak  # 160 bytes of weights, 32 of input, two results of 64
        320
        >>> [(item.name, item.bytes, item.freed_in) for item in recording.memory.held(n=2)]
        [('0.weight', 128, ''), ('0: linear', 64, 'o1')]
    """

    def __init__(self, recording: RecordedRun) -> None:
        self._recording = recording
        self._passes = {run.op for run in recording.backward_runs}
        self._grads = {
            value.storage for value in recording.values.values() if value.producer in self._passes
        }
        self._optimizers = {
            scope.id for scope in recording.scopes.values() if scope.kind is ScopeKind.OPTIMIZER
        }

    def __repr__(self) -> str:
        if not self._recording.allocations:
            return f"<Memory of {self._recording.name}: not recorded>"
        return f"<Memory of {self._recording.name}: peak {of_bytes(self.peak)} {self._where}>"

    def __str__(self) -> str:
        kinds = [f"{kind} {of_bytes(amount)}" for kind, amount in self.by_kind().items()]
        held = self.held(n=10)
        columns = [
            Column("Bytes", [of_bytes(item.bytes) for item in held], right=True),
            Column("Tensor", [item.name for item in held]),
            Column("Shape", ["×".join(map(str, item.shape)) for item in held]),
            Column("Kind", [item.kind for item in held]),
            Column("Released in", [self._place(item.freed_in) for item in held]),
        ]
        head = f"Peak {of_bytes(self.peak)} {self._where}: {', '.join(kinds)}"
        return encodable("\n".join([head, "", *table(columns)]))

    @property
    def _where(self) -> str:
        found = self.moments[self.peak_at]
        return f"in {found.place}" if found.node else "before the run"

    @property
    def _allocations(self) -> tuple[Allocation, ...]:
        found = self._recording.allocations
        if not found:
            raise UnknownAnnotation(unmeasured(self._recording, PEAK_BYTES))
        return found

    # Numbers --------------------------------------------------------------------------

    @cached_property
    def moments(self) -> tuple[Moment, ...]:
        """Every change, in order; the first is the state before the run."""
        changes: dict[int, tuple[str, int]] = {}
        start = 0
        for allocation in self._allocations:
            if allocation.begin:
                changes[allocation.begin] = allocation.made_in, allocation.bytes
            else:
                start += allocation.bytes
            if allocation.end is not None:
                changes[allocation.end] = allocation.freed_in, -allocation.bytes
        found = [Moment("", "", start, start, "forward")]
        for _, (node, change) in sorted(changes.items()):
            live = found[-1].live + change
            phase = self._phase(node) or found[-1].phase
            found.append(Moment(node, self._place(node), change, live, phase))
        return tuple(found)

    @cached_property
    def peak_at(self) -> int:
        """The index of the moment with the most bytes in use; the first of several."""
        return max(range(len(self.moments)), key=lambda at: (self.moments[at].live, -at))

    @property
    def peak(self) -> int:
        """The most bytes that were in use at once."""
        return self.moments[self.peak_at].live

    @takes(at=whole_number(0).or_none(), n=whole_number(0).or_none())
    def held(self, at: int | None = None, n: int | None = None) -> list[Held]:
        """The memory in use at a moment, the largest blocks first.

        Args:
            at: The index of the moment; the peak if not given.
            n: The maximum number that is listed; by default all.

        Raises:
            InvalidArgument: There is no such moment.
        """
        found = [self._held(item) for item in self._at(at)]
        return sorted(found, key=lambda item: -item.bytes)[:n]

    @takes(at=whole_number(0).or_none())
    def by_kind(self, at: int | None = None) -> dict[str, int]:
        """Bytes in use at a moment, by kind; the peak if it is not given.

        The kinds are ``parameters``, ``buffers``, ``optimizer`` (its state and temporaries),
        ``gradients`` (of parameters), ``inputs``, ``others`` (from before the run),
        ``activations`` (created in forward) and ``backward`` (created in backward, except
        gradients of parameters).

        Raises:
            InvalidArgument: There is no such moment.
        """
        found = dict.fromkeys(KINDS, 0)
        for item in self._at(at):
            found[self._kind(item)] += item.bytes
        return {kind: amount for kind, amount in found.items() if amount}

    def table(self) -> list[dict[str, Any]]:
        """Every moment as a dict, ready for ``pandas.DataFrame``."""
        return [moment._asdict() for moment in self.moments]

    def _at(self, at: int | None) -> Iterator[Allocation]:
        last = len(self._times) - 1
        if at is not None and at > last:
            raise InvalidArgument(f"at must be one of the moments 0 to {last}, not {at}")
        number = self._times[self.peak_at if at is None else at]
        for allocation in self._allocations:
            if allocation.begin <= number and (allocation.end is None or allocation.end > number):
                yield allocation

    @cached_property
    def _times(self) -> list[int]:
        """The time of each moment, as counted in the recording."""
        times = {0}
        for allocation in self._allocations:
            times.update(time for time in (allocation.begin, allocation.end) if time is not None)
        return sorted(times)

    # Which tensor -----------------------------------------------------------------------

    @cached_property
    def _values(self) -> Mapping[int, Value]:
        """For each storage number, the parameter or buffer in the storage, or the first value."""
        found: dict[int, Value] = {}
        for value in self._recording.values.values():
            first = found.setdefault(value.storage, value)
            if value.role in STORED and first.role not in STORED:
                found[value.storage] = value
        return found

    def _kind(self, allocation: Allocation) -> str:
        value = self._values.get(allocation.storage)
        role = value.role if value is not None else None
        if allocation.role == "parameter" or role is Role.PARAMETER:
            return "parameters"
        if allocation.role == "buffer" or role is Role.BUFFER:
            return "buffers"
        if allocation.role == "gradient" or allocation.storage in self._grads:
            return "gradients"
        if not allocation.begin:
            if role is Role.INPUT:
                return "inputs"
            return "optimizer" if allocation.storage in self._stepped else "others"
        phase = self._phase(allocation.made_in)
        return {"backward": "backward", "optimizer": "optimizer"}.get(phase or "", "activations")

    @cached_property
    def _stepped(self) -> set[int]:
        """Storages that only an optimizer reads: its state."""
        found: dict[int, bool] = {}
        for op in self._recording.ops.values():
            inside = self._phase(op.id) == "optimizer"
            for slot in op.inputs:
                storage = self._recording.values[slot.value].storage
                found[storage] = found.get(storage, True) and inside
        return {storage for storage, inside in found.items() if inside}

    def _held(self, allocation: Allocation) -> Held:
        value = self._values.get(allocation.storage)
        kind = self._kind(allocation)
        name = ""
        if value is not None and (value.producer is None or value.role in STORED):
            name = value.names[0] if value.names else ""
        if not name and kind == "gradients":
            known = filter(None, (self._values.get(allocation.leaf), value))
            leaf = next((item.names[0] for item in known if item.names), "")
            name = f"gradient of {leaf.removesuffix(GRAD_SUFFIX)}" if leaf else "gradient"
        name = name or self._maker(allocation.made_in) or kind
        shape = value.shape if value is not None else ()
        return Held(allocation.bytes, name, kind, shape, allocation.made_in, allocation.freed_in)

    def _maker(self, node: str) -> str:
        """A short name of an op, grad node or scope."""
        recording = self._recording
        if node in recording.ops:
            return op_name(recording, recording.ops[OpId(node)])
        if node in recording.grad_nodes:
            return op_name(recording, recording.grad_nodes[GradId(node)])
        return scope_name(recording, ScopeId(node)) if node else ""

    def _place(self, node: str) -> str:
        if node in self._recording.ops:
            return op_in_words(self._recording, OpId(node))
        return self._maker(node)

    def _phase(self, node: str) -> str | None:
        """The phase of the run in which a node runs; None for no node."""
        recording = self._recording
        if node in recording.grad_nodes:
            return "backward"
        if node in recording.ops:
            op = recording.ops[OpId(node)]
            if op.id in self._passes:
                return "backward"
            scope = op.scope
        elif node in recording.scopes:
            scope = ScopeId(node)
        else:
            return None
        stepping = any(outer in self._optimizers for outer in recording.within(scope))
        return "optimizer" if stepping else "forward"

    # Drawing --------------------------------------------------------------------------

    def plot(self, path: str | Path) -> Path:
        """Write a chart of the bytes in use over time, by kind, as SVG, PDF, PNG or a page.

        Raises:
            UnknownFormat: The suffix of *path* is none of these.
        """
        return write_chart(self._chart(), path)

    def _repr_html_(self) -> str | None:
        """The chart, in a notebook."""
        return self._chart() if self._recording.allocations else None

    def _chart(self) -> str:
        title = f"Memory of tensors in {self._recording.name}"
        text = f"peak {of_bytes(self.peak)} {self._where}"
        across = "allocations and releases, in order"
        return AreaChart(
            title, across, self._columns(), KINDS, self._phases(), self.peak_at, text, of_bytes
        ).svg()

    def _columns(self) -> list[list[int]]:
        """The bytes of each kind, at each moment."""
        places = {time: at for at, time in enumerate(self._times)}
        changes = [[0] * len(KINDS) for _ in places]
        kinds = {kind: number for number, kind in enumerate(KINDS)}
        for allocation in self._allocations:
            number = kinds[self._kind(allocation)]
            changes[places[allocation.begin]][number] += allocation.bytes
            if allocation.end is not None:
                changes[places[allocation.end]][number] -= allocation.bytes
        columns = zip(*(itertools.accumulate(kind) for kind in zip(*changes)))
        return [list(column) for column in columns]

    def _phases(self) -> list[Phase]:
        names = [moment.phase for moment in self.moments]
        return [Phase(at, name) for at, name in enumerate(names) if not at or names[at - 1] != name]
