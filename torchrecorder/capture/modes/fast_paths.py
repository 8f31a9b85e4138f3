"""FastPaths: keep the fused kernels that a function mode would disable.

In evaluation mode, ``nn.TransformerEncoder``, its layers and ``nn.MultiheadAttention`` use fused
kernels, but not under a function mode: the results would differ in their last bits. In such a
module, operators are recorded at the dispatcher instead. The same holds for a scripted module, in
which the TorchScript interpreter calls operators, and Python no torch functions. Fused groups and
forks bypass the dispatcher; a scripted module that may contain some is recorded as one op.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from torchrecorder.capture.internals.access import (
    FakeTensor, current_function_mode, dispatch_modes, fuses,
)  # fmt: skip
from torchrecorder.capture.modes.dispatch_mode import DispatchMode
from torchrecorder.capture.modes.function_mode import FunctionMode
from torchrecorder.capture.state.restore import without_modes
from torchrecorder.capture.tape import Tape

_FUSED = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)
_MODULES = (*_FUSED, torch.jit.ScriptModule)
NOTE = "fused kernels of nn.TransformerEncoder and nn.MultiheadAttention are shown as they ran"


class FastPaths:
    """Switches to `DispatchMode` in modules that a function mode would change, or cannot see."""

    def __init__(self, tape: Tape, function_mode: FunctionMode) -> None:
        self.tape = tape
        self.function_mode = function_mode
        self.mode: DispatchMode | None = None
        self.inside: int | None = None
        self._exit = contextlib.ExitStack()
        self._replaced = contextlib.ExitStack()  # enters the function mode again

    def enter(self, module: nn.Module, inputs: list[tuple[str, Tensor]]) -> None:
        """Switch to the dispatch mode if *module*, which begins, can take a fast path."""
        if not isinstance(module, _MODULES) or self.inside is not None:
            return
        self.restore()  # after an interruption
        tensors = [tensor for _, tensor in inputs]
        if isinstance(module, _FUSED):
            if _plausible(module, tensors) and current_function_mode() is self.function_mode:
                self._switch(module, alone=True)
                self.tape.notes.append(NOTE)
            return
        graph = graph_of(module)
        if shows_inside(module, graph, tensors):
            self._switch(module, detaches="aten::detach" in graph)
        elif FORK in graph:
            self.function_mode.calls.autograd.expect_foreign_nodes()

    def _switch(self, module: nn.Module, *, alone: bool = False, detaches: bool = False) -> None:
        """Enter the dispatch mode until `restore`; *alone*: without the function mode."""
        with contextlib.ExitStack() as stack:
            mode = stack.enter_context(DispatchMode(self.function_mode.calls, alone, detaches))
            if alone:
                self.function_mode.__exit__(None, None, None)
                self._replaced.callback(self.function_mode.__enter__)
            self._exit = stack.pop_all()
        self.mode, self.inside = mode, id(module)

    def leave(self, module: nn.Module, error: BaseException | None) -> None:
        """Exit the dispatch mode at the end of *module*, possibly with an *error*."""
        if self.inside == id(module):
            mode = self.restore()
            if error is None or mode is None:
                return
            if mode.interrupted:
                raise KeyboardInterrupt from None  # the interpreter has replaced it
            if mode.raised is not None:
                restore_message(error, mode.raised)
                self.tape.failed = id(error), type(error)  # the same error with another type

    def restore(self) -> DispatchMode | None:
        """Exit the dispatch mode, if it is active, and return it."""
        mode, self.mode, self.inside = self.mode, None, None
        self._replaced.close()
        self._exit.close()
        return mode

    def interrupt(self) -> None:
        """The module has ended unseen. If the dispatch mode shows this by an operator, which it is
        handling, it cannot be exited now: then it stays below the function mode until `restore`."""
        if self.mode in dispatch_modes():
            self.restore()
        self.inside = None
        self._replaced.close()


def _plausible(module: nn.Module, inputs: list[Tensor]) -> bool:
    """Whether *module* may use its fused kernel: in evaluation mode, and without gradients."""
    if module.training or not torch.backends.mha.get_fastpath_enabled():
        return False
    if isinstance(module, nn.MultiheadAttention):
        if len(inputs) > 2 and not inputs[0] is inputs[1] is inputs[2]:
            return False
    if not torch.is_grad_enabled():
        return True
    return not any(tensor.requires_grad for tensor in (*inputs, *module.parameters()))


FORK = "prim::fork"
"""Starts a task in another thread, which has its own numbers of autograd nodes."""

_PLAIN = (Tensor, Parameter, FakeTensor)
_PAST_DISPATCH = ("MKLDNN", FORK, "Fusion", "TensorExpr", "StaticSubgraph")


def graph_of(module: Any) -> str:
    """The graph of a scripted *module* as text; empty if it has no ``forward``."""
    try:
        with without_modes():  # printing it reads its constants
            return str(module.inlined_graph)
    except (AttributeError, RuntimeError):
        return ""


def shows_inside(module: Any, graph: str, inputs: Iterable[Tensor]) -> bool:
    """Whether all operators of scripted *module* on these *inputs* go through the dispatcher."""
    tensors = [*inputs, *module.parameters(), *module.buffers()]
    if any(type(tensor) not in _PLAIN for tensor in tensors):  # a subclass wraps the outputs
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
        error.args = (f"{text[:-1]}{raised}\n",)
