"""Scripts: which TorchScript modules can be recorded inside, and the errors they raise.

The interpreter calls operators through the dispatcher, where they can be recorded. Fused kernels
and forks bypass it: a module that may contain some is recorded as one op.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.nn import Parameter

from torchrecorder.capture.state.restore import without_modes
from torchrecorder.capture.internals.access import FakeTensor, fuses

FORK = "prim::fork"
"""Starts a task in another thread, which numbers grad nodes separately."""

_PLAIN = (Tensor, Parameter, FakeTensor)
_PAST_DISPATCH = ("MKLDNN", FORK, "Fusion", "TensorExpr", "StaticSubgraph")


def graph_of(module: Any) -> str:
    """The graph of a scripted *module* as text; empty if it has no forward."""
    try:
        with without_modes():  # printing it reads its constants
            return str(module.inlined_graph)
    except (AttributeError, RuntimeError):
        return ""


def shows_inside(module: Any, graph: str, inputs: Iterable[Tensor]) -> bool:
    """Whether all operators of scripted *module* on these *inputs* go through the dispatcher."""
    tensors = [*inputs, *module.parameters(), *module.buffers()]
    if any(type(tensor) not in _PLAIN for tensor in tensors):  # its outputs are wrapped again
        return False
    devices = {tensor.device.type for tensor in tensors}
    if any(fuses(device) for device in devices):
        return False
    return bool(graph) and not any(word in graph for word in _PAST_DISPATCH)


def restore_message(error: BaseException, raised: str) -> None:
    """Put the message of an operator's exception back into the interpreter's *error*.

    The interpreter appends it to its own message, but not for exceptions that pass through Python.
    """
    text = error.args[0] if error.args else None
    if isinstance(text, str) and text.endswith("\nRuntimeError: \n"):
        error.args = (f"{text[:-1]}{raised}\n", *error.args[1:])
