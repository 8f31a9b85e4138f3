"""Events of a run."""

from __future__ import annotations

from typing import NamedTuple

from torchrecorder.events.processes import Rank
from torchrecorder.events.vocabulary import (
    FunctionId,
    GradEdge,
    GradId,
    ModuleId,
    OpId,
    OpKind,
    Role,
    ScopeId,
    ScopeKind,
    Slot,
    SourceLine,
    ValueId,
)


class ModuleSeen(NamedTuple):
    """A module object; written once, before its first call or at the end of the run."""

    module: ModuleId
    names: tuple[str, ...]  # dotted paths from the recorded root; "" is the root itself
    cls: str
    qualname: str
    detail: str  # extra_repr(), on one line
    parameters: tuple[Slot, ...]  # without those of its children
    buffers: tuple[Slot, ...]
    training: bool


class ValueSeen(NamedTuple):
    """A tensor was met for the first time, or written since it was last met."""

    value: ValueId
    shape: tuple[int, ...]
    dtype: str  # "float32"
    device: str  # "cpu", "cuda:0", "meta"
    role: Role  # build may change CONSTANT to INPUT
    names: tuple[str, ...]  # dotted names of a parameter or buffer
    producer: OpId | None
    requires_grad: bool
    grad: GradEdge | None  # the grad node behind it
    bytes: int
    kind: str  # "Tensor", "Parameter", the subclass, or a layout other than strided
    trainable: bool = False  # a parameter that requires grad
    storage: int = -1  # equal numbers share memory; -1 where the tensor has no storage


class OpCalled(NamedTuple):
    """A torch function ran."""

    op: OpId
    scope: ScopeId | None
    index: int  # type: ignore[assignment]  # position among scopes and ops of the run
    kind: OpKind
    name: str  # "linear"
    qualname: str  # "torch.nn.functional.linear"
    inputs: tuple[Slot, ...]  # one per tensor argument, in order: x * x has two
    outputs: tuple[ValueId, ...]
    writes: tuple[ValueId, ...]  # the outputs that were written in place
    arguments: tuple[tuple[str, str], ...]  # the other arguments, as short text
    source: SourceLine | None
    seconds: float | None
    recompute: bool = False


class ScopeEntered(NamedTuple):
    """A module, function or region begins."""

    scope: ScopeId
    parent: ScopeId | None
    index: int  # type: ignore[assignment]
    kind: ScopeKind
    name: str  # last piece of the path, or the class or function name
    path: str  # dotted path from the recorded root
    cls: str  # "Conv2d"; for regions, what identifies them
    module: ModuleId | None
    call: int  # 0 for the first call of this module
    source: SourceLine | None
    recompute: bool = False


class FunctionCall(NamedTuple):
    """A Python function was called between a module, or the block, and what ran in it.

    Attributes:
        parent: The call around it; None if that is the module's own ``forward``.
        scope: The module call or region in which it began.
        name: Qualified, ``"RoIHeads.postprocess_detections"``; up to Python 3.10 without class.
        file: Where it is defined.
        line: Its first line there.
        source: The line that called it.
        ops: What ran directly in it.
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


class ScopeLeft(NamedTuple):
    """A scope ends; its inputs and outputs."""

    scope: ScopeId
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    seconds: float | None
    failed: bool


class GradNodeFound(NamedTuple):
    """A node of the autograd graph, and the next nodes."""

    grad: GradId
    name: str  # "AddmmBackward0"
    owner: OpId | None
    scope: ScopeId | None
    next: tuple[GradEdge | None, ...]
    variable: ValueId | None  # the leaf an AccumulateGrad adds to


class Gradient(NamedTuple):
    """Shape, dtype and size of a gradient."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    bytes: int


class BackwardRan(NamedTuple):
    """A call of ``backward()`` or ``grad()``: one run through the autograd graph."""

    run: int  # counted from 0
    op: OpId  # the call
    seconds: float | None
    create_graph: bool  # create_graph=True
    failed: bool


class GradNodeRan(NamedTuple):
    """A node of the autograd graph ran."""

    grad: GradId
    run: int
    order: int  # position among the nodes of that run
    seconds: float | None
    given: tuple[Gradient | None, ...]  # one per output of the forward
    gave: tuple[Gradient | None, ...]  # one per input of the forward
    failed: bool


class GradNodeMade(NamedTuple):
    """A grad node was created while another one ran: it belongs to a double backward."""

    grad: GradId
    by: GradId


BYTES_SAVED, BYTES_PEAK = "saved bytes", "peak bytes"
BYTES_OF_GRADIENT = "gradient bytes"
FLOPS_FORWARD, FLOPS_BACKWARD = "flops", "backward flops"
SECONDS_ON_DEVICE = "device seconds"


class Measured(NamedTuple):
    """A measured amount; several of one node add up."""

    quantity: str  # one of those above, or an instrument's own
    node: str  # id of a scope, op, value or grad node
    amount: float


class Statistics(NamedTuple):
    """Statistics of the numbers in a tensor; the norm includes NaN and infinities."""

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
    """Memory of tensors, from when it was allocated until it was released.

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


class RunFailed(NamedTuple):
    """The user's code raised."""

    error: str  # the exception's class name
    message: str
    scope: ScopeId | None
    op: OpId | None
    backward: bool
    grad: GradId | None = None  # the grad node that was running


class Lost(NamedTuple):
    """An instrument failed to record something; the run went on."""

    instrument: str
    where: str
    error: str


class RunDone(NamedTuple):
    """The last event: facts about the whole run."""

    name: str
    torch_version: str
    grad_mode: str  # "grad", "no_grad", "inference_mode"
    notes: tuple[str, ...]  # effects of recording, such as a fast path not taken
    seconds: float | None = None  # wall-clock time of the block, without that of the recorder
    overhead: float | None = None  # time of the recorder
    rank: Rank | None = None  # in a distributed run
