"""Rewired: inputs that differ, each listed once at the outermost module that reads it."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import NamedTuple, Optional

from torchrecorder.comparison.edge_match import EdgeMatch
from torchrecorder.comparison.kinds import Change, ChangeKind
from torchrecorder.events import STORED, OpId, ScopeId, Slot, ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun

Pair = tuple[ValueId, ValueId]
"""What is read in the first run, and what is read in its place."""


class RewiredInput(NamedTuple):
    """An input that differs, of a matched op."""

    old: Op
    new: Op
    slot: Optional[Slot]
    twin: Optional[Slot]

    @property
    def pair(self) -> Pair | None:
        """The two values; None if only one of the runs has this input."""
        if self.slot is None or self.twin is None:
            return None
        return self.slot.value, self.twin.value


class Rewirings:
    """Finds the inputs that differ, and who reads them."""

    def __init__(self, edges: EdgeMatch) -> None:
        self.edges = edges
        self.before, self.after, self.matching = edges.before, edges.after, edges.matching
        self.blocked = lru_cache(maxsize=None)(self._blocked)

    def all(self) -> Iterator[tuple[int, Change]]:
        """Every change, with its index in the second run."""
        yield from dict.fromkeys(map(self._change, self._reads))

    @cached_property
    def _reads(self) -> tuple[RewiredInput, ...]:
        return tuple(
            RewiredInput(old, new, slot, twin)
            for old, new in (
                (self.before.ops[left], self.after.ops[right])
                for left, right in self.matching.ops.items()
            )
            for slot, twin in self.edges.inputs(old, new)
            if not self.edges.same(slot, twin, new.scope) and not self.edges.known(slot, twin)
        )

    def _change(self, read: RewiredInput) -> tuple[int, Change]:
        old, new, slot, twin = read
        module, follows = self._module(read), self._follows(read)
        if module is None:
            name = (twin or slot or Slot("", ValueId(""))).name
            text = self.edges.instead("reads", slot, twin, old.scope, new.scope)
            where = self.edges.new_names.op(new.id)
            return new.index, Change(
                ChangeKind.REWIRED, old.id, new.id, where, _prefix(name) + text, follows
            )
        left, right = self.before.scopes[module[0]], self.after.scopes[module[1]]
        names = [given.name for given in right.inputs if twin and given.value == twin.value]
        name = "".join(names[:1]) if len(right.inputs) > 1 else ""
        text = _prefix(name) + self.edges.instead("reads", slot, twin, left.parent, right.parent)
        where = self.edges.new_names.scope(right.id)
        return right.index, Change(ChangeKind.REWIRED, left.id, right.id, where, text, follows)

    def _follows(self, read: RewiredInput) -> bool:
        """Whether it follows from steps that only one run has, before the reader."""
        _, new, slot, twin = read
        matched, there = self.matching.there, self.matching.back
        if slot is None or twin is None:
            return _is_other(self.before, slot, matched) or _is_other(self.after, twin, there)
        return any(
            self.edges.same(slot, source, new.scope)
            for source in _behind(self.after, twin, there)
        ) or any(
            self.edges.same(source, twin, new.scope)
            for source in _behind(self.before, slot, matched)
        )

    def _module(self, read: RewiredInput) -> tuple[ScopeId, ScopeId] | None:
        """The outermost matched scopes around the reader, if all in them read the other value."""
        if read.pair is None:
            return None
        left, right = self.blocked(read.pair)
        around = set(self.after.within(read.new.scope)) - right
        for scope in reversed(self.before.within(read.old.scope)):
            there = self.matching.scopes.get(scope)
            if scope not in left and there in around:
                return scope, there
        return None

    def _blocked(self, pair: Pair) -> tuple[set[ScopeId], set[ScopeId]]:
        """The scopes of both runs that make one of the values, or still read it."""
        readers = self._readers[pair]
        return (
            _makers(self.before, pair[0], {old for old, _ in readers}),
            _makers(self.after, pair[1], {new for _, new in readers}),
        )

    @cached_property
    def _readers(self) -> Mapping[Pair | None, list[tuple[OpId, OpId]]]:
        """The matched ops that read one value instead of another."""
        return grouped((read.pair, (read.old.id, read.new.id)) for read in self._reads)


def _makers(recording: RecordedRun, value: ValueId, rewired: set[OpId]) -> set[ScopeId]:
    """The scopes in which *value* is made, or read by other ops than the *rewired* ones."""
    found = recording.values[value]
    if found.role in STORED:
        return set(recording.scopes)
    ops = {op for op in recording.consumers.get(value, ()) if op not in rewired}
    if found.producer is not None:
        ops.add(found.producer)
    made = set(recording.roots) if found.producer is None else set()
    return made.union(*(recording.within(recording.ops[op].scope) for op in ops))


def _behind(recording: RecordedRun, slot: Slot, known: Container[OpId]) -> Iterator[Slot]:
    """What ops that are not *known* read, from which they compute the tensor in *slot*."""
    waiting, seen = [slot], {slot.value}
    while waiting:
        producer = recording.values[waiting.pop().value].producer
        if producer is not None and producer not in known:
            read = [item for item in recording.ops[producer].inputs if item.value not in seen]
            yield from read
            seen.update(item.value for item in read)
            waiting += read


def _is_other(recording: RecordedRun, slot: Slot | None, known: Container[OpId]) -> bool:
    """Whether an op that is not *known* computed the tensor in *slot*."""
    producer = recording.values[slot.value].producer if slot is not None else None
    return producer is not None and producer not in known


def _prefix(name: str) -> str:
    """The start of a text about the input *name*; empty for the first one."""
    return "" if name.isdigit() or name in ("", "input") else f"{name}: "
