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
    RunFailed,
    Lost,
    RunDone,
]
