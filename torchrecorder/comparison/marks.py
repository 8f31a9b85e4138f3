"""Marks: the difference of each node of two merged recordings, and the texts about it."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from torchrecorder.comparison.kinds import ALONE, Change, ChangeKind
from torchrecorder.comparison.match import Matching
from torchrecorder.events import ScopeId, ValueId
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.structural_hash import without_numbers

GONE = "old_"
"""The prefix of the ids of nodes that only the first recording has."""

OF_MODULES = (ChangeKind.REPLACED, ChangeKind.RENAMED, ChangeKind.CHANGED)
"""Kinds of differences that all calls of a module have; they are listed once."""

Reads = Collection[tuple[str, str]]
"""Pairs of value and op."""

NUMBERED = tuple(f"{kind.value}: " for kind in (ChangeKind.RENAMED, ChangeKind.REWIRED))
"""The starts of texts in which numbers are indices in a list, such as *was layers.2*."""

LATER_CALL = re.compile(r" \(call \d+\)")
"""The text about a call of a module after its first."""

PARTS = ("scopes", "ops", "values", "modules")
"""The tables of a recording whose entries are marked."""


def nodes_of(
    node: str, kind: ChangeKind, after: RecordedRun, matched: Container[ScopeId]
) -> Iterator[str]:
    """The nodes of a change of a *node* of the second run: of a module its *matched* calls."""
    scope = after.scopes.get(ScopeId(node))
    if scope is None or scope.module is None or kind not in OF_MODULES:
        yield node
    else:
        yield from (call for call in after.modules[scope.module].calls if call in matched)


class Marks:
    """The marks of the nodes; nodes in replaced scopes of the first run have none."""

    def __init__(self, matching: Matching, changes: Sequence[Change]) -> None:
        self.before, self.after, self.matching = matching.before, matching.after, matching
        self.changes = changes

    @cached_property
    def former(self) -> frozenset[str]:
        """The ids of the nodes that only the first recording has."""
        return frozenset(
            GONE + old
            for name in PARTS
            for old in getattr(self.before, name)
            if old not in self.matching.there
        )

    def all(self) -> Mapping[str, ChangeKind]:
        """The most important kind of difference of each node."""
        marks: dict[str, ChangeKind] = {}
        weights = {kind: place for place, kind in enumerate(reversed(ChangeKind))}
        for entry in sorted(self.changes, key=lambda one: (not one.quiet, weights[one.kind])):
            marks.update((node, entry.kind) for node in self._nodes(entry))
        marks.update((former, ChangeKind.REMOVED) for former in self.former)
        for name in PARTS:
            for new, item in getattr(self.after, name).items():
                matched = new in self.matching.back
                if not matched and self._old_scope_of(item) not in self.matching.replaced:
                    marks[new] = ChangeKind.ADDED
        return marks

    def quiet(self) -> frozenset[str]:
        """The nodes that only have quiet differences."""
        found: dict[bool, set[str]] = {True: set(), False: set()}
        for entry in self.changes:
            found[entry.quiet].update(self._nodes(entry))
        return frozenset(found[True] - found[False])

    def notes(self) -> Mapping[str, tuple[str, ...]]:
        """The changes of each node; those of a value also at the op that computes it."""
        notes: dict[str, list[str]] = {}
        for change in self.changes:
            text = f"{change.kind.value}: {change.text}" if change.text else change.kind.value
            for node in self._nodes(change):
                notes.setdefault(node, []).append(text)
        return {node: tuple(dict.fromkeys(text)) for node, text in notes.items()}

    def _nodes(self, change: Change) -> Iterator[str]:
        """The nodes of a change: the op that computes a value too, all calls of a module."""
        if change.after is None:
            yield f"{GONE}{change.before}"
        elif change.after:
            yield from nodes_of(change.after, change.kind, self.after, self.matching.back)
            value = self.after.values.get(ValueId(change.after))
            if value is not None and value.producer is not None:
                yield value.producer

    def _old_scope_of(self, node: Any) -> ScopeId | None:
        """The counterpart of the scope around an op or value of the second run."""
        producer = getattr(node, "producer", None)
        scope = self.after.ops[producer].scope if producer else getattr(node, "scope", None)
        return self.matching.back.get(scope)


# For folds -----------------------------------------------------------------------------


def fold_labels(
    both: RecordedRun,
    marks: Mapping[str, ChangeKind],
    notes: Mapping[str, Sequence[str]],
    removed: Reads,
    added: Reads,
    instead: Reads,
) -> Mapping[str, str]:
    """A text for each scope, op and value of an overlay that differs; texts are equal if the
    differences are. The arguments are those of `Overlay`."""
    found = {node: _own(mark, notes.get(node, ())) for node, mark in marks.items()}
    for module in both.modules.values():
        texts = [f"{name} {found[value]}" for name, value in module.stored if value in found]
        for call in module.calls if texts else ():
            if marks.get(call) not in ALONE:
                found[call] = "; ".join(filter(None, (found.get(call, ""), *texts)))
    for op in both.ops.values():
        if marks.get(op.id) not in ALONE:
            texts = [found.get(op.id, ""), *_read(op, both, found, removed, added)]
            if text := "; ".join(filter(None, texts)):
                found[op.id] = text
    outputs = {slot.value for slot in both.outputs}
    for value, _ in instead:
        if value in outputs:
            found[value] = f"{found.get(value, '')}; instead"
    return found


def _own(mark: ChangeKind, notes: Sequence[str]) -> str:
    """The difference of one node; its index in a list and the number of its call do not count."""
    if mark in ALONE:
        return mark.value
    texts = (
        without_numbers(LATER_CALL.sub("", note)) if note.startswith(NUMBERED) else note
        for note in notes
    )
    return "; ".join([mark.value, *sorted(texts)])


def _read(
    op: Op, both: RecordedRun, labels: Mapping[str, str], removed: Reads, added: Reads
) -> Iterator[str]:
    """The differences of the inputs, constants and weights of an op, and of their sources."""
    for name, value in op.inputs:
        if value in labels and both.values[value].producer is None:
            yield f"{name} {labels[value]}"
        for kind, pairs in (("removed", removed), ("added", added)):
            if (value, op.id) in pairs:
                yield f"{name} {kind}"
