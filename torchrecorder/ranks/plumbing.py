"""Plumbing: what FSDP and DTensor do to bring weights and tensors where they are needed.

Without it a model of many processes looks like the model: what is sent is told of the module.
What a pipeline does before its first micro-batch, to learn the shapes of tensors, is left out too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from types import MappingProxyType

from torchrecorder.events import MODES, OpId, OpKind, ScopeId, ScopeKind, Slot, ValueId
from torchrecorder.graph.nodes import Op
from torchrecorder.recording import Recording

CONVERSIONS = ("_FromTorchTensor", "_ToTorchTensor", "Redistribute", "RegisterPostBackwardFunction")
"""Custom functions in which tensors change from one kind to the other, or are sent."""

STEPS = ("wait_tensor", "_wrap_tensor_autograd", *CONVERSIONS)
"""Ops that belong to a communication wherever they stand."""

OF_FSDP = ("all_gather_copy_in", "split_with_sizes_copy", "chunk_cat")
"""Ops by which FSDP is known: what runs in the same region belongs to it."""


def without_plumbing(recording: Recording) -> Recording:
    """*recording* without those ops and regions; what they passed on leads straight through."""
    setup = setup_scopes(recording)
    gone = _ops(recording, setup)
    if not gone:
        return recording
    through = _Through(recording, gone)
    empty = _regions(recording, gone) | setup
    unused = _made_in(recording, setup)
    before = Counter(recording.scopes[scope].module for scope in setup)
    runs = {run.run for run in recording.backward_runs if run.op in gone}
    home = {scope: through.home(scope, empty) for scope in (None, *recording.scopes)}
    return replace(
        recording,
        scopes=MappingProxyType({
            scope.id: scope._replace(
                parent=home[scope.parent],
                call=scope.call - before.get(scope.module, 0),
                inputs=through.slots(scope.inputs),
                outputs=through.slots(scope.outputs),
            )
            for scope in recording.scopes.values() if scope.id not in empty
        }),
        modules=MappingProxyType({
            module.id: module._replace(
                calls=tuple(call for call in module.calls if call not in empty)
            )
            for module in recording.modules.values()
        }),
        ops=MappingProxyType({
            op.id: op._replace(scope=home[op.scope], inputs=through.slots(op.inputs, several=True))
            for op in recording.ops.values() if op.id not in gone
        }),
        values=MappingProxyType({
            value.id: value._replace(producer=None if value.producer in gone else value.producer)
            for value in recording.values.values()
        }),
        grad_nodes=MappingProxyType({
            grad.id: grad._replace(
                owner=None if grad.owner in gone else grad.owner, scope=home[grad.scope]
            )
            for grad in recording.grad_nodes.values()
        }),
        outputs=through.slots(
            slot for slot in recording.outputs if slot.value not in unused
        ),
        backward_runs=tuple(run for run in recording.backward_runs if run.run not in runs),
        grad_runs=tuple(run for run in recording.grad_runs if run.run not in runs),
        statistics=tuple(item for item in recording.statistics if item.run not in runs),
        communications=tuple(
            told._replace(op=None if told.op in gone else told.op, scope=home[told.scope])
            for told in recording.communications
        ),
        measured=MappingProxyType({
            quantity: MappingProxyType({
                node: amount for node, amount in found.items()
                if node not in gone and node not in empty
            })
            for quantity, found in recording.measured.items()
        }),
    )


def setup_scopes(recording: Recording) -> set[ScopeId]:
    """What a pipeline does before its first micro-batch, and all scopes in it."""
    found: set[ScopeId | None] = set()
    for scope in recording.scopes.values():
        if scope.kind is ScopeKind.PIPELINE_SETUP or scope.parent in found:
            found.add(scope.id)
    return {scope for scope in found if scope is not None}


def _made_in(recording: Recording, scopes: Collection[ScopeId]) -> set[ValueId]:
    """What ops in *scopes* made."""
    return {
        value
        for op in recording.ops.values() if op.scope in scopes
        for value in op.outputs
    }


def _ops(recording: Recording, setup: Collection[ScopeId]) -> set[OpId]:
    """The ops that are plumbing, those in *setup* among them."""
    regions = {
        scope.id for scope in recording.scopes.values()
        if scope.kind is ScopeKind.CUSTOM_FUNCTION and scope.cls in CONVERSIONS
    }
    for op in recording.ops.values():
        around = recording.scopes.get(op.scope) if op.scope is not None else None
        if op.name in OF_FSDP and around is not None and around.kind in MODES:
            regions.add(around.id)
    gone = _sharded_views(recording, regions)
    for op in recording.ops.values():
        inside = op.scope in setup or not regions.isdisjoint(recording.within(op.scope))
        if inside or op.name in STEPS or _only_prepares(recording, op, gone):
            gone.add(op.id)
    return gone


def _sharded_views(recording: Recording, regions: Collection[ScopeId]) -> set[OpId]:
    """Views of sharded parameters that FSDP takes before it gathers them: all their readers do."""
    readers: dict[ValueId, list[Op]] = {}
    for op in recording.ops.values():
        for slot in op.inputs:
            readers.setdefault(slot.value, []).append(op)
    views: set[OpId] = set()
    for op in recording.ops.values():
        found = [reader for output in op.outputs for reader in readers.get(output, ())]
        gathers = [reader.name in OF_FSDP and reader.scope in regions for reader in found]
        if op.name == "view" and gathers and all(gathers):
            views.add(op.id)
    return views


def _only_prepares(recording: Recording, op: Op, gone: Iterable[OpId]) -> bool:
    """Whether an op only looks at what plumbing made, as FSDP does to make parameters of it."""
    if op.name not in ("as_strided", "detach") and op.kind is not OpKind.PASS:
        return False
    makers = {recording.values[slot.value].producer for slot in op.inputs}
    return bool(makers) and makers <= {*gone}


def _regions(recording: Recording, gone: set[OpId]) -> set[ScopeId]:
    """The regions in which nothing else ran."""
    full: set[ScopeId] = set()
    for op in recording.ops.values():
        if op.id not in gone:
            full.update(recording.within(op.scope))
    emptied = {
        scope for op in gone for scope in recording.within(recording.ops[op].scope)
    }
    return {
        item for item in emptied - full
        if recording.scopes[item].kind not in (ScopeKind.MODULE, ScopeKind.FUNCTION)
    }


class _Through:
    """Where values come from when the ops *gone* are not there."""

    def __init__(self, recording: Recording, gone: set[OpId]) -> None:
        self.recording = recording
        self.gone = gone
        self._known: dict[ValueId, tuple[ValueId, ...]] = {}
        for value in recording.values.values():  # in the order they were met: makers first
            self._known[value.id] = self._behind(value.id)

    def _behind(self, value: ValueId) -> tuple[ValueId, ...]:
        producer = self.recording.values[value].producer
        if producer is None or producer not in self.gone:
            return (value,)
        found: dict[ValueId, None] = {}
        for slot in self.recording.ops[producer].inputs:
            if slot.value != value:
                found.update(dict.fromkeys(self._known.get(slot.value, (slot.value,))))
        return tuple(found)

    def slots(self, slots: Iterable[Slot], *, several: bool = False) -> tuple[Slot, ...]:
        """Slots with what is behind their values: the first of it, or all."""
        found: dict[Slot, None] = {}
        for slot in slots:
            behind = self._known[slot.value]
            for item in behind if several else behind[:1]:
                found[Slot(slot.name, item)] = None
        return tuple(found)

    def home(self, scope: ScopeId | None, empty: set[ScopeId]) -> ScopeId | None:
        """The innermost scope around that is still there."""
        around = self.recording.within(scope)
        return next((outer for outer in around if outer not in empty), None)
