"""Ids, enumerations and classes that events and recordings share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, NewType, Union

ScopeId = NewType("ScopeId", str)
"""One call of a module, function or region: ``"s0"``, ``"s1"`` ... in run order."""
OpId = NewType("OpId", str)
"""One call of a torch function: ``"o0"`` ... in run order."""
ValueId = NewType("ValueId", str)
"""One tensor between two writes: ``"v0"`` ... in run order."""
GradId = NewType("GradId", str)
"""One node of the autograd graph: ``"g0"`` ... in the order they were found."""
ModuleId = NewType("ModuleId", str)
"""One module object: ``"m0"`` ... in the order of ``named_modules()``."""
FunctionId = NewType("FunctionId", str)
"""One call of a Python function: ``"f0"``, ``"f1"`` ... in the order of their first calls."""

NodeId = Union[OpId, ValueId, GradId]

UNFINISHED = "Unfinished"
"""The error of a recording that was saved before the end of its run."""


class ScopeKind(str, Enum):
    """The kind of call or region that a scope is."""

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
    ZEROING = "zeroing"
    AVERAGING = "averaging"
    CONSTRUCTION = "construction"
    TRANSFER = "transfer"
    SCALER = "scaler"
    DATA_LOADER = "data loader"
    PIPELINE_SETUP = "pipeline setup"
    PIPELINE_BACKWARD = "pipeline backward"
    SHARDING = "sharding"


CALLED = (ScopeKind.MODULE, ScopeKind.FUNCTION)
"""Scopes that are calls of modules or functions, not regions of code."""

CONVERTED = (ScopeKind.COMPILED, ScopeKind.SCRIPTED)
"""Calls of modules that ``torch.compile`` or TorchScript has made from others."""

MODES = (ScopeKind.NO_GRAD, ScopeKind.ENABLE_GRAD, ScopeKind.INFERENCE_MODE, ScopeKind.AUTOCAST)
"""Regions that set a mode for the ops in them; empty ones are not shown."""

TRANSPARENT = (*MODES, ScopeKind.OPTIMIZER)
"""Regions in which the program itself calls modules, such as the closure of an optimizer step."""

HOOK_REGISTRATIONS = frozenset(("BackwardHookFunction", "RegisterPostBackwardFunction"))
"""The custom functions by which PyTorch calls the full backward hooks of a module, and FSDP a hook
when the backward pass of a module has ended. They return views of inputs or outputs of the module.
"""

FUNCTION = "function"
"""The class of scopes that are calls of Python functions."""

SUM = "sum"
"""The class of scopes for running sums of Python, such as ``sum(losses)``."""

OF_WEIGHTS = (ScopeKind.CONSTRUCTION, ScopeKind.TRANSFER, ScopeKind.SHARDING)
"""Regions that create, move, copy, save, load, gather or free the weights of a model."""

TRAINING = (
    ScopeKind.OPTIMIZER,
    ScopeKind.CLIPPING,
    ScopeKind.ZEROING,
    ScopeKind.AVERAGING,
    *OF_WEIGHTS,
    ScopeKind.SCALER,
    ScopeKind.DATA_LOADER,
    ScopeKind.PIPELINE_BACKWARD,
)
"""Regions outside the model: they load batches, or create, gather or update weights and gradients.
"""


class OpKind(str, Enum):
    """The way in which an op was recorded."""

    CALLED = "called"
    """An instrument recorded the call."""
    HIDDEN = "hidden"
    """Inferred from autograd, or from the inputs and outputs of a scope."""
    PASS = "pass"
    """Nothing ran: a scope or function returned or assigned an input unchanged, or the recorder
    joins the values of several writes. There is no result, or it is a new value of old memory."""


class Role(str, Enum):
    """The role of a value in the run."""

    INPUT = "input"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"
    """A tensor that existed before the run and is none of the above."""
    INNER = "inner"


STORED = (Role.PARAMETER, Role.BUFFER)
"""The roles of values that belong to modules."""

GRAD_SUFFIX = ".grad"
"""The suffix of the names of gradients: ``"fc.weight.grad"``; during a run, ``"v4.grad"``."""


def names_gradient(names: Sequence[str]) -> bool:
    """Whether these *names* of a value or argument are those of a gradient."""
    return bool(names) and names[0].endswith(GRAD_SUFFIX)


NO_STORAGE = -1
"""The storage number of tensors without a storage."""

new_tuple = tuple.__new__
"""``new_tuple(Slot, (name, value))`` is ``Slot(name, value)`` in half the time."""


class Slot(NamedTuple):
    """A name in the arguments or results of a call, and its value."""

    name: str
    value: ValueId


class SourceLine(NamedTuple):
    """A line of the user's code that makes a call, or that raised an error."""

    file: str
    line: int
    function: str

    @property
    def place(self) -> str:
        """``"models/net.py:12"``."""
        return f"{self.file}:{self.line}"

    @property
    def file_line(self) -> str:
        """``"net.py:12"``, without the folder."""
        name = re.split(r"[/\\]", self.file)[-1]
        return f"{name}:{self.line}"


class GradEdge(NamedTuple):
    """A grad node, and an index into the outputs of its forward, as in ``next_functions``."""

    grad: GradId
    index: int  # type: ignore[assignment]
