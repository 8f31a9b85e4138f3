"""Combined: one recording in which each lane is a scope, and messages lead from lane to lane.

Whatever draws, lists or computes from a recording works on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from torchrecorder.events import (
    Communication,
    GradEdge,
    GradId,
    ModuleId,
    OpId,
    Role,
    ScopeId,
    ScopeKind,
    Slot,
    ValueId,
)
from torchrecorder.graph.nodes import GradNode, Module, Op, Scope, Value
from torchrecorder.graph.recording import RunFacts
from torchrecorder.ranks.join import Collective
from torchrecorder.ranks.lanes import Lane
from torchrecorder.ranks.plumbing import without_plumbing
from torchrecorder.recording import Recording


MESSAGE = "message"
"""The argument of a receive that comes from another lane."""


def combined(
    name: str, lanes: Sequence[Lane], collectives: Sequence[Collective], *, plumbing: bool
) -> Recording:
    """The recordings of *lanes* as one, with what their collectives waited.

    Args:
        name: The name of the whole.
        lanes: Whose recordings.
        collectives: What they sent to each other.
        plumbing: Keep what FSDP and DTensor do to bring tensors where they are needed.
    """
    if not plumbing:
        lanes = [
            each._replace(recording=without_plumbing(each.recording)) for each in lanes
        ]
    parts = _Parts()
    for each in lanes:
        parts.add(each, _waits(each, collectives))
    parts.connect(lanes, collectives)
    return parts.recording(name, lanes)


def _waits(lane: Lane, collectives: Sequence[Collective]) -> dict[int, tuple[float | None, int]]:
    """For each communication of a lane by its place: the longest wait of its ranks, and for whom."""
    found: dict[int, tuple[float | None, int]] = {}
    members = set(lane.ranks)
    for each in collectives:
        for part in each.parts:
            if part.rank in members and part.waited is not None and each.last is not None:
                longest, _ = found.get(part.place, (None, -1))
                if longest is None or part.waited > longest:
                    found[part.place] = part.waited, each.last
    return found


class _Parts:
    """Tables of one recording, to which others are added with ids of their own."""

    def __init__(self) -> None:
        self.scopes: dict[ScopeId, Scope] = {}
        self.modules: dict[ModuleId, Module] = {}
        self.ops: dict[OpId, Op] = {}
        self.values: dict[ValueId, Value] = {}
        self.grads: dict[GradId, GradNode] = {}
        self.lists: dict[str, list[Any]] = {
            name: [] for name in ("inputs", "outputs", "backward_runs", "grad_runs", "statistics",
                                  "shards", "communications")
        }
        self.measured: dict[str, dict[str, float]] = {}
        self.placed: list[list[Communication]] = []
        self.index = 0
        self.storages = 0

    def add(self, lane: Lane, waits: Mapping[int, tuple[float | None, int]]) -> None:
        """Add one lane: a scope with all of its recording inside."""
        recording = lane.recording
        top = ScopeId(f"s{len(self.scopes)}")
        index, self.index = self.index, self.index + 1
        new = _Renumbered(self, recording)
        prefix = lane.name.replace(" ", "_")
        self.scopes[top] = Scope(
            top, None, index, ScopeKind.FUNCTION, lane.name, prefix, _told(lane), None, 0, None,
            False, new.slots(recording.inputs), new.slots(recording.outputs), lane.seconds, False,
        )
        for scope in recording.scopes.values():
            self.scopes[new.id(scope.id)] = scope._replace(
                id=new.id(scope.id),
                parent=top if scope.parent is None else new.id(scope.parent),
                index=new.index(scope.index),
                path=_below(prefix, scope.path),
                module=new.id(scope.module),
                inputs=new.slots(scope.inputs),
                outputs=new.slots(scope.outputs),
            )
        for module in recording.modules.values():
            self.modules[new.id(module.id)] = module._replace(
                id=new.id(module.id),
                names=tuple(_below(prefix, each) for each in module.names),
                parameters=new.slots(module.parameters),
                buffers=new.slots(module.buffers),
                calls=new.ids(module.calls),
            )
        for op in recording.ops.values():
            self.ops[new.id(op.id)] = op._replace(
                id=new.id(op.id),
                scope=top if op.scope is None else new.id(op.scope),
                index=new.index(op.index),
                inputs=new.slots(op.inputs),
                outputs=new.ids(op.outputs),
                writes=new.ids(op.writes),
            )
        for value in recording.values.values():
            stored = value.role in (Role.PARAMETER, Role.BUFFER)
            self.values[new.id(value.id)] = value._replace(
                id=new.id(value.id),
                names=tuple(_below(prefix, each) for each in value.names) if stored
                else value.names,
                producer=new.id(value.producer),
                grad=new.edge(value.grad),
                storage=value.storage if value.storage < 0 else value.storage + self.storages,
            )
        for grad in recording.grad_nodes.values():
            self.grads[new.id(grad.id)] = grad._replace(
                id=new.id(grad.id),
                owner=new.id(grad.owner),
                scope=new.id(grad.scope),
                next=tuple(map(new.edge, grad.next)),
                variable=new.id(grad.variable),
                made_by=new.id(grad.made_by),
            )
        self._add_lists(recording, top, new, waits)
        indices = [scope.index for scope in self.scopes.values()]
        indices += [op.index for op in self.ops.values()]
        self.index = 1 + max(indices)
        self.storages += 1 + max((each.storage for each in recording.values.values()), default=-1)

    def _add_lists(
        self,
        recording: Recording,
        top: ScopeId,
        new: _Renumbered,
        waits: Mapping[int, tuple[float | None, int]],
    ) -> None:
        lists = self.lists
        lists["inputs"] += new.slots(recording.inputs)
        lists["outputs"] += new.slots(recording.outputs)
        runs = len(lists["backward_runs"])
        lists["backward_runs"] += [
            each._replace(run=each.run + runs, op=new.id(each.op))
            for each in recording.backward_runs
        ]
        lists["grad_runs"] += [
            each._replace(run=each.run + runs, grad=new.id(each.grad))
            for each in recording.grad_runs
        ]
        lists["statistics"] += [
            each._replace(node=new.id(each.node), run=each.run + runs if each.run >= 0 else -1)
            for each in recording.statistics
        ]
        lists["shards"] += [each._replace(value=new.id(each.value)) for each in recording.shards]
        placed = [
            told._replace(
                scope=top if told.scope is None else new.id(told.scope),
                op=new.id(told.op),
                grad=new.id(told.grad),
                waited_seconds=waits.get(place, (None, -1))[0],
                last=waits.get(place, (None, -1))[1],
            )
            for place, told in enumerate(recording.communications)
        ]
        lists["communications"] += placed
        self.placed.append(placed)
        for quantity, amounts in recording.measured.items():
            known = self.measured.setdefault(quantity, {})
            known.update((new.id(node), amount) for node, amount in amounts.items())

    def connect(self, lanes: Sequence[Lane], collectives: Iterable[Collective]) -> None:
        """An edge from each send to its receive, where they are of the ranks that are shown."""
        lane_of = {rank: number for number, each in enumerate(lanes) for rank in each.ranks}
        known: set[tuple[str, str]] = set()
        for each in collectives:
            if each.name != "send" or len(each.parts) < 2:
                continue
            send, receive = (
                self.placed[lane_of[part.rank]][part.place] for part in each.parts
            )
            if send.op is None or receive.op is None or send.op == receive.op:
                continue
            if (send.op, receive.op) not in known:
                known.add((send.op, receive.op))
                self._connect(send.op, receive.op, send)

    def _connect(self, source: OpId, target: OpId, told: Communication) -> None:
        value = ValueId(f"v{len(self.values)}")
        sender, receiver = self.ops[source], self.ops[target]
        given = [self.values[slot.value] for slot in sender.inputs]
        like = next((each for each in given if each.bytes == told.given), given[0])
        self.values[value] = like._replace(
            id=value, role=Role.INNER, names=(), producer=source, grad=None, storage=-1,
            kind="Tensor", trainable=False, requires_grad=False,
        )
        self.ops[source] = sender._replace(outputs=(*sender.outputs, value))
        kept = () if receiver.name in ("recv", "irecv") else receiver.inputs
        before = [each for each in receiver.inputs if each.name == MESSAGE]
        self.ops[target] = receiver._replace(
            inputs=(*(kept or before), Slot(MESSAGE, value))  # what a buffer held before is gone
        )

    def recording(self, name: str, lanes: Sequence[Lane]) -> Recording:
        """All of it."""
        runs = [each.recording.run for each in lanes]
        ranks = [run.rank for run in runs if run.rank is not None]
        groups = dict.fromkeys(group for rank in ranks for group in rank.groups)
        first = ranks[0]._replace(groups=tuple(groups)) if ranks else None
        lists: dict[str, Any] = {name: tuple(found) for name, found in self.lists.items()}
        return Recording(
            name=name,
            scopes=MappingProxyType(self.scopes),
            modules=MappingProxyType(self.modules),
            ops=MappingProxyType(self.ops),
            values=MappingProxyType(self.values),
            grad_nodes=MappingProxyType(self.grads),
            run=RunFacts(runs[0].torch_version, runs[0].grad_mode, runs[0].notes, rank=first),
            measured=MappingProxyType(
                {quantity: MappingProxyType(found) for quantity, found in self.measured.items()}
            ),
            **lists,
        )


class _Renumbered:
    """Ids of a recording that is added, as they are in the whole."""

    def __init__(self, parts: _Parts, recording: Recording) -> None:
        shift = {
            "s": len(parts.scopes) + 1,
            "m": len(parts.modules),
            "o": len(parts.ops),
            "v": len(parts.values),
            "g": len(parts.grads),
        }
        self._new: dict[str, str] = {}
        for ids in (
            recording.scopes, recording.modules, recording.ops, recording.values,
            recording.grad_nodes,
        ):
            for number, old in enumerate(ids):
                self._new[old] = f"{old[0]}{shift[old[0]] + number}"
        self._index = parts.index

    def id(self, old: Any) -> Any:
        """The new id; None for None."""
        return None if old is None else self._new[old]

    def ids(self, old: Iterable[Any]) -> tuple[Any, ...]:
        """Several."""
        return tuple([self._new[each] for each in old])

    def index(self, old: int) -> int:
        """The position in the whole."""
        return old + self._index

    def slots(self, old: Iterable[Slot]) -> tuple[Slot, ...]:
        """Slots with new values."""
        return tuple([Slot(each.name, ValueId(self._new[each.value])) for each in old])

    def edge(self, old: GradEdge | None) -> GradEdge | None:
        """An edge to a new grad node."""
        return None if old is None else GradEdge(GradId(self._new[old.grad]), old.index)


def _below(prefix: str, path: str) -> str:
    return f"{prefix}.{path}" if path else prefix


def _told(lane: Lane) -> str:
    """What a lane says of itself beside its name."""
    said = [f"×{len(lane.ranks)}"] if len(lane.ranks) > 1 else []
    said += [f"not alike in {', '.join(lane.differs)}"] if lane.differs else []
    return ", ".join(said)
