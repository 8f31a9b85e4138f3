"""CompiledSteps: compiled optimizer steps stay compiled while they are recorded.

A compiled and an eager step differ in the last bits of the parameters, and a step calls no modules
whose operations could be shown. The guards of compiled code check function modes and hooks, so that
those of the recorder would make it recompile. So recording is suspended during the call, which is
recorded as one op: it reads the tensors of the optimizer and of the arguments, and writes those
whose versions change.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from torchrecorder.capture.hooks.optimizer import parameters_of
from torchrecorder.capture.hooks.source import InternalWork
from torchrecorder.capture.internals.access import DisableTorchFunction, dispatch_modes
from torchrecorder.capture.internals.compiled_calls import optimizer_hooks
from torchrecorder.capture.modes.call import Call
from torchrecorder.capture.modes.higher_order import (
    HigherOrderOps, active_recorders, record_error, suspended,
)
from torchrecorder.capture.modes.op_schema import FunctionFacts
from torchrecorder.capture.modes.python_functions import cells, global_variables
from torchrecorder.capture.probes.kernels import RecorderDispatchMode
from torchrecorder.capture.tensors.describe import tensors_in
from torchrecorder.events import ScopeKind

_LIMIT = 2000
"""The maximum number of objects that are searched for modules; with more, the call runs eagerly."""


@dataclass
class _CompiledStep:
    """A running compiled step."""

    frame: FrameType
    optimizers: list[Optimizer]
    state: set[int]  # the ``id()`` of their state tensors before the step
    handled: BaseException | None  # the exception in handling before the step
    suspended: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    calls: list[tuple[HigherOrderOps, Call | None]] = field(default_factory=list)


_local = threading.local()


def begins(frame: FrameType) -> bool:
    """Whether the function of a compiled call, in *frame*, runs compiled; called before it."""
    if getattr(_local, "step", None) is not None:
        return True
    active = active_recorders()
    if not active or any(item.modules.tape.ignores_calls for item in active):
        return False
    try:
        with DisableTorchFunction():
            _local.step = _begin_step(frame, active)
    except InternalWork:
        return False
    except Exception as error:
        record_error(error)
        return False
    return _local.step is not None


def ended(frame: FrameType) -> None:
    """Record the end of the call in *frame*, which ran compiled."""
    step = _local.step
    if step.frame is not frame:
        return
    _local.step = None
    error = sys.exc_info()[1]
    failed = error if error is not step.handled else None
    try:
        step.suspended.close()
    except Exception as error:
        record_error(error)
    for item, call in step.calls:
        with item.modules.tape.survives_errors("steps"), DisableTorchFunction():
            _end(item, call, step, failed)


def _begin_step(frame: FrameType, active: tuple[HigherOrderOps, ...]) -> _CompiledStep | None:
    """Suspend recording for the step that begins in *frame*; None if it is no step."""
    function, args, kwargs = (frame.f_locals[name] for name in ("fn", "args", "kwargs"))
    optimizers = _optimizers([function, *args, *kwargs.values()])
    if optimizers is None or not (optimizers or _is_inside_step(frame, active[-1])):
        return None
    stack = _suspended(active)
    if stack is None:
        return None
    with stack:
        held = _tensors_of(optimizers)
        state = {id(tensor) for _, tensor in tensors_in(held)}
        step = _CompiledStep(frame, optimizers, state, sys.exc_info()[1])
        step.calls += [(item, _call(item, step, held)) for item in active]
        step.suspended = stack.pop_all()
    return step


def _call(item: HigherOrderOps, step: _CompiledStep, held: dict[str, list[Any]]) -> Call | None:
    """Record the inputs of the step, in the region of its optimizer."""
    function, args, kwargs = (step.frame.f_locals[name] for name in ("fn", "args", "kwargs"))
    calls = item.functions.calls
    for param in held.get("params", ()):
        if param.grad is not None:
            calls.values.read_gradient(param.grad, calls.values.read(param))
    if step.optimizers:
        steps = item.modules.regions.sources.steps
        steps[id(step.frame)] = type(step.optimizers[0]).__name__
    name = str(getattr(function, "__name__", type(function).__name__))
    facts = FunctionFacts(name, f"{getattr(function, '__module__', '')}.{name}".lstrip("."))
    inputs = tuple(argument for argument in args if not isinstance(argument, Optimizer))
    outside = step.frame if step.optimizers else step.frame.f_back
    return calls.begin(facts, inputs, {**kwargs, **held}, frame=outside)


def _end(
    item: HigherOrderOps, call: Call | None, step: _CompiledStep, failed: BaseException | None
) -> None:
    """Record the outputs and writes of the step, and close the region of the optimizer."""
    calls, regions = item.functions.calls, item.modules.regions
    if call is not None and failed is not None:
        calls.fail(call, failed)
    elif call is not None:
        held = [tensor for _, tensor in tensors_in(_tensors_of(step.optimizers))]
        new = [tensor for tensor in held if id(tensor) not in step.state]
        calls.end(call, [step.frame.f_locals.get("result"), *new])
    if regions.sources.steps.pop(id(step.frame), None):
        regions.exit(step.frame)


def _suspended(active: tuple[HigherOrderOps, ...]) -> contextlib.ExitStack | None:
    """Suspend recording until the stack is closed; None if a part cannot be suspended."""
    stack = suspended(active)
    if stack is None:
        return None
    for item in reversed(active):
        stack.callback(item.steps.__enter__)
        item.steps.__exit__()
    counts = any(isinstance(mode, RecorderDispatchMode) for mode in dispatch_modes())
    if counts or any(map(_is_ours, optimizer_hooks())):
        stack.close()
        return None
    return stack


def _is_ours(hook: Any) -> bool:
    return str(getattr(hook, "__module__", "")).startswith("torchrecorder.")


def _is_inside_step(frame: FrameType, item: HigherOrderOps) -> bool:
    """Whether an optimizer step, in which gradients are disabled, calls *frame*."""
    if torch.is_grad_enabled():
        return False
    regions = item.modules.regions.sources.walk(frame.f_back)[1]
    return any(region.kind is ScopeKind.OPTIMIZER for region in regions)


def _tensors_of(optimizers: Iterable[Optimizer]) -> dict[str, list[Any]]:
    """The parameters, gradients and state of *optimizers*."""
    params = [param for optimizer in optimizers for param in parameters_of(optimizer)]
    grads = [param.grad for param in params if param.grad is not None]
    states = [state for optimizer in optimizers for state in optimizer.state.values()]
    found = [list(state.values()) for state in states if isinstance(state, dict)]
    return {"params": params, "grads": grads, "state": found} if params else {}


# Objects that a function can reach --------------------------------------------------------


def _optimizers(objects: Iterable[Any]) -> list[Optimizer] | None:
    """The optimizers that *objects* refer to, also indirectly; None if they may reach a module."""
    waiting, seen, found = list(objects), set(), []
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, Module) or len(seen) > _LIMIT:
            return None
        if isinstance(thing, Optimizer):
            found.append(thing)
        else:
            waiting.extend(_references(thing))
    return found


def _references(owner: Any) -> Iterator[Any]:
    """The objects that *owner* refers to, without calls of its methods."""
    if isinstance(owner, FunctionType):
        yield from _globals_and_cells(owner)
    elif isinstance(owner, MethodType):
        yield from (owner.__self__, owner.__func__)
    elif isinstance(owner, (list, tuple, set)):
        yield from owner
    elif isinstance(owner, dict):
        yield from owner.values()
    elif not isinstance(owner, (Tensor, type, ModuleType)):
        yield from getattr(owner, "__dict__", {}).values()


def _globals_and_cells(function: FunctionType) -> Iterator[Any]:
    """The values of closure cells, and of the globals that the code of *function* names."""
    compiled_from = vars(function).get("_torchdynamo_orig_callable")
    if compiled_from is not None:
        yield compiled_from
        return
    yield from (held for _, held in cells(function))
    if not str(function.__globals__.get("__name__", "")).startswith("torch."):
        yield from (held for _, held in global_variables(function))
