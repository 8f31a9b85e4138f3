"""CompiledOps: run higher-order operators, such as ``torch.cond``, as without a recorder.

PyTorch's compiler traces their functions and turns closed-over tensors, such as weights of modules,
into inputs. Run eagerly, some operators fail or return other results. So the compiler is enabled
here, while nothing is recorded; the compiled operator is recorded when it runs, as one op with all
of its inputs.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from torchrecorder.capture.internals.access import (
    OPERATOR_HOMES,
    OPERATOR_SETUP,
    TorchDispatchMode,
    count_function_modes,
    dispatch_modes,
    function_modes,
    operator_setup,
    pop_function_mode,
    push_function_mode,
)

if TYPE_CHECKING:
    from torchrecorder.capture.hooks.modules import ModuleScopes
    from torchrecorder.capture.hooks.optimizer import OptimizerSteps
    from torchrecorder.capture.modes.function_mode import FunctionCalls


class CompiledOps:
    """A context in which only higher-order operators are compiled."""

    def __init__(
        self, functions: FunctionCalls, modules: ModuleScopes, steps: OptimizerSteps
    ) -> None:
        self.functions = functions
        self.modules = modules
        self.steps = steps

    def lose(self, error: Exception) -> None:
        """A higher-order operator could not be recorded."""
        self.modules.tape.lose("operators on functions", error)

    def __enter__(self) -> CompiledOps:
        _now.listening = (*listening(), self)
        _active.append(self)
        _replace_setup(_plain, _unrecorded)
        return self

    def __exit__(self, *error: object) -> None:
        _now.listening = tuple(item for item in listening() if item is not self)
        _active.remove(self)
        if not _active:
            _replace_setup(_unrecorded, _plain)


_plain: Any = operator_setup()
_active: list[CompiledOps] = []
_now = threading.local()


def listening() -> tuple[CompiledOps, ...]:
    """Those of this thread, outermost first."""
    found: tuple[CompiledOps, ...] = getattr(_now, "listening", ())
    return found


def _replace_setup(before: Any, after: Any) -> None:
    """Replace PyTorch's setup of the compiler for higher-order operators by *after*."""
    for home in filter(None, map(sys.modules.get, OPERATOR_HOMES)):
        if before is not None and getattr(home, OPERATOR_SETUP, None) is before:
            setattr(home, OPERATOR_SETUP, after)


@contextlib.contextmanager
def _unrecorded() -> Iterator[Any]:
    """As PyTorch's own setup, but nothing is recorded until what was compiled runs."""
    heard, away = listening(), None
    with _plain() as backend:
        try:
            away = _take_away(heard)
        except Exception as error:
            heard[-1].lose(error)
        try:
            yield backend
        finally:
            if away is not None:
                _give_back(away, heard[-1])


def _give_back(away: contextlib.ExitStack, last: CompiledOps) -> None:
    try:
        away.close()
    except Exception as error:
        last.lose(error)


def _take_away(heard: tuple[CompiledOps, ...]) -> contextlib.ExitStack | None:
    """Stop recording, and let the compiler work; None where modes of others are in between."""
    counting, ours = _counting(), [item.functions for item in heard]
    away = unheard(heard)
    if away is not None:
        away.enter_context(torch.compiler.set_stance("default", force_backend=_run_recorded))
        before, _now.back = getattr(_now, "back", ((), ())), (ours, counting)
        away.callback(setattr, _now, "back", before)
    return away


def unheard(heard: tuple[CompiledOps, ...]) -> contextlib.ExitStack | None:
    """Stop recording until the stack is closed; None where modes of others are in between."""
    counting, modes = _counting(), function_modes()
    ours = [item.functions for item in heard]
    if not ours or not all(item in modes for item in ours):
        return None
    with contextlib.ExitStack() as stack:
        for counts in reversed(counting):
            stack.callback(counts.__enter__)
            counts.__exit__(None, None, None)
        stack.enter_context(_only([mode for mode in modes if mode not in ours], modes))
        for entry in reversed(heard):
            stack.callback(entry.modules.__enter__)
            entry.modules.__exit__()
        return stack.pop_all()


def _counting() -> list[TorchDispatchMode]:
    """The recorder's dispatch modes, if they are on top of the stack."""
    from torchrecorder.capture.probes.kernels import KernelsHeard

    modes = reversed(dispatch_modes())
    found = list(itertools.takewhile(lambda mode: isinstance(mode, KernelsHeard), modes))
    return found[::-1]


@contextlib.contextmanager
def _only(others: list[TorchFunctionMode], modes: list[TorchFunctionMode]) -> Iterator[None]:
    """Leave only the *others* of the function *modes* on the stack."""
    _put_in_place(others)
    try:
        yield
    finally:
        _put_in_place(modes)


def _put_in_place(modes: list[TorchFunctionMode]) -> None:
    while count_function_modes():
        pop_function_mode()
    for mode in modes:
        push_function_mode(mode)


def _run_recorded(graph: Any, inputs: list[Any], **options: Any) -> Callable[..., Any]:
    """A backend of the compiler: eager, recorded when it runs."""

    def run(*args: Any) -> Any:
        with contextlib.ExitStack() as stack:
            try:
                _bring_back(stack)
            except Exception as error:
                listening()[-1].lose(error)
            return graph.forward(*args)

    return run


def _bring_back(stack: contextlib.ExitStack) -> None:
    """Push the removed modes until *stack* is closed."""
    functions, counting = _now.back
    for function in functions:
        push_function_mode(function)
        stack.callback(pop_function_mode)
    for counts in counting:
        stack.enter_context(counts)
