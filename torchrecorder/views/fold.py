"""Fold: repeated siblings into one box or cluster with a count.

Siblings fold if they have equal structure, names that differ in a number only, and stand
in a row, each feeding the next, or side by side, with the same boxes before and after
them. So do blocks of several siblings, such as the ops of a loop. What else they read or
feed must be the same for all. The first of them stays and stands for the others; arrows
from one to the next are implied by the count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torchrecorder.events import OpId, ScopeId
from torchrecorder.graph.recording import Recording
from torchrecorder.views.blocked import blocked, unblocked
from torchrecorder.views.blocks import SAVED, is_block, unit_of
from torchrecorder.views.items import Items
from torchrecorder.views.kin import enough, without_numbers
from torchrecorder.views.view import Arrow, Box, Cluster, View


@dataclass(frozen=True)
class Fold:
    """Fold repeated siblings, at every level; two plain ones stay two boxes."""

    def __call__(self, view: View) -> View:
        items, keys = blocked(view)
        items.compare(keys.get)
        folds = tuple(_folds(items))
        return unblocked(_Folded(items, folds).view()) if folds else view


def alike(view: View) -> tuple[tuple[str, ...], ...]:
    """What would fold: scopes and ops that repeat, the first of each and what it stands for.

    Of blocks of siblings, each sibling is told apart. Outer ones come first.
    """
    items, keys = blocked(view)
    items.compare(keys.get)
    found: list[tuple[str, ...]] = []
    for group in _folds(items):
        if is_block(group[0]):
            found.extend(zip(*(items.children(block) for block in group)))
        else:
            found.append(group)
    return tuple(group for group in found if not is_block(group[0]))


def repeats(view: View) -> tuple[View, tuple[tuple[str, ...], ...]]:
    """*view* with its blocks as clusters, and the groups of siblings that fold.

    Those inside siblings that fold themselves are among them.
    """
    items, keys = blocked(view)
    items.compare(keys.get)
    groups = tuple(_folds(items, everywhere=True))
    folded = frozenset(item for group in groups for item in group)
    return with_names(unblocked(items.view, folded)), groups


def with_names(view: View) -> View:
    """*view* with what the scopes and ops in each block are called."""
    if not any(map(is_block, view.clusters)):
        return view
    items, recording = Items(view), view.recording
    clusters = dict(view.clusters)
    for block in filter(is_block, view.clusters):
        inside = (
            recording.scopes.get(ScopeId(each)) or recording.ops.get(OpId(each))
            for each in items.children(block)
        )
        names = tuple(each.name for each in inside if each is not None)
        clusters[block] = replace(clusters[block], names=names)
    return replace(view, clusters=clusters)


def names_of(
    recording: Recording, group: Sequence[str], children: Callable[[str], Iterable[str]]
) -> tuple[str, ...]:
    """What stands in the title of a fold: names of siblings, or of the scopes in blocks.

    Args:
        recording: Where they are from.
        group: The siblings, or blocks of siblings.
        children: Gives what lies in a block.
    """
    if not is_block(group[0]):
        return tuple(recording.scopes[ScopeId(each)].name for each in group)
    named = [
        tuple(
            recording.scopes[ScopeId(item)].name
            for item in children(block)
            if item in recording.scopes
        )
        for block in group
    ]
    same = all(each == named[0] for each in named)
    return named[0] if same else tuple(name for each in named for name in each)


def _folds(items: Items, everywhere: bool = False) -> Iterator[tuple[str, ...]]:
    """Groups of siblings that fold, outer ones first; none inside a sibling that goes."""
    waiting: list[str | None] = [None]
    while waiting:
        around = waiting.pop()
        gone: set[str] = set()
        for row in items.rows(around):
            for group in _groups(items, row):
                if _are_enough(items, group):
                    gone.update(() if everywhere else group[1:])
                    yield group
        inside = (item for item in items.children(around) if item not in gone)
        waiting.extend(item for item in inside if item in items.view.clusters)


def _are_enough(items: Items, group: Sequence[str]) -> bool:
    """Whether so many siblings, or blocks of siblings, are worth a fold."""
    recording = items.view.recording
    if not is_block(group[0]):
        return len(group) >= enough(recording, group[0])
    units = [unit_of(recording, item) for item in items.children(group[0])]
    if any(unit.composed for unit in units) and len(group) > 1:
        return True
    return len(group) > 2 and (len(group) - 1) * len(units) >= SAVED


def _groups(items: Items, row: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Cut a row of siblings with equal structure into groups that are wired alike."""
    start = 0
    while start < len(row):
        best = max(_chain(items, row, start), _side_by_side(items, row, start))
        yield tuple(row[start:best])
        start = best


def _chain(items: Items, row: Sequence[str], start: int) -> int:
    """Where the chain that begins at *start* ends."""
    end = start + 1
    pattern: Any = None
    while end < len(row) and items.alike(row[start], row[end]):
        link = _Link(items, row[end - 1], row[end])
        if not link.joins or (pattern is not None and link.pattern != pattern):
            break
        if pattern is None and not link.begins_at(row[start]):
            break
        pattern = link.pattern
        end += 1
    return end


class _Link:
    """How one sibling of a chain hangs on the one before."""

    def __init__(self, items: Items, one: str, other: str) -> None:
        self.items = items
        here, there = items.places(one), items.places(other)
        joins = [arrow for arrow in items.into[other] if arrow.tail in here]
        before = {(arrow.tail, here[arrow.head], arrow.slot): arrow for arrow in items.into[one]}
        self.beside, self.stepping = set[Any](), set[tuple[str, int, str]]()
        for arrow in items.into[other]:
            if arrow.tail not in here:
                spot = (arrow.tail, there[arrow.head], arrow.slot)
                step = items.step(before[spot], arrow) if spot in before else 0
                if step:
                    self.stepping.add(spot)
                    self.beside.add((*spot, step))
                else:
                    self.beside.add((*items.start(arrow), *spot[1:]))
        leaves = _counted(
            (items.end(arrow.head), here[arrow.tail])
            for arrow in items.out_of[one]
            if arrow.head not in there
        )
        self.joins = _counted((here[each.tail], there[each.head], each.slot) for each in joins)
        self.pattern = (self.joins, self.beside, leaves)

    def begins_at(self, first: str) -> bool:
        """Whether *first* has the chain's entries where the others hang on."""
        places = self.items.places(first)
        entries: dict[tuple[int, str], None] = {}
        for arrow in self.items.into[first]:
            place = places[arrow.head]
            stepping = (arrow.tail, place, arrow.slot) in self.stepping
            if not stepping and (*self.items.start(arrow), place, arrow.slot) not in self.beside:
                entries[place, arrow.slot] = None
        return set(entries) == {(place, slot) for _, place, slot in self.joins}


def _counted(things: Iterable[Any]) -> dict[Any, int]:
    """How often each is there; a plain dict, as these are compared by the thousand."""
    found: dict[Any, int] = {}
    for each in things:
        found[each] = found.get(each, 0) + 1
    return found


def _side_by_side(items: Items, row: Sequence[str], start: int) -> int:
    """Where the siblings that stand beside the one at *start* end."""
    wanted = _surroundings(items, row[start])
    end = start + 1
    while end < len(row) and items.alike(row[start], row[end]):
        if _surroundings(items, row[end]) != wanted:
            break
        end += 1
    return end


def _surroundings(items: Items, item: str) -> Any:
    places = items.places(item)
    before = _counted((items.start(arrow)[0], places[arrow.head]) for arrow in items.into[item])
    after = _counted(
        (items.end(arrow.head), without_numbers(arrow.slot), places[arrow.tail])
        for arrow in items.out_of[item]
    )
    return before, after


class _Folded:
    """The view in which the first of each group stands for all."""

    def __init__(self, items: Items, folds: Iterable[tuple[str, ...]]) -> None:
        self.items = items
        self.old = items.view
        self.stands: dict[str, str] = {}
        self.seat: dict[str, tuple[int, int]] = {}
        self.groups: dict[str, tuple[str, ...]] = {}
        self._found: dict[str, dict[int, int]] = {}
        for number, group in enumerate(folds):
            self.groups[group[0]] = group
            self.seat.update((item, (number, place)) for place, item in enumerate(group))
            first = [*items.inside(group[0])]
            for item in group[1:]:
                self.stands.update(zip(items.inside(item), first))

    def view(self) -> View:
        boxes = {box.id: self._box(box) for box in self.old.boxes.values() if self._stays(box.id)}
        members: dict[str, list[str]] = {}
        for box in self.old.boxes.values():
            if not self._stays(box.id):
                members.setdefault(self._of(box.id), []).extend(box.members)
        for name, more in members.items():
            boxes[name] = replace(boxes[name], members=(*boxes[name].members, *more))
        clusters = {
            each.id: self._cluster(each)
            for each in self.old.clusters.values()
            if self._stays(each.id)
        }
        return View(self.old.recording, boxes, clusters, tuple(self._arrows()))

    def _stays(self, item: str) -> bool:
        return item not in self.stands

    def _of(self, item: str) -> str:
        """What stands for *item* in the end."""
        while item in self.stands:
            item = self.stands[item]
        return item

    def _box(self, box: Box) -> Box:
        if box.id not in self.groups:
            return box
        count, names = self._tally(box.id, box.count)
        return replace(box, count=count, names=names)

    def _cluster(self, cluster: Cluster) -> Cluster:
        if cluster.id not in self.groups:
            return cluster
        count, names = self._tally(cluster.id, cluster.count)
        return replace(cluster, count=count, names=names)

    def _tally(self, item: str, count: int) -> tuple[int, tuple[str, ...]]:
        group = self.groups[item]
        found = names_of(self.old.recording, group, self.items.children)
        return (1 if is_block(item) else count) * len(group), found

    def _arrows(self) -> Iterator[Arrow]:
        """Arrows of the first of each group, and those of the others that they lack."""
        moved = list(self._moved())
        seen = {key for key, first, _ in moved if first}
        for key, first, arrow in moved:
            if first or key not in seen:
                seen.add(key)
                yield arrow

    def _moved(self) -> Iterator[tuple[tuple[str, str, int], bool, Arrow]]:
        """Arrows between what stays, whether they belong to a first, and a key for equal ones."""
        copies: Counter[tuple[str, str]] = Counter()
        for arrow in self.old.arrows:
            tail, head = self._seats(arrow.tail), self._seats(arrow.head)
            if any(tail[group] != head[group] or head[group] for group in tail if group in head):
                continue
            ends = self._of(arrow.tail), self._of(arrow.head)
            copies[arrow.tail, arrow.head] += 1
            first = not any(tail.values()) and not any(head.values())
            key = (*ends, copies[arrow.tail, arrow.head])
            yield key, first, Arrow(*ends, arrow.value, arrow.slot)

    def _seats(self, box: str) -> dict[int, int]:
        """The groups a box is in, and which of the siblings it belongs to."""
        if box in self._found:
            return self._found[box]
        seats: dict[int, int] = {}
        found: str | None = box
        while found is not None:
            for item in self.items.around(found):
                if item in self.seat:
                    group, place = self.seat[item]
                    seats.setdefault(group, place)
            found = self.stands.get(found)
        self._found[box] = seats
        return seats
