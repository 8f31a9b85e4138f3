"""Own sources: inputs and constants that only one of several siblings reads.

Each call in ``for x in batches: model(x)`` has an input of its own, as each table of embeddings of
a recommender has. If the siblings fold, so do these.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

from torchrecorder.events import ValueId
from torchrecorder.graph.structural_hash import without_numbers
from torchrecorder.views.fold.sibling_index import SiblingIndex
from torchrecorder.views.view import Arrow, BoxKind

GIVEN = (BoxKind.INPUT, BoxKind.CONSTANT)

FEWEST = 3
"""Of so many siblings inputs of their own fold: both branches of a Siamese network are drawn."""


class OwnSources:
    """The own sources of the items of a view; *into* returns the arrows that enter an item."""

    def __init__(self, items: SiblingIndex, into: Callable[[str], Iterable[Arrow]]) -> None:
        self.items = items
        self.into = into
        self._known: dict[str, Mapping[str, Hashable]] = {}

    def of(self, item: str) -> Mapping[str, Hashable]:
        """The boxes of inputs and constants outside of *item* that it alone reads, each with what
        its counterparts of other siblings have in common with it."""
        if item not in self._known:
            self._known[item] = {
                box: (places, self._form(box))
                for box, places in self._places(item).items()
                if len(places) == len(self.items.leaving[box])
            }
        return self._known[item]

    def shared(self, item: str) -> Mapping[str, Hashable]:
        """The same of those that others read too."""
        return {
            box: (places, self._form(box))
            for box, places in self._places(item).items()
            if len(places) < len(self.items.leaving[box])
        }

    def _places(self, item: str) -> Mapping[str, tuple[tuple[int, str], ...]]:
        """Where *item* reads inputs and constants outside of it."""
        items, start = self.items, self.items.at[item]
        heads: dict[str, tuple[tuple[int, str], ...]] = {}
        for arrow in self.into(item):
            if items.view.boxes[arrow.tail].kind in GIVEN:
                entry = items.at[arrow.head] - start, arrow.slot
                heads[arrow.tail] = (*heads.get(arrow.tail, ()), entry)
        return heads

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
