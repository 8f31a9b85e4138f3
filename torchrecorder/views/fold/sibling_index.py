"""Sibling index: the boxes and clusters of a view as siblings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from torchrecorder.graph.mappings import grouped
from torchrecorder.views.collapse import SOURCES
from torchrecorder.views.view import Arrow, Box, View


class SiblingIndex:
    """The nesting and order of boxes and clusters in a view.

    Attributes:
        parent: The cluster around each box and cluster.
        sources: The boxes of values that are only read.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self.parent: dict[str, str | None] = {
            **{cluster.id: cluster.parent for cluster in view.clusters.values()},
            **{box.id: box.cluster for box in view.boxes.values()},
        }
        self._children: dict[str | None, dict[str, None]] = {None: {}}
        self.sources: Mapping[str, Box] = {
            box.id: box for box in view.boxes.values() if box.kind in SOURCES
        }
        # Values that are only read have no position in the run order: they come last.
        self._place(box for box in view.boxes.values() if box.id not in self.sources)
        self._place(self.sources.values())
        self._into: dict[str, Sequence[Arrow]] = {}
        self._out_of: dict[str, Sequence[Arrow]] = {}

    def _place(self, boxes: Iterable[Box]) -> None:
        """Put boxes into their clusters, and each cluster into its parent at its first box."""
        children = self._children
        for box in boxes:
            item, around = box.id, box.cluster
            while around not in children:
                assert around is not None
                children[around] = {item: None}
                item, around = around, self.parent[around]
            children[around][item] = None

    def children(self, cluster: str | None) -> Iterator[str]:
        """The items directly in a cluster, in run order; parameters, buffers, inputs and constants
        come last."""
        return iter(self._children.get(cluster, ()))

    def siblings(self, cluster: str | None) -> list[str]:
        """The items that ran directly in a cluster, in order."""
        return [item for item in self.children(cluster) if item not in self.sources]

    @cached_property
    def order(self) -> Sequence[str]:
        """All clusters and boxes in run order, each cluster before its contents."""
        order: list[str] = []
        children, waiting = self._children, [iter(self._children[None])]
        while waiting:
            for item in waiting[-1]:
                order.append(item)
                if item in children:
                    waiting.append(iter(children[item]))
                    break
            else:
                waiting.pop()
        return order

    @cached_property
    def at(self) -> Mapping[str, int]:
        """The position of each item in this order."""
        return {item: position for position, item in enumerate(self.order)}

    @cached_property
    def _ends(self) -> Mapping[str | None, int]:
        """The position after the last item in each cluster."""
        ends: dict[str | None, int] = {}
        clusters = [item for item in self.order if item in self._children]
        for cluster in reversed(clusters):  # each before the one around it
            last = next(reversed(self._children[cluster]))
            ends[cluster] = ends[last] if last in ends else self.at[last] + 1
        return ends

    def span(self, item: str) -> range:
        """The positions of *item* and of all that is in it."""
        start = self.at[item]
        return range(start, self._ends.get(item, start + 1))

    def inside(self, item: str) -> Sequence[str]:
        """*item* and all clusters and boxes in it, in run order."""
        span = self.span(item)
        return self.order[span.start:span.stop]

    @cached_property
    def leaving(self) -> Mapping[str, Sequence[Arrow]]:
        """The arrows of the view by their tail."""
        return grouped((arrow.tail, arrow) for arrow in self.view.arrows)

    @cached_property
    def entering(self) -> Mapping[str, Sequence[Arrow]]:
        """The arrows of the view by their head."""
        return grouped((arrow.head, arrow) for arrow in self.view.arrows)

    def into(self, item: str) -> Sequence[Arrow]:
        """The arrows that enter an item from outside."""
        if item not in self._into:
            span, at = self.span(item), self.at
            arrows = (arrow for box in self.inside(item) for arrow in self.entering.get(box, ()))
            self._into[item] = [arrow for arrow in arrows if at[arrow.tail] not in span]
        return self._into[item]

    def out_of(self, item: str) -> Sequence[Arrow]:
        """The arrows that leave an item."""
        if item not in self._out_of:
            span, at = self.span(item), self.at
            arrows = (arrow for box in self.inside(item) for arrow in self.leaving.get(box, ()))
            self._out_of[item] = [arrow for arrow in arrows if at[arrow.head] not in span]
        return self._out_of[item]

    def readers(
        self, row: Iterable[str], counted: Callable[[Iterable[Arrow]], Iterable[Arrow]]
    ) -> Mapping[str, Sequence[str]]:
        """For each sibling in *row*, those in *row* that read one of its results, through arrows
        that are *counted*."""
        home: dict[str, str] = {}
        for item in row:
            home.update(dict.fromkeys(self.inside(item), item))
        found: dict[str, dict[str, None]] = {}
        for tail, item in home.items():
            leaving = self.leaving.get(tail, ())
            between = [one for one in leaving if home.get(one.head, item) != item]
            for arrow in counted(between):
                found.setdefault(item, {})[home[arrow.head]] = None
        return {item: tuple(heads) for item, heads in found.items()}
