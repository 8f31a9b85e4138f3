"""Combined: one recording in which each lane is a scope, and messages are edges between lanes.

Code that draws, lists or analyzes a recording also works with a combined one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Optional

from torchrecorder.events import (
    GRAD_SUFFIX, GRADIENT_MESSAGE, JOINED, MESSAGE, STORED, UNFINISHED, Communication, FunctionCall,
    FunctionId, GradEdge, GradId, GradSwitch, ModuleId, OpId, ParameterPart, Role, ScopeId,
    ScopeKind, Shard, Slot, ValueId,
)
from torchrecorder.graph.failure import Failure
from torchrecorder.graph.memory_access import contents_read
from torchrecorder.graph.nodes import BackwardRun, GradNode, GradRun, Module, Op, Row, Scope, Value
from torchrecorder.graph.recording import RunFacts
from torchrecorder.ranks.join import Collective
from torchrecorder.ranks.lanes import Lane
from torchrecorder.ranks.sent import distance
from torchrecorder.ranks.sharding_ops import setup_scopes, without_sharding_ops
from torchrecorder.recording import Recording
from torchrecorder.views.outputs import read_later

Waits = dict[int, tuple[Optional[float], int]]
"""The longest wait for each communication, by its index, and the rank that was waited for."""

COPIES = ("detach", "clone", "contiguous", "to")
"""Ops whose output is a gradient if their input is one."""


def combined(
    name: str, lanes: Sequence[Lane], collectives: Sequence[Collective], *, sharding_ops: bool
) -> Recording:
    """The *lanes* as one recording, without the *sharding_ops* of FSDP and DTensor if False."""
    skipped: list[set[int]] = [set() for _ in lanes]
    if not sharding_ops:
        for lane, places in zip(lanes, skipped):
            setup = setup_scopes(lane.recording)  # there, a pipeline infers the shapes of tensors
            sent = enumerate(lane.recording.communications)
            places.update(place for place, item in sent if item.scope in setup)
        lanes = [lane._replace(recording=without_sharding_ops(lane.recording)) for lane in lanes]
    tables = _CombinedTables()
    for item, waits, places in zip(lanes, _longest_waits(lanes, collectives), skipped):
        tables.add(item, waits, places)
    tables.connect(lanes, collectives)
    return tables.recording(name, lanes)


def _longest_waits(lanes: Sequence[Lane], collectives: Sequence[Collective]) -> list[Waits]:
    """The waits of each lane."""
    found: list[Waits] = [{} for _ in lanes]
    of_rank = {rank: waits for lane, waits in zip(lanes, found) for rank in lane.ranks}
    for collective in collectives:
        if collective.last is None:
            continue
        for rank, place, waited in zip(collective.ranks, collective.places, collective.waits()):
            longest, _ = of_rank[rank].get(place, (None, -1))
            if waited is not None and (longest is None or waited > longest):
                of_rank[rank][place] = waited, collective.last
    return found


class _CombinedTables:
    """The tables of one recording, to which other recordings are added with new ids."""

    def __init__(self) -> None:
        self.scopes: dict[ScopeId, Scope] = {}
        self.modules: dict[ModuleId, Module] = {}
        self.ops: dict[OpId, Op] = {}
        self.values: dict[ValueId, Value] = {}
        self.grads: dict[GradId, GradNode] = {}
        self.functions: dict[FunctionId, FunctionCall] = {}
        self.lists: dict[str, list[Any]] = {
            name: [] for name in ("inputs", "outputs", "backward_runs", "grad_runs", "statistics",
                                  "shards", "parameter_parts", "grad_switches", "communications")
        }
        self.measured: dict[str, dict[str, float]] = {}
        self.placed: list[list[Communication]] = []
        self.buffers: list[ValueId] = []  # the buffers of receives
        self.messages: dict[OpId, Slot] = {}  # what each send sends
        self.backwards: set[OpId] = set()
        self.lanes: list[ScopeId] = []  # the scope of each lane
        self.running: list[str] = []
        self.failures: list[Failure] = []
        self.index = 0
        self.storages = 0

    def add(self, lane: Lane, waits: Waits, skipped: Collection[int]) -> None:
        """Add a lane inside a scope of its own, without the *skipped* communications."""
        recording = lane.recording
        read = read_later(recording)
        outputs = tuple(slot for slot in recording.outputs if slot.value not in read)
        top = ScopeId(f"s{len(self.scopes)}")
        self.lanes.append(top)
        index, self.index = self.index, self.index + 1
        new = _Renumbered(self, recording)
        self.running += [new.of(item) for item in recording.run.running if item in new]
        failure = recording.run.failure
        if failure is not None and failure.error != UNFINISHED:
            scope = new.of(failure.scope) or top
            op, grad = new.of(failure.op), new.of(failure.grad)
            failure = replace(failure, scope=scope, op=op, grad=grad, communication=None)
            self.failures.append(failure)
        prefix = lane.name.replace(" ", "_")
        self.scopes[top] = Scope(
            top, None, index, ScopeKind.FUNCTION, lane.name, prefix, _details(lane), None, 0, None,
            False, new.of(recording.inputs), new.of(outputs), lane.seconds, False,
        )
        for scope in recording.scopes.values():
            self.scopes[new.of(scope.id)] = new.row(
                scope,
                parent=new.of(scope.parent) or top,
                index=scope.index + self.index,
                path=_with_prefix(prefix, scope.path),
            )
        for module in recording.modules.values():
            names = tuple(_with_prefix(prefix, name) for name in module.names)
            self.modules[new.of(module.id)] = new.row(module, names=names)
        for op in recording.ops.values():
            self.ops[new.of(op.id)] = new.row(
                op, scope=new.of(op.scope) or top, index=op.index + self.index
            )
        stored = {name for value in recording.values.values() if value.role in STORED
                  for name in value.names}
        for value in recording.values.values():
            own = stored.issuperset(name.removesuffix(GRAD_SUFFIX) for name in value.names)
            self.values[new.of(value.id)] = new.row(
                value,
                names=tuple(_with_prefix(prefix, name) for name in value.names) if own
                else value.names,
                storage=value.storage if value.storage < 0 else value.storage + self.storages,
            )
        self.grads |= {new.of(key): new.row(grad) for key, grad in recording.grad_nodes.items()}
        for call in recording.function_calls.values():
            self.functions[new.of(call.id)] = new.row(call, scope=new.of(call.scope) or top)
        self.lists["inputs"] += new.of(recording.inputs)
        self.lists["outputs"] += new.of(outputs)
        self._add_lists(recording, new)
        self._add_communications(recording, top, new, waits, skipped)
        indices = [scope.index for scope in self.scopes.values()]
        indices += [op.index for op in self.ops.values()]
        self.index = 1 + max(indices)
        self.storages += 1 + max((value.storage for value in recording.values.values()), default=-1)

    def _add_lists(self, recording: Recording, new: _Renumbered) -> None:
        lists = self.lists
        runs = len(lists["backward_runs"])
        for name in ("backward_runs", "grad_runs"):
            lists[name] += [new.row(run, run=run.run + runs) for run in getattr(recording, name)]
        lists["statistics"] += [
            statistic._replace(
                node=new.of(statistic.node), run=statistic.run + runs if statistic.run >= 0 else -1
            )
            for statistic in recording.statistics
        ]
        for name in ("shards", "parameter_parts"):
            lists[name] += map(new.row, getattr(recording, name))
        lists["grad_switches"] += [
            new.row(item, position=item.position + self.index) for item in recording.grad_switches
        ]
        for quantity, amounts in recording.measured.items():
            known = self.measured.setdefault(quantity, {})
            known.update((new.of(node), amount) for node, amount in amounts.items())

    def _add_communications(
        self,
        recording: Recording,
        top: ScopeId,
        new: _Renumbered,
        waits: Waits,
        skipped: Collection[int],
    ) -> None:
        """Add the communications of a lane with their waits."""
        placed = [
            new.row(
                item,
                scope=new.of(item.scope) or top,
                waited_seconds=waits.get(place, (None, -1))[0],
                last=waits.get(place, (None, -1))[1],
            )
            for place, item in enumerate(recording.communications)
        ]
        self.lists["communications"] += [
            item for place, item in enumerate(placed) if place not in skipped
        ]
        self.placed.append(placed)

    def connect(self, lanes: Sequence[Lane], collectives: Iterable[Collective]) -> None:
        """Add an edge from each send to its receive."""
        lane_of = {rank: number for number, lane in enumerate(lanes) for rank in lane.ranks}
        self.backwards = {run.op for run in self.lists["backward_runs"]}
        known: set[tuple[str, str]] = set()
        peers: dict[OpId, dict[int, tuple[str, str]]] = {}
        for collective in collectives:
            if collective.name != "send" or len(collective.parts) < 2:
                continue
            send, receive = (
                self.placed[lane_of[part.rank]][part.place] for part in collective.parts
            )
            if send.op is None or receive.op is None or send.op == receive.op:
                continue
            ranks = collective.group.ranks
            here, there = collective.ranks
            away = distance(collective.group, here, there)
            away -= len(ranks) * (2 * away > len(ranks))
            peers.setdefault(send.op, {})[there] = "group_dst", f"rank{away:+d}"
            peers.setdefault(receive.op, {})[here] = "group_src", f"rank{-away:+d}"
            if (send.op, receive.op) not in known:
                known.add((send.op, receive.op))
                message = self._connect(send.op, receive.op, send)
                sender, receiver = (self.lanes[lane_of[rank]] for rank in collective.ranks)
                if sender != receiver:
                    lane = self.scopes[receiver]
                    self.scopes[receiver] = lane.replace(inputs=(*lane.inputs, message))
        self._name_peers(peers)
        self._remove_receive_buffers()

    def _remove_receive_buffers(self) -> None:
        """Remove the ops that created receive buffers which nothing else reads."""
        removed: set[OpId] = set()
        read = {slot.value for op in self.ops.values() for slot in op.inputs}
        read.update(
            slot.value for scope in self.scopes.values() for slot in (*scope.inputs, *scope.outputs)
        )
        for value in self.buffers:
            maker = self.values[value].producer
            op = self.ops.get(maker) if maker is not None else None
            if op is not None and not any(contents_read(op)) and read.isdisjoint(op.outputs):
                del self.ops[op.id]
                removed.add(op.id)
                for output in op.outputs:
                    self.values[output] = self.values[output].replace(producer=None)
                for amounts in self.measured.values():
                    amounts.pop(op.id, None)
        for call in self.functions.values() if removed else ():
            ops = tuple(op for op in call.ops if op not in removed)
            self.functions[call.id] = call._replace(ops=ops)

    def _connect(self, source: OpId, target: OpId, sent: Communication) -> Slot:
        """Add an edge; returns the input of the receive."""
        message = self.messages.get(source) or self._message(source, sent)
        self.messages[source] = message
        receiver = self.ops[target]
        kept = receiver.inputs
        if receiver.name in ("recv", "irecv"):  # the former content of the buffer is overwritten
            kept = tuple(item for item in kept if item.name in (MESSAGE, GRADIENT_MESSAGE))
            self.buffers += [item.value for item in receiver.inputs]
        self.ops[target] = receiver.replace(inputs=(*kept, message))
        return message

    def _message(self, source: OpId, sent: Communication) -> Slot:
        """Add what a send sends to its outputs."""
        value = ValueId(f"v{len(self.values)}")
        sender = self.ops[source]
        inputs = [self.values[slot.value] for slot in sender.inputs]
        like = next((item for item in inputs if item.bytes == sent.given), inputs[0])
        self.values[value] = like.replace(
            id=value, role=Role.INNER, names=(), producer=source, grad=None, storage=-1,
            kind="Tensor", trainable=False, requires_grad=False,
        )
        self.ops[source] = sender.replace(outputs=(*sender.outputs, value))
        return Slot(GRADIENT_MESSAGE if self._is_gradient(like) else MESSAGE, value)

    def _name_peers(self, peers: Mapping[OpId, Mapping[int, tuple[str, str]]]) -> None:
        """Where the ranks of a lane have different peers, name these relative to their own rank."""
        for op, relative in peers.items():
            if len(relative) > 1:
                row = self.ops[op]
                others = [(name, text) for name, text in row.arguments if name not in _PEERS]
                self.ops[op] = row.replace(arguments=(*others, *dict.fromkeys(relative.values())))

    def _is_gradient(self, value: Value) -> bool:
        """Whether *value* is the output of a backward pass."""
        maker = self.ops.get(value.producer) if value.producer is not None else None
        while maker is not None and maker.name in COPIES and maker.inputs:
            before = self.values[maker.inputs[0].value].producer
            maker = self.ops.get(before) if before is not None else None
        return maker is not None and maker.id in self.backwards

    def recording(self, name: str, lanes: Sequence[Lane]) -> Recording:
        """The combined recording."""
        runs = [lane.recording.run for lane in lanes]
        ranks = [run.rank for run in runs if run.rank is not None]
        groups = dict.fromkeys(group for rank in ranks for group in rank.groups)
        first = ranks[0]._replace(rank=JOINED, groups=tuple(groups)) if ranks else None
        lists: dict[str, Any] = {name: tuple(found) for name, found in self.lists.items()}
        return Recording(
            name=name,
            scopes=self.scopes,
            modules=self.modules,
            ops=self.ops,
            values=self.values,
            grad_nodes=self.grads,
            function_calls=self.functions,
            run=RunFacts(
                runs[0].torch_version, runs[0].grad_mode, runs[0].notes, rank=first,
                running=tuple(self.running), lane_failures=tuple(self.failures),
            ),
            measured=self.measured,
            **lists,
        )


_PEERS = ("dst", "src", "group_dst", "group_src")
"""The arguments of sends and receives that name the other rank."""


class _Renumbered:
    """Maps the ids of an added recording to ids in the combined one."""

    def __init__(self, tables: _CombinedTables, recording: Recording) -> None:
        shift = {
            "s": len(tables.scopes) + 1,
            "m": len(tables.modules),
            "o": len(tables.ops),
            "v": len(tables.values),
            "g": len(tables.grads),
            "f": len(tables.functions),
        }
        self._new: dict[str, str] = {}
        for ids in (
            recording.scopes, recording.modules, recording.ops, recording.values,
            recording.grad_nodes, recording.function_calls,
        ):
            for number, old in enumerate(ids):
                self._new[old] = f"{old[0]}{shift[old[0]] + number}"

    def __contains__(self, old: str) -> bool:
        """Whether the recording has it; a part of one may not."""
        return old in self._new

    def of(self, old: Any) -> Any:
        """The new id of an id; slots, edges, and tuples of them with new ids; None for None."""
        if old is None or isinstance(old, str):
            return old and self._new[old]
        if isinstance(old, Slot):
            return Slot(old.name, ValueId(self._new[old.value]))
        if isinstance(old, GradEdge):
            return GradEdge(GradId(self._new[old.grad]), old.index)
        return tuple(map(self.of, old))

    def row(self, old: Any, **fields: Any) -> Any:
        """A row of a recording with new ids wherever it refers to nodes, and these *fields*."""
        found = {name: self.of(getattr(old, name)) for name in _REFERENCES[type(old)]} | fields
        return old.replace(**found) if isinstance(old, Row) else old._replace(**found)


_IDS = re.compile(r"\b((Scope|Module|Op|Value|Grad|Function)Id|Slot|GradEdge)\b")
_ROWS: tuple[type[Any], ...] = (
    Scope, Module, Op, Value, GradNode, BackwardRun, GradRun, Communication, FunctionCall, Shard,
    ParameterPart, GradSwitch,
)
_REFERENCES: Mapping[type[Any], tuple[str, ...]] = {
    kind: tuple(name for name, hint in kind.__annotations__.items() if _IDS.search(str(hint)))
    for kind in _ROWS
}
"""The fields of each kind of rows that refer to nodes, by their types."""


def _with_prefix(prefix: str, path: str) -> str:
    return f"{prefix}.{path}" if path else prefix


def _details(lane: Lane) -> str:
    """The text of a lane's box below its name."""
    text = [f"×{len(lane.ranks)}"] if len(lane.ranks) > 1 else []
    text += [f"{len(lane.ranks) - lane.assumed} recorded"] if lane.assumed else []
    text += [f"differs in {', '.join(lane.differs)}"] if lane.differs else []
    text += [lane.ended] if lane.ended else []
    return ", ".join(text)
