"""What instruments state while a model runs."""

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
    """A module object; stated once, before its first call or at the end of the run."""

    module: ModuleId
    names: tuple[str, ...]  # dotted paths from the recorded root; "" is the root itself
    cls: str
    qualname: str
    detail: str  # extra_repr(), on one line
    parameters: tuple[Slot, ...]  # its own, not those of its children
    buffers: tuple[Slot, ...]
    training: bool


class ValueSeen(NamedTuple):
    """A tensor was met for the first time, or written since it was last met."""

    value: ValueId
    shape: tuple[int, ...]
    dtype: str  # "float32"
    device: str  # "cpu", "cuda:0", "meta"
    role: Role  # CONSTANT may turn out to be an INPUT: build decides
    names: tuple[str, ...]  # dotted names of a parameter or buffer
    producer: OpId | None
    requires_grad: bool
    grad: GradEdge | None  # the grad node behind it
    bytes: int
    kind: str  # "Tensor", "Parameter", the subclass, or the layout where it is not strided
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
    writes: tuple[ValueId, ...]  # those of the outputs that were written in place
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
    path: str  # dotted path from the recorded root, as far as there is one
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
    """A scope ends, and what went in and out of it."""

    scope: ScopeId
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    seconds: float | None
    failed: bool


class GradNodeFound(NamedTuple):
    """A node of the autograd graph, and the nodes its gradients go to."""

    grad: GradId
    name: str  # "AddmmBackward0"
    owner: OpId | None
    scope: ScopeId | None
    next: tuple[GradEdge | None, ...]
    variable: ValueId | None  # the leaf an AccumulateGrad adds to


class Gradient(NamedTuple):
    """The form of a gradient as it flowed."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    bytes: int


class BackwardRan(NamedTuple):
    """A call of ``backward()`` or ``grad()``: one run through the autograd graph."""

    run: int  # counted from 0
    op: OpId  # the call
    seconds: float | None
    create_graph: bool  # what it does can itself be differentiated
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
    """A grad node was made by another one that ran: it belongs to a double backward."""

    grad: GradId
    by: GradId


BYTES_SAVED, BYTES_PEAK = "saved bytes", "peak bytes"
BYTES_OF_GRADIENT = "gradient bytes"
FLOPS_FORWARD, FLOPS_BACKWARD = "flops", "backward flops"
SECONDS_ON_DEVICE = "device seconds"


class Measured(NamedTuple):
    """An amount that only the run can tell; several for one place add up."""

    quantity: str  # one of those above, or an instrument's own
    node: str  # id of a scope, op, value or grad node
    amount: float


class Statistics(NamedTuple):
    """What the numbers in a tensor were like; NaN and infinities count, and are in the norm."""

    node: str  # the value; or the grad node that was given this gradient
    index: int  # type: ignore[assignment]  # which output of the grad node's forward; else 0
    run: int  # for a gradient: in which backward run; else -1
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
"""What a profiler measures."""


class Allocation(NamedTuple):
    """Memory of tensors, from when it was allocated until it was released.

    Attributes:
        storage: Values with this number have it.
        bytes: Its size.
        made_in: The op, grad node or scope that ran when it was allocated; empty for what there
            was before the run.
        begin: When: allocations and releases of the run are counted from 1; 0 before the run.
        freed_in: The op, grad node or scope that ran last when it was released; else empty.
        end: When it was released; None if it outlived the run.
        role: ``"parameter"``, ``"buffer"`` or ``"gradient"`` of the model, else empty.
        leaf: Of a gradient of the model, the storage of what it is the gradient of; else -1.
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
    """An instrument could not state a fact; the run went on."""

    instrument: str
    where: str
    error: str


class RunDone(NamedTuple):
    """The last event: facts about the whole run."""

    name: str
    torch_version: str
    grad_mode: str  # "grad", "no_grad", "inference_mode"
    notes: tuple[str, ...]  # what looking changed, such as a fast path not taken
    seconds: float | None = None  # wall-clock time of the block, the recorder's own left out
    overhead: float | None = None  # the recorder's own time in it
    rank: Rank | None = None  # where the process was one of several
