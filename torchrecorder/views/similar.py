"""Similar: siblings of one class fold although sizes, wiring or an optional part differ.

The first of them stays, and in it what only others have. What lies inside is matched from
one sibling to the next: the same class and name, or the same op, in the same order. Inner
siblings fold before outer ones, so that stages of three and of six blocks have the same in
them. Siblings that are told apart by their wiring alone are one box too: as nothing stands
between them in the run, an arrow that enters or leaves one of them does so for the box.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torchrecorder.events import GradId, OpId, ScopeId, ValueId
from torchrecorder.graph.align import aligned
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import Recording
from torchrecorder.views.blocked import blocked, unblocked
from torchrecorder.views.blocks import SAVED, is_block, loose_unit, unit_of
from torchrecorder.views.collapse import SOURCES
from torchrecorder.views.fold import names_of, with_names
from torchrecorder.views.kin import enough, loose_kin
from torchrecorder.views.united import arrows
from torchrecorder.views.view import Box, View


@dataclass(frozen=True)
class FoldSimilar:
    """Fold siblings of one class, whatever else differs, and mark what only some have."""

    def __call__(self, view: View) -> View:
        merged = Merged(view)
        return merged.view() if merged.groups else view


def similar_repeats(view: View) -> tuple[View, tuple[tuple[str, ...], ...]]:
    """*view* with its blocks as clusters, and the groups of siblings that fold."""
    merged = Merged(view)
    groups = tuple(merged.groups)
    folded = frozenset(item for group in groups for item in group)
    return with_names(unblocked(merged.old, folded)), groups


class Node:
    """A box or cluster, and what else it stands for once siblings are one.

    Attributes:
        id: That of the box or cluster.
        key: What it must have in common with its counterpart in another sibling.
        parent: The node around it.
        children: What lies in it.
        instances: All boxes or clusters that it stands for, itself first.
        homes: How many of the instances of its parent have it.
        count: How many siblings it folds, at most.
        names: What these are called.
    """

    __slots__ = ("id", "key", "parent", "children", "instances", "homes", "count", "names")

    def __init__(self, item: str, key: Hashable, parent: Node | None) -> None:
        self.id = item
        self.key = key
        self.parent = parent
        self.children: list[Node] = []
        self.instances = [item]
        self.homes = 1
        self.count = 1
        self.names: tuple[str, ...] = ()

    @property
    def share(self) -> tuple[int, int] | None:
        """In how many of the repeats around it is, and of how many; None if in all."""
        there = 1 if self.parent is None else len(self.parent.instances)
        return (self.homes, there) if self.homes < there else None


class Merged:
    """The siblings of a view, joined where they are similar.

    Attributes:
        old: The view, with clusters around siblings that repeat together.
        items: Who stands beside whom in it.
        groups: The siblings that are joined, in each scope; inner ones first.
        stands: For all that goes, its counterpart in an earlier sibling.
        nodes: Everything by its id, what goes included.
    """

    def __init__(self, view: View) -> None:
        self.items, keys = blocked(view, loose_unit)
        self.old = self.items.view
        self.recording: Recording = view.recording
        self.groups: list[tuple[str, ...]] = []
        self.stands: dict[str, str] = {}
        self.nodes: dict[str, Node] = {}
        self._profiles: dict[str, Counter[Hashable]] = {}
        self._grow(keys)
        for around in (*reversed(list(self.old.clusters)), None):
            self._fold(around)

    def of(self, item: str) -> str:
        """What stands for *item* in the end."""
        while item in self.stands:
            item = self.stands[item]
        return item

    def instances(self, item: str) -> int:
        """How many boxes a box stands for."""
        return len(self.nodes[item].instances)

    def part(self, item: str) -> str | None:
        """The innermost thing around *item*, itself included, that only some repeats have."""
        return next((each for each in self.around(item) if self.nodes[each].share), None)

    def around(self, item: str) -> Iterator[str]:
        """What stays, and the clusters around it in the end, innermost first."""
        node: Node | None = self.nodes[item]
        while node is not None:
            yield node.id
            node = node.parent

    def view(self) -> View:
        """The view in which each group is one."""
        boxes = {box.id: self._box(box) for box in self._staying(self.old.boxes)}
        members: dict[str, list[str]] = {}
        for box in self.old.boxes.values():
            if box.id in self.stands:
                members.setdefault(self.of(box.id), []).extend(box.members)
        for name, more in members.items():
            boxes[name] = replace(boxes[name], members=(*boxes[name].members, *more))
        clusters = {
            each.id: replace(each, parent=self._home(each.id), **self._said(each.id))
            for each in self._staying(self.old.clusters)
        }
        found = View(self.recording, boxes, clusters, tuple(arrows(self)))
        return unblocked(found)

    def _staying(self, things: Mapping[str, Any]) -> Iterator[Any]:
        return (each for each in things.values() if each.id not in self.stands)

    def _box(self, box: Box) -> Box:
        return replace(box, cluster=self._home(box.id), **self._said(box.id))

    def _home(self, item: str) -> str | None:
        parent = self.nodes[item].parent
        return None if parent is None else parent.id

    def _said(self, item: str) -> dict[str, Any]:
        node = self.nodes[item]
        alone = len(node.instances) == 1
        found: dict[str, Any] = {"share": node.share}
        if not alone:
            found["instances"] = tuple(node.instances)
        if node.count > 1:
            found.update(count=node.count, names=node.names)
        return found

    # The tree ------------------------------------------------------------------------

    def _grow(self, keys: Mapping[str, object]) -> None:
        waiting: list[tuple[str | None, Node | None]] = [(None, None)]
        self.roots: list[Node] = []
        while waiting:
            around, parent = waiting.pop()
            row = self.roots if parent is None else parent.children
            for item in self.items.children(around):
                node = Node(item, self._key(item, keys), parent)
                self.nodes[item] = node
                row.append(node)
                if item in self.old.clusters:
                    waiting.append((item, node))

    def _key(self, item: str, keys: Mapping[str, object]) -> Hashable:
        """What counterparts in two siblings have in common."""
        recording, is_open = self.recording, item in self.old.clusters
        if is_block(item):
            return "block", keys[item]
        found = loose_kin(recording, item)
        if found is not None:
            return "scope", is_open, found
        step = recording.ops.get(OpId(item)) or recording.grad_nodes.get(GradId(item))
        if step is not None:
            return "step", is_open, step.name
        box, value = self.old.boxes[item], recording.values.get(ValueId(item))
        name = value.names[0].rpartition(".")[2] if value is not None and value.names else ""
        return "value", box.kind, name

    # Joining -------------------------------------------------------------------------

    def _fold(self, around: str | None) -> None:
        """Join the similar siblings that stand in one cluster."""
        row = self.roots if around is None else self.nodes[around].children
        groups = [group for group in self._groups(row) if self._are_enough(group)]
        for group in groups:
            ids = tuple(node.id for node in group)
            self.groups.append(ids)
            first = group[0]
            first.count = len(group)
            first.names = names_of(self.recording, ids, self.items.children)
            for other in group[1:]:
                self._join(first, other)
        if groups:
            row[:] = [node for node in row if node.id not in self.stands]

    def _groups(self, row: Sequence[Node]) -> Iterator[list[Node]]:
        """Siblings next to each other that are similar to the first of them."""
        group: list[Node] = []
        for node in row:
            box = self.old.boxes.get(node.id)
            if box is not None and box.kind in SOURCES:
                continue
            if group and self._are_similar(group[0], node):
                group.append(node)
                continue
            if len(group) > 1:
                yield group
            group = [node]
        if len(group) > 1:
            yield group

    def _are_similar(self, one: Node, other: Node) -> bool:
        """Whether most of what the smaller of two siblings does, the larger does too."""
        if one.key != other.key or not (is_block(one.id) or self._is_scope(one.id)):
            return False
        if is_block(one.id):
            return True
        ours, theirs = self._profile(one.id), self._profile(other.id)
        smaller = min(ours.total(), theirs.total())
        return 2 * (ours & theirs).total() > smaller or ours == theirs

    def _is_scope(self, item: str) -> bool:
        return item in self.recording.scopes

    def _profile(self, item: str) -> Counter[Hashable]:
        """What runs right in a scope; siblings of one class in a row count once."""
        if item not in self._profiles:
            found: Counter[Hashable] = Counter()
            last: Hashable = None
            for child in self.recording.children[ScopeId(item)]:
                key = _step(self.recording, child)
                if key != last or isinstance(child, Op):
                    found[key] += 1
                last = key
            self._profiles[item] = found
        return self._profiles[item]

    def _are_enough(self, group: Sequence[Node]) -> bool:
        """Whether so many siblings, or blocks of siblings, are worth a fold."""
        first = group[0].id
        if not is_block(first):
            return len(group) >= enough(self.recording, first)
        units = [unit_of(self.recording, item) for item in self.items.children(first)]
        if any(unit.composed for unit in units):
            return True
        return len(group) > 2 and (len(group) - 1) * len(units) >= SAVED

    def _join(self, first: Node, other: Node) -> None:
        """Let *first* stand for a sibling, and what is in it for what is in that."""
        self._unite(first, other)
        waiting = [(first, other)]
        while waiting:
            ours, theirs = waiting.pop()
            pairs = aligned(
                [child.key for child in ours.children], [child.key for child in theirs.children]
            )
            row: list[Node] = []
            for here, there in pairs:
                mine = ours.children[here] if here is not None else None
                yours = theirs.children[there] if there is not None else None
                if mine is not None and yours is not None:
                    mine.homes += yours.homes
                    self._unite(mine, yours)
                    waiting.append((mine, yours))
                elif yours is not None:
                    yours.parent = ours
                row.extend(filter(None, (mine or yours,)))
            ours.children = row

    def _unite(self, one: Node, other: Node) -> None:
        self.stands[other.id] = one.id
        one.instances.extend(other.instances)
        if other.count > one.count:
            one.count, one.names = other.count, other.names


def _step(recording: Recording, child: Scope | Op) -> Hashable:
    return child.name if isinstance(child, Op) else loose_kin(recording, child.id)
