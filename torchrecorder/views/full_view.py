"""The whole run as a view: every op a box, every scope a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import inf
from operator import itemgetter

from torchrecorder.events import (
    CALLED, MODES, NO_STORAGE, STORED, OpKind, Role, ScopeId, ScopeKind, Slot, ValueId,
)
from torchrecorder.graph.gathered_weights import gathered_weights, sharding_scopes
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import is_alias, is_held_alias
from torchrecorder.graph.structural_hash import scaler_state
from torchrecorder.views.held_outputs import HeldOutputs
from torchrecorder.views.training import is_in_module, training_steps
from torchrecorder.views.view import Arrow, Box, BoxKind, Cluster, Nesting, View

KIND_OF_ROLE = {
    Role.INPUT: BoxKind.INPUT,
    Role.PARAMETER: BoxKind.PARAMETER,
    Role.BUFFER: BoxKind.BUFFER,
    Role.CONSTANT: BoxKind.CONSTANT,
    Role.INNER: BoxKind.CONSTANT,
}
"""The kind of box of a value that no drawn op produced."""


def full_view(recording: RecordedRun) -> View:
    """The whole run as a view, without the recomputation of checkpoints.

    Boxes are ops, scopes in which nothing ran, inputs and outputs of the run, and the
    parameters, buffers and constants that were read. A buffer or parameter that was
    written in place has a second box for its new value.
    """
    return _FullView(recording).view()


def scope_kind(scope: Scope) -> BoxKind:
    """The kind of box of a closed scope."""
    called = scope.kind in CALLED
    return BoxKind.MODULE if called else BoxKind.REGION


class _FullView:
    """Collects the boxes and arrows of one recording."""

    def __init__(self, recording: RecordedRun) -> None:
        self.recording = recording
        self.scopes = {s.id: s for s in recording.scopes.values() if not s.recompute}
        self.ops = {
            op.id: op
            for op in recording.ops.values()
            if not op.recompute and (op.scope is None or op.scope in self.scopes)
            and not is_held_alias(op, recording.values)
        }
        self.nesting = Nesting({s.id: s.parent for s in self.scopes.values()})
        self.arrows: list[Arrow] = []
        self.gathered = gathered_weights(recording)
        self.gathered_from = grouped((weight, value) for value, weight in self.gathered.items())
        self.stored = {
            value: role for value, role in recording.stored.items() if value not in self.gathered
        }
        self.owned = recording.owned
        self.readers: dict[ValueId, dict[str, str | None]] = {}
        self.read_updated: dict[ValueId, int] = {}
        self.values = recording.values
        self.given_back = {slot.value for slot in recording.outputs}
        self.steps = training_steps(recording)
        self.sharding = sharding_scopes(recording)
        self.apart = self.steps | self.sharding.keys()

    def view(self) -> View:
        empty = self._empty_scopes()
        self.held = HeldOutputs(empty, self.scopes, self.nesting)
        for op in self.ops.values():
            if op.outputs or op.kind is not OpKind.PASS or is_in_module(self.recording, op.scope):
                self._into(op.id, op.scope, op.inputs, op.index)
        for scope in empty:
            self._into(scope.id, scope.parent, scope.inputs, scope.index)
            self._into(scope.id, scope.parent, self.held.of(scope), -1)
        outputs = list(self._outputs())
        boxes = [*self._sources(), *self._inner(empty), *self._written(), *outputs]
        homes = {box.cluster for box in boxes}
        filled = {around for home in homes for around in self.nesting.around(home)}
        clusters: dict[str, Cluster] = {
            scope.id: Cluster(scope.id, scope.parent)
            for scope in self.scopes.values()
            if scope.id in filled
        }
        return View(self.recording, {box.id: box for box in boxes}, clusters, tuple(self.arrows))

    def _empty_scopes(self) -> list[Scope]:
        """Scopes in which no op and no other scope ran."""
        full: set[ScopeId | None] = {scope.parent for scope in self.scopes.values()}
        full.update(op.scope for op in self.ops.values())
        return [scope for scope in self.scopes.values() if scope.id not in full]

    def _into(self, head: str, cluster: str | None, slots: Iterable[Slot], index: float) -> None:
        """Add the arrows into a box, which reads *slots* at *index* in the run order, and note the
        readers of values that no drawn op made."""
        values, ops = self.values, self.ops
        for name, value in slots:
            value = value if cluster in self.sharding else self.gathered.get(value, value)
            value = self._behind_aliases(value, cluster) if self._aliases else value
            producer = values[value].producer
            call = self.held.returned_by(value, cluster, index)
            if call is not None and cluster not in self.steps:
                self.arrows.append(Arrow(call, head, value, name))
            elif producer in ops:
                in_module = cluster not in self.steps and value in self._updated
                if in_module:
                    self.read_updated.setdefault(value, len(self.read_updated))
                self.arrows.append(Arrow(value if in_module else producer, head, value, name))
            else:
                self.arrows.append(Arrow(value, head, value, name))
                self.readers.setdefault(value, {})[head] = cluster

    def _behind_aliases(self, value: ValueId, cluster: str | None) -> ValueId:
        """The value that *value* is an alias of, if it is an unnamed alias whose first use is in
        another scope than *cluster*, or of memory from before the run; otherwise *value*."""
        while (op := self._aliases.get(value)) is not None:
            if op.id in self.ops and op.scope in (None, *self.nesting.around(cluster)):
                break
            value = op.inputs[0].value
        return value

    @cached_property
    def _aliases(self) -> dict[ValueId, Op]:
        """The aliases without a name, each with the op that is its first use."""
        passes = (op for op in self.recording.ops.values() if op.kind is OpKind.PASS)
        found = {op.outputs[0]: op for op in passes if is_alias(op)}
        return {value: op for value, op in found.items() if not self.values[value].names}

    def _outputs(self) -> Iterator[Box]:
        for number, slot in enumerate(self.recording.outputs):
            box = Box(f"out:{number}", BoxKind.OUTPUT, None, ())
            self._into(box.id, None, (slot,), inf)
            yield box

    def _sources(self) -> Iterator[Box]:
        """Boxes of values that no drawn op computed: inputs first, others in the order in which
        they are read."""
        first = dict.fromkeys(slot.value for slot in self.recording.inputs)
        for value in [*first, *(reader for reader in self.readers if reader not in first)]:
            if self.values[value].producer not in self.ops:
                yield self._source(value)

    def _source(self, value: ValueId) -> Box:
        one = self.values[value]
        kind = KIND_OF_ROLE[self.stored.get(value, one.role)]
        around = None
        if kind is not BoxKind.INPUT:
            around = self._before(value, self.nesting.common(self._reading(value)))
        if not self._rewritten.isdisjoint((*one.names, one.storage)):
            around = self._outside_modes(around)
            if kind in (BoxKind.CONSTANT, BoxKind.BUFFER) and one.storage != NO_STORAGE:
                others = self._readers_of_memory.get(one.storage, ())
                around = self.nesting.common([around, *others])
        return Box(value, kind, around, (value,))

    @cached_property
    def _rewritten(self) -> set[str | int]:
        """The names and storages that operations outside training steps write, such as those of
        buffers, and of the sums of a metric."""
        written = [
            self.values[value]
            for op in self.ops.values()
            if op.scope not in self.steps
            for value in op.writes
        ]
        storages = {one.storage for one in written} - {NO_STORAGE}
        return {*storages, *(name for one in written for name in one.names)}

    @cached_property
    def _readers_of_memory(self) -> Mapping[int, Sequence[str | None]]:
        """For each rewritten storage, the scopes that read one of its values. All calls that use
        the memory again get the same boxes."""
        return grouped(
            (storage, op.scope) for op in self.ops.values() for slot in op.inputs
            if (storage := self.values[slot.value].storage) in self._rewritten
        )

    def _outside_modes(self, scope: str | None) -> str | None:
        """*scope*, or the scope around its modes: a value that a loop writes in a mode has a box
        before it."""
        while scope is not None and self.scopes[ScopeId(scope)].kind in MODES:
            scope = self.nesting.parents[scope]
        return scope

    def _reading(self, value: ValueId) -> list[str | None]:
        """The scopes that read *value* and so determine its cluster.

        Readers that only the first of two compared runs has do not count. A weight is in its
        module, although an optimizer step reads it as well, or FSDP gathers it. Outside of modules
        it is not, if something reads it again after the step: all iterations of a loop have the
        same boxes.
        """
        former = self.recording.former
        readers = self.readers[value]
        now = {head: around for head, around in readers.items() if head not in former} or readers
        inside = [around for around in now.values() if around not in self.apart]
        inside = inside or [around for around in now.values() if around not in self.steps]
        again = any(around in self._renewing for around in now.values())
        if inside and not (again and not self._in_module(self.nesting.common(inside))):
            return inside
        return list(now.values())

    def _in_module(self, scope: str | None) -> bool:
        return scope is not None and is_in_module(self.recording, ScopeId(scope))

    @cached_property
    def _renewing(self) -> set[str | None]:
        """The steps that write weights that something other than a step reads afterwards."""
        return {
            op.scope
            for op in self.ops.values()
            if op.scope in self.steps
            for value in op.writes
            if value in self.stored and self._readers_after(value)
        }

    def _readers_after(self, value: ValueId) -> list[str | None]:
        """The scopes, other than steps, in which ops read what a step wrote, also gathered."""
        consumers = self.recording.consumers
        read = (value, *self.gathered_from.get(value, ()))
        readers = [self.ops.get(op) for each in read for op in consumers.get(each, ())]
        return [op.scope for op in readers if op is not None and op.scope not in self.apart]

    @cached_property
    def _updated(self) -> dict[ValueId, str | None]:
        """The weights that an optimizer step has written, each with the module that reads it.

        It has a box there, as before the first step, unless the run created the weight. The weights
        that the last step wrote are beside it.
        """
        found: dict[ValueId, str | None] = {}
        steps = self.recording.weight_updates
        if not steps:
            return found
        made = {name for one in self.values.values() if one.role in STORED
                and one.producer in self.ops for name in one.names}
        last: dict[str, tuple[ValueId, ScopeId]] = {}
        for op in self.ops.values():
            step = steps.get(op.scope) if op.scope is not None else None
            if step is None:
                continue
            for value in filter(self.stored.__contains__, op.writes):
                readers = self._readers_after(value)
                home = self._before(value, self.nesting.common(readers)) if readers else None
                if self._in_module(home) and made.isdisjoint(self.values[value].names):
                    found[value] = home
                last[self.values[value].names[0]] = value, step
        for name in last.keys() & {self.values[value].names[0] for value in found}:
            value, step = last[name]
            found.setdefault(value, self.nesting.parents[step])
        return found

    def _before(self, value: ValueId, scope: str | None) -> str | None:
        """*scope*, or the scope around the outermost one around it that is given *value*.

        Between the two there may be scopes without inputs, such as a checkpoint or ``no_grad``.
        Weights that functions read do not count: before the first step, a weight is no input. Nor
        do constants with a name that functions of a module read, such as those of a solver.
        """
        home, one = scope, self.values[value]
        if value not in self._passed:
            return home
        is_named = one.role is Role.CONSTANT and bool(one.names)
        for around in self.nesting.around(scope):
            inner = self.scopes[ScopeId(around)]
            if inner.kind is ScopeKind.FUNCTION and (
                value in self.stored or is_named and self._in_module(around)
            ):
                continue
            if any(slot.value == value for slot in inner.inputs):
                home = self.nesting.parents[around]
        return home

    @cached_property
    def _passed(self) -> set[ValueId]:
        """The values that scopes are given."""
        return {slot.value for scope in self.scopes.values() for slot in scope.inputs}

    def _written(self) -> Iterator[Box]:
        """The new values of parameters and buffers that an op wrote in place.

        Those that a module reads after an optimizer step come first, in the order in which they are
        read, as before the first step: the iterations of a loop have the same boxes.
        """
        boxes: list[Box] = []
        for op in self.ops.values():
            for value in op.writes:
                role = self.stored.get(value)
                if role is not None:
                    home = self._updated.get(value, op.scope)
                    boxes.append(Box(value, KIND_OF_ROLE[role], home, (value,)))
                    self.arrows.append(Arrow(op.id, value, value, ""))
        read, last = self.read_updated, len(self.read_updated)
        yield from sorted(boxes, key=lambda box: read.get(ValueId(box.id), last))

    def _inner(self, empty: Iterable[Scope]) -> list[Box]:
        """Boxes of ops and empty scopes, in run order. Batches and looked-up tensors come right
        before their first reader. The state of gradient scalers comes before everything else in the
        scope around all of their calls.

        Many programs load a batch ahead. This order makes the iterations of their loops equal.
        """
        loaders, state = self.recording.data_loaders, scaler_state(self.recording)
        read_at = {call: self._first_reader(call, batch) for call, batch in loaders.batches.items()}
        around_scalers = self.nesting.common(
            scope.parent for scope in self.scopes.values() if scope.kind is ScopeKind.SCALER
        ) if state else None
        indexed: list[tuple[tuple[int, ...], Box]] = []
        for op in self.ops.values():
            if op.id in state:
                indexed.append(((-1, op.index), self._op(op, around_scalers)))
                continue
            call = loaders.call_of(op)
            reader = read_at[call] if call is not None else None
            home, reader = self._looked_up(op) or (op.scope, reader)
            place = (op.index, 1) if reader is None else (reader, 0, op.index)
            indexed.append((place, self._op(op, home)))
        indexed.extend(
            ((scope.index, 1), Box(scope.id, scope_kind(scope), scope.parent, (scope.id,)))
            for scope in empty
        )
        return [box for _, box in sorted(indexed, key=itemgetter(0))]

    def _first_reader(self, call: ScopeId, batch: Iterable[ValueId]) -> int | None:
        """The position of the first sibling of a data loader's *call* that reads its *batch*.

        None if something outside all siblings reads it.
        """
        found: list[int] = []
        for value in batch:
            for reader in self.recording.consumers[value]:
                position = self._position_beside(call, self.recording.ops[reader])
                if position is None:
                    return None
                found.append(position)
        return min(found, default=None)

    def _position_beside(self, call: ScopeId, op: Op) -> int | None:
        """The position of *op*, or of the scope around it that is a sibling of *call*."""
        around, position = op.scope, op.index
        while around != self.scopes[call].parent:
            if around is None:
                return None
            position = self.recording.scopes[around].index
            around = self.recording.scopes[around].parent
        return position

    def _op(self, op: Op, home: str | None) -> Box:
        kind = BoxKind.HIDDEN if op.kind is OpKind.HIDDEN else BoxKind.OP
        return Box(op.id, kind, home, (op.id, *self._made_by(op)))

    def _looked_up(self, op: Op) -> tuple[str, int] | None:
        """The only module that reads the tensor that *op* created from numbers, and the position of
        its reader.

        None if the tensor was passed to the module. Each layer may look up a tensor in its own
        cache, which was created before all layers: that tensor is drawn in the layer, like a
        constant. Regions, such as ``no_grad``, contain nothing that ran outside.
        """
        if op.inputs or len(op.outputs) != 1 or op.scope in self.steps:
            return None
        [value] = op.outputs
        consumers = self.recording.consumers.get(value, ())
        readers = [self.ops[reader] for reader in consumers if reader in self.ops]
        scopes = [reader.scope for reader in readers]
        if not scopes or op.scope in scopes or value in self.stored or value in self.given_back:
            return None
        home, outside = self._before(value, self.nesting.common(scopes)), op.scope
        while home is not None and self.scopes[ScopeId(home)].kind is not ScopeKind.MODULE:
            home = self.nesting.parents[home]
        while outside is not None and self.scopes[outside].kind is ScopeKind.FUNCTION:
            outside = self.scopes[outside].parent  # of the function that made the cache
        inside = home not in (op.scope, outside) and outside in (None, *self.nesting.around(home))
        return (home, readers[0].index) if home is not None and inside else None

    def _made_by(self, op: Op) -> list[str]:
        """Values and grad nodes that belong to the op alone."""
        values, stored, writes = self.values, self.stored, op.writes
        made: list[str] = [
            value
            for value in (dict.fromkeys(op.outputs) if len(op.outputs) > 1 else op.outputs)
            if values[value].producer == op.id and not (value in writes and value in stored)
        ]
        made += [grad.id for grad in self.owned.get(op.id, ())]
        return made
