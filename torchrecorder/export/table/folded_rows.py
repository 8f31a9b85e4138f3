"""Folded rows: one row for repeated siblings in a table by scope, with their differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from itertools import groupby, takewhile
from operator import itemgetter

from torchrecorder.events import OpId, ScopeId
from torchrecorder.export.table.rows import TableRow, row_of_ops
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import step_of
from torchrecorder.style import labels
from torchrecorder.style.differences import Differences
from torchrecorder.style.merge_captions import times
from torchrecorder.style.region_captions import REGIONS
from torchrecorder.views.collapse import Collapse
from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.fold.fold import FoldNode, FoldTree
from torchrecorder.views.fold.siblings import SiblingRows
from torchrecorder.views.full_view import full_view
from torchrecorder.views.hide import HideStored
from torchrecorder.views.pipeline import find_quiet
from torchrecorder.views.training import training_steps
from torchrecorder.views.view import View
from torchrecorder.views.without import without


def folded(
    recording: RecordedRun, listed: Sequence[TableRow], *, similar: bool = False
) -> list[TableRow]:
    """*listed*, all rows of a recording, with one row for each fold, as in figures. *similar*:
    siblings of one class fold although they differ."""
    return _Folded(recording, listed, similar).rows()


class _Folded:
    def __init__(self, recording: RecordedRun, listed: Sequence[TableRow], similar: bool) -> None:
        self.recording = recording
        self.listed = listed
        self.place = {row.ids[0]: place for place, row in enumerate(listed)}
        self.tree = FoldTree(SiblingRows(self._view(), similar))
        self.groups = {group[0]: group for group in self.tree.groups}
        self.differences = Differences(recording)
        self.beside: dict[str, list[str]] = {}  # ops without a box, by the op they belong to
        self.order: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        waiting = [(node, False) for node in reversed(self.tree.roots)]
        while waiting:
            node, done = waiting.pop()
            self.ends[node.id] = len(self.order)
            if not done:
                self.order[node.id] = len(self.order)
                waiting.append((node, True))
                waiting.extend((child, False) for child in reversed(node.children))

    def _view(self) -> View:
        """The view of a figure in which everything with rows is open, with all ops in rows."""
        listed = {item for row in self.listed for item in row.ids}
        quiet = find_quiet(self.recording) - listed
        view = Collapse(None, quiet, self._plain_steps())(full_view(self.recording))
        view = without(view, [box for box in view.boxes if box in quiet])
        return HideStored(everywhere=True)(view)

    def _plain_steps(self) -> frozenset[str]:
        """The parts of training steps without rows in them: the first step may create state for
        others."""
        scopes, ops, holding = self.recording.scopes, self.recording.ops, set[str]()
        for item in self.place:
            if item in ops:
                holding.update(self.recording.within(ops[OpId(item)].scope))
            elif item in scopes:
                holding.update(self.recording.within(scopes[ScopeId(item)].parent))
        return training_steps(self.recording) - holding

    def rows(self) -> list[TableRow]:
        """Rows in order, one for each sibling or fold."""
        listed = [piece for row in self.listed for piece in self._pieces(row)]
        placed = list(zip(self._places(listed), map(self._row, listed)))
        placed += self._never_called()
        return [row for _, row in sorted(placed, key=lambda found: found[0])]

    def _pieces(self, row: TableRow) -> list[TableRow]:
        """The rows that stand for *row*. One of several ops is divided where a loop begins or ends
        that is also in other rows; what those of its first iteration stand for is left out. An op
        without a box, such as an update of a buffer, belongs to the op before it, else after it."""
        if len(row.ids) == 1:
            return [row] if row.ids[0] in self.order else []
        here = set(row.ids)
        drawn = [item if self._is_drawn(item) else None for item in row.ids]
        known = next(filter(None, drawn), None)
        if known is None:
            return []
        parts: list[tuple[int, Op]] = []
        for item, box in zip(row.ids, drawn):
            known = box or known
            first = self.tree.representative(known)
            if box is None:
                self.beside.setdefault(first, []).append(item)
            rounds = self._rounds(first, here) if first in here else -1
            parts.append((rounds, self.recording.ops[OpId(item)]))
        groups = [(rounds, [*group]) for rounds, group in groupby(parts, itemgetter(0))]
        if len(groups) == 1 and groups[0][0] >= 0:
            return [row]
        return [
            row_of_ops(self.recording, [op for _, op in group], row.depth)
            for rounds, group in groups if rounds >= 0
        ]

    def _is_drawn(self, item: str) -> bool:
        """Whether *item*, or what stands for it, has a box."""
        return self.tree.representative(item) in self.order

    def _rounds(self, first: str, here: Set[str]) -> int:
        """How often the op *first* repeats; 0 if it does so only *here*."""
        instances = self.tree.nodes[first].instances
        return 0 if here >= set(instances) else len(instances)

    def _node(self, row: TableRow) -> FoldNode:
        """What stands for the first of *row* that has a box."""
        first = next(filter(self._is_drawn, row.ids))
        return self.tree.nodes[self.tree.representative(first)]

    def _places(self, listed: Sequence[TableRow]) -> list[tuple[int, int]]:
        """The order of rows. An op of the program is listed at its position in the run, before the
        next row, although figures draw a tensor that a module looks up in that module.
        """
        found, ahead = [], len(self.order)
        for row in reversed(listed):
            node = self._node(row)
            if row.depth == 0 and node.parent is not None and node.id in self.recording.ops:
                found.append((ahead, -1))
                continue
            ahead = self.order[node.id]
            found.append((ahead, 0))
        return found[::-1]

    def _never_called(self) -> Iterator[tuple[tuple[int, int], TableRow]]:
        """Rows of modules that were never called, after the other rows of their parent."""
        found: dict[tuple[str | None, str], list[tuple[str | None, TableRow]]] = {}
        for row, around in zip(self.listed, _parents(self.listed)):
            if not any(map(self._is_drawn, row.ids)):
                home = None if around is None else self.tree.representative(around)
                found.setdefault((home, row.title), []).append((around, row))
        for (home, _), rows in found.items():
            end = len(self.order) + 1 if home is None else self.ends[home]
            ids = tuple(id_ for _, row in rows for id_ in row.ids)
            shown = (row for around, row in rows if around == home)
            yield from (((end, -2), replace(row, ids=ids)) for row in shown)

    def _row(self, row: TableRow) -> TableRow:
        if len(row.ids) > 1:
            return self._of_ops(row)
        node = self.tree.nodes[row.ids[0]]
        if len(node.instances) < 2:
            return row
        title, block = row.title, self._block(node)
        if node.count > 1 or block is not None:
            names = node.names or self._names_in(block, node)
            number = times(self.recording, _count(node), node.instances)
            scope = self.recording.scopes.get(ScopeId(node.id))
            if scope is None or scope.kind not in REGIONS:  # titles of regions have no name
                name = labels.names(names) or _short(title)  # loose ops have no names in a fold
                title = f"{name}{title.removeprefix(_short(title))}"
            title = f"{title}  {number}"
        places = [self.place[item] for item in node.instances if item in self.place]
        first = (place for place in places if self._is_first_call(self.listed[place].ids[0]))
        scope = self.recording.scopes.get(ScopeId(node.id))
        of_weights = scope is not None and scope.module is not None
        shared = _together([self.listed[place].notes for place in first], some=of_weights)
        notes = (*shared, *self._notes(node))
        last = self.listed[places[-1]] if self.tree.rows.similar else None
        return replace(row, title=title, ids=self._ids([node.id]), notes=notes, last=last)

    def _of_ops(self, row: TableRow) -> TableRow:
        """A row of several ops, which all repeat equally often."""
        first = self._node(row)
        if not self._rounds(first.id, set(row.ids)):
            return row
        number = times(self.recording, _count(first), first.instances)
        drawn = dict.fromkeys(map(self.tree.representative, filter(self._is_drawn, row.ids)))
        return replace(row, title=f"{row.title}  {number}", ids=self._ids(drawn))

    def _ids(self, drawn: Iterable[str]) -> tuple[str, ...]:
        """All that some items with boxes stand for, with the ops that belong to them."""
        return tuple(
            item for first in drawn
            for item in (*self.tree.nodes[first].instances, *self.beside.get(first, ()))
        )

    def _is_first_call(self, instance: str) -> bool:
        """Whether it is the first call of its module: notes on weights are only there."""
        scope = self.recording.scopes.get(ScopeId(instance))
        return scope is None or scope.call == 0

    def _block(self, node: FoldNode) -> FoldNode | None:
        """The repeated block around a node, unless the node repeats inside the block."""
        around = node.parent if node.count == 1 else None
        while around is not None and is_block(around.id):
            if around.id in self.groups:
                return around
            around = around.parent
        return None

    def _names_in(self, block: FoldNode | None, node: FoldNode) -> tuple[str, ...]:
        """The names of the counterparts of *node* in the repeats of a block."""
        blocks = set(self.groups[block.id] if block else ())
        here = (item for item in node.instances if not blocks.isdisjoint(self._blocks(item)))
        return tuple(self._name(item) for item in here)

    def _blocks(self, item: str) -> Iterator[str]:
        """The blocks directly around *item*."""
        items = self.tree.rows.items
        return takewhile(is_block, items.view.nesting.around(items.parent[item]))

    def _notes(self, node: FoldNode) -> Iterator[str]:
        """Notes on repeats that differ: the number that have *node*, and the differences."""
        if not self.tree.rows.similar:
            return
        if node.share is not None:
            yield f"in {node.share[0]} of {node.share[1]}"
        if node.count > 1 and node.id in self.recording.scopes:
            yield from self.differences.brief(tuple(node.instances))

    def _name(self, item: str) -> str:
        step = step_of(self.recording, item)
        return step.name if step is not None else item


def _together(of_all: Sequence[Sequence[str]], *, some: bool) -> Iterator[str]:
    """The notes on siblings; with *some*, also those that not all have, and how many do.

    Which call one is is left out.
    """
    counts = Counter(note for notes in of_all for note in notes if not note.startswith("call "))
    for note, number in counts.items():
        if some or number == len(of_all):
            yield note if number == len(of_all) else f"{note} in {number} of {len(of_all)}"


def _count(node: FoldNode) -> int:
    """How often a node repeats in the row around it: in a loop in a loop, in both."""
    found, around = node.count, node.parent
    while around is not None and is_block(around.id):
        found, around = found * around.count, around.parent
    return found


def _short(title: str) -> str:
    """A title without the class, or without the parentheses of a function."""
    return title.partition(" (")[0].removesuffix("()")


def _parents(listed: Sequence[TableRow]) -> Iterator[str | None]:
    """The first id of the row around each row."""
    around: list[str] = []
    for row in listed:
        del around[row.depth :]
        yield around[-1] if around else None
        around.append(row.ids[0])
