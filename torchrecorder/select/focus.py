"""Focus: a selected part of a recording, as a recording of its own.

It has scopes by path or pattern; ops that depend on a tensor; ops that a tensor depends on; or ops
between two tensors. Values that enter the part are its inputs, values that leave it are its
outputs.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from torchrecorder.errors import InvalidArgument
from torchrecorder.events import (
    STORED, Communication, GradId, GraphBreak, ModuleId, OpId, Role, ScopeId, Slot, ValueId,
)
from torchrecorder.graph.end_names import end_names
from torchrecorder.graph.nodes import GradNode, Module, Scope, Value
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import ops_inside, scopes_inside

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Focus:
    """The part of a recording to select."""

    scope: str | None = None  # path of a scope, or a pattern such as ``"encoder.layer.*"``
    # only ops that depend on this: a scope's path, the name of an input, output or parameter,
    # or a recorded id; with the ops that compute their inputs from weights only
    since: str | None = None
    until: str | None = None  # only ops that this depends on

    def __call__(self, recording: RecordedRun) -> RecordedRun:
        """The selected part; *recording* itself if nothing is selected.

        Raises:
            InvalidArgument: Nothing has such a name; the message suggests names.
        """
        if (self.scope, self.since, self.until) == (None, None, None):
            return recording
        roots: tuple[ScopeId, ...] = ()
        kept = set(recording.ops)
        if self.scope is not None:
            roots = scopes_like(recording, self.scope)
            kept = set(ops_inside(recording, roots))
        if self.since is not None:
            kept &= _after(recording, self.since)
        if self.until is not None:
            kept &= _before(recording, self.until)
        if self.since is not None:
            kept |= _weight_ops(recording, kept)
        alone = (self.since, self.until) == (None, None)
        if not (kept or alone):
            raise InvalidArgument(self._nothing(recording))
        shown = {*scopes_inside(recording, roots)} if alone else {*roots}
        return _Selection(recording, kept, roots, shown).recording()

    def _nothing(self, recording: RecordedRun) -> str:
        """The message if no op is selected."""
        since, until = self.since, self.until
        if since is not None and until is not None:
            swapped = _after(recording, until) & _before(recording, since)
            advice = "the other direction has some" if swapped else "neither depends on the other"
            if swapped or not _after(recording, since) & _before(recording, until):
                return f"nothing lies between since={since!r} and until={until!r}: {advice}"
        chosen = {"focus": self.scope, "since": since, "until": until}
        text = ", ".join(f"{name}={item!r}" for name, item in chosen.items() if item is not None)
        return f"no operation is left of {text}"


def scopes_like(recording: RecordedRun, pattern: str) -> tuple[ScopeId, ...]:
    """The outermost scopes whose path, or else class, matches *pattern*; raises if none does."""
    scopes = [scope for scope in recording.scopes.values() if not scope.recompute]
    paths = recording.call_paths
    found = [one for one in scopes if any(fnmatchcase(path, pattern) for path in paths[one.id])]
    found = found or [scope for scope in scopes if fnmatchcase(scope.cls, pattern)]
    if not found:
        raise InvalidArgument(advice("module", pattern, (scope.path for scope in scopes)))
    chosen: set[str] = set()
    for scope in found:
        around = recording.within(scope.parent)
        if not any(outer in chosen for outer in around):
            chosen.add(scope.id)
    return tuple(scope.id for scope in found if scope.id in chosen)


def advice(what: str, name: str, known: Iterable[str]) -> str:
    """The error message if nothing has this *name*, with similar names."""
    names = [item for item in dict.fromkeys(known) if item]
    near = get_close_matches(name, names, 3, 0.4)
    listed = " or ".join(map(repr, near)) or ", ".join(map(repr, names[:3])) or "none"
    hint = f"; did you mean {listed}?" if near else f". Known: {listed}"
    return f"no {what} is called {name!r}{hint}"


def _after(recording: RecordedRun, name: str) -> set[OpId]:
    """The ops that depend on *name*, itself included."""
    return _reached(recording, recording.graph, name)


def _before(recording: RecordedRun, name: str) -> set[OpId]:
    """The ops that *name* depends on, itself included."""
    return _reached(recording, recording.graph.reverse(copy=False), name)


def _reached(recording: RecordedRun, graph: nx.MultiDiGraph, name: str) -> set[OpId]:
    """The ops that can be reached from *name* in this *graph* of the run."""
    import networkx as nx

    layers = nx.bfs_layers(graph, _anchor(recording, name))
    return {node for layer in layers for node in layer if node in recording.ops}


def _weight_ops(recording: RecordedRun, kept: set[OpId]) -> set[OpId]:
    """The ops that compute inputs of *kept* ops from parameters and buffers only, as a reshape.

    Only ops in or below the scope of the reader count: a network may begin with a parameter.
    """
    alone: set[OpId] = set()
    for op in recording.ops.values():
        read = [recording.values[slot.value] for slot in op.inputs]
        if read and all(item.role in STORED or item.producer in alone for item in read):
            alone.add(op.id)
    found: dict[tuple[OpId, ScopeId | None], None] = {}
    waiting = [(op, recording.ops[op].scope) for op in kept]
    while waiting:
        reader, scope = waiting.pop()
        for slot in recording.ops[reader].inputs:
            maker = recording.values[slot.value].producer
            if maker is None or maker not in alone or (maker, scope) in found:
                continue
            if scope is None or scope in recording.within(recording.ops[maker].scope):
                found[maker, scope] = None
                waiting.append((maker, scope))
    return {op for op, _ in found}


def _anchor(recording: RecordedRun, name: str) -> list[OpId]:
    """The ops that compute or read the tensor or scope *name*."""
    if name in recording.ops:
        return [OpId(name)]
    values = [ValueId(name)] if name in recording.values else _named(recording, name)
    makers = [recording.values[value].producer for value in values]
    ops = [op for op in makers if op is not None and op in recording.ops]
    readers = [op for value in values for op in recording.consumers.get(value, ())]
    if values:
        return ops or readers
    try:
        return list(ops_inside(recording, scopes_like(recording, name)))
    except InvalidArgument:
        known = [names[0] for _, _, names in end_names(recording) if names]
        paths = (scope.path for scope in recording.scopes.values())
        raise InvalidArgument(advice("tensor or module", name, [*known, *paths])) from None


def _named(recording: RecordedRun, name: str) -> list[ValueId]:
    """Inputs, outputs, parameters and buffers with this name."""
    found = [value for _, value, names in end_names(recording) if name in names]
    known, values = recording.call_paths.known, recording.values.values()
    stored = [value.id for value in values if name in known(value.names)]
    return list(dict.fromkeys([*found, *stored]))


class _Selection:
    """The recording of the *kept* ops and of the scopes *shown*; *roots* are at the top."""

    def __init__(
        self,
        recording: RecordedRun,
        kept: set[OpId],
        roots: tuple[ScopeId, ...],
        shown: set[ScopeId],
    ) -> None:
        self.whole = recording
        self.roots = roots
        self.shown = shown
        self.ops = {op.id: op for op in recording.ops.values() if op.id in kept}
        self.made = {value for op in self.ops.values() for value in op.outputs}
        self.scopes = self._scopes()

    def recording(self) -> RecordedRun:
        inputs, outputs = self._inputs(), self._outputs()
        grads, modules = self._grads(), self._modules()
        values = self._values(inputs, modules.values(), grads.values())
        nodes = self.scopes.keys() | self.ops.keys() | values.keys() | grads.keys()
        return replace(
            self.whole,
            scopes=self.scopes,
            modules=modules,
            ops=self.ops,
            values=values,
            grad_nodes=grads,
            inputs=inputs,
            outputs=outputs,
            grad_runs=tuple(run for run in self.whole.grad_runs if run.grad in grads),
            measured={
                quantity: {node: amount for node, amount in amounts.items() if node in nodes}
                for quantity, amounts in self.whole.measured.items()
            },
            shards=tuple(shard for shard in self.whole.shards if shard.value in values),
            parameter_parts=tuple(
                part for part in self.whole.parameter_parts if values.keys() >= {*part}
            ),
            grad_switches=tuple(item for item in self.whole.grad_switches if item.value in values),
            statistics=tuple(
                one for one in self.whole.statistics if one.node in values or one.node in grads
            ),
            communications=tuple(self._communications(grads)),
            graph_breaks=tuple(self._breaks()),
            fused_kernels=tuple(
                kernel._replace(ops=tuple(op for op in kernel.ops if op in self.ops))
                for kernel in self.whole.fused_kernels
            ),
        )

    def _communications(self, grads: Container[GradId]) -> Iterator[Communication]:
        """The communication in kept scopes and of kept ops."""
        for communication in self.whole.communications:
            if communication.scope in self.scopes or communication.op in self.ops:
                yield communication._replace(
                    op=communication.op if communication.op in self.ops else None,
                    grad=communication.grad if communication.grad in grads else None,
                )

    def _breaks(self) -> Iterator[GraphBreak]:
        """The graph breaks in kept scopes and at kept ops."""
        for item in self.whole.graph_breaks:
            if item.scope in self.scopes or item.op in self.ops:
                yield item._replace(op=item.op if item.op in self.ops else None)

    def _scopes(self) -> dict[ScopeId, Scope]:
        """The scopes of the kept ops, and those that are shown; selected scopes are at the top."""
        inside = {*self.shown}
        for op in self.ops.values():
            for scope in self.whole.within(op.scope):
                if scope in inside:
                    break
                inside.add(scope)
        top = set(self.roots)
        return {
            scope.id: scope.replace(parent=None) if scope.id in top else scope
            for scope in self.whole.scopes.values()
            if scope.id in inside
        }

    def _inputs(self) -> tuple[Slot, ...]:
        """Values from outside with their arguments' or producers' names; no weights and buffers."""
        scopes, values = self.whole.scopes, self.whole.values
        given = {slot.value: slot.name for root in self.roots for slot in scopes[root].inputs}
        read = (slot.value for op in self.ops.values() for slot in op.inputs)
        return tuple(
            Slot(given.get(value) or self._origin(values[value]), value)
            for value in dict.fromkeys([*given, *read])
            if value not in self.made
            and (
                values[value].role is Role.INPUT
                or values[value].producer is not None and value not in self.whole.stored
            )
        )

    def _origin(self, value: Value) -> str:
        """The name of the op or module that computed a value."""
        op = self.whole.ops.get(value.producer or OpId(""))
        if op is None:
            return value.names[0] if value.names else "input"
        around = (self.whole.scopes[scope].path for scope in self.whole.within(op.scope))
        path = next(filter(None, around), "")
        return f"{path}.{op.name}" if path else op.name

    def _outputs(self) -> tuple[Slot, ...]:
        """Results of the scopes, outputs of the run, and results that no kept op reads."""
        given = [slot for root in self.roots for slot in self.whole.scopes[root].outputs]
        own = [slot for slot in self.whole.outputs if slot.value in self.made]
        values = {slot.value for slot in given}
        given.extend(slot for slot in own if slot.value not in values)
        values.update(slot.value for slot in own)
        read = {slot.value for op in self.ops.values() for slot in op.inputs}
        loose = (value for op in self.ops.values() for value in op.outputs if value not in read)
        ends = (value for value in dict.fromkeys(loose) if value not in values)
        return (*given, *(Slot("", value) for value in ends if self._leaves(value)))

    def _leaves(self, value: ValueId) -> bool:
        """Whether an op outside the part reads the value."""
        readers = (self.whole.ops[op] for op in self.whole.consumers.get(value, ()))
        return any(op.id not in self.ops and op.outputs for op in readers)

    def _modules(self) -> dict[ModuleId, Module]:
        """The modules of the scopes, and those directly in them that are never called."""
        modules = self.whole.modules.values()
        called = {path: one for one in modules if one.calls for path in one.names}
        found: dict[ModuleId, Module] = {}
        for one in modules:
            around = one if one.calls else next(filter(None, map(called.get, one.around())), None)
            if around is not None and not self.scopes.keys().isdisjoint(around.calls):
                calls = tuple(filter(self.scopes.__contains__, one.calls))
                found[one.id] = one.replace(calls=calls)
        return found

    def _values(
        self,
        inputs: tuple[Slot, ...],
        modules: Iterable[Module],
        grads: Iterable[GradNode],
    ) -> dict[ValueId, Value]:
        """The values that the part reads, makes or has."""
        names = {slot.value: slot.name for slot in inputs}
        slots = [slot for op in self.ops.values() for slot in op.inputs]
        for scope in self.scopes.values():
            slots += scope.inputs + scope.outputs
        for module in modules:
            slots += module.stored
        used = self.made | {slot.value for slot in slots} | {grad.variable for grad in grads}
        found = {item: value for item, value in self.whole.values.items() if item in used}
        for item in (*names, *(found.keys() & self.whole.stored)):
            if item in names:
                found[item] = found[item].replace(
                    role=Role.INPUT, names=(names[item],), producer=None
                )
            elif found[item].producer not in self.ops:
                found[item] = found[item].replace(producer=None)
        return found

    def _grads(self) -> dict[GradId, GradNode]:
        """The nodes of kept ops, and those of the leaves to which they lead or which these read."""
        nodes = self.whole.grad_nodes.values()
        read = {slot.value for op in self.ops.values() for slot in op.inputs}
        led = (edge.grad for grad in nodes if grad.owner in self.ops for edge in grad.next if edge)
        reached = {*led}
        kept = {
            grad.id: grad for grad in nodes
            if grad.owner in self.ops
            or grad.variable is not None and (grad.id in reached or grad.variable in read)
        }
        return {
            grad.id: grad.replace(
                scope=grad.scope if grad.scope in self.scopes else None,
                next=tuple(edge if edge and edge.grad in kept else None for edge in grad.next),
            )
            for grad in kept.values()
        }
