"""Own sources: inputs and constants that only one of several siblings reads.

Each call in ``for x in batches: model(x)`` has an input of its own, as each table of embeddings of
a recommender has. If the siblings fold, so do these.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from torchrecorder.events import ValueId
from torchrecorder.graph.structural_hash import without_numbers
from torchrecorder.views.fold.sibling_index import SiblingIndex
from torchrecorder.views.view import BoxKind

GIVEN = (BoxKind.INPUT, BoxKind.CONSTANT)

FEWEST = 3
"""Of so many siblings inputs of their own fold: both branches of a Siamese network are drawn."""


class OwnSources:
    """The own sources of the items of a view."""

    def __init__(self, items: SiblingIndex) -> None:
        self.items = items
        self._known: dict[str, Mapping[str, Hashable]] = {}

    def of(self, item: str) -> Mapping[str, Hashable]:
        """The boxes of inputs and constants outside of *item* that it alone reads, each with what
        its counterparts of other siblings have in common with it."""
        if item not in self._known:
            items, span = self.items, self.items.span(item)
            heads: dict[str, list[tuple[int, str]]] = {}
            for inner in items.inside(item):
                for arrow in items.entering.get(inner, ()):
                    kind, at = items.view.boxes[arrow.tail].kind, items.at
                    if kind in GIVEN and at[arrow.tail] not in span:
                        entry = at[arrow.head] - span.start, arrow.slot
                        heads.setdefault(arrow.tail, []).append(entry)
            self._known[item] = {
                box: (tuple(places), self._form(box))
                for box, places in heads.items()
                if len(places) == len(items.leaving[box])
            }
        return self._known[item]

    def _form(self, box: str) -> Hashable:
        """What is said of the tensors of *box*, with their name without numbers."""
        drawn, value = self.items.view.boxes[box], self.items.view.recording.values[ValueId(box)]
        name = without_numbers(value.names[0]) if value.names else ""
        return (
            drawn.kind, drawn.count, value.shape, value.dtype, value.device, value.kind,
            value.requires_grad, name,
        )

    def groups(self, siblings: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """The own sources that each of *siblings* has in the same place."""
        own = [{common: box for box, common in self.of(item).items()} for item in siblings]
        for common in own[0]:
            if all(common in each for each in own):
                yield tuple(each[common] for each in own)
