"""The facts a run can state: plain, frozen, and free of torch.

Instruments write events, `build` turns them into a recording. The ids and the closed
vocabularies (kinds and roles) are shared with the recording, so they live here too.
Events are named tuples: as frozen as dataclasses, and the cheapest to make.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, NewType, Union

ScopeId = NewType("ScopeId", str)
"""One call of a module, function or region: ``"s0"``, ``"s1"`` ... in run order."""
OpId = NewType("OpId", str)
"""One call of a torch function: ``"o0"`` ... in run order."""
ValueId = NewType("ValueId", str)
"""One tensor as it flowed: ``"v0"`` ... in run order."""
GradId = NewType("GradId", str)
"""One node of the autograd graph: ``"g0"`` ... in the order they were found."""
ModuleId = NewType("ModuleId", str)
"""One module object: ``"m0"`` ... in the order of ``named_modules()``."""

NodeId = Union[OpId, ValueId, GradId]


class ScopeKind(str, Enum):
    """What a scope is a call of."""

    MODULE = "module"
    FUNCTION = "function"
    NO_GRAD = "no_grad"
    ENABLE_GRAD = "enable_grad"
    INFERENCE_MODE = "inference_mode"
    AUTOCAST = "autocast"
    CHECKPOINT = "checkpoint"
    CUSTOM_FUNCTION = "autograd.Function"
    COMPILED = "compiled"
    SCRIPTED = "scripted"
    OPTIMIZER = "optimizer"
    CLIPPING = "clipping"
    SCALER = "scaler"


MODES = (
    ScopeKind.NO_GRAD, ScopeKind.ENABLE_GRAD, ScopeKind.INFERENCE_MODE, ScopeKind.AUTOCAST
)
"""Regions that only say how what runs in them runs; where nothing does, they say nothing."""

TRAINING = (ScopeKind.OPTIMIZER, ScopeKind.CLIPPING, ScopeKind.SCALER)
"""Regions of a training step beside the model: what happens to gradients and weights."""


class OpKind(str, Enum):
    """How we know of an op."""

    CALLED = "called"
    """An instrument heard the call."""
    HIDDEN = "hidden"
    """Only autograd, or only the edge of a scope, shows that it ran."""
    PASS = "pass"
    """Nothing ran: a scope handed on one of its inputs untouched."""


class Role(str, Enum):
    """What a value is to the run."""

    INPUT = "input"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"
    """A tensor that existed before the run and is none of the above."""
    INNER = "inner"


STORED = (Role.PARAMETER, Role.BUFFER)
"""The roles of what modules have; values of other roles are handed in or made."""

made = tuple.__new__
"""``made(Slot, (name, value))`` is ``Slot(name, value)`` in half the time, for hot paths."""


class Slot(NamedTuple):
    """A named place in the arguments or results of a call, and the value in it."""

    name: str
    value: ValueId


class SourceLine(NamedTuple):
    """The line of the user's code that made a call."""

    file: str
    line: int
    function: str


class GradEdge(NamedTuple):
    """Output number *index* of a grad node's forward, as autograd counts them."""

    grad: GradId
    index: int  # type: ignore[assignment]


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


class Group(NamedTuple):
    """A process group that this process is a member of."""

    name: str  # what PyTorch calls it
    ranks: tuple[int, ...]  # its members, by their rank among all processes
    purpose: str  # what it says that it is for, "mesh_tp"; empty if nothing
    backend: str  # what it sends by, "gloo", "nccl", "fake"


class Mesh(NamedTuple):
    """A mesh of processes, and the place of this process in it."""

    names: tuple[str, ...]  # of its dimensions, ("dp", "tp")
    shape: tuple[int, ...]
    place: tuple[int, ...]  # empty for a process that is not in it

    def __str__(self) -> str:
        return ", ".join(f"{name}={size}" for name, size in zip(self.names, self.shape))


class Rank(NamedTuple):
    """The process that was recorded, among those it worked with.

    Attributes:
        rank: Its number, counted from 0.
        world: How many there were.
        host: The name of the machine; empty in files without times.
        groups: That of all processes, and those it sent something in.
    """

    rank: int
    world: int
    host: str
    groups: tuple[Group, ...]
    meshes: tuple[Mesh, ...]  # that its tensors lay over


class Shard(NamedTuple):
    """The part of a tensor that this process had, where others had others.

    Attributes:
        mesh: Over which processes it lay, ``"dp=2, tp=4"``.
        placements: How, along each dimension of the mesh: ``"Shard(0)"``, ``"Replicate()"``.
        shape: The sizes of the part.
        bytes: The size of the part.
    """

    value: ValueId
    mesh: str
    placements: tuple[str, ...]
    shape: tuple[int, ...]
    bytes: int


class Communication(NamedTuple):
    """A collective, a send or a receive, as this process ran it.

    Attributes:
        name: ``"all_reduce"``, ``"reduce_scatter"``, ``"broadcast"``, ``"send"`` ...
        reduction: How numbers are put together, ``"sum"``, if they are.
        group: Its name.
        order: Its number in the group; of a send, among those with this peer and tag.
        peer: The rank it went to, came from, or started at as the root; -1 if there is none.
        tag: What tells messages apart; -1 for a collective.
        given: Bytes that went in.
        received: Bytes that came out.
        scope: The scope it ran in; in backward, that whose forward made the grad node.
        op: The op that sent; None in backward.
        grad: The grad node that was running.
        seconds: From the call until it was done; None where that is not heard.
        blocked_seconds: How long the program waited for it; None where that is not heard.
        waited_seconds: How long for the rank that came *last*, where ranks were put together.
    """

    name: str
    reduction: str
    group: str
    order: int
    peer: int
    tag: int
    given: int
    received: int
    scope: ScopeId | None
    op: OpId | None
    grad: GradId | None
    backward: bool  # a backward pass was running
    seconds: float | None
    blocked_seconds: float | None
    waited_seconds: float | None = None
    last: int = -1


SECONDS_ON_CPU, SECONDS_OF_KERNELS = "profiled seconds", "kernel seconds"
KERNELS, SECONDS_OF_GAPS = "kernels", "launch gap seconds"
BYTES_ALLOCATED, BYTES_FREED = "allocated bytes", "freed bytes"
FLOPS_PROFILED = "profiled flops"
"""What a profiler measures."""

COMPILED_GRAPH = "compiled graph"
"""The number of the graph that an op is in; 0 where it ran in Python between two graphs."""


class CompiledGraph(NamedTuple):
    """One graph that ``torch.compile`` made of the model.

    Attributes:
        number: Which one, counted from 1, in the order in which they were compiled.
        source: The line of its first call, in the function that was compiled.
        calls: How many calls of functions and methods it has.
        unmatched: The names of those that are no recorded op.
        guards: How many conditions are checked before it is used; None where PyTorch does not
            tell.
        runs: How often it ran.
        recompiled: The same function had been compiled before, and its guards did not hold.
    """

    number: int
    source: SourceLine | None
    calls: int
    unmatched: tuple[str, ...]
    guards: int | None
    runs: int
    recompiled: bool


class GraphBreak(NamedTuple):
    """A place where ``torch.compile`` ends a graph and goes on in Python.

    Attributes:
        graph: The number of the graph that ends here.
        reason: What PyTorch says, in short.
        explanation: What it says in full.
        hints: What it says can be done.
        link: Where it says more.
        source: The user's line.
        op: The op at which it is; None where it is at no op, as a call of ``print``.
        scope: The scope it is in.
    """

    graph: int
    reason: str
    explanation: str
    hints: tuple[str, ...]
    link: str
    source: SourceLine | None
    op: OpId | None
    scope: ScopeId | None


FUSED_KERNEL = "fused kernel"
"""The number of the first of the compiled kernels that compute an op."""


class FusedKernel(NamedTuple):
    """A kernel that Inductor made of one or more ops, or a call of a library for one.

    Attributes:
        number: Which one, counted from 1, in the order in which they were compiled.
        graph: The number of the graph that it is in.
        name: What it is called in the generated code.
        ops: What it computes; an op can be in several.
        code: The file of the generated code, below the folder of Inductor's cache.
    """

    number: int
    graph: int
    name: str
    ops: tuple[OpId, ...]
    code: str


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


Event = Union[
    ModuleSeen,
    ValueSeen,
    OpCalled,
    ScopeEntered,
    ScopeLeft,
    GradNodeFound,
    BackwardRan,
    GradNodeRan,
    GradNodeMade,
    Measured,
    Statistics,
    Shard,
    Communication,
    CompiledGraph,
    GraphBreak,
    FusedKernel,
    Allocation,
    RunFailed,
    Lost,
    RunDone,
]
