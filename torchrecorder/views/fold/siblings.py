"""Siblings: repeated boxes and clusters of one parent, equal or similar."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Union

from torchrecorder.events import GradId, OpId, ScopeId, ValueId
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.views.fold.block_clusters import with_block_clusters
from torchrecorder.views.fold.blocks import is_block, loose_fold_key, loose_unit, unit_of
from torchrecorder.views.fold.equal import Equal
from torchrecorder.views.fold.micro_batches import micro_batches
from torchrecorder.views.fold.own_sources import folds
from torchrecorder.views.fold.sibling_index import SiblingIndex
from torchrecorder.views.view import View


class SiblingRows:
    """The rows of siblings in a view, and those of them that repeat.

    Attributes:
        similar: Whether siblings that repeat may differ.
        items: The nesting and order of boxes and clusters, with clusters around blocks.
        view: The view with these clusters.
        rule: Finds the groups of siblings that repeat, and gives the key of each item.
    """

    def __init__(self, view: View, similar: bool) -> None:
        self.similar = similar
        self.recording: RecordedRun = view.recording
        self.micro_batches = micro_batches(self.recording)
        groups = (group for row in self.micro_batches.values() for group in row)
        self._parts = {item for group in groups for item in group}
        unit = loose_unit if similar else unit_of
        self.items, keys = with_block_clusters(view, unit, self._parts)
        self.view = self.items.view
        self.rule = Similar(self.items, keys) if similar else Equal(self.items, keys)

    def groups(self, around: str | None) -> list[tuple[str, ...]]:
        """The siblings that fold in a cluster."""
        rest = (
            tuple(item for item in group if item not in self._parts)
            for group in self.rule.groups(around)
        )
        own = self.rule.own_sources
        found = [group for group in rest if folds(self.items, group, own)]
        return [*self._parts_of_batches(around), *found]

    def source_groups(self, groups: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
        """The groups of the own sources of siblings; *groups* are all those that fold, in any
        cluster."""
        own, grouped = self.rule.own_sources, set(chain.from_iterable(groups))
        for group in groups:
            for sources in own.read_alike(group) if own else ():
                if grouped.isdisjoint(self._within(sources, group[0])):
                    grouped.update(sources)
                    yield sources

    def _within(self, sources: Iterable[str], sibling: str) -> Iterator[str]:
        """The *sources*, and the clusters around them that are not around *sibling*."""
        nesting, parent = self.view.nesting, self.items.parent
        outside = {*nesting.around(parent[sibling])}
        for source in sources:
            yield source
            yield from (item for item in nesting.around(parent[source]) if item not in outside)

    def every_group(self) -> Sequence[tuple[str, ...]]:
        """The siblings that fold in any cluster, with their own inputs."""
        inner: dict[str | None, list[tuple[str, ...]]] = {}
        for group in self._first_groups():
            around = self.view.nesting.around(self.items.parent[group[0]])
            inner.setdefault(next(filter(inner.__contains__, around), None), []).append(group)
            inner[group[0]] = []
        places = {around: place for place, around in enumerate((None, *self.view.clusters))}
        found = sorted(
            self._in_each(inner), key=lambda group: places[self.items.parent[group[0]]]
        )
        return [*found, *self.source_groups(found)]

    def _first_groups(self) -> Iterator[tuple[str, ...]]:
        """The siblings that fold, without those in siblings that an equal one represents."""
        represented = set[Union[str, None]]()
        for around in (None, *self.view.clusters):
            for group in self.groups(around) if around not in represented else ():
                represented.update(chain.from_iterable(map(self.items.inside, group[1:])))
                yield group

    def _in_each(
        self, inner: Mapping[str | None, Sequence[tuple[str, ...]]], home: str | None = None,
        shift: int = 0,
    ) -> Iterator[tuple[str, ...]]:
        """The groups in *home*, and in each sibling of these groups: *inner* has those in the
        first ones, which are *shift* places before those that are meant."""
        order, at = self.items.order, self.items.at
        for group in inner.get(home, ()):
            yield tuple([order[at[item] + shift] for item in group])
            for sibling in group if inner[group[0]] else ():
                yield from self._in_each(inner, group[0], shift + at[sibling] - at[group[0]])

    def _parts_of_batches(self, around: str | None) -> Iterator[tuple[str, ...]]:
        """The siblings in a cluster that repeat with each micro-batch, and look the same."""
        here = set(self.items.siblings(around)) if self.micro_batches else set()
        for group in self.micro_batches.get(None if around is None else ScopeId(around), ()):
            shown = [item for item in group if item in here]
            alike = [item for item in shown if self.rule.alike(shown[0], item)]
            if len(alike) > 1:
                yield tuple(alike)


class Similar:
    """Finds adjacent siblings of one class with mostly the same operations, although sizes,
    connections or optional parts differ; *keys* are the fold keys of blocks.

    Siblings that differ only in their connections fold too: an arrow into or out of one sibling is
    drawn at the box of all. They have no inputs of their own.
    """

    own_sources = None

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
