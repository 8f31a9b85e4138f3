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

from torchrecorder.capture.autograd.walk import AutogradWalk
from torchrecorder.capture.internals.access import (
    DisableTorchFunction, FakeTensor, TorchDispatchMode, current_function_mode, dispatch_modes,
    fuses, next_node_number,
)
from torchrecorder.capture.modes.call import Call
from torchrecorder.capture.modes.call_site import direct
from torchrecorder.capture.modes.function_mode import FunctionMode, OpRecorder
from torchrecorder.capture.modes.op_schema import FunctionFacts, operator_facts
from torchrecorder.capture.state.restore import without_modes
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.describe import VERSION_PENDING, innermost, tensors_in

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


_DETACH = torch.ops.aten.detach.default


class DispatchMode(TorchDispatchMode):
    """Records every operator that is dispatched in this thread, where Python calls no function.

    It works below function modes and below autograd: the autograd node of an operator exists before
    the mode is called; ``grad_fn`` and the version of the result are set afterwards.

    Args:
        calls: The recorder of the function mode.
        alone: Whether the function mode is inactive; then every call is recorded here.
        detaches: Whether the program may call ``detach``, and not only autograd.
    """

    def __init__(self, calls: OpRecorder, alone: bool, detaches: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls = _DispatchedOps(calls)
        self.alone = alone
        self.detaches = detaches
        self.facts: dict[Any, FunctionFacts] = {}
        self.raised: str | None = None
        self.interrupted = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Called by PyTorch; after True it would import the compiler, which takes seconds."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run *func* and record it."""
        try:
            with DisableTorchFunction():  # function modes must not see operators
                return self._run(func, args, kwargs or {})
        except KeyboardInterrupt:
            self.interrupted = True
            raise
        except Exception as error:
            self.raised = str(error)
            raise

    def _run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tape, facts = self.calls.tape, None
        try:
            facts = self._facts_of(func, args)
        except Exception as error:
            tape.record_error("operators", error)
        if facts is None:
            return func(*args, **kwargs)
        if func is _DETACH and not self.alone:
            detached = func(*args, **kwargs)
            with tape.survives_errors("operators"):
                self._detached(detached, args[0])
            return detached
        return self.calls.run_op(func, facts, False, args, kwargs)

    def _facts_of(self, func: Any, args: tuple[Any, ...]) -> FunctionFacts | None:
        """The facts about *func*; None if this call is no op of its own."""
        facts = self.facts.get(func)
        if facts is None:
            facts = self.facts[func] = operator_facts(func)
        tape = self.calls.tape
        if facts.ignored or tape.op is not None or tape.is_elsewhere():
            return None  # not an op, part of a torch function, or not of this run
        return None if facts.name == "equal" and self._is_compiling(args) else facts

    def _detached(self, detached: Tensor, tensor: Tensor) -> None:
        """Store that autograd, or the TorchScript interpreter, has detached *tensor*."""
        values = self.calls.values
        (values.expect_alias if self.detaches else values.equate)(detached, tensor)

    def _is_compiling(self, args: tuple[Any, ...]) -> bool:
        """Whether the TorchScript interpreter compares constants while it compiles."""
        return all(self.calls.values.peek(argument) is None for argument in args)


class _DispatchedOps(OpRecorder):
    """Records the beginning and end of a call below autograd."""

    def __init__(self, above: OpRecorder) -> None:
        super().__init__(above.regions, above.backward)
        grads: Any = _DispatchedGrads(above.autograd)
        self.autograd = grads
        self.caller_at = direct

    def end(self, call: Call, result: Any) -> None:
        """Record the outputs and writes of the call, before autograd sets version and ``grad_fn``.
        """
        super().end(call, result)
        with self.tape.survives_errors("operators"):
            for _, tensor in (*tensors_in(result), *call.tensors):
                entry = self.values.entries.get(id(innermost(tensor)))
                if entry is not None and entry.producer == call.op and entry.version >= 0:
                    entry.version, entry.requires_grad = VERSION_PENDING, False


class _DispatchedGrads:
    """Finds the autograd nodes of dispatched ops, which are numbered before the op begins."""

    def __init__(self, walk: AutogradWalk) -> None:
        self.walk = walk
        self.start = next_node_number()
        self.end = walk.end

    def begin(self) -> None:
        """An op begins: it owns the nodes numbered since the previous op."""
        spans = self.walk.spans
        self.walk.since = max(self.start, spans[-1][0]) if spans else self.start
