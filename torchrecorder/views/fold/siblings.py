"""Siblings: which boxes and clusters beside each other repeat, by one of two rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchrecorder.graph.recording import RecordedRun
from torchrecorder.views.fold.repeat_groups import with_block_clusters
from torchrecorder.views.fold.blocks import SAVED, is_block, loose_unit, unit_of
from torchrecorder.views.fold.equal import Equal
from torchrecorder.views.fold.fold_key import enough
from torchrecorder.views.fold.similar import Similar
from torchrecorder.views.view import View


class Rows:
    """The rows of siblings in a view, and which of them repeat.

    Attributes:
        similar: Whether siblings that repeat may differ.
        items: What lies beside and inside what, with clusters around blocks.
        view: The view with these clusters.
        rule: Finds the groups of siblings that repeat, and gives the key of each item.
    """

    def __init__(self, view: View, similar: bool) -> None:
        self.similar = similar
        self.items, keys = with_block_clusters(view, loose_unit if similar else unit_of)
        self.view = self.items.view
        self.recording: RecordedRun = view.recording
        self.rule = Similar(self.items, keys) if similar else Equal(self.items, keys)

    def groups(self, around: str | None) -> list[tuple[str, ...]]:
        """The siblings in a cluster that fold."""
        return [group for group in self.rule.groups(around) if self._are_enough(group)]

    def every_group(self) -> Iterator[tuple[str, ...]]:
        """The siblings in all clusters that fold."""
        for around in (None, *self.view.clusters):
            yield from self.groups(around)

    def _are_enough(self, group: Sequence[str]) -> bool:
        """Whether so many siblings, or blocks of siblings, are worth a fold."""
        first = group[0]
        if not is_block(first):
            return len(group) >= enough(self.recording, first)
        units = [unit_of(self.recording, item) for item in self.items.children(first)]
        if any(unit.composed for unit in units):
            return True
        return len(group) > 2 and (len(group) - 1) * len(units) >= SAVED
