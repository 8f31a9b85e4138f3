"""Relations: the contents of scopes, and the tensors that enter and leave them, such as batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from operator import attrgetter
from typing import Any, Protocol

from torchrecorder.events import (
    NO_STORAGE, OF_WEIGHTS, STORED, FunctionCall, FunctionId, OpId, OpKind, Role, ScopeId,
    ScopeKind, Slot, ValueId,
)
from torchrecorder.graph.mappings import reached
from torchrecorder.graph.nodes import BackwardRun, GradNode, Module, Op, Scope, Value


class Tables(Protocol):
    """The tables of a recording, also of one that is being built."""

    @property
    def scopes(self) -> Mapping[ScopeId, Scope]: ...

    @property
    def ops(self) -> Mapping[OpId, Op]: ...

    @property
    def values(self) -> Mapping[ValueId, Value]: ...

    @property
    def outputs(self) -> tuple[Slot, ...]: ...


class Relations(Tables, Protocol):
    """The tables, and relations that `RecordedRun` computes."""

    @property
    def backward_runs(self) -> Sequence[BackwardRun]: ...

    @property
    def children(self) -> Mapping[ScopeId | None, tuple[Scope | Op, ...]]: ...

    @property
    def consumers(self) -> Mapping[ValueId, tuple[OpId, ...]]: ...

    @property
    def data_loaders(self) -> DataLoaders: ...

    @property
    def differences(self) -> Mapping[str, tuple[str, ...]]: ...

    @property
    def function_calls(self) -> Mapping[FunctionId, FunctionCall]: ...

    @property
    def own_differences(self) -> Mapping[str, str]: ...

    @property
    def quiet_differences(self) -> frozenset[str]: ...

    @property
    def stored(self) -> Mapping[ValueId, Role]: ...

    @property
    def varying_sizes(self) -> frozenset[str]: ...

    @property
    def weight_updates(self) -> Mapping[ScopeId, ScopeId]: ...

    def module_of(self, scope: Scope) -> Module | None: ...
    def within(self, scope: ScopeId | None) -> tuple[ScopeId, ...]: ...


def scopes_inside(recording: Relations, scopes: Iterable[ScopeId]) -> Iterator[ScopeId]:
    """*scopes* and all scopes in them, at any depth; not in run order."""
    return reached(scopes, lambda scope: (
        child.id for child in recording.children.get(scope, ()) if not isinstance(child, Op)
    ))


def ops_inside(recording: Relations, scopes: Iterable[ScopeId]) -> Iterator[OpId]:
    """The ids of all ops in *scopes*, at any depth; scope by scope, not in run order."""
    for scope in scopes_inside(recording, scopes):
        yield from (child.id for child in recording.children[scope] if isinstance(child, Op))


def step_of(recording: Tables, item: str) -> Scope | Op | None:
    """The scope or op with this id."""
    return recording.ops.get(OpId(item)) or recording.scopes.get(ScopeId(item))


def maker_of(recording: Tables, value: ValueId) -> Op | None:
    """The op that computed *value*; None for one from before the run."""
    producer = recording.values[value].producer
    return recording.ops.get(producer) if producer is not None else None


def values_behind(
    recording: Tables, values: Iterable[ValueId], through: Callable[[Op], bool]
) -> Iterator[ValueId]:
    """*values*, and all from which the ops that *through* accepts computed them."""

    def read(value: ValueId) -> list[ValueId]:
        op = maker_of(recording, value)
        return [slot.value for slot in op.inputs] if op is not None and through(op) else []

    return reached(values, read)


def readers_of(recording: Relations, op: Op) -> list[Op]:
    """The ops that read results of *op*, result by result; twice if an op reads two of them."""
    readers = (reader for value in op.outputs for reader in recording.consumers.get(value, ()))
    return [recording.ops[reader] for reader in readers]


def own_outputs(values: Mapping[ValueId, Value], op: Op) -> Sequence[ValueId]:
    """The outputs of *op* without further views of memory that it wrote.

    Such views are outputs only if something reads them later.
    """
    if len(op.writes) < 2:
        return op.outputs
    writes, written = frozenset(op.writes), set[int]()
    found = []
    for value in op.outputs:
        if value in writes:
            storage = values[value].storage
            if storage in written:
                continue
            written |= {storage} - {NO_STORAGE}
        found.append(value)
    return found


def is_alias(op: Op) -> bool:
    """Whether *op* records the first use of an alias, such as a shard, that no op created."""
    if op.kind is not OpKind.PASS or op.name != "alias":
        return False
    return len(op.inputs) == len(op.outputs) == 1


def is_held_alias(op: Op, values: Mapping[ValueId, Value]) -> bool:
    """Whether *op* records the first use of an unnamed alias of memory from before the run, which
    the program holds; later calls use it in the same way."""
    return (
        is_alias(op)
        and values[op.inputs[0].value].producer is None
        and not values[op.outputs[0]].names
    )


def returned_unchanged(recording: Relations) -> Iterator[tuple[ValueId, ValueId]]:
    """The results of modules and functions that returned a tensor that they were given, each with
    that tensor, in run order; also after writes to them."""
    found: set[ValueId] = set()

    def form(value: ValueId) -> tuple[int, tuple[int, ...]]:
        return recording.values[value].storage, recording.values[value].shape

    for op in recording.ops.values():
        read = [slot.value for slot in op.inputs]
        if op.kind is OpKind.PASS and not is_alias(op):
            pairs = product(op.outputs, read)
        elif len(op.writes) > 1 and not found.isdisjoint(read):
            pairs = product(op.writes[1:], op.writes[:1])
        else:
            continue
        for made, given in pairs:
            if made not in found and form(made) == form(given):
                found.add(made)
                yield made, given


def first_in_memory(recording: Relations, value: ValueId) -> ValueId:
    """*value*; if it is an unnamed view of memory that its op wrote, such as the local part of a
    DTensor, the first result of the op in that memory."""
    values, op = recording.values, maker_of(recording, value)
    if op is None or value not in op.writes or values[value].names:
        return value
    if values[value].storage == NO_STORAGE:
        return value
    storage, writes = values[value].storage, frozenset(op.writes)
    return next(item for item in op.outputs if item in writes and values[item].storage == storage)


def recomputed(recording: Relations) -> frozenset[OpId]:
    """The ops that a checkpoint or custom function recomputed in backward."""
    return frozenset(op.id for op in recording.ops.values() if op.recompute)


def calls_of_kind(scopes: Mapping[ScopeId, Scope], *kinds: ScopeKind) -> dict[ScopeId, ScopeId]:
    """The scopes in an outermost scope of these *kinds*, itself included, mapped to that scope.

    Scopes in which a module runs are not considered, such as an optimizer step with a closure; but
    scopes of these kinds inside them are.
    """
    if not any(map(kinds.__contains__, map(attrgetter("kind"), scopes.values()))):
        return {}
    running: set[ScopeId | None] = {None}
    for scope in scopes.values():
        around = scope.id if scope.kind is ScopeKind.MODULE else None
        while around not in running:
            running.add(around)
            around = scopes[around].parent if around is not None else None
    found: dict[ScopeId, ScopeId] = {}
    for scope in scopes.values():
        if scope.parent in found:
            found[scope.id] = found[scope.parent]
        elif scope.kind in kinds and (scope.id not in running or scope.kind in OF_WEIGHTS):
            found[scope.id] = scope.id
    return found


class DataLoaders:
    """The calls of data loaders in a recording; those that run modules are left out.

    Attributes:
        calls: The call around each scope in one, itself included.
        batches: The values that each call computes and that operations outside of it read.
    """

    def __init__(self, recording: Tables) -> None:
        self.calls = calls_of_kind(recording.scopes, ScopeKind.DATA_LOADER)
        self.batches: dict[ScopeId, dict[ValueId, None]] = {
            call: {} for call in self.calls.values()
        }
        for op in recording.ops.values() if self.calls else ():
            for slot in op.inputs:
                producer = recording.values[slot.value].producer
                made_in = self.call_of(recording.ops[producer]) if producer is not None else None
                if made_in is not None and made_in != self.call_of(op):
                    self.batches[made_in].setdefault(slot.value)

    def call_of(self, op: Op) -> ScopeId | None:
        """The call that ran *op*."""
        return self.calls.get(op.scope) if op.scope is not None else None

    def is_within(self, op: Op, value: ValueId) -> bool:
        """Whether only operations in the same call read *value*, a result of *op*."""
        call = self.call_of(op)
        return call is not None and value not in self.batches[call]


NOT_INPUTS = (*STORED, Role.CONSTANT)
"""Parameters, buffers and constants are drawn at their readers and are no inputs of groups."""


class Boundaries:
    """The inputs and outputs of the *wanted* scopes, from one pass over the operations.

    Constants are inputs, because a function received them or read them from a global; parameters
    and buffers are none.
    """

    def __init__(self, recording: Tables, wanted: Collection[ScopeId]) -> None:
        self.recording = recording
        self._around: dict[ScopeId | None, tuple[ScopeId, ...]] = {None: ()}
        for scope in recording.scopes.values():
            outer = self._around[scope.parent]
            self._around[scope.id] = (*outer, scope.id) if scope.id in wanted else outer
        self._read: dict[ScopeId, dict[ValueId, str]] = {scope: {} for scope in wanted}
        self._made: dict[ScopeId, dict[ValueId, None]] = {scope: {} for scope in wanted}
        for op in recording.ops.values():
            for slot in op.inputs:
                self._flow(slot.value, slot.name, self._around[op.scope])
        for slot in recording.outputs:
            self._flow(slot.value, slot.name, ())

    def _flow(self, value: ValueId, name: str, into: tuple[ScopeId, ...]) -> None:
        """Add a value that ops in the scopes *into* read."""
        found = self.recording.values[value]
        producer = self.recording.ops.get(found.producer) if found.producer is not None else None
        out_of = self._around[producer.scope] if producer is not None else ()
        if producer is not None or found.role not in STORED:
            for scope in into:
                if scope not in out_of:
                    self._read[scope].setdefault(value, name)
        for scope in out_of:
            if scope not in into:
                self._made[scope][value] = None

    def inputs(self, scope: ScopeId) -> tuple[Slot, ...]:
        """The values from outside that its ops read, each named by its first argument."""
        return tuple(Slot(name, value) for value, name in self._read[scope].items())

    def outputs(self, scope: ScopeId) -> tuple[Slot, ...]:
        """The values of its ops that are read outside, in the order in which they are read."""
        return tuple(Slot(str(place), value) for place, value in enumerate(self._made[scope]))


def unseen_results(
    recording: Tables, unseen: Collection[ScopeId], held: Mapping[ValueId, str]
) -> Mapping[ScopeId, tuple[Slot, ...]]:
    """The outputs of the calls *unseen*, innermost first: the values that are read outside, and
    those that no op reads and the script has in its variables (*held*), in the order in which they
    were made.

    Calls of one module that ran the same ops return the same results, also where nothing reads
    one, such as the state after the last iteration of a loop. If nothing is read of any, these are
    the results of the last op or call inside. Values with a name, such as updated buffers, are no
    outputs, and neither are aliases of memory from before the run.
    """
    ends, values, ops = Boundaries(recording, unseen), recording.values, recording.ops
    made, last = _made_in(recording, unseen), _last_steps(recording)
    aliases = {op.outputs[0] for op in ops.values() if is_held_alias(op, values)}
    last_held = {value for value, name in held.items() if name}.difference(
        slot.value for op in ops.values() if op.outputs for slot in op.inputs
    )
    places: dict[tuple[Any, ...], set[int]] = {}  # of results, by what a call ran
    kinds: dict[ScopeId, tuple[Any, ...]] = {}
    for scope in unseen:
        facts = [(op.qualname, value.shape) for op, value in made[scope]]
        kinds[scope] = recording.scopes[scope].module, *facts
        read = last_held.union(slot.value for slot in ends.outputs(scope))
        found = {at for at, (_, value) in enumerate(made[scope]) if value.id in read}
        places.setdefault(kinds[scope], set()).update(found)
    outputs: dict[ScopeId, tuple[Slot, ...]] = {}
    for scope, kind in kinds.items():
        given = [made[scope][at][1] for at in sorted(places[kind])]
        results = [value.id for value in given if not (value.id in aliases or value.names)]
        if not results and scope in last:
            step = last[scope]
            inner = outputs.get(step.id, step.outputs) if isinstance(step, Scope) else ()
            results = [*step.outputs] if isinstance(step, Op) else [slot.value for slot in inner]
        outputs[scope] = tuple(Slot(str(at), value) for at, value in enumerate(results))
    return outputs


def _made_in(
    recording: Tables, scopes: Collection[ScopeId]
) -> Mapping[ScopeId, list[tuple[Op, Value]]]:
    """The values that ops in each of *scopes* made, at any depth, in order; each with its op."""
    made: dict[ScopeId, list[tuple[Op, Value]]] = {scope: [] for scope in scopes}
    for value in recording.values.values():
        op = maker_of(recording, value.id)
        around = op.scope if op is not None else None
        while op is not None and around is not None:
            if around in made:
                made[around].append((op, value))
            around = recording.scopes[around].parent
    return made


def _last_steps(recording: Tables) -> Mapping[ScopeId | None, Op | Scope]:
    """The last op or call directly in each scope."""
    steps: list[Op | Scope] = [*recording.ops.values(), *recording.scopes.values()]
    return {
        step.scope if isinstance(step, Op) else step.parent: step
        for step in sorted(steps, key=lambda step: step.index)
    }


def replacements(recording: Relations) -> frozenset[ValueId]:
    """The results of hooks with which a backward pass goes on."""
    return frozenset(value for run in recording.backward_runs for value in run.replacements)


def trained_later(
    values: Collection[Value], grads: Iterable[GradNode]
) -> Iterator[tuple[ValueId, Value]]:
    """The parameters that did not require grad when they were first seen, but did when an operation
    read them later: they are *trainable*."""
    frozen = {
        (value.names, value.storage): value for value in values
        if value.role is Role.PARAMETER and value.names and not value.trainable
    }
    if not frozen:
        return
    reached = {grad.variable for grad in grads}
    trained = {(value.names, value.storage) for value in values if value.id in reached}
    for key in trained & frozen.keys():
        yield frozen[key].id, frozen[key].replace(trainable=True)
