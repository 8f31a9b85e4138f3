"""Scripts: which TorchScript modules can be looked into, and the errors they raise.

The interpreter calls operators through the dispatcher, where they can be heard. Kernels that
it fuses or forks work past it, and fill memory that others have seen made: a module in which
there may be some is not looked into.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.nn import Parameter

from torchrecorder.capture.state.restore import unheard
from torchrecorder.capture.internals.access import FakeTensor, fuses

FORK = "prim::fork"
"""Starts a task in another thread, whose grad nodes have numbers of their own."""

_PLAIN = (Tensor, Parameter, FakeTensor)
_PAST_DISPATCH = ("MKLDNN", FORK, "Fusion", "TensorExpr", "StaticSubgraph")


def graph_of(module: Any) -> str:
    """What scripted *module* is compiled from, as text; empty if it has no forward of its own."""
    try:
        with unheard():  # it prints the numbers in its constants
            return str(module.inlined_graph)
    except (AttributeError, RuntimeError):
        return ""


def shows_inside(module: Any, graph: str, inputs: Iterable[Tensor]) -> bool:
    """Whether all that scripted *module* does with these *inputs* goes through the dispatcher."""
    tensors = [*inputs, *module.parameters(), *module.buffers()]
    if any(type(tensor) not in _PLAIN for tensor in tensors):  # what it gives will be wrapped again
        return False
    devices = {tensor.device.type for tensor in tensors}
    if any(fuses(device) for device in devices):
        return False
    return bool(graph) and not any(word in graph for word in _PAST_DISPATCH)


def restore_message(error: BaseException, raised: str) -> None:
    """Put the words of what an operator raised back into the interpreter's *error*.

    The interpreter ends its message with them, but has none for what comes through Python.
    """
    text = error.args[0] if error.args else None
    if isinstance(text, str) and text.endswith("\nRuntimeError: \n"):
        error.args = (f"{text[:-1]}{raised}\n", *error.args[1:])
