"""Ids, closed vocabularies, and the parts that events and recordings share."""

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
FunctionId = NewType("FunctionId", str)
"""One call of a Python function: ``"f0"``, ``"f1"`` ... in the order in which they were met."""

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

PLAIN_FUNCTION = "function"
"""The class of scopes that are calls of Python functions."""

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
