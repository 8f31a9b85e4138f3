"""Fold: draw repeated siblings as one box or cluster with a count.

A rule defines which siblings repeat: those of equal structure with equal connections (`equal`), or
those of one class, whatever else differs (`similar`). The first of them represents the others, and
its contents represent their counterparts in the others. Where siblings differ, the parts that only
others have are moved into the first. Blocks of several siblings, such as the ops of a loop, fold in
the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from torchrecorder.events import OpId, ScopeId, ValueId
from torchrecorder.graph.align import aligned
from torchrecorder.views.collapse import close
from torchrecorder.views.fold.block_clusters import in_order, with_parents, without_single_blocks
from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.fold.edges import folded_arrows
from torchrecorder.views.fold.names import names_inside, names_of, step_names
from torchrecorder.views.fold.sibling_index import SiblingIndex
from torchrecorder.views.fold.siblings import SiblingRows
from torchrecorder.views.training import training_steps
from torchrecorder.views.view import Cluster, View


@dataclass(frozen=True)
class Fold:
    """Fold repeated siblings at every level; two siblings without scopes in them are not folded.

    Attributes:
        similar: Whether siblings of one class fold even if they differ.
    """

    similar: bool = False

    def __call__(self, view: View) -> View:
        tree = FoldTree(SiblingRows(view, self.similar))
        return tree.view() if tree.groups else view


def repeats(view: View, similar: bool = False) -> tuple[View, tuple[tuple[str, ...], ...]]:
    """*view* with its blocks as clusters, and the groups of siblings that fold.

    Groups inside siblings that fold are included. Contents of optimizer steps and data loaders may
    differ between siblings: the first step creates state.
    """
    rows = SiblingRows(view, similar)
    groups = tuple(FoldTree(rows).groups if similar else rows.every_group())
    blocked = rows.view
    steps = frozenset() if similar else training_steps(view.recording)
    if not steps.isdisjoint(view.clusters):
        around = SiblingRows(close(view, steps.__contains__), similar)
        inside = _inside(rows, steps)
        groups = (*around.every_group(), *(group for group in groups if group[0] in inside))
        blocked = with_parents(view, {**around.items.parent, **inside})
    folded = frozenset(item for group in groups for item in group)
    found = without_single_blocks(blocked, folded)
    return _with_names(found, rows.items if found is rows.view else None), groups


def _inside(rows: SiblingRows, scopes: Collection[str]) -> Mapping[str, str | None]:
    """The items in any of *scopes*, each with the cluster around it."""
    within = set[str | None](scopes)
    for cluster in rows.view.clusters.values():  # each after the one around it
        if cluster.parent in within:
            within.add(cluster.id)
    return {item: around for item, around in rows.items.parent.items() if around in within}


def _with_names(view: View, items: SiblingIndex | None) -> View:
    """*view* with the names of the scopes in each block, else of its ops; *items* are its own, if
    known."""
    if not any(map(is_block, view.clusters)):
        return view
    items, recording = items or SiblingIndex(view), view.recording
    clusters = dict(view.clusters)
    for block in filter(is_block, view.clusters):
        names = names_of(recording, [block], items.children) or step_names([
            recording.ops[OpId(item)] for item in items.children(block) if item in recording.ops
        ])
        clusters[block] = Cluster(block, view.clusters[block].parent, names=names)
    return replace(view, clusters=clusters)


class FoldNode:
    """A box or cluster, and its counterparts in joined siblings.

    Attributes:
        id: The id of the box or cluster.
        key: Equal for counterparts in siblings that fold.
        parent: The node around it.
        children: The nodes directly inside it.
        instances: All boxes or clusters that it stands for, itself first.
        present_in: The number of instances of its parent that have it, if siblings may differ.
        count: The maximum number of siblings that it folds.
        names: The names of these siblings.
    """

    __slots__ = ("id", "key", "parent", "children", "instances", "present_in", "count", "names")

    def __init__(self, item: str, key: Hashable, parent: FoldNode | None) -> None:
        self.id = item
        self.key = key
        self.parent = parent
        self.children: list[FoldNode] = []
        self.instances = [item]
        self.present_in = 1
        self.count = 1
        self.names: tuple[str, ...] = ()

    @property
    def share(self) -> tuple[int, int] | None:
        """The number of repeats around it that have it, and of all repeats; None if all have it."""
        there = 1 if self.parent is None else len(self.parent.instances)
        return (self.present_in, there) if self.present_in < there else None


class FoldTree:
    """The siblings of a view, joined where they repeat.

    Equal siblings are joined from the outside in: the contents of the first represent all. Similar
    ones are joined from the inside out: stages of three and of six blocks then have the same
    contents.

    Attributes:
        rows: The siblings.
        groups: The siblings that are joined, in the order of joining.
        counterparts: For each removed item, its counterpart in an earlier sibling.
        nodes: Each item by its id, removed ones included.
        roots: The remaining items at the top.
    """

    def __init__(self, rows: SiblingRows) -> None:
        self.rows = rows
        self.groups: list[tuple[str, ...]] = []
        self.counterparts: dict[str, str] = {}
        self.nodes: dict[str, FoldNode] = {}
        self.roots: list[FoldNode] = []
        self._names: dict[str, tuple[str, ...]] = {}
        self._grow()
        outside_in = (None, *rows.view.clusters)
        for around in reversed(outside_in) if rows.similar else outside_in:
            if around not in self.counterparts:
                self._fold(rows.groups(around))
        self._fold([*rows.source_groups(self.groups)])

    def view(self) -> View:
        """The view in which each group of siblings is one item."""
        old = self.rows.view
        boxes = {
            box.id: box.replace(cluster=self._home(box.id), **self._folded(box.id))
            for box in old.boxes.values()
            if box.id not in self.counterparts
        }
        members: dict[str, list[str]] = {}
        for box in old.boxes.values():
            if box.id in self.counterparts:
                members.setdefault(self.representative(box.id), []).extend(box.members)
        for name, more in members.items():
            boxes[name] = boxes[name].replace(members=(*boxes[name].members, *more))
        clusters = {
            cluster.id: cluster.replace(
                parent=self._home(cluster.id),
                calls=self._calls(cluster.id),
                **self._folded(cluster.id),
            )
            for cluster in old.clusters.values()
            if cluster.id not in self.counterparts
        }
        if self.rows.similar:  # some moved into siblings that come later
            clusters = dict(in_order(clusters))
        arrows, carried = folded_arrows(self)
        for item, joins in carried.items():
            if item in boxes:
                boxes[item] = boxes[item].replace(carried=joins)
            elif item in clusters:
                clusters[item] = clusters[item].replace(carried=joins)
        folded = replace(old, boxes=boxes, clusters=clusters, arrows=tuple(arrows))
        return without_single_blocks(folded)

    def representative(self, item: str) -> str:
        """The representative of *item* after all folds."""
        while item in self.counterparts:
            item = self.counterparts[item]
        return item

    def instances(self, item: str) -> Sequence[str]:
        """The boxes that a box stands for, in the order of the siblings."""
        return self.nodes[item].instances

    def part(self, item: str) -> str | None:
        """The innermost item that only some repeats have, among *item* and those around it."""
        return next((outer for outer in self.around(item) if self.nodes[outer].share), None)

    def around(self, item: str) -> Iterator[str]:
        """*item* and the clusters around it after all folds, innermost first."""
        node: FoldNode | None = self.nodes[item]
        while node is not None:
            yield node.id
            node = node.parent

    def _home(self, item: str) -> str | None:
        parent = self.nodes[item].parent
        return None if parent is None else parent.id

    def _calls(self, item: str) -> tuple[str, ...]:
        """All clusters that it stands for, if there are several."""
        instances = self.nodes[item].instances
        return tuple(instances) if len(instances) > 1 else ()

    def _folded(self, item: str) -> dict[str, Any]:
        """The fields of a box or cluster that describe its siblings."""
        node, fields, names = self.nodes[item], dict[str, Any](), self._names.get(item, ())
        if self.rows.similar:
            names = names_inside(self.rows.recording, node.instances)
            if node.share is not None:
                fields["share"] = node.share
        if len(node.instances) > 1 and (self.rows.similar or self._has_any_shape(node)):
            fields["instances"] = tuple(node.instances)
        names = node.names or names
        if node.count > 1 or names:
            fields.update(count=node.count, names=names)
        return fields

    def _has_any_shape(self, node: FoldNode) -> bool:
        """Whether it is an op in a loop over weights, or a tensor that such ops read.

        Their shapes may differ.
        """
        recording = self.rows.recording
        value = recording.values.get(ValueId(node.id))
        if value is None:
            return node.id in recording.weight_loops or node.id in recording.varying_sizes
        values = recording.values
        return any(values[ValueId(item)].shape != value.shape for item in node.instances)

    def _grow(self) -> None:
        waiting: list[tuple[str | None, FoldNode | None]] = [(None, None)]
        while waiting:
            around, parent = waiting.pop()
            row = self.roots if parent is None else parent.children
            for item in self.rows.items.children(around):
                node = self.nodes[item] = FoldNode(item, self.rows.rule.key(item), parent)
                row.append(node)
                if item in self.rows.view.clusters:
                    waiting.append((item, node))

    def _fold(self, groups: Sequence[tuple[str, ...]]) -> None:
        """Join the siblings of each group."""
        for group in groups:
            first = self.nodes[group[0]]
            first.count = len(group)
            first.names = names_of(self.rows.recording, group, self.rows.items.children)
            for sibling in group[1:]:
                self._join(first, self.nodes[sibling])
            if not self.rows.similar:
                self._name_contents(first.id)
        self.groups += groups
        rows = {id(row): row for group in groups for row in map(self._row, group)}
        for row in rows.values():
            row[:] = [node for node in row if node.id not in self.counterparts]

    def _name_contents(self, item: str) -> None:
        """Name the contents of *item* that have other names in its siblings.

        Parameters and buffers of a module are left out: they have names of their own.
        """
        recording = self.rows.recording
        scope = recording.scopes.get(ScopeId(item))
        values = scope is None or scope.module is None
        for inside in self.rows.items.inside(item):
            if inside in recording.scopes or values and not self._is_held(inside, item):
                names = names_inside(recording, self.nodes[inside].instances)
                self._names[inside] = self._names.get(inside) or names

    def _is_held(self, item: str, outer: str) -> bool:
        """Whether *item* is a parameter or buffer in a module in *outer*."""
        recording, items = self.rows.recording, self.rows.items
        around = items.view.nesting.around(items.parent[item]) if item in recording.stored else ()
        inside = (recording.scopes.get(ScopeId(each)) for each in takewhile(outer.__ne__, around))
        return any(scope is not None and scope.module is not None for scope in inside)

    def _row(self, item: str) -> list[FoldNode]:
        """The nodes beside the one of *item*, and itself."""
        parent = self.nodes[item].parent
        return self.roots if parent is None else parent.children

    def _join(self, first: FoldNode, sibling: FoldNode) -> None:
        """Let *first* represent *sibling*, and its contents represent the contents of *sibling*."""
        self._unite(first, sibling)
        waiting = [(first, sibling)]
        while waiting:
            first, sibling = waiting.pop()
            row: list[FoldNode] = []
            for node, counterpart in self._aligned_children(first, sibling):
                if node is not None and counterpart is not None:
                    node.present_in += counterpart.present_in
                    self._unite(node, counterpart)
                    waiting.append((node, counterpart))
                elif counterpart is not None:
                    counterpart.parent = first
                row.extend(filter(None, (node or counterpart,)))
            first.children = row

    def _aligned_children(
        self, first: FoldNode, second: FoldNode
    ) -> Iterable[tuple[FoldNode | None, FoldNode | None]]:
        """The contents of two siblings in order, as pairs of counterparts."""
        if not self.rows.similar:
            return zip(first.children, second.children)
        keys = [node.key for node in first.children], [node.key for node in second.children]
        return (
            (
                first.children[here] if here is not None else None,
                second.children[there] if there is not None else None,
            )
            for here, there in aligned(*keys)
        )

    def _unite(self, first: FoldNode, sibling: FoldNode) -> None:
        self.counterparts[sibling.id] = first.id
        first.instances.extend(sibling.instances)
        if sibling.count > first.count:
            first.count, first.names = sibling.count, sibling.names
