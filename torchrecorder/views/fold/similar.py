"""Similar siblings: of one class, although sizes, connections or optional parts differ.

Siblings that differ only in their connections fold too: they are adjacent in the run, so an arrow
into or out of one of them is drawn at the box of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping

from torchrecorder.events import GradId, OpId, ScopeId, ValueId
from torchrecorder.graph.nodes import Op
from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.fold.sibling_index import SiblingIndex
from torchrecorder.views.fold.fold_key import loose_fold_key


class Similar:
    """Finds adjacent siblings with mostly the same operations.

    Args:
        items: The items to fold.
        keys: The fold keys of scopes and blocks.
    """

    def __init__(self, items: SiblingIndex, keys: Mapping[str, object]) -> None:
        self.items = items
        self.recording = items.view.recording
        self.keys = keys
        self._profiles: dict[str, Counter[Hashable]] = {}

    def alike(self, first: str, second: str) -> bool:
        """Whether one item may be the counterpart of another."""
        return self.key(first) == self.key(second)

    def key(self, item: str) -> Hashable:
        """A key that is equal for counterparts in similar siblings."""
        recording, is_open = self.recording, item in self.items.view.clusters
        if is_block(item):
            return "block", self.keys[item]
        found = loose_fold_key(recording, item)
        if found is not None:
            return "scope", is_open, found
        step = recording.ops.get(OpId(item)) or recording.grad_nodes.get(GradId(item))
        if step is not None:
            return "step", is_open, step.name
        box, value = self.items.view.boxes[item], recording.values.get(ValueId(item))
        name = value.names[0].rpartition(".")[2] if value is not None and value.names else ""
        return "value", box.kind, name

    def groups(self, around: str | None) -> Iterator[tuple[str, ...]]:
        """Adjacent siblings in a cluster that are similar to the first of them."""
        group: list[str] = []
        for item in self.items.siblings(around):
            if group and not self._are_similar(group[0], item):
                yield tuple(group)
                group = []
            group.append(item)
        yield tuple(group)

    def _are_similar(self, one: str, other: str) -> bool:
        """Whether the larger of two siblings has most operations of the smaller one."""
        if self.key(one) != self.key(other):
            return False
        if is_block(one) or one not in self.recording.scopes:
            return is_block(one)
        first, second = self._profile(one), self._profile(other)
        smaller = min(first.total(), second.total())
        return 2 * (first & second).total() > smaller or first == second

    def _profile(self, item: str) -> Counter[Hashable]:
        """The ops and scopes directly in a scope; adjacent scopes of one class count once."""
        if item not in self._profiles:
            found: Counter[Hashable] = Counter()
            last: Hashable = None
            for child in self.recording.children[ScopeId(item)]:
                is_op = isinstance(child, Op)
                key = child.name if is_op else loose_fold_key(self.recording, child.id)
                if key != last or is_op:
                    found[key] += 1
                last = key
            self._profiles[item] = found
        return self._profiles[item]
