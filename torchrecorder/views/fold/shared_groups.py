"""Shared groups: the folds of each cluster, found once for clusters with equal connections.

In a model of a hundred equal layers, the groups inside the first of them are found by comparing
their connections; those inside the others are at the same places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Optional

from torchrecorder.events import OpId, ScopeId
from torchrecorder.views.fold.connections import Connections
from torchrecorder.views.view import Arrow

SiblingGroups = Sequence[tuple[str, ...]]

Find = Callable[[Optional[str]], SiblingGroups]
"""Returns the groups of siblings in a cluster."""


def every_group(
    connections: Connections, keys: Mapping[str, object], find: Find
) -> list[SiblingGroups]:
    """The groups of siblings in each cluster, in the order of the clusters; the top first.

    *find* returns the groups of a cluster, which depend only on its connections and on the fold
    *keys* of scopes and blocks.
    """
    found = [*_shared(connections, keys, find)]
    if connections.parallel.pairs or connections.shared_sources.rows:
        # They were unknown when equal clusters were searched.
        found = [*_shared(connections, keys, find)]
    return found


def _shared(
    connections: Connections, keys: Mapping[str, object], find: Find
) -> Iterator[SiblingGroups]:
    alike = _Alike(connections, keys).found()
    found: dict[str | None, SiblingGroups] = {}
    for around in (None, *connections.view.clusters):
        first, places = alike.get(around, (around, {}))
        if first in found:
            found[around] = [tuple([places[item] for item in group]) for group in found[first]]
        else:
            found[around] = find(around)
        yield found[around]


class _Alike:
    """Finds clusters with equal contents, and equal connections inside and outside."""

    def __init__(self, connections: Connections, keys: Mapping[str, object]) -> None:
        self.connections = connections
        self.items = connections.items
        self.keys = keys
        self.recording = connections.view.recording

    def found(self) -> dict[str | None, tuple[str, Mapping[str, str]]]:
        """For each cluster inside a later one: its counterpart, and the items at its positions."""
        structures, clusters = self.recording.structures, self.connections.view.clusters
        shown = [item for item in clusters if item in self.items.at]  # others are empty
        structure = {item: structures.get(ScopeId(item)) for item in shown}
        often = Counter(structure.values())
        first: dict[Hashable, tuple[str, Sequence[str]]] = {}
        found: dict[str | None, tuple[str, Mapping[str, str]]] = {}
        for around in shown:
            if around in found or structure[around] is None or often[structure[around]] < 2:
                continue
            inside = self.items.inside(around)
            one, counterparts = first.setdefault(self._key(around, inside), (around, inside))
            if one != around:
                places = dict(zip(counterparts, inside))
                found.update(
                    (places[item], (item, places)) for item in counterparts if item in clusters
                )
        return found

    def _key(self, around: str, inside: Sequence[str]) -> Hashable:
        """The contents of a cluster, and the arrows that end there; *inside* are the cluster, and
        all clusters and boxes in it."""
        at, span, parent = self.items.at, self.items.span(around), self.items.parent
        entering, leaving, keys = self.items.entering, self.items.leaving, self.keys
        end, start = self.connections.end, span.start
        sorts = self.connections.sorts[start:span.stop]
        others: dict[object, int] = {}
        values: dict[object, int] = {}
        found: list[Hashable] = []
        for item, sort in zip(inside, sorts):
            place = -1 if item == around else at[parent[item] or ""] - start
            found.append((sort, keys.get(item), place))
            for arrow in entering.get(item, ()):
                tail = at[arrow.tail] - start
                if not 0 <= tail < len(inside):
                    tail = -1 - others.setdefault(arrow.tail, len(others))
                    found.append(self._row(arrow.tail, item, others))
                value = values.setdefault(arrow.value, len(values))
                found.append((tail, value, self._what(arrow), arrow.slot))
            for arrow in leaving.get(item, ()):
                if at[arrow.head] not in span:
                    head = others.setdefault(end(arrow.head), len(others))
                    found.append((head, arrow.slot, self._row(arrow.head, item, others)))
        return tuple(found)

    def _row(self, outside: str, inside: str, others: dict[object, int]) -> int | None:
        """The row of a box outside that is parallel to one around a box inside, or the number of
        the sources that it is one of."""
        shared = self.connections.shared_sources.sources_of.get(outside)
        if shared is not None:
            return others.setdefault(("shared", shared), len(others))
        row = self.connections.parallel.partner(outside, inside)
        return None if row is None else others.setdefault(row, len(others))

    def _what(self, arrow: Arrow) -> Hashable:
        """A key of the tensor on an arrow that is equal for tensors of the same kind and form."""
        op = self.recording.ops.get(OpId(arrow.tail))
        if op is None or len(op.outputs) < 2:
            return self.connections.stored(arrow)
        place = self.connections.result(arrow)
        if place is None or arrow.value is None:
            return self.connections.stored(arrow), None
        one = self.recording.values[arrow.value]
        return self.connections.stored(arrow), (place, one.shape, one.dtype)
