"""Overlay: two recordings merged into one, which is drawn like any other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any

from torchrecorder.comparison.edge_match import EdgeMatch
from torchrecorder.comparison.kinds import Change, ChangeKind
from torchrecorder.comparison.marks import GONE, Marks, fold_labels
from torchrecorder.comparison.match import Matching
from torchrecorder.events import OpId, ScopeId, Slot, ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op, Scope, Value
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.views.view import Arrow, View

InputChange = tuple[tuple[Slot, ...], frozenset[ValueId]]
"""Inputs that only the first recording has, and values that only the second one reads."""


@dataclass(frozen=True)
class Overlay:
    """Two recordings merged into one: the second, and the nodes that only the first has.

    Their ids begin with ``"old_"``. Inputs that are made later in the order of the second run are
    left out. *instead* has the former value, by value and op or box, of an input or output of the
    run that is still a result of the same module, but of another op in it.
    """

    recording: RecordedRun
    marks: Mapping[str, ChangeKind]  # of scopes, ops, values and modules, by id in *recording*
    removed: frozenset[tuple[str, str]]  # inputs of one recording only: pairs of value and op
    added: frozenset[tuple[str, str]]
    instead: Mapping[tuple[str, str], ValueId]
    quiet: frozenset[str]  # nodes with a mark but without a color of their own
    notes: Mapping[str, tuple[str, ...]]  # the texts of the differences, by id


def overlay(matching: Matching, changes: Sequence[Change]) -> Overlay:
    """Both recordings, merged."""
    return _Merger(matching, changes).merged()


def with_former(
    view: View, instead: Mapping[tuple[str, str], ValueId]
) -> tuple[View, frozenset[tuple[str, str]]]:
    """*view* with an arrow for each value that was read *instead*, if another box computed it.

    Returns:
        The view, and the reads for which an arrow was added.
    """
    arrows: list[Arrow] = []
    changed: set[tuple[str, str]] = set()
    for arrow in view.arrows:
        arrows.append(arrow)
        reads = [(str(arrow.value), reader) for reader in view.readers(arrow)]
        olds = {instead.get(read) for read in reads}
        old = olds.pop() if len(olds) == 1 else None
        if old is None:
            continue
        tail = view.box_of.get(old, arrow.tail)
        if tail not in (arrow.tail, arrow.head):
            arrows.append(Arrow(tail, arrow.head, old, arrow.slot))
            changed.update(reads)
    return (replace(view, arrows=tuple(arrows)) if changed else view), frozenset(changed)


class _Merger:
    """Joins two recordings; ids of the first are translated to those of the second."""

    def __init__(self, matching: Matching, changes: Sequence[Change]) -> None:
        self.before, self.after, self.matching = matching.before, matching.after, matching
        self.changes = changes
        self.edge_match = EdgeMatch(matching)
        self.counterparts = matching.there
        self.replaced = matching.replaced
        self.frames: Mapping[Any, ScopeId] = _removed_frames(matching)
        self.removed: set[tuple[str, str]] = set()
        self.added: set[tuple[str, str]] = set()

    def merged(self) -> Overlay:
        """The merged recording, with a mark for each difference."""
        found = Marks(self.matching, self.changes)
        steps = {step.id: step for step in self._steps()}
        scopes = {ScopeId(k): step for k, step in steps.items() if isinstance(step, Scope)}
        kept = {OpId(k): step for k, step in steps.items() if isinstance(step, Op)}
        made = {output: op.index for op in kept.values() for output in self._outputs(op)}
        ops = {name: self._wired(op, made) for name, op in kept.items()}
        recording = replace(
            self.after,
            name=joint_name(self.before, self.after),
            scopes=scopes,
            ops=ops,
            values=dict(self._values()),
            modules=dict(self._modules(scopes.values())),
            live=None,
            former=found.former.union(GONE + value for value in self._other_results),
        )
        marks, notes, instead = found.all(), found.notes(), self._instead(ops, made)
        removed, added = frozenset(self.removed), frozenset(self.added)
        labels = fold_labels(recording, marks, notes, removed, added, instead)
        quiet = found.quiet()
        loud = {node: mark for node, mark in marks.items() if node not in quiet}
        arrows = (self._own_reads(removed, recording), self._own_reads(added, recording))
        seen = fold_labels(recording, loud, notes, *arrows, instead).keys()
        quietly = frozenset(labels.keys() - seen)
        former_reads = frozenset(pair for pair in removed if pair[1] not in recording.former)
        recording = replace(
            recording, former_reads=former_reads, own_differences=labels, quiet_differences=quietly
        )
        return Overlay(recording, marks, removed, added, instead, quiet, notes)

    def _own_reads(
        self, reads: Iterable[tuple[str, str]], both: RecordedRun
    ) -> frozenset[tuple[str, str]]:
        """*reads* without those that follow from other differences."""
        return frozenset(
            (value, op) for value, op in reads
            if self._followers.isdisjoint((op, *both.within(both.ops[OpId(op)].scope)))
        )

    @cached_property
    def _followers(self) -> frozenset[str | None]:
        """The readers whose other inputs follow from other differences."""
        return frozenset(
            change.after for change in self.changes
            if change.kind is ChangeKind.REWIRED and change.follows
        )

    def _new_id(self, old: Any) -> Any:
        """The id in the overlay of a node of the first recording."""
        return None if old is None else self.counterparts.get(old, GONE + old)

    @cached_property
    def _other_results(self) -> frozenset[ValueId]:
        """Results of removed ops that another op computes in the second recording."""
        return frozenset(
            value for op in self.before.ops.values()
            if op.id not in self.counterparts and op.scope not in self.replaced
            for value in op.outputs if value in self.counterparts
        )

    def _former_id(self, value: ValueId) -> ValueId:
        """The id in the overlay of a value of the first recording, as its own steps read it."""
        return ValueId(GONE + value) if value in self._other_results else self._new_id(value)

    # Scopes and ops ---------------------------------------------------------------------

    def _steps(self) -> Iterator[Scope | Op]:
        """The scopes and ops of both recordings, renumbered in one order."""
        inside = self._inside()
        waiting, index = list(reversed(inside.get(None, []))), 0
        while waiting:
            step = waiting.pop()
            yield step.replace(index=index)
            index += 1
            if isinstance(step, Scope):
                waiting.extend(reversed(inside.get(step.id, [])))

    def _inside(self) -> dict[str | None, list[Scope | Op]]:
        """The steps in each scope; a removed step comes after the one that it followed."""
        inside: dict[str | None, list[Scope | Op]] = {}
        behind, opened = self._behind(), set[ScopeId]()
        for scope, steps in self.after.children.items():
            found = inside.setdefault(scope, [])
            found.extend(behind.pop((scope, None), []))
            for step in steps:
                gone = self.frames.get(step.id)
                if gone is None:
                    found.append(step)
                elif gone not in opened:
                    opened.add(gone)
                    found.append(self._old(self.before.scopes[gone]))
                found.extend(behind.pop((scope, step.id), []))
        for (around, _), rest in behind.items():
            inside.setdefault(around, []).extend(rest)
        return inside

    def _behind(self) -> dict[tuple[str | None, str | None], list[Scope | Op]]:
        """Removed steps, by their scope and the step before; of removed frames the contents."""
        behind: dict[tuple[str | None, str | None], list[Scope | Op]] = {}
        last_inside = {outer: held for held, outer in self.frames.items()}
        for scope, steps in self.before.children.items():
            around, last = self._new_id(scope), None
            if scope in self.replaced:
                continue
            for step in steps:
                new = self.counterparts.get(step.id)
                if step.id in last_inside:
                    last = last_inside[ScopeId(step.id)]
                elif new in self.frames:
                    behind.setdefault((around, last), []).append(self._moved(new, around))
                elif new is None:
                    behind.setdefault((around, last), []).append(self._old(step))
                elif self._parent(new) == around:
                    last = new
        return behind

    def _moved(self, step: Any, around: ScopeId | None) -> Scope | Op:
        """A step of the second recording, in a scope that is gone."""
        if step in self.after.scopes:
            return self.after.scopes[step].replace(parent=around)
        return self.after.ops[step].replace(scope=around)

    def _parent(self, step: str) -> str | None:
        if step in self.after.scopes:
            return self.after.scopes[ScopeId(step)].parent
        return self.after.ops[OpId(step)].scope

    def _old(self, step: Scope | Op) -> Scope | Op:
        """A step of the first recording as part of the overlay."""
        if isinstance(step, Op):
            return step.replace(
                id=self._new_id(step.id),
                scope=self._new_id(step.scope),
                inputs=self._slots(step.inputs),
                outputs=self._alone(step.outputs),
                writes=self._alone(step.writes),
            )
        return step.replace(
            id=self._new_id(step.id),
            parent=self._new_id(step.parent),
            module=self._new_id(step.module),
            inputs=self._slots(step.inputs),
            outputs=self._slots(step.outputs),
        )

    def _alone(self, values: Iterable[ValueId]) -> tuple[ValueId, ...]:
        """Values that only the first recording has, or that another op computes in the second."""
        return tuple(
            ValueId(GONE + value) for value in values
            if value not in self.counterparts or value in self._other_results
        )

    def _slots(self, slots: Iterable[Slot]) -> tuple[Slot, ...]:
        return tuple(Slot(slot.name, self._former_id(slot.value)) for slot in slots)

    # Wiring -----------------------------------------------------------------------------

    def _outputs(self, op: Op) -> tuple[ValueId, ...]:
        """The outputs of an op, and the outputs that only its counterpart has."""
        old = self.matching.back.get(op.id)
        more = self.before.ops[old].outputs if old is not None else ()
        return (*op.outputs, *self._alone(more))

    def _wired(self, op: Op, made: Mapping[ValueId, int]) -> Op:
        """An op with its inputs in both recordings, without inputs that are computed after it."""
        removed: tuple[Slot, ...] = ()
        if op.id.startswith(GONE):
            self.removed.update((slot.value, op.id) for slot in op.inputs)
        else:
            removed, added = self._changed_inputs(op)
            self.removed.update((slot.value, op.id) for slot in removed)
            self.added.update((slot.value, op.id) for slot in op.inputs if slot.value in added)
        inputs = (*op.inputs, *removed)
        reads = tuple(slot for slot in inputs if made.get(slot.value, -1) < op.index)
        return op.replace(inputs=reads, outputs=self._outputs(op))

    def _changed_inputs(self, op: Op) -> InputChange:
        """The removed and the added inputs of an op."""
        if op.id in self.matching.back:
            old = self.before.ops[self.matching.back[op.id]]
            return self._input_change(old.inputs, op.inputs, op.scope)
        if op.scope not in self._replacing:
            return (), frozenset(slot.value for slot in op.inputs)
        removed, added = self._replacing[op.scope]
        first = self.after.children[op.scope][0]
        return (removed if first.id == op.id else ()), added

    def _instead(
        self, ops: Mapping[OpId, Op], made: Mapping[ValueId, int]
    ) -> Mapping[tuple[str, str], ValueId]:
        """Former inputs that match the new only outside of a module, and former outputs."""
        found: dict[tuple[str, str], ValueId] = {}
        for number, (old, new) in enumerate(zip(self.before.outputs, self.after.outputs)):
            if self._former_id(old.value) != new.value:
                found[new.value, f"out:{number}"] = self._former_id(old.value)
        for before, after in self.matching.ops.items():
            op, inputs = ops[after], self.before.ops[before].inputs
            present = frozenset(slot.value for slot in op.inputs)
            for slot in inputs:
                former = self._former_id(slot.value)
                same = self._old_input(slot, op.inputs, present, op.scope).value
                if same != former and made.get(former, op.index) < op.index:
                    found[same, op.id] = former
        return found

    @cached_property
    def _replacing(self) -> Mapping[Any, InputChange]:
        """Differences between the inputs of a replaced scope and of its replacement."""
        return {
            new: self._input_change(
                _outer_inputs(self.before, old), _outer_inputs(self.after, new), new
            )
            for old, new in self.matching.scopes.items()
            if old in self.replaced
        }

    def _input_change(
        self, old: Sequence[Slot], new: Sequence[Slot], reader: ScopeId | None
    ) -> InputChange:
        after = frozenset(slot.value for slot in new)
        translated = [self._old_input(slot, new, after, reader) for slot in old]
        removed = tuple(slot for slot in translated if slot.value not in after)
        return removed, after - {slot.value for slot in translated}

    def _old_input(
        self,
        old_slot: Slot,
        new: Sequence[Slot],
        after: Collection[ValueId],
        reader: ScopeId | None,
    ) -> Slot:
        """A former input in the overlay: the one of *new* that matches in *reader*, or itself."""
        old = Slot(old_slot.name, self._new_id(old_slot.value))
        if old.value in after:
            return old
        return next((item for item in new if self.edge_match.same(old_slot, item, reader)), old)

    def _values(self) -> Iterator[tuple[ValueId, Any]]:
        yield from self.after.values.items()
        for value in self.before.values.values():
            if value.id not in self.counterparts or value.id in self._other_results:
                there = ValueId(GONE + value.id)
                producer = self._new_id(value.producer) if self._shown(value) else None
                storage = self._memory[value.storage]
                yield there, value.replace(id=there, producer=producer, grad=None, storage=storage)

    @cached_property
    def _memory(self) -> Mapping[int, int]:
        """The number of each storage of the first run: its counterpart's, or an unused one."""
        unused = count(1 + max((value.storage for value in self.after.values.values()), default=-1))
        found: dict[int, int] = {-1: -1}
        for value in self.before.values.values():
            if value.storage not in found:
                twin = self.matching.values.get(value.id)
                known = -1 if twin is None else self.after.values[twin].storage
                found[value.storage] = next(unused) if known < 0 else known
        return found

    def _shown(self, value: Value) -> bool:
        """Whether the producer of a value is part of the overlay."""
        return value.producer is None or self.before.ops[value.producer].scope not in self.replaced

    def _modules(self, scopes: Iterable[Scope]) -> Iterator[tuple[Any, Any]]:
        calls: dict[Any, list[ScopeId]] = grouped((scope.module, scope.id) for scope in scopes)
        for module in self.after.modules.values():
            yield module.id, module.replace(calls=tuple(calls.get(module.id, ())))
        for module in self.before.modules.values():
            if module.id not in self.counterparts:
                there = self._new_id(module.id)
                yield there, module.replace(
                    id=there,
                    names=(),  # by path, they would belong to modules of the second
                    calls=tuple(calls.get(there, ())),
                    parameters=self._slots(module.parameters),
                    buffers=self._slots(module.buffers),
                )


def joint_name(before: RecordedRun, after: RecordedRun) -> str:
    """The common name, or both names."""
    return " → ".join(dict.fromkeys((before.name, after.name)))


def _outer_inputs(recording: RecordedRun, scope: ScopeId) -> tuple[Slot, ...]:
    """The inputs that an innermost scope reads from outside, without duplicates."""
    ops = [recording.ops[OpId(step.id)] for step in recording.children[scope]]
    made = {value for op in ops for value in op.outputs}
    found = {slot.value: slot for op in ops for slot in op.inputs if slot.value not in made}
    return tuple(found.values())


def _removed_frames(matching: Matching) -> Mapping[str, ScopeId]:
    """For each step of the second run that is inside of a removed scope, that scope."""
    found: dict[str, ScopeId] = {
        matching.scopes[inner]: outer for outer, inner in matching.held(added=False).items()
    }
    places: dict[str, tuple[ScopeId | None, int]] = {
        step.id: (around, place)
        for around, steps in matching.after.children.items() for place, step in enumerate(steps)
    }
    for scope in matching.before.scopes.values():
        around = matching.scopes.get(scope.parent) if scope.parent is not None else None
        steps = matching.before.children[scope.id]
        twins = [matching.there.get(step.id, "") for step in steps]
        _, first = places.get(twins[0], ("", 0)) if twins else ("", 0)
        expected = [(around, first + number) for number in range(len(twins))]
        if [places.get(twin) for twin in twins] == expected and found.keys().isdisjoint(twins):
            if scope.parent is None or around is not None:
                found.update(dict.fromkeys(twins, scope.id))
    return found
