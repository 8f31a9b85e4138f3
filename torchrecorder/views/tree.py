"""Tree: the nested boxes, clusters and folds of a view, open and closed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from torchrecorder.events import ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.relations import maker_of, step_of
from torchrecorder.views.collapse import SOURCES, closed_box
from torchrecorder.views.fold.blocks import PREFIX, is_block
from torchrecorder.views.fold.names import names_of
from torchrecorder.views.view import Box, BoxKind, Unfolded, View


class TreeNode(NamedTuple):
    """A node of the tree."""

    id: str  # the id of its box or cluster; for a fold, that of its first sibling
    parent: int  # the index of the node around it; -1 at the top
    fold: tuple[str, ...] = ()  # for a fold, its siblings; otherwise empty


@dataclass(frozen=True)
class Tree:
    """Boxes, clusters and folds of an unfolded view, parents first."""

    unfolded: Unfolded

    @cached_property
    def view(self) -> View:
        """The view with everything open."""
        return self.unfolded.view

    @cached_property
    def places(self) -> tuple[TreeNode, ...]:
        """All nodes, in run order."""
        children = self._children
        fold_of = {item: group for group in self.unfolded.repeats for item in group}
        first = {group[0]: group for group in self.unfolded.repeats}
        places: list[TreeNode] = []
        waiting: list[tuple[str, int, bool]] = [
            (child, -1, False) for child in children[None][::-1]
        ]
        while waiting:
            item, parent, within = waiting.pop()
            number = len(places)
            if item in fold_of and not within:
                if item in first:
                    places.append(TreeNode(item, parent, first[item]))
                    waiting.extend((entry, number, True) for entry in reversed(first[item]))
                continue
            places.append(TreeNode(item, parent))
            waiting += [(child, number, False) for child in reversed(children.get(item, ()))]
        return tuple(places)

    @cached_property
    def leaf(self) -> Mapping[str, int]:
        """The index of the node of each box without contents."""
        boxes = self.view.boxes
        return {place.id: number for number, place in enumerate(self.places) if place.id in boxes}

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """For each node, the index after the last node inside it."""
        ends = [number + 1 for number in range(len(self.places))]
        for number, place in reversed([*enumerate(self.places)]):
            if place.parent >= 0:
                ends[place.parent] = max(ends[place.parent], ends[number])
        return tuple(ends)

    @cached_property
    def lines(self) -> Sequence[tuple[int, int]]:
        """For each arrow of the view, the nodes of its tail and head."""
        leaf = self.leaf
        return [(leaf[arrow.tail], leaf[arrow.head]) for arrow in self.view.arrows]

    @cached_property
    def leaving(self) -> Sequence[int]:
        """The arrows, by index, that leave the scope or fold around their tail."""
        around, ends = [place.parent for place in self.places], self.ends
        return [
            number
            for number, (tail, head) in enumerate(self.lines)
            if around[tail] >= 0 and not around[tail] < head < ends[around[tail]]
        ]

    def apart(self, place: int, other: int) -> Iterator[int]:
        """*place* and the nodes around it, innermost first, that do not contain *other*."""
        while place >= 0 and not place < other < self.ends[place]:
            yield place
            place = self.places[place].parent

    @cached_property
    def _children(self) -> Mapping[str | None, list[str]]:
        """The contents of each cluster: values that are only read, then the rest in run order."""
        clusters = ((cluster.parent, cluster.id) for cluster in self.view.clusters.values())
        boxes = ((box.cluster, box.id) for box in self.view.boxes.values())
        found, order = grouped(chain(clusters, boxes)), self._order
        for inside in found.values():
            inside.sort(key=order.__getitem__)
        found.setdefault(None, [])
        return found

    @cached_property
    def _order(self) -> Mapping[str, tuple[int, float, int]]:
        """Sort keys; items without a position in the run keep their position in the view."""
        view = self.view
        items = {box: number for number, box in enumerate((*view.boxes, *view.clusters))}
        if any(box.kind is BoxKind.GRAD for box in view.boxes.values()):
            return {item: (0, 0.0, number) for item, number in self._first_positions(items).items()}
        return {item: (*self._moment(item), number) for item, number in items.items()}

    def _first_positions(self, items: Mapping[str, int]) -> Mapping[str, int]:
        """Positions in the view; a cluster has that of the first box in it."""
        found = dict(items)
        for box in self.view.boxes.values():
            for around in self.view.nesting.around(box.cluster):
                found[around] = min(found[around], items[box.id])
        return found

    def _moment(self, item: str) -> tuple[int, float]:
        recording = self.view.recording
        step = step_of(recording, item)
        if step is not None:
            return 1, step.index
        if is_block(item):
            return self._moment(item.removeprefix(PREFIX))
        kind = self.view.boxes[item].kind
        made = item in recording.values and kind is not BoxKind.INPUT
        maker = maker_of(recording, ValueId(item)) if made else None
        if maker is not None:
            return 1, maker.index + 0.5
        return (0, 0) if kind in SOURCES else (2, 0)

    @cached_property
    def closed(self) -> Mapping[str, Box]:
        """Each cluster, by its id, as a closed box."""
        members = self.unfolded.members
        return {
            cluster.id: closed_box(self.view, cluster, members[cluster.id])
            for cluster in self.view.clusters.values()
        }

    def folds(self) -> Iterator[Box]:
        """Each fold as a closed box."""
        boxes = {**self.closed, **self.view.boxes}
        children = self._children
        for group in self.unfolded.repeats:
            box = boxes[group[0]]
            members = tuple(chain.from_iterable([boxes[item].members for item in group]))
            names = names_of(self.view.recording, group, lambda block: children[block])
            differing = group if self.unfolded.similar else ()
            yield Box(box.id, box.kind, box.cluster, members, len(group), names, differing)
