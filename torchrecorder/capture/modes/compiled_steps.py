"""CompiledSteps: compiled steps of optimizers stay compiled while they are recorded.

Weights that a compiled step has written differ from those of the eager one in their last bits. It
has no modules in it whose inside could be shown. But what is compiled fits only as long as no
function mode and no hook is there that was not: it would be compiled anew, with the recorder in
it. So nothing of ours listens during such a call. It is one op, which reads what the optimizer
and its arguments hold, and writes those of these tensors whose versions have moved.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from torchrecorder.capture.hooks.source import InternalWork
from torchrecorder.capture.internals.access import DisableTorchFunction, dispatch_modes
from torchrecorder.capture.internals.compiled_calls import optimizer_hooks
from torchrecorder.capture.modes.call import Call
from torchrecorder.capture.modes.closures import cells
from torchrecorder.capture.modes.higher_order import CompiledOps, listening, unheard
from torchrecorder.capture.modes.op_schema import FunctionFacts
from torchrecorder.capture.probes.kernels import KernelsHeard
from torchrecorder.capture.tensors.describe import tensors_in
from torchrecorder.events import ScopeKind

_LIMIT = 2000
"""How many objects are looked at for modules; a function that holds more is left alone."""


@dataclass
class _Step:
    """A step that runs compiled."""

    frame: FrameType
    optimizers: list[Optimizer]
    state: set[int]  # the tensors that they hold when it begins
    handled: BaseException | None  # what the program was handling then
    away: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    calls: list[tuple[CompiledOps, Call | None]] = field(default_factory=list)


_now = threading.local()


def begins(frame: FrameType) -> bool:
    """A compiled function is called in *frame*: whether it runs as compiled."""
    if getattr(_now, "step", None) is not None:
        return True
    heard = listening()
    if not heard or any(item.modules.tape.deaf for item in heard):
        return False
    try:
        with DisableTorchFunction():
            _now.step = _begun(frame, heard)
    except InternalWork:
        return False
    except Exception as error:
        heard[-1].lose(error)
        return False
    return _now.step is not None


def ended(frame: FrameType) -> None:
    """The call in *frame* that ran as compiled is over."""
    step = _now.step
    if step.frame is not frame:
        return
    _now.step = None
    error = sys.exc_info()[1]
    failed = error if error is not step.handled else None
    for item, _ in step.calls[:1]:
        with item.modules.tape.losing("steps"):
            step.away.close()
    for item, call in step.calls:
        with item.modules.tape.losing("steps"), DisableTorchFunction():
            _end(item, call, step, failed)


def _begun(frame: FrameType, heard: tuple[CompiledOps, ...]) -> _Step | None:
    """The step that begins in *frame*, unheard from here on; None if it is none."""
    function, args, kwargs = (frame.f_locals[name] for name in ("fn", "args", "kwargs"))
    optimizers = _optimizers([function, *args, *kwargs.values()])
    if optimizers is None or not (optimizers or _is_inside_step(frame, heard[-1])):
        return None
    away = _away(heard)
    if away is None:
        return None
    with away:
        held = _held_by(optimizers)
        state = {id(tensor) for _, tensor in tensors_in(held)}
        step = _Step(frame, optimizers, state, sys.exc_info()[1])
        step.calls += [(item, _call(item, step, held)) for item in heard]
        step.away = away.pop_all()
    return step


def _call(item: CompiledOps, step: _Step, held: dict[str, list[Any]]) -> Call | None:
    """Note what the step reads, in the region of its optimizer."""
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
    given = tuple(argument for argument in args if not isinstance(argument, Optimizer))
    outside = step.frame if step.optimizers else step.frame.f_back
    return calls.begin(facts, given, {**kwargs, **held}, frame=outside)


def _end(
    item: CompiledOps, call: Call | None, step: _Step, failed: BaseException | None
) -> None:
    """Note what was made and written, and close the region of the optimizer."""
    calls, regions = item.functions.calls, item.modules.regions
    if call is not None and failed is not None:
        calls.fail(call, failed)
    elif call is not None:
        held = [tensor for _, tensor in tensors_in(_held_by(step.optimizers))]
        new = [tensor for tensor in held if id(tensor) not in step.state]
        calls.end(call, [step.frame.f_locals.get("result"), *new])
    if regions.sources.steps.pop(id(step.frame), None):
        regions.left(step.frame)


def _away(heard: tuple[CompiledOps, ...]) -> contextlib.ExitStack | None:
    """Nothing of ours listens until the stack is closed; None if something of ours cannot stop."""
    away = unheard(heard)
    if away is None:
        return None
    for item in reversed(heard):
        away.callback(item.steps.__enter__)
        item.steps.__exit__()
    counts = any(isinstance(mode, KernelsHeard) for mode in dispatch_modes())
    if counts or any(map(_is_ours, optimizer_hooks())):
        away.close()
        return None
    return away


def _is_ours(hook: Any) -> bool:
    return str(getattr(hook, "__module__", "")).startswith("torchrecorder.")


def _is_inside_step(frame: FrameType, item: CompiledOps) -> bool:
    """Whether an optimizer's step, which needs no gradients, calls what runs in *frame*."""
    if torch.is_grad_enabled():
        return False
    regions = item.modules.regions.sources.walk(frame.f_back)[1]
    return any(region.kind is ScopeKind.OPTIMIZER for region in regions)


def _held_by(optimizers: Iterable[Optimizer]) -> dict[str, list[Any]]:
    """The tensors of *optimizers*, by what they are."""
    params = [
        param
        for optimizer in optimizers
        for group in optimizer.param_groups
        for param in group["params"]
    ]
    grads = [param.grad for param in params if param.grad is not None]
    states = [state for optimizer in optimizers for state in optimizer.state.values()]
    found = [list(state.values()) for state in states if isinstance(state, dict)]
    return {"params": params, "grads": grads, "state": found} if params else {}


# What a function holds ------------------------------------------------------------------


def _optimizers(things: Iterable[Any]) -> list[Optimizer] | None:
    """The optimizers that *things* hold or mention; None if there may be a module, too."""
    waiting, seen, found = list(things), set(), []
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
            waiting.extend(_inside(thing))
    return found


def _inside(thing: Any) -> Iterator[Any]:
    """What *thing* holds, as far as it may matter; nothing of its own is called."""
    if isinstance(thing, FunctionType):
        yield from _mentioned(thing)
    elif isinstance(thing, MethodType):
        yield from (thing.__self__, thing.__func__)
    elif isinstance(thing, (list, tuple, set)):
        yield from thing
    elif isinstance(thing, dict):
        yield from thing.values()
    elif not isinstance(thing, (Tensor, type, ModuleType)):
        yield from getattr(thing, "__dict__", {}).values()


def _mentioned(function: FunctionType) -> Iterator[Any]:
    """What the code of a function can reach by name: its cells, and globals."""
    compiled_from = vars(function).get("_torchdynamo_orig_callable")
    if compiled_from is not None:
        yield compiled_from
        return
    yield from (held for _, held in cells(function))
    if not str(function.__globals__.get("__name__", "")).startswith("torch."):
        for name in _names(function.__code__):
            if name in function.__globals__:
                yield function.__globals__[name]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
