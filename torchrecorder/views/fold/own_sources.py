"""Own sources: inputs, constants, slices of them, and creation ops (``zeros``), if each of several
siblings has its own.

Each call in ``for x in batches: model(x)`` has its own input, and so does each embedding table of a
recommender model. If the siblings fold, so do these sources. Other siblings read them again in the
next epoch.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from torchrecorder.events import OpId, ValueId
from torchrecorder.graph.structural_hash import without_numbers
from torchrecorder.views.fold.blocks import MIN_BOXES_SAVED, is_block, min_repeats, op_key, unit_of
from torchrecorder.views.fold.sibling_index import SiblingIndex
from torchrecorder.views.quiet_ops import is_part, is_reshape
from torchrecorder.views.view import BoxKind

GIVEN = (BoxKind.INPUT, BoxKind.CONSTANT)

MIN_SIBLINGS = 3
"""The minimum number of siblings whose own inputs fold, so that both branches of a Siamese network
are drawn."""


class OwnSources:
    """The own sources of the items of a view."""

    def __init__(self, items: SiblingIndex) -> None:
        self.items = items
        self._known: dict[str, Mapping[str, Hashable]] = {}
        self._forms: dict[str, Hashable] = {}

    def of(self, item: str) -> Mapping[str, Hashable]:
        """The sources outside *item* that it reads, each with a key that is equal for its
        counterparts in other siblings."""
        if item not in self._known:
            items, start = self.items, self.items.at[item]
            heads: dict[str, list[tuple[int, str]]] = {}
            for arrow in items.into(item):
                if self._is_source(arrow.tail):
                    entry = items.at[arrow.head] - start, arrow.slot
                    heads.setdefault(arrow.tail, []).append(entry)
            for box in heads.keys() - self._forms.keys():  # all siblings may read the same source
                self._forms[box] = self._form(box)
            self._known[item] = {
                box: (tuple(places), self._forms[box]) for box, places in heads.items()
            }
        return self._known[item]

    def _is_source(self, box: str) -> bool:
        """Whether *box* has no arrows into it (an input, a constant, a creation op), or only one
        from a tensor of which it is a slice, such as a batch of the data, or from an operation of
        which it reshapes one of several results."""
        view, ops = self.items.view, self.items.view.recording.ops
        if view.boxes[box].kind is not BoxKind.OP:
            return view.boxes[box].kind in GIVEN
        tails = [arrow.tail for arrow in self.items.entering.get(box, ())]
        op = ops[OpId(box)]
        if tails and is_reshape(op):
            return all(tail in ops and len(ops[OpId(tail)].outputs) > 1 for tail in tails)
        return not tails or is_part(op) and all(view.boxes[tail].kind in GIVEN for tail in tails)

    def _form(self, box: str) -> Hashable:
        """The description of the operation or the tensors of *box*, with names without numbers."""
        drawn, recording = self.items.view.boxes[box], self.items.view.recording
        op = recording.ops.get(OpId(box))
        if op is not None:
            return op_key(recording, op), op.source
        value = recording.values[ValueId(box)]
        name = without_numbers(value.names[0]) if value.names else ""
        readers = {arrow.head for arrow in self.items.leaving[box]}
        varies = not recording.varying_sizes.isdisjoint(readers)
        return (
            drawn.kind, drawn.count, len(value.shape) if varies else value.shape, value.dtype,
            value.device, value.kind, value.requires_grad, name,
            recording.differences.get(box),
        )

    def groups(self, siblings: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """The sources that each of *siblings* has in the same position, if there are several."""
        own = [{common: box for box, common in self.of(item).items()} for item in siblings]
        for common in own[0]:
            if all(common in each for each in own):
                group = dict.fromkeys(each[common] for each in own)
                if len(group) > 1:
                    yield tuple(group)

    def read_alike(self, siblings: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """The groups whose boxes all have the same number of readers of each kind."""
        for group in self.groups(siblings):
            if len({tuple(sorted(self._readers(box))) for box in group}) == 1:
                yield group

    def _readers(self, box: str) -> Iterator[tuple[str, str, str]]:
        """The kind, operation and argument of each reader of a box."""
        view = self.items.view
        for arrow in self.items.leaving[box]:
            op = view.recording.ops.get(OpId(arrow.head))
            yield view.boxes[arrow.head].kind.value, op.name if op else "", arrow.slot


def folds(items: SiblingIndex, group: Sequence[str], own: OwnSources | None) -> bool:
    """Whether there are enough siblings, or blocks of siblings, in a *group* to fold. Few siblings
    do not if each has inputs of its *own*."""
    if len(group) < 2:
        return False
    first = group[0]
    if not is_block(first):
        if own is not None and len(group) < MIN_SIBLINGS and any(own.groups(group)):
            return False
        return len(group) >= min_repeats(items.view.recording, first)
    inside = [*items.children(first)]
    return _is_composed(items, first) or (
        len(group) > 2 and (len(group) - 1) * len(inside) >= MIN_BOXES_SAVED
    )


def _is_composed(items: SiblingIndex, item: str) -> bool:
    """Whether *item* is a scope that contains scopes, or a block with one."""
    if is_block(item):
        return any(_is_composed(items, inner) for inner in items.children(item))
    return unit_of(items.view.recording, item).composed
