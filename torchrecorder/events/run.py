"""Events that are no nodes of the graph of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from torchrecorder.events.vocabulary import (
    FunctionId, GradId, OpId, ScopeId, Slot, SourceLine, ValueId,
)

OF_CLASS = ("__call__", "__init__")
"""Functions that run when a class or one of its objects is called."""


class FunctionCall(NamedTuple):
    """A call of a Python function between a module, or the block, and the ops in it.

    Attributes:
        parent: The call around it; None if that is the module's own ``forward``.
        scope: The module call or region in which it began.
        name: Qualified, ``"RoIHeads.postprocess_detections"``; up to Python 3.10 without class.
            That of ``__call__`` and ``__init__`` has the class that is called, also if a base
            class or metaclass defines the method.
        file: The file of its definition.
        line: Its first line there.
        source: The line that called it.
        ops: The ops that ran directly in it.
        scopes: Calls of modules, and regions, that began directly in it.
    """

    id: FunctionId
    parent: FunctionId | None
    scope: ScopeId | None
    name: str
    file: str
    line: int
    source: SourceLine | None
    ops: tuple[OpId, ...]
    scopes: tuple[ScopeId, ...]

    @property
    def called(self) -> str:
        """The name of the function without its class; for ``__call__`` and ``__init__``, the name
        of the class or object."""
        around, _, last = self.name.rpartition(".")
        return around.rpartition(".")[2] or last if last in OF_CLASS else last


class GradSwitch(NamedTuple):
    """A change of ``requires_grad`` of a leaf tensor, while the run goes on.

    Attributes:
        value: The tensor.
        requires_grad: What it was set to.
        position: When: before the scope or op with this index.
        source: The user's line.
    """

    value: ValueId
    requires_grad: bool
    position: int
    source: SourceLine | None


class StillHeld(NamedTuple):
    """The tensors that exist at the end of a run that did not fail.

    Attributes:
        values: Their values, each with its place in the variables of the script, such as ``image``
            or ``losses.0``; empty if it has none there.
    """

    values: Mapping[ValueId, str]


class ParameterPart(NamedTuple):
    """A parameter in the memory of another one, such as a weight in a flat parameter of FSDP.

    Attributes:
        value: The parameter.
        whole: The larger parameter that holds its memory.
    """

    value: ValueId
    whole: ValueId


class ScopeLeft(NamedTuple):
    """The end of a scope, with its inputs and outputs; outputs are None if they are unknown."""

    scope: ScopeId
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...] | None
    seconds: float | None
    failed: bool


class Gradient(NamedTuple):
    """Shape, dtype and size of a gradient."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    bytes: int


class GradNodeMade(NamedTuple):
    """A grad node was created while another one ran: for double backward, or for a backward pass
    that the other node runs."""

    grad: GradId
    by: GradId


BYTES_SAVED, BYTES_PEAK = "saved bytes", "peak bytes"
BYTES_OF_GRADIENT = "gradient bytes"
FLOPS_FORWARD, FLOPS_BACKWARD = "flops", "backward flops"
SECONDS_ON_DEVICE = "device seconds"


class Measured(NamedTuple):
    """A measured amount; several amounts of one node are added."""

    quantity: str  # one of those above, or an instrument's own
    node: str  # id of a scope, op, value or grad node
    amount: float


class Statistics(NamedTuple):
    """Statistics of the elements of a tensor; the norm includes NaN and infinities."""

    node: str  # the value, or the grad node that received this gradient
    index: int  # type: ignore[assignment]  # which output of the grad node's forward; else 0
    run: int  # number of the backward run of a gradient; -1 for a value
    count: int  # type: ignore[assignment]
    mean: float
    std: float
    low: float
    high: float
    norm: float
    zeros: int
    nans: int
    infs: int


SECONDS_ON_CPU, SECONDS_OF_KERNELS = "profiled seconds", "kernel seconds"
KERNELS, SECONDS_OF_GAPS = "kernels", "launch gap seconds"
BYTES_ALLOCATED, BYTES_FREED = "allocated bytes", "freed bytes"
FLOPS_PROFILED = "profiled flops"
"""Quantities that a profiler measures."""


class Allocation(NamedTuple):
    """Memory of tensors, from its allocation to its release.

    Attributes:
        storage: The storage number of the values in it.
        bytes: Its size.
        made_in: The op, grad node or scope that ran when it was allocated; empty if allocated
            before the run.
        begin: When it was allocated, as a count of allocations and releases from 1; 0 before the
            run.
        freed_in: The op, grad node or scope that ran when it was released; empty if it was not.
        end: When it was released, by the same count; None if it outlived the run.
        role: ``"parameter"``, ``"buffer"`` or ``"gradient"`` of the model, otherwise empty.
        leaf: For a gradient of the model, the storage of its parameter; otherwise -1.
    """

    storage: int
    bytes: int
    made_in: str
    begin: int
    freed_in: str
    end: int | None
    role: str
    leaf: int


class Lost(NamedTuple):
    """An instrument failed to record something; the run went on."""

    instrument: str
    where: str
    error: str
