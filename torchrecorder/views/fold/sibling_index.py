"""Items: the boxes and clusters of a view as siblings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from torchrecorder.views.collapse import SOURCES
from torchrecorder.views.view import View


class Items:
    """The nesting and order of boxes and clusters in a view."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.parent: dict[str, str | None] = {
            **{cluster.id: cluster.parent for cluster in view.clusters.values()},
            **{box.id: box.cluster for box in view.boxes.values()},
        }
        self._children: dict[str | None, dict[str, None]] = {}
        placed: set[str] = set()
        # Values that are only read have no place in the run order: they come last.
        for box in sorted(view.boxes.values(), key=lambda box: box.kind in SOURCES):
            for item in self.around(box.id):
                if item in placed:
                    break
                placed.add(item)
                self._children.setdefault(self.parent[item], {})[item] = None

    def around(self, item: str) -> Iterator[str]:
        """*item* and the clusters around it, innermost first."""
        found: str | None = item
        while found is not None:
            yield found
            found = self.parent[found]

    def children(self, cluster: str | None) -> Iterator[str]:
        """The items directly in a cluster, in run order; values that are only read come last."""
        return iter(self._children.get(cluster, ()))

    def siblings(self, cluster: str | None) -> list[str]:
        """The items that ran directly in a cluster, in order."""
        return [item for item in self.children(cluster) if not self.is_source(item)]

    def is_source(self, item: str) -> bool:
        """Whether an item is a value that is only read."""
        return item in self.view.boxes and self.view.boxes[item].kind in SOURCES

    def inside(self, item: str) -> Iterator[str]:
        """*item* and all clusters and boxes in it, in run order."""
        waiting = [item]
        while waiting:
            found = waiting.pop()
            yield found
            waiting.extend(reversed(self._children.get(found, {})))

    @cached_property
    def crossings(self) -> list[tuple[list[str], list[str]]]:
        """For each arrow the items that it leaves and those that it enters, innermost first."""
        parted: dict[tuple[str | None, str | None], tuple[list[str], list[str]]] = {}
        found: list[tuple[list[str], list[str]]] = []
        parent = self.parent
        for arrow in self.view.arrows:
            if arrow.tail == arrow.head:
                found.append(([], []))
                continue
            ends = parent[arrow.tail], parent[arrow.head]
            if ends not in parted:
                parted[ends] = self._parted(*ends)
            tails, heads = parted[ends]
            found.append(([arrow.tail, *tails], [arrow.head, *heads]))
        return found

    def _parted(self, one: str | None, other: str | None) -> tuple[list[str], list[str]]:
        """The clusters around each of two items that are not around the other."""
        tails = [*self.around(one)] if one is not None else []
        heads = [*self.around(other)] if other is not None else []
        while tails and heads and tails[-1] == heads[-1]:
            tails.pop()
            heads.pop()
        return tails, heads

    @cached_property
    def readers(self) -> Mapping[str, Sequence[str]]:
        """For each item, the siblings that read something computed in it."""
        found: dict[str, dict[str, None]] = {}
        for tails, heads in self.crossings:
            if tails and heads:
                found.setdefault(tails[-1], {})[heads[-1]] = None
        return {item: tuple(heads) for item, heads in found.items()}
