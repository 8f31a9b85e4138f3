"""Folded rows: one row for siblings that repeat, in a table by scope, and what differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from torchrecorder.events import OpId, ScopeId
from torchrecorder.export.rows import Row
from torchrecorder.graph.recording import Recording
from torchrecorder.style import labels
from torchrecorder.style.differences import Differences
from torchrecorder.style.together import times
from torchrecorder.views.blocks import is_block
from torchrecorder.views.fold import FoldTree, Node
from torchrecorder.views.siblings import Rows
from torchrecorder.views.whole import whole


def folded(recording: Recording, listed: Sequence[Row], *, similar: bool = False) -> list[Row]:
    """*listed* with one row for what figures fold, which stands for all of it.

    Args:
        recording: What is listed.
        listed: All of its rows.
        similar: Whether siblings of one class fold whatever else differs.
    """
    return _Folded(recording, listed, similar).rows()


class _Folded:
    def __init__(self, recording: Recording, listed: Sequence[Row], similar: bool) -> None:
        self.recording = recording
        self.listed = listed
        self.place = {row.ids[0]: place for place, row in enumerate(listed)}
        self.tree = FoldTree(Rows(whole(recording), similar))
        self.differences = Differences(recording)
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

    def rows(self) -> list[Row]:
        """Rows in the order of what stays, each for all that it stands for."""
        placed: list[tuple[tuple[int, int], Row]] = []
        uncalled: dict[tuple[str | None, str], list[str]] = {}  # modules never called
        for row, around in zip(self.listed, _parents(self.listed)):
            first = row.ids[0]
            if first in self.order:
                placed.append(((self.order[first], 0), self._row(row)))
            elif first not in self.tree.stands:
                home = None if around is None else self.tree.of(around)
                ids = uncalled.setdefault((home, row.title), [])
                ids.extend(row.ids)
                if home == around:
                    end = len(self.order) if home is None else self.ends[home]
                    placed.append(((end, -1), replace(row, ids=ids)))  # type: ignore[arg-type]
        placed.sort(key=lambda found: found[0])
        return [replace(row, ids=tuple(row.ids)) for _, row in placed]

    def _row(self, row: Row) -> Row:
        node = self.tree.nodes[row.ids[0]]
        if len(row.ids) > 1 or len(node.instances) < 2:
            return row
        title = row.title
        if node.count > 1 or node.parent is not None and is_block(node.parent.id):
            names = node.names or tuple(map(self._name, node.instances))
            short = title.partition(" (")[0]
            number = times(self.recording, max(node.count, len(names)), node.instances)
            title = f"{labels.names(names)}{title.removeprefix(short)}  {number}"
        calls = (note for note in row.notes if not note.startswith("call "))
        notes = (*calls, *self._notes(node))
        last = self.listed[self.place[node.instances[-1]]] if self.tree.rows.similar else None
        return replace(row, title=title, ids=tuple(node.instances), notes=notes, last=last)

    def _notes(self, node: Node) -> Iterator[str]:
        """Where some repeats differ: how many have it, and in what those differ."""
        if not self.tree.rows.similar:
            return
        if node.share is not None:
            yield f"in {node.share[0]} of {node.share[1]}"
        if node.count > 1 and node.id in self.recording.scopes:
            yield from self.differences.brief(tuple(node.instances))

    def _name(self, item: str) -> str:
        scope, op = self.recording.scopes.get(ScopeId(item)), self.recording.ops.get(OpId(item))
        return scope.name if scope is not None else f"{op.name}()" if op is not None else item


def _parents(listed: Sequence[Row]) -> Iterator[str | None]:
    """What the row stands for that each row is nested in."""
    around: list[str] = []
    for row in listed:
        del around[row.depth :]
        yield around[-1] if around else None
        around.append(row.ids[0])
