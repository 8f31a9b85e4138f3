"""Instruments: the hooks, modes and tables that record one thread.

The instruments of several recorded threads append to the same list of events. They share the tables
of tensors, storages and modules, so that an op of one thread can read the result of an op of
another.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor
from torch.nn import Module

from torchrecorder.capture.autograd.thread_nodes import ThreadStartHook
from torchrecorder.capture.autograd.walk import AutogradWalk
from torchrecorder.capture.hooks.backward import BackwardRuns
from torchrecorder.capture.hooks.custom_functions import AppliedFunctions
from torchrecorder.capture.hooks.gradient_hooks import GradientHooks
from torchrecorder.capture.hooks.kernel_launches import KernelLaunches
from torchrecorder.capture.hooks.modules import ModuleScopes
from torchrecorder.capture.hooks.optimizer import OptimizerSteps
from torchrecorder.capture.hooks.parameters import Registrations, TensorSwaps
from torchrecorder.capture.hooks.regions import Regions
from torchrecorder.capture.hooks.source import Sources
from torchrecorder.capture.internals.access import SEES_SAVED_TENSORS
from torchrecorder.capture.modes.fast_paths import FastPaths
from torchrecorder.capture.modes.function_mode import FunctionMode, OpRecorder
from torchrecorder.capture.modes.higher_order import HigherOrderOps
from torchrecorder.capture.module_registry import ModuleRegistry
from torchrecorder.capture.probes.probes import Probes, Started
from torchrecorder.capture.probes.saved import SavedTensors
from torchrecorder.capture.running_modules import RunningModules
from torchrecorder.capture.state.force_eager import ForceEager
from torchrecorder.capture.state.shared_patch import RaisedRecursionLimit
from torchrecorder.capture.tape import Tape, thread_of_id
from torchrecorder.capture.tensors.describe import grad_fn_of
from torchrecorder.capture.tensors.entries import Entry
from torchrecorder.capture.tensors.tensor_table import TensorTable
from torchrecorder.events import OpId, ValueId


class SharedValues(TensorTable):
    """A `TensorTable` for one of several recorded threads; *main* is that of the first thread."""

    def __init__(self, tape: Tape, main: TensorTable | None = None) -> None:
        super().__init__(tape, main)
        shared = main if isinstance(main, SharedValues) else None
        self.family: dict[int, TensorTable] = {} if shared is None else shared.family
        self.family[tape.number] = self
        self.lock: AbstractContextManager[Any] = threading.RLock() if not shared else shared.lock

    def read(self, tensor: Tensor) -> ValueId:
        """The current value of *tensor*; first imports its autograd nodes from the thread that
        recorded them."""
        with self.lock:
            entry = self.entries.get(id(tensor))
            if entry is not None:
                home = thread_of_id(entry.value)
                node = None if home == self.tape.number else grad_fn_of(tensor)
                if node is not None:
                    self.autograd.import_nodes(node, self.family[home].autograd)
            return super().read(tensor)

    def add_value(self, *args: Any, **kwargs: Any) -> ValueId:
        """`TensorTable.add_value`, for one thread at a time."""
        with self.lock:
            return super().add_value(*args, **kwargs)

    def wrote(self, tensor: Tensor, entry: Entry, op: OpId) -> ValueId:
        """`TensorTable.wrote`, for one thread at a time."""
        with self.lock:
            return super().wrote(tensor, entry, op)


class Instruments:
    """A context in which one thread is recorded; *registry* creates its `ModuleRegistry`."""

    def __init__(
        self,
        tape: Tape,
        probes: Probes,
        values: TensorTable,
        registry: Callable[[Tape, TensorTable], ModuleRegistry],
    ) -> None:
        self.tape = tape
        self.probes = probes
        self.started = Started()
        self.values = values
        self.autograd = values.autograd = AutogradWalk(tape, values)
        self.applied = AppliedFunctions(tape)
        self.regions = Regions(tape, Sources(self.applied))
        self.saved: SavedTensors | None = None
        if probes.saved and SEES_SAVED_TENSORS:
            self.saved = saved = SavedTensors(tape, self.autograd)
            self.autograd.node_recorded, self.regions.entered = saved.node_recorded, saved.entered
        self.registry = registry(tape, values)
        self.backward = BackwardRuns(tape, self.autograd)
        calls = OpRecorder(self.regions, self.backward)
        self.functions = FunctionMode(calls, opens=not probes.compiled)
        fast = FastPaths(tape, self.functions)
        self.modules = ModuleScopes(self.regions, self.registry, fast, calls.names)
        self.running = RunningModules(tape, self.backward)

    def __enter__(self) -> Instruments:
        tape = self.tape
        steps = OptimizerSteps(tape, self.regions, self.modules.names)
        instruments: tuple[contextlib.AbstractContextManager[Any], ...] = (
            self.applied,
            self.regions.calls,
            tape.task,
            RaisedRecursionLimit(),
            ForceEager(tape.record_error, self.regions.sources.expect_compiled),
            self.functions,
            KernelLaunches(self.functions),
            TensorSwaps(self.functions),
            GradientHooks(self.functions, self.backward, self.regions.sources),
            self.modules.others,
            self.modules,
            steps,
            Registrations(self.regions, self.values),
            HigherOrderOps(self.functions, self.modules, steps),
            ThreadStartHook(tape, self.autograd.expect_foreign_nodes),
        )
        with contextlib.ExitStack() as stack:
            with tape.survives_errors("probes"):
                self.probes.start(self.started, tape, self.backward, self.running, stack)
            for instrument in instruments:
                with tape.survives_errors(type(instrument).__name__):
                    stack.enter_context(instrument)
            self.applied.check_recognition(self.regions.sources.custom_functions)
            self._exit = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._exit.close()

    def finish(self, leave: Callable[[], None]) -> None:
        """Write the remaining events, after *leave* has closed the open scopes."""
        steps: list[Callable[[], None]] = [
            leave,
            self.autograd.hidden.find_unread,
            *(() if self.saved is None else (self.saved.finish,)),
            self.registry.finish,
            self.functions.calls.switches.finish,
            self.backward.finish,
            self.regions.calls.finish,
            *(observer.finish for observer in self.tape.observers),
        ]
        for step in steps:
            with self.tape.survives_errors("end"):
                step()
        self.tape.notes.extend(self.regions.sources.eager.notes())

    def clear(self) -> None:
        """Drop the references to all tensors, autograd nodes and modules."""
        self.values.clear()
        self.autograd.clear()
        self.registry.clear()


def main_instruments(
    tape: Tape, probes: Probes, model: Module | None, name: str, *, shared: bool
) -> Instruments:
    """The instruments of the thread in which a recorder is entered."""
    values = SharedValues(tape) if shared else TensorTable(tape)
    registry = functools.partial(ModuleRegistry, root=model, name=name)
    return Instruments(tape, probes, values, registry)


def thread_instruments(tape: Tape, main: Instruments) -> Instruments:
    """The instruments of another thread, which write to *tape* and share the tables of *main*."""
    shared = main.probes
    probes = Probes(stats=shared.stats, flops=shared.flops, saved=shared.saved)
    made = Instruments(tape, probes, SharedValues(tape, main.values), main.registry.shared)
    walk, known = made.autograd, main.autograd
    walk.leaves, walk.made, walk.owners = known.leaves, known.made, known.owners
    walk.expect_foreign_nodes()
    made.modules.threads = main.modules.threads
    return made
