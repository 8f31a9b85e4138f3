"""Rewired: inputs that differ, each listed once at the outermost module that reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import NamedTuple, Optional

from torchrecorder.comparison.edge_match import EdgeMatch
from torchrecorder.comparison.kinds import Change, ChangeKind
from torchrecorder.events import STORED, OpId, ScopeId, Slot, ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import values_behind

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
        self.runs = self.before, self.after
        self.unblocked = lru_cache(maxsize=None)(self._unblocked)
        self.uses = lru_cache(maxsize=None)(self._uses)
        self.sources = lru_cache()(self._sources)

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
        behind = self.sources(False, slot.value), self.sources(True, twin.value)
        return any(
            self.edges.same(slot, Slot("", value), new.scope)
            for value in self.edges.partners(False, slot.value) if value in behind[True]
        ) or any(
            self.edges.same(Slot("", value), twin, new.scope)
            for value in self.edges.partners(True, twin.value) if value in behind[False]
        )

    def _sources(self, added: bool, value: ValueId) -> set[ValueId]:
        """What ops of one run without a counterpart read, from which they compute *value*."""
        known = self.matching.back if added else self.matching.there
        return {*values_behind(self.runs[added], [value], lambda op: op.id not in known)} - {value}

    def _module(self, read: RewiredInput) -> tuple[ScopeId, ScopeId] | None:
        """The outermost matched scopes around the reader, if all in them read the other value."""
        if read.pair is None:
            return None
        left, right = self.unblocked(read.pair)
        around = right.intersection(self.after.within(read.new.scope))
        for scope in reversed(self.before.within(read.old.scope)):
            there = self.matching.scopes.get(scope)
            if scope in left and there in around:
                return scope, there
        return None

    def _unblocked(self, pair: Pair) -> tuple[set[ScopeId], set[ScopeId]]:
        """The scopes of both runs in which all readers of one of the values are in the *pair*, and
        that do not make it."""
        old, new = zip(*self._readers[pair])
        return self._read_only_by(False, pair[0], {*old}), self._read_only_by(True, pair[1], {*new})

    def _read_only_by(self, added: bool, value: ValueId, ops: set[OpId]) -> set[ScopeId]:
        recording = self.runs[added]
        if recording.values[value].role in STORED:
            return set()
        given, uses = recording.values[value].producer is None, self.uses(added, value)
        return {
            scope for scope, number in _per_scope(recording, ops).items() if number == uses[scope]
            and not (given and recording.scopes[scope].parent is None)
        }

    def _uses(self, added: bool, value: ValueId) -> Counter[ScopeId]:
        """How many ops in each scope make or read *value*."""
        recording = self.runs[added]
        producer = recording.values[value].producer
        makers = () if producer is None else (producer,)
        return _per_scope(recording, {*makers, *recording.consumers.get(value, ())})

    @cached_property
    def _readers(self) -> Mapping[Pair | None, list[tuple[OpId, OpId]]]:
        """The matched ops that read one value instead of another."""
        return grouped((read.pair, (read.old.id, read.new.id)) for read in self._reads)


def _per_scope(recording: RecordedRun, ops: Iterable[OpId]) -> Counter[ScopeId]:
    """How many of *ops* are in each scope, at any depth."""
    return Counter(scope for op in ops for scope in recording.within(recording.ops[op].scope))


def _is_other(recording: RecordedRun, slot: Slot | None, known: Container[OpId]) -> bool:
    """Whether an op that is not *known* computed the tensor in *slot*."""
    producer = recording.values[slot.value].producer if slot is not None else None
    return producer is not None and producer not in known


def _prefix(name: str) -> str:
    """The start of a text about the input *name*; empty for the first one."""
    return "" if name.isdigit() or name in ("", "input") else f"{name}: "
