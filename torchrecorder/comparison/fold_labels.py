"""Fold labels: the differences of each node between two compared runs, so that no fold hides
one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from torchrecorder.comparison.kinds import ALONE, ChangeKind
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.structural_hash import without_numbers

Reads = Collection[tuple[str, str]]
"""Pairs of value and op."""

NUMBERED = tuple(f"{kind.value}: " for kind in (ChangeKind.RENAMED, ChangeKind.REWIRED))
"""The starts of texts in which numbers are indices in a list, such as *was layers.2*."""


LATER_CALL = re.compile(r" \(call \d+\)")
"""The text about a call of a module after its first."""


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
