"""Probes: the optional instruments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Union

from torchrecorder.build import Event
from torchrecorder.capture.internals import processes
from torchrecorder.capture.internals.access import when_cuda_begins
from torchrecorder.capture.probes.device import DeviceProbe
from torchrecorder.capture.probes.profiled import PROFILER, ProfilerRanges
from torchrecorder.capture.probes.retained_tensors import ReplayProbe, TensorKeeper, op_places
from torchrecorder.capture.probes.statistics import StatisticsProbe
from torchrecorder.capture.scope import Choice, SeriesScopes, patterns_of, scopes_around
from torchrecorder.checks import FLAG, TEXTS, Check, check, one_of, warn_unmatched
from torchrecorder.graph.call_paths import CallPaths
from torchrecorder.graph.nodes import Module, Op, Scope
from torchrecorder.graph.retained_tensors import Kept

if TYPE_CHECKING:
    from torchrecorder.capture.hooks.backward import BackwardRuns
    from torchrecorder.capture.probes.communications import Communications
    from torchrecorder.capture.running_modules import RunningModules
    from torchrecorder.capture.tape import Tape


INDUCTOR = "inductor"

CHOICE = Check(
    "True, False, or paths of scopes such as ['encoder.*']",
    lambda value: FLAG.holds(value) or TEXTS.holds(value),
)

KEPT = Check(
    "True, False, or paths of scopes such as ['encoder.*'], none of them empty",
    lambda value: FLAG.holds(value)
    or TEXTS.holds(value) and all(map(str.strip, patterns_of(value))),  # type: ignore[arg-type]
)

Compiled = Union[bool, Literal["inductor"]]
"""Whether the model is compiled too; ``"inductor"`` also records kernels."""

COMPILED = one_of(True, False, INDUCTOR)

CHECKS = {
    "stats": CHOICE,
    "keep": KEPT,
    **dict.fromkeys(("flops", "replay", "saved", "memory"), FLAG),
    "compiled": COMPILED,
    "profiler": PROFILER.or_none(),
}


@dataclass(frozen=True)
class Probes:
    """The optional measurements of a run; `Recorder` documents these options."""

    stats: Choice = False
    keep: Choice = ()
    flops: bool = False
    replay: bool = False
    saved: bool = False
    compiled: Compiled = False
    profiler: Any = None
    memory: bool = False

    def __post_init__(self) -> None:
        check(self, CHECKS)

    def warn_unmatched(self, events: Iterable[Event]) -> None:
        """Warn about patterns of *stats* and *keep* that match no scope or operation."""
        if isinstance(self.stats, bool) and not self.keep:
            return
        events = list(events)
        entered = {event.id: event for event in events if isinstance(event, Scope)}
        modules = [event for event in events if isinstance(event, Module)]
        paths = CallPaths((*modules, *entered.values()))
        scopes = [path or item.name for item in entered.values() for path in paths[item.id]]
        option = "scopes" if isinstance(self.stats, SeriesScopes) else "stats"
        warn_unmatched(option, patterns_of(self.stats), scopes)
        if patterns := patterns_of(self.keep):
            ops = [
                f"{place}: {event.name}"
                for event in events
                if isinstance(event, Op)
                for place in op_places(
                    scopes_around(entered, event.scope), lambda scope: paths[scope.id]
                )
            ]
            warn_unmatched("keep", patterns, [*scopes, *ops])

    def start(
        self,
        started: Started,
        tape: Tape,
        backward: BackwardRuns,
        running: RunningModules,
        stack: contextlib.ExitStack,
    ) -> None:
        """Add the requested instruments to *tape*, or enter them on *stack*."""
        if self.stats:
            storages = backward.autograd.values.storages
            tape.observers.append(StatisticsProbe(tape, running, storages, self.stats))
        if self.keep:
            started.tensors = TensorKeeper(tape, backward.autograd, running, self.keep)
            tape.observers.append(started.tensors)
        if self.replay:
            started.nodes = ReplayProbe()
            tape.observers.append(started.nodes)
        if processes.in_use() and processes.SEES_COLLECTIVES:
            from torchrecorder.capture.probes.communications import Communications

            values = backward.autograd.values
            started.sent = Communications(tape, values, backward, running)
            stack.enter_context(started.sent)
            tape.observers.append(started.sent)
        stack.enter_context(when_cuda_begins(partial(_watch_devices, tape)))
        if self.profiler is not None:
            tape.observers.append(ProfilerRanges())  # the range is closest around the op
        if self.memory:
            from torchrecorder.capture.probes.memory import MemoryProbe

            memory = MemoryProbe(tape, backward)
            memory.find_weights()
            tape.observers.append(memory)
            stack.enter_context(memory)
        if self.flops:
            from torchrecorder.capture.probes.flops import FlopProbe
            from torchrecorder.graph.median_runs import COUNTING

            stack.enter_context(FlopProbe(tape, backward))
            tape.notes.append(COUNTING)


def _watch_devices(tape: Tape) -> None:
    with tape.survives_errors("probes"):
        tape.observers.append(DeviceProbe(tape))  # closest to a node: the last observer


class Started:
    """The active instruments whose results are read after the run."""

    def __init__(self) -> None:
        self.tensors: TensorKeeper | None = None
        self.nodes: ReplayProbe | None = None
        self.sent: Communications | None = None

    def kept(self) -> Kept:
        """The tensors and nodes that are kept after the run."""
        if self.tensors is None:
            return Kept(replay=self.nodes)
        return Kept(self.tensors.activations, self.tensors.gradients, self.nodes)
