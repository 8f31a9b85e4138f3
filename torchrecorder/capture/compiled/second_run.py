"""SecondRun: run the model again, compiled, to get its graphs.

The recorded run is eager. After it, its calls of the model are repeated with the compiled model and
the same arguments. Buffers, gradients, random state and the state of the compiler are restored.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

import torch
from torch.nn import Module

from torchrecorder.build import Event
from torchrecorder.capture.compiled.breaks import breaks
from torchrecorder.capture.compiled.match import Candidate, Matched
from torchrecorder.capture.compiled.traced import Traced
from torchrecorder.capture.hooks.source import Sources
from torchrecorder.capture.internals.access import (
    TorchFunctionMode, autocast_dtypes, compiled_from, function_modes, pop_function_mode,
    push_function_mode,
)
from torchrecorder.capture.internals.compiler import compile_with, compiler_set_aside
from torchrecorder.capture.modes.function_mode import FunctionMode
from torchrecorder.capture.state.restore import restored
from torchrecorder.capture.tape import Tape, first_line
from torchrecorder.checks import plural, warn
from torchrecorder.events import (
    COMPILED_GRAPH, FUSED_KERNEL, CompiledGraph, FusedKernel, Measured, ModuleId, OpId, OpKind,
    ScopeId, ValueId,
)
from torchrecorder.graph.nodes import Op, Scope, Value

IN_PYTHON = 0
"""The graph number of an op that is in no graph."""


class _ModelCall(NamedTuple):
    """A call of the model: its arguments, scope and modes."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    scope: ScopeId | None
    modes: CallModes


class SecondRun:
    """Keeps the calls of *model* in the recorded run, and repeats them compiled; *fused*: with
    Inductor."""

    def __init__(self, model: Any, *, fused: bool = False) -> None:
        self.model = compiled_from(model)
        self.fused = fused
        self._calls: list[_ModelCall] = []

    def called(
        self, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], scope: ScopeId
    ) -> None:
        """Keep a call in *scope*, if *model* is the recorded model."""
        if model is self.model:
            self._calls.append(_ModelCall(args, dict(kwargs), scope, _call_modes()))

    def run(self, tape: Tape, sources: Sources, modules: Mapping[int, ModuleId]) -> None:
        """Repeat the calls compiled, and write graphs, graph breaks and kernels to *tape*."""
        traced = self._traced(tape, sources, fused=self.fused)
        if traced is None and self.fused:
            traced = self._traced(tape, sources, fused=False)
        if traced is None:
            return
        if not traced.graphs:
            tape.notes.append(f"the compiler made no graph of {plural(len(self._calls), 'call')}")
        scopes = {call.scope for call in self._calls}
        self._calls.clear()
        with tape.survives_errors("compiler"):
            events = tape.events
            candidates = list(_candidates(events, scopes))
            matched = Matched(traced, candidates, modules)
            found = list(breaks(traced, matched, events))
            at_breaks = (item.op for item in found if item.op is not None)
            numbers: dict[OpId, int] = dict.fromkeys([*matched.in_python(), *at_breaks], IN_PYTHON)
            numbers.update({op: number + 1 for op, number in matched.graphs.items()})
            kernels = list(_kernels(traced, matched))
            tape.events.extend([*_graphs(traced, matched), *found, *kernels])
            for op, number in numbers.items():
                tape.write(Measured(COMPILED_GRAPH, op, number))
            first = {op: kernel.number for kernel in reversed(kernels) for op in kernel.ops}
            for op, number in first.items():
                tape.write(Measured(FUSED_KERNEL, op, number))

    def _traced(self, tape: Tape, sources: Sources, *, fused: bool) -> Traced | None:
        """The graphs of the calls; None, and a warning, if compiling failed."""
        traced = Traced(sources.file, fused)
        try:
            self._run_compiled(traced)
        except Exception as error:
            text = f"compiling the model failed: {type(error).__name__}: {first_line(error)}"
            tape.notes.append(text)
            warn(f"{text}. The recording has no {'kernels' if fused else 'graphs'}")
            return None
        return traced

    def _run_compiled(self, traced: Traced) -> None:
        whole = self.model if isinstance(self.model, Module) else None
        with restored(whole), compiler_set_aside(traced):
            compiled = compile_with(self.model, traced, traced.guarded)
            for call in self._calls:
                with call.modes.entered():
                    compiled(*call.args, **call.kwargs)


def _candidates(events: Sequence[Event], calls: set[ScopeId | None]) -> Iterator[Candidate]:
    """The ops in *calls* and the modules around each, in run order."""
    inside: dict[ScopeId, bool] = {}
    modules: dict[ScopeId | None, Mapping[ModuleId, str]] = {None: {}}
    shapes: dict[ValueId, tuple[int, ...]] = {}
    ops: list[Op] = []
    for event in events:
        if isinstance(event, Scope):
            around = event.parent
            inside[event.id] = event.id in calls or around is not None and inside[around]
            own = {} if event.module is None else {event.module: event.cls}
            modules[event.id] = {**modules[around], **own}
        elif isinstance(event, Op) and event.scope is not None:
            if event.kind is not OpKind.HIDDEN and not event.recompute and inside[event.scope]:
                ops.append(event)
        elif isinstance(event, Value):
            shapes[event.id] = event.shape
    for op in sorted(ops, key=lambda op: op.index):
        yield Candidate(op, modules[op.scope], tuple(shapes[value] for value in op.outputs))


def _graphs(traced: Traced, matched: Matched) -> Iterator[CompiledGraph]:
    runs = Counter(traced.runs)
    for number, graph in enumerate(traced.graphs):
        first = next((call.lines[-1] for call in graph.ops if call.lines), None)
        yield CompiledGraph(
            number=number + 1,
            source=first,
            calls=len(graph.ops),
            unmatched=tuple(matched.unmatched.get(number, ())),
            guards=graph.guards,
            runs=runs[number],
            recompiled=graph.recompiled,
        )


def _kernels(traced: Traced, matched: Matched) -> Iterator[FusedKernel]:
    """The kernels with the ops that each computes."""
    numbers = count(1)
    for graph_number, graph in enumerate(traced.graphs):
        found = matched.found.get(graph_number, ())
        place_of = {call.node: place for place, (call, _) in enumerate(found)}
        for kernel in graph.kernels:
            places = sorted(place_of[node] for node in kernel.nodes if node in place_of)
            ops = dict.fromkeys(matched.candidates[found[place][1]].op.id for place in places)
            yield FusedKernel(next(numbers), graph_number + 1, kernel.name, tuple(ops), kernel.code)


class CallModes(NamedTuple):
    """Grad mode, inference mode, autocast, and function modes such as the default device's."""

    grad: bool
    inference: bool
    autocast: tuple[tuple[str, torch.dtype], ...]  # by device type
    functions: tuple[TorchFunctionMode, ...]  # without the recorder's, outermost first

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """A context with these modes; active function modes are not entered again."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.inference_mode(self.inference))
            stack.enter_context(torch.set_grad_enabled(self.grad))
            for device, dtype in self.autocast:
                stack.enter_context(torch.autocast(device, dtype))
            present = function_modes()
            for mode in self.functions:
                if not any(mode is item for item in present):
                    push_function_mode(mode)
                    stack.callback(pop_function_mode)
            yield


def _call_modes() -> CallModes:
    """The modes of this thread, without the recorder's function modes."""
    return CallModes(
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        autocast_dtypes(),
        tuple(mode for mode in function_modes() if not isinstance(mode, FunctionMode)),
    )
