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


MODES = (
    ScopeKind.NO_GRAD, ScopeKind.ENABLE_GRAD, ScopeKind.INFERENCE_MODE, ScopeKind.AUTOCAST
)
"""Regions that only say how what runs in them runs; where nothing does, they say nothing."""


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


class RankGroup(NamedTuple):
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
    groups: tuple[RankGroup, ...]
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
        grad: The grad node that was running; None at the end of a backward pass.
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
    RunFailed,
    Lost,
    RunDone,
]
