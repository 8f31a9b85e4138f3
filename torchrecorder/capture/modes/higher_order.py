"""HigherOrderOps: run higher-order operators, such as ``torch.cond``, as without a recorder.

PyTorch's compiler traces their functions and turns closed-over tensors, such as weights of modules,
into inputs. In eager mode some operators fail or return other results. So the compiler is enabled
for them, and nothing is recorded while it compiles; the compiled operator is recorded when it runs,
as one op with all of its inputs.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from torchrecorder.capture.hooks.modules import ModuleScopes
from torchrecorder.capture.hooks.optimizer import OptimizerSteps
from torchrecorder.capture.internals.access import (
    OPERATOR_HOMES, OPERATOR_SETUP, TorchDispatchMode, dispatch_modes, function_modes,
    operator_setup, pop_function_mode, push_function_mode, put_function_modes, take_function_modes,
)
from torchrecorder.capture.modes.function_mode import FunctionMode
from torchrecorder.capture.state.shared_patch import SharedPatch


class HigherOrderOps:
    """A context in which higher-order operators, and nothing else, are compiled."""

    def __init__(
        self, functions: FunctionMode, modules: ModuleScopes, steps: OptimizerSteps
    ) -> None:
        self.functions = functions
        self.modules = modules
        self.steps = steps

    def __enter__(self) -> HigherOrderOps:
        _local.active = (*active_recorders(), self)
        _operators.add(self)
        return self

    def __exit__(self, *error: object) -> None:
        _local.active = tuple(item for item in active_recorders() if item is not self)
        _operators.remove(self)


_plain: Any = operator_setup()
_local = threading.local()


def active_recorders() -> tuple[HigherOrderOps, ...]:
    """The active contexts of this thread, outermost first."""
    found: tuple[HigherOrderOps, ...] = getattr(_local, "active", ())
    return found


def record_error(error: Exception) -> None:
    """Record for each recorder of this thread that a higher-order operator could not be recorded.
    """
    for item in active_recorders():
        item.modules.tape.record_error("operators on functions", error)


@contextlib.contextmanager
def _compiled() -> Iterator[None]:
    """A context with a patched setup of the compiler for higher-order operators."""
    _replace_setup(_plain, _unrecorded)
    try:
        yield
    finally:
        _replace_setup(_unrecorded, _plain)


_operators: SharedPatch[HigherOrderOps] = SharedPatch(_compiled)


def _replace_setup(before: Any, after: Any) -> None:
    """Replace the setup *before* by *after* in every module that has imported it."""
    for home in filter(None, map(sys.modules.get, OPERATOR_HOMES)):
        if before is not None and getattr(home, OPERATOR_SETUP, None) is before:
            setattr(home, OPERATOR_SETUP, after)


@contextlib.contextmanager
def _unrecorded() -> Iterator[Any]:
    """PyTorch's setup, with recording suspended until the compiled code runs."""
    stack = None
    with _plain() as backend:
        try:
            stack = _suspend_and_compile(active_recorders())
        except Exception as error:
            record_error(error)
        try:
            yield backend
        finally:
            try:
                if stack is not None:
                    stack.close()
            except Exception as error:
                record_error(error)


def _suspend_and_compile(active: tuple[HigherOrderOps, ...]) -> contextlib.ExitStack | None:
    """Suspend recording and enable the compiler until the stack is closed; None if other modes are
    on top."""
    counting, ours = _counting(), [item.functions for item in active]
    stack = suspended(active)
    if stack is not None:
        stack.enter_context(torch.compiler.set_stance("default", force_backend=_run_recorded))
        before, _local.suspended = getattr(_local, "suspended", ((), ())), (ours, counting)
        stack.callback(setattr, _local, "suspended", before)
    return stack


def suspended(active: tuple[HigherOrderOps, ...]) -> contextlib.ExitStack | None:
    """Suspend recording until the stack is closed; None if other modes are on top."""
    counting, modes = _counting(), function_modes()
    ours = [item.functions for item in active]
    if not ours or not all(item in modes for item in ours):
        return None
    with contextlib.ExitStack() as stack:
        for counts in reversed(counting):
            stack.callback(counts.__enter__)
            counts.__exit__(None, None, None)
        stack.callback(put_function_modes, modes)
        stack.callback(take_function_modes)
        take_function_modes()
        put_function_modes(mode for mode in modes if mode not in ours)
        for entry in reversed(active):
            stack.callback(entry.modules.__enter__)
            entry.modules.__exit__()
        return stack.pop_all()


def _counting() -> list[TorchDispatchMode]:
    """The recorder's dispatch modes, if they are on top of the stack."""
    from torchrecorder.capture.probes.kernels import RecorderDispatchMode

    modes = reversed(dispatch_modes())
    found = list(itertools.takewhile(lambda mode: isinstance(mode, RecorderDispatchMode), modes))
    return found[::-1]


def _run_recorded(graph: Any, inputs: list[Any], **options: Any) -> Callable[..., Any]:
    """A backend of the compiler that runs *graph* eagerly, and records it."""
    _ = graph.code  # generated now; otherwise the first ``forward`` would call *graph* as a module

    def run(*args: Any) -> Any:
        with contextlib.ExitStack() as stack:
            try:
                _push_recorders(stack)
            except Exception as error:
                record_error(error)
            return graph.forward(*args)

    return run


def _push_recorders(stack: contextlib.ExitStack) -> None:
    """Push the suspended modes of this thread until *stack* is closed."""
    functions, counting = getattr(_local, "suspended", ((), ()))
    for function in functions:
        push_function_mode(function)
        stack.callback(pop_function_mode)
    for counts in counting:
        stack.enter_context(counts)
