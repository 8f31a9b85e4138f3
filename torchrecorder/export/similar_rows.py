"""Similar rows: one row for siblings that differ, in a table by scope, and what differs."""

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
from torchrecorder.views.similar import Merged, Node
from torchrecorder.views.whole import whole


def similar_rows(recording: Recording, listed: Sequence[Row]) -> list[Row]:
    """*listed* with one row for siblings of one class, and in it what any of them has."""
    return _Similar(recording, listed).rows()


class _Similar:
    def __init__(self, recording: Recording, listed: Sequence[Row]) -> None:
        self.recording = recording
        self.listed = listed
        self.place = {row.ids[0]: place for place, row in enumerate(listed)}
        self.merged = Merged(whole(recording))
        self.differences = Differences(recording)
        self.nodes: dict[str, Node] = {}
        self.ends: dict[str, int] = {}
        waiting = [(node, False) for node in reversed(self.merged.roots)]
        while waiting:
            node, done = waiting.pop()
            self.ends[node.id] = len(self.nodes)
            if not done:
                self.nodes[node.id] = node
                waiting.append((node, True))
                waiting.extend((each, False) for each in reversed(node.children))

    def rows(self) -> list[Row]:
        """Rows in the order of what stays, each for all that it stands for."""
        order = {item: (number, 0) for number, item in enumerate(self.nodes)}
        placed: list[tuple[tuple[int, int], Row]] = []
        silent: dict[tuple[str | None, str], tuple[str, ...]] = {}  # modules never called
        for row, around in zip(self.listed, _parents(self.listed)):
            first = row.ids[0]
            if first in order:
                placed.append((order[first], self._row(row)))
            elif first not in self.merged.stands:
                home = None if around is None else self.merged.of(around)
                silent[home, row.title] = (*silent.get((home, row.title), ()), *row.ids)
                if home == around:
                    place = self.ends[home] if home is not None else len(order)
                    placed.append(((place, -1), row))
        rows = (row for _, row in sorted(placed, key=lambda each: each[0]))
        parents = {row.ids: around for row, around in zip(self.listed, _parents(self.listed))}
        return [
            replace(row, ids=silent.get((parents.get(row.ids), row.title), row.ids)) for row in rows
        ]

    def _row(self, row: Row) -> Row:
        node = self.nodes[row.ids[0]]
        if len(row.ids) > 1 or len(node.instances) < 2:
            return row
        title = row.title
        if node.count > 1 or node.parent is not None and is_block(node.parent.id):
            names = tuple(node.names) or tuple(map(self._name, node.instances))
            short, kind = title.partition(" (")[::2]
            number = times(self.recording, max(node.count, len(names)), node.instances)
            title = f"{labels.names(names)}{title.removeprefix(short)}  {number}"
        calls = (each for each in row.notes if not each.startswith("call "))
        notes = (*calls, *self._notes(node))
        last = self.listed[self.place[node.instances[-1]]]
        return replace(row, title=title, ids=tuple(node.instances), notes=notes, last=last)

    def _notes(self, node: Node) -> Iterator[str]:
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
