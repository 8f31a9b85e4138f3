"""Build: creates the recording from the events of a run, in one pass.

Most events are rows of the recording, such as an `Op`; a row replaces an earlier one with the same
id. The others add facts to an earlier row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Union

from torchrecorder.events import (
    BYTES_PEAK, GRAD_SUFFIX, NO_STORAGE, STORED, TRANSPARENT, Allocation, Communication,
    CompiledGraph, FunctionCall, FunctionId, FusedKernel, GradId, GradNodeMade, GradSwitch,
    GraphBreak, Lost, Measured, ModuleId, OpId, ParameterPart, Role, ScopeId, ScopeLeft, Shard,
    Slot, Statistics, StillHeld, ValueId,
)
from torchrecorder.graph.failure import Failure
from torchrecorder.graph.gc_pause import without_gc
from torchrecorder.graph.nodes import BackwardRun, GradNode, GradRun, Module, Op, Scope, Value
from torchrecorder.graph.recording import LiveObjects, RecordingT, RunDone
from torchrecorder.graph.relations import trained_later, unseen_results
from torchrecorder.graph.repair import repaired
from torchrecorder.graph.retained_tensors import Kept
from torchrecorder.graph.variables import results_held, variables_read

_NAMED = frozenset((*STORED, Role.INPUT))
"""The roles of values that have names of their own, and not that of the leaf of a gradient."""

Event = Union[
    Module,
    Value,
    Op,
    Scope,
    ScopeLeft,
    GradNode,
    BackwardRun,
    GradRun,
    GradNodeMade,
    Measured,
    Statistics,
    Shard,
    ParameterPart,
    Communication,
    CompiledGraph,
    GraphBreak,
    FusedKernel,
    FunctionCall,
    GradSwitch,
    Allocation,
    Failure,
    Lost,
    StillHeld,
    RunDone,
]
"""The events that instruments write."""


@without_gc()
def build(
    events: Iterable[Event],
    make: type[RecordingT],
    live: LiveObjects | None = None,
    kept: Kept | None = None,
) -> RecordingT:
    """The recording of *events*. Nodes that have references but no event are added.

    Args:
        events: The events of the instruments, in order. The last is a `RunDone`.
        make: The class of the recording.
        live: Weak references to the recorded modules, for styling functions.
        kept: The tensors of ``keep=``, and the nodes of ``replay=True``.
    """
    builder = _TableBuilder()
    builder.take(events)
    return repaired(builder.recording(make, live, kept or Kept()))


class _TableBuilder:
    """Collects the rows of a recording from events."""

    def __init__(self) -> None:
        self.scopes: dict[ScopeId, Scope] = {}
        self.modules: dict[ModuleId, Module] = {}
        self.ops: dict[OpId, Op] = {}
        self.values: dict[ValueId, Value] = {}
        self.grads: dict[GradId, GradNode] = {}
        self.backward_runs: list[BackwardRun] = []
        self.grad_runs: list[GradRun] = []
        self.measured: dict[str, dict[str, float]] = {}
        self.statistics: list[Statistics] = []
        self.shards: list[Shard] = []
        self.parts: dict[ParameterPart, None] = {}
        self.communications: list[Communication] = []
        self.graphs: list[CompiledGraph] = []
        self.breaks: list[GraphBreak] = []
        self.kernels: list[FusedKernel] = []
        self.allocations: list[Allocation] = []
        self.calls: dict[FunctionId, FunctionCall] = {}
        self.switches: list[GradSwitch] = []
        self.failures: list[Failure] = []
        self.lost = 0
        self.held: Mapping[ValueId, str] = {}
        self.done: RunDone | None = None
        self.outputs: tuple[Slot, ...] = ()
        self.unseen: dict[ScopeId, None] = {}  # calls whose outputs are unknown

    def take(self, events: Iterable[Any]) -> None:
        """Add *events*: rows to their table, where they replace one with their id."""
        tables: dict[type, dict[Any, Any]] = {
            Module: self.modules, Value: self.values, Op: self.ops, Scope: self.scopes,
            GradNode: self.grads,
        }
        actions = self._actions()
        for event in events:
            table = tables.get(type(event))
            if table is not None:
                table[event.id] = event
            else:
                actions[type(event)](event)

    def _actions(self) -> dict[type, Callable[[Any], None]]:
        """The function that handles each kind of other events."""
        return {
            ScopeLeft: self._leave,
            BackwardRun: self.backward_runs.append,
            GradRun: self._grad_ran,
            GradNodeMade: self._grad_made,
            Measured: self._measured,
            Statistics: self.statistics.append,
            Shard: self.shards.append,
            ParameterPart: lambda part: self.parts.setdefault(part),
            Communication: self.communications.append,
            CompiledGraph: self.graphs.append,
            GraphBreak: self.breaks.append,
            FusedKernel: self.kernels.append,
            FunctionCall: self._function,
            GradSwitch: self.switches.append,
            Allocation: self.allocations.append,
            Failure: self._failed,
            Lost: self._lost,
            StillHeld: lambda event: setattr(self, "held", event.values),
            RunDone: self._done,
        }

    def _function(self, event: FunctionCall) -> None:
        """Add a call with those of its ops and scopes that were recorded."""
        self.calls[event.id] = event._replace(
            scope=event.scope if event.scope in self.scopes else None,
            ops=tuple([op for op in event.ops if op in self.ops]),
            scopes=tuple([scope for scope in event.scopes if scope in self.scopes]),
        )

    def _leave(self, event: ScopeLeft) -> None:
        if event.scope in self.scopes:
            if event.outputs is None:
                self.unseen[event.scope] = None
            self.scopes[event.scope] = self.scopes[event.scope].replace(
                inputs=event.inputs,
                outputs=event.outputs or (),
                seconds=event.seconds,
                failed=event.failed,
            )

    def _grad_ran(self, event: GradRun) -> None:
        self.grad_runs.append(event)
        if event.failed and event.grad in self.grads:
            self.grads[event.grad] = self.grads[event.grad].replace(failed=True)

    def _grad_made(self, event: GradNodeMade) -> None:
        if event.grad in self.grads:
            self.grads[event.grad] = self.grads[event.grad].replace(made_by=event.by)

    def _measured(self, event: Measured) -> None:
        amounts = self.measured.setdefault(event.quantity, {})
        amounts[event.node] = _together(event.quantity, amounts.get(event.node, 0), event.amount)

    def _failed(self, event: Failure) -> None:
        self.failures.append(event)
        if event.op in self.ops:
            self.ops[event.op] = self.ops[event.op].replace(failed=True)
        if event.grad in self.grads:
            self.grads[event.grad] = self.grads[event.grad].replace(failed=True)

    def _lost(self, event: Lost) -> None:
        self.lost += 1

    def _done(self, event: RunDone) -> None:
        self.done = event

    def recording(self, make: type[RecordingT], live: LiveObjects | None, kept: Kept) -> RecordingT:
        """The recording, from everything that was collected."""
        if self.done is None:
            raise ValueError("the events do not end with RunDone")
        self._mark_repeated()
        self._give_aliases()
        inputs, self.outputs = self._ends()
        if self.unseen:
            for scope, results in unseen_results(self, self.unseen, self.held).items():
                self.scopes[scope] = self.scopes[scope].replace(outputs=results)
            inputs, self.outputs = self._ends()
        self._name_gradients()
        self._finish_recomputed()
        self._finish_random()
        self.values.update(trained_later(self.values.values(), self.grads.values()))
        failure = self.failures[0] if self.failures else None
        ops = sorted(self.ops.values(), key=attrgetter("index"))
        facts = replace(self.done.facts, failure=failure, lost=self.lost)
        return make(
            name=self.done.name,
            scopes=MappingProxyType(self.scopes),
            modules=MappingProxyType(self._called_modules()),
            ops=MappingProxyType({op.id: op for op in ops}),
            values=MappingProxyType(self.values),
            grad_nodes=MappingProxyType(self.grads),
            inputs=inputs,
            outputs=self.outputs,
            run=facts,
            live=live,
            backward_runs=tuple(self.backward_runs),
            grad_runs=tuple(self.grad_runs),
            measured=self._amounts(),
            statistics=tuple(filter(self._is_of_known, self.statistics)),
            shards=tuple(shard for shard in self.shards if shard.value in self.values),
            parameter_parts=tuple(self.parts),
            communications=tuple(map(self._placed, self.communications)),
            kept=kept,
            compiled_graphs=tuple(self.graphs),
            graph_breaks=tuple(self.breaks),
            fused_kernels=tuple(self.kernels),
            allocations=tuple(map(self._of_known, self.allocations)),
            function_calls=MappingProxyType(self.calls),
            grad_switches=tuple(self._switches()),
        )

    def _finish_recomputed(self) -> None:
        """Only an error that ends the run fails a recomputed scope: by default, a checkpoint raises
        one of its own as soon as it has computed what the backward pass needs."""
        ended = {failure.scope for failure in self.failures}
        for scope in reversed([*self.scopes.values()]):  # inner ones come later
            if scope.id in ended:
                ended.add(scope.parent)
            elif scope.failed and scope.recompute:
                self.scopes[scope.id] = scope.replace(failed=False)

    def _finish_random(self) -> None:
        """Ops whose results have no elements have drawn no numbers."""
        for op in [op for op in self.ops.values() if op.random]:
            made = map(self.values.get, op.outputs)
            if all(value is not None and not value.bytes for value in made):
                self.ops[op.id] = op.replace(random=False)

    def _switches(self) -> Iterator[GradSwitch]:
        """The switches of recorded tensors, in run order."""
        for switch in sorted(self.switches, key=lambda item: item.position):
            if switch.value in self.values:
                yield switch

    def _placed(self, communication: Communication) -> Communication:
        """*communication* with references only to nodes that were recorded."""
        return communication._replace(
            scope=communication.scope if communication.scope in self.scopes else None,
            op=communication.op if communication.op in self.ops else None,
            grad=communication.grad if communication.grad in self.grads else None,
        )

    def _of_known(self, allocation: Allocation) -> Allocation:
        """*allocation* with references only to nodes that were recorded."""
        known = self.scopes, self.ops, self.grads
        nodes = (allocation.made_in, allocation.freed_in)
        first, last = (node if any(node in one for one in known) else "" for node in nodes)
        return allocation._replace(made_in=first, freed_in=last)

    def _amounts(self) -> Mapping[str, Mapping[str, float]]:
        """Amounts by quantity and node; amounts of unrecorded nodes go to the outermost scope."""
        known = {*self.scopes, *self.ops, *self.values, *self.grads}
        amounts = {}
        for quantity, found in self.measured.items():
            placed: dict[str, float] = {}
            for node, amount in found.items():
                place = node if node in known else next(iter(self.scopes), None)
                if place is not None:
                    placed[place] = _together(quantity, placed.get(place, 0), amount)
            amounts[quantity] = MappingProxyType(placed)
        return MappingProxyType(amounts)

    def _is_of_known(self, statistics: Statistics) -> bool:
        """Whether the value or grad node that has these statistics was recorded."""
        return statistics.node in (self.values if statistics.run < 0 else self.grads)

    def _mark_repeated(self) -> None:
        """Mark all ops in recomputed scopes, also hidden ones."""
        again = {scope.id for scope in self.scopes.values() if scope.recompute}
        for op in [*self.ops.values()] if again else ():
            if op.scope in again:
                self.ops[op.id] = op.replace(recompute=True)

    def _give_aliases(self) -> None:
        """Add values to the outputs of their producers: aliases of written memory, and gradients.

        A gradient that a backward pass accumulated in place is written by it.
        """
        known, written = {NO_STORAGE}, set[ValueId]()
        made = {(op.id, output) for op in self.ops.values() for output in op.outputs}
        more: dict[OpId, list[ValueId]] = {}
        for value in self.values.values():
            op = self.ops.get(value.producer) if value.producer is not None else None
            if op is not None and (op.id, value.id) not in made:
                more.setdefault(op.id, []).append(value.id)
                if value.storage in known:
                    written.add(value.id)
            known.add(value.storage)
        for name, values in more.items():
            op, writes = self.ops[name], filter(written.__contains__, values)
            self.ops[name] = op.replace(
                outputs=(*op.outputs, *values), writes=(*op.writes, *writes)
            )

    def _called_modules(self) -> dict[ModuleId, Module]:
        calls: dict[ModuleId, list[ScopeId]] = {module: [] for module in self.modules}
        for scope in self.scopes.values():
            if scope.module in calls:
                calls[scope.module].append(scope.id)
        return {
            module: row.replace(calls=tuple(calls[module]))
            for module, row in self.modules.items()
        }

    def _ends(self) -> tuple[tuple[Slot, ...], tuple[Slot, ...]]:
        """The inputs and outputs of the run: arguments and results of the outermost calls.

        Inputs get their role, and the name of the argument if they have no other. Modes such as
        ``no_grad``, recomputed calls and optimizer steps, which may call a closure, are no calls.
        Variables that the program reads outside of calls are inputs, too, and results outside of
        calls that it still has at the end are outputs.
        """
        inputs: dict[ValueId, Slot] = {}
        outputs: list[Slot] = []
        around: set[ScopeId | None] = {None}
        for scope in self.scopes.values():
            if scope.parent not in around or scope.recompute:
                continue
            if scope.kind in TRANSPARENT:
                around.add(scope.id)
            outputs.extend(scope.outputs)
            for slot in scope.inputs:
                value = self.values.get(slot.value)
                if value is None or slot.value in inputs:
                    continue
                if value.role in (Role.CONSTANT, Role.INPUT):
                    names = value.names or (slot.name,)
                    inputs[slot.value] = Slot(names[0], slot.value)
                    self.values[slot.value] = value.replace(role=Role.INPUT, names=names)
        holders = {slot.name.partition(".")[0] for slot in inputs.values()}
        for value in variables_read(self.ops.values(), self.values, around, holders):
            inputs[value.id] = Slot(value.names[0], value.id)
            self.values[value.id] = value.replace(role=Role.INPUT)
        for value in self.values.values():  # inputs inside objects
            if value.role is Role.INPUT and value.id not in inputs:
                inputs[value.id] = Slot(value.names[0], value.id)
        held = results_held(self.ops, self.values, self.scopes, self.held.keys())
        outputs += [Slot(self.held[value], value) for value in held]
        return tuple(inputs.values()), tuple(outputs)

    def _name_gradients(self) -> None:
        """Name gradients after the names of their leaves, instead of the ids of these."""
        for value in self.values.values():
            if value.names and value.role not in _NAMED:
                names = tuple(map(self._gradient_name, value.names))
                if names != value.names:
                    self.values[value.id] = value.replace(names=names)
        for run in self.backward_runs:
            op = self.ops.get(run.op) if run.op is not None else None
            if op is not None:
                slots = (Slot(self._gradient_name(name), value) for name, value in op.inputs)
                self.ops[op.id] = op.replace(inputs=tuple(slots))

    def _gradient_name(self, name: str) -> str:
        """``"fc.weight.grad"`` for ``"v4.grad"``. A leaf without a name is called like the function
        that computed it, or like its role."""
        leaf = self.values.get(ValueId(name.removesuffix(GRAD_SUFFIX)))
        if leaf is None or not name.endswith(GRAD_SUFFIX):
            return name
        maker = self.ops.get(leaf.producer) if leaf.producer is not None else None
        known = leaf.names[:1] or (maker.name if maker is not None else leaf.role.value,)
        return f"{known[0]}{GRAD_SUFFIX}"


def _together(quantity: str, one: float, other: float) -> float:
    """Combine two amounts of one node: their sum, or the larger one where *quantity* is a peak."""
    return max(one, other) if quantity == BYTES_PEAK else one + other
