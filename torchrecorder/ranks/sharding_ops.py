"""Sharding ops: operations by which FSDP and DTensor shard and gather parameters and other tensors.

Without them, a figure of a distributed model looks like that of the model, and communication is
shown at its modules. The shape inference of a pipeline before its first micro-batch is removed too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace

from torchrecorder.events import (
    CALLED, HOOK_REGISTRATIONS, OpId, OpKind, Role, ScopeId, ScopeKind, Slot, ValueId,
)
from torchrecorder.graph.gathered_weights import gathered_weights
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.relations import first_in_memory
from torchrecorder.recording import Recording

CONVERSIONS = ("_FromTorchTensor", "_ToTorchTensor", "Redistribute", *HOOK_REGISTRATIONS)
"""Custom functions that convert between local and distributed tensors, or communicate."""

COMMUNICATION_OPS = ("wait_tensor", "_wrap_tensor_autograd", *CONVERSIONS)
"""Ops that belong to a communication in any region."""


def without_sharding_ops(recording: Recording) -> Recording:
    """*recording* without these ops and their regions; edges connect their inputs and outputs."""
    setup = setup_scopes(recording)
    removed = _sharding_ops(recording, setup)
    if not removed:
        return recording
    bypass = _Bypass(recording, removed)
    empty = _empty_regions(recording, removed) | setup
    in_setup = (op for op in recording.ops.values() if op.scope in setup)
    unused = {value for op in in_setup for value in op.outputs}
    before = Counter(recording.scopes[scope].module for scope in setup)
    runs = {run.run for run in recording.backward_runs if run.op in removed}
    home = {  # the innermost scope around each that is not removed
        scope: next((outer for outer in recording.within(scope) if outer not in empty), None)
        for scope in (None, *recording.scopes)
    }
    failure = recording.run.failure
    if failure is not None:
        op = None if failure.op in removed else failure.op
        failure = replace(failure, op=op, scope=home[failure.scope])
    return replace(
        recording,
        run=replace(recording.run, failure=failure),
        scopes={
            scope.id: scope.replace(
                parent=home[scope.parent],
                call=scope.call - before.get(scope.module, 0),
                inputs=bypass.slots(scope.inputs),
                outputs=bypass.slots(scope.outputs),
            )
            for scope in recording.scopes.values() if scope.id not in empty
        },
        modules={
            module.id: module.replace(
                calls=tuple(call for call in module.calls if call not in empty)
            )
            for module in recording.modules.values()
        },
        ops={
            op.id: op.replace(scope=home[op.scope], inputs=bypass.slots(op.inputs, every=True))
            for op in recording.ops.values() if op.id not in removed
        },
        values={
            value.id: value.replace(producer=None if value.producer in removed else value.producer)
            for value in recording.values.values()
        },
        grad_nodes={
            grad.id: grad.replace(
                owner=None if grad.owner in removed else grad.owner, scope=home[grad.scope]
            )
            for grad in recording.grad_nodes.values()
        },
        outputs=bypass.slots(slot for slot in recording.outputs if slot.value not in unused),
        backward_runs=tuple(run for run in recording.backward_runs if run.run not in runs),
        grad_runs=tuple(run for run in recording.grad_runs if run.run not in runs),
        statistics=tuple(item for item in recording.statistics if item.run not in runs),
        communications=tuple(
            item._replace(op=None if item.op in removed else item.op, scope=home[item.scope])
            for item in recording.communications
        ),
        function_calls={
            call.id: call._replace(
                scope=home[call.scope],
                ops=tuple(op for op in call.ops if op not in removed),
                scopes=tuple(scope for scope in call.scopes if scope not in empty),
            )
            for call in recording.function_calls.values()
        },
        measured={
            quantity: {
                node: amount for node, amount in found.items()
                if node not in removed and node not in empty
            }
            for quantity, found in recording.measured.items()
        },
    )


def setup_scopes(recording: Recording) -> set[ScopeId]:
    """The scopes that run in the setup of a pipeline, before its first micro-batch."""
    found: set[ScopeId | None] = set()
    for scope in recording.scopes.values():
        if scope.kind is ScopeKind.PIPELINE_SETUP or scope.parent in found:
            found.add(scope.id)
    return {scope for scope in found if scope is not None}


def _sharding_ops(recording: Recording, setup: Collection[ScopeId]) -> set[OpId]:
    """The ops to remove, including those in *setup*."""
    regions = {
        scope.id for scope in recording.scopes.values()
        if scope.kind is ScopeKind.SHARDING
        or scope.kind is ScopeKind.CUSTOM_FUNCTION and scope.cls in CONVERSIONS
    }
    found: set[OpId] = set()
    for op in recording.ops.values():
        inside = op.scope in setup or not regions.isdisjoint(recording.within(op.scope))
        if inside or op.name in COMMUNICATION_OPS or _only_views(recording, op, found):
            found.add(op.id)
    return found


def _only_views(recording: Recording, op: Op, ops: set[OpId]) -> bool:
    """Whether an op only views the outputs of *ops*, as FSDP does to create parameters."""
    if op.name not in ("as_strided", "detach") and op.kind is not OpKind.PASS:
        return False
    makers = {recording.values[slot.value].producer for slot in op.inputs}
    return bool(makers) and makers <= ops


def _empty_regions(recording: Recording, removed: set[OpId]) -> set[ScopeId]:
    """The regions that have no ops other than *removed*."""
    full: set[ScopeId] = set()
    for op in recording.ops.values():
        if op.id not in removed:
            full.update(recording.within(op.scope))
    emptied = {scope for op in removed for scope in recording.within(recording.ops[op].scope)}
    return {item for item in emptied - full if recording.scopes[item].kind not in CALLED}


class _Bypass:
    """Connects the inputs of *removed* ops to the readers of their outputs."""

    def __init__(self, recording: Recording, removed: set[OpId]) -> None:
        self.recording = recording
        self.removed = removed
        self.gathered = gathered_weights(recording)
        self._sources: dict[ValueId, tuple[ValueId, ...]] = {}
        for value in recording.values.values():  # in run order: producers first
            self._sources[value.id] = self._find(value.id)

    def _find(self, value: ValueId) -> tuple[ValueId, ...]:
        if value in self.gathered:
            return self._sources[self.gathered[value]]
        producer = self.recording.values[value].producer
        if producer is None or producer not in self.removed:
            return (first_in_memory(self.recording, value),)
        found = dict.fromkeys(
            source for slot in self.recording.ops[producer].inputs if slot.value != value
            for source in self._sources.get(slot.value, (slot.value,))
        )
        variable = [item for item in found if self.recording.values[item].role is not Role.CONSTANT]
        return tuple(variable or found)

    def slots(self, slots: Iterable[Slot], *, every: bool = False) -> tuple[Slot, ...]:
        """The slots with the first source of each value, or with every source."""
        return tuple(dict.fromkeys(
            Slot(slot.name, source) for slot in slots
            for source in self._sources[slot.value][: None if every else 1]
        ))
