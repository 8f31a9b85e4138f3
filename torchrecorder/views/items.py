"""Items: boxes and clusters as siblings, and the arrows that cross their edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from torchrecorder.events import GradId, OpId
from torchrecorder.views.collapse import SOURCES
from torchrecorder.views.view import Arrow, BoxKind, View


class Items:
    """Who stands beside whom in a view."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.parent: dict[str, str | None] = {
            **{each.id: each.parent for each in view.clusters.values()},
            **{each.id: each.cluster for each in view.boxes.values()},
        }
        self._children: dict[str | None, dict[str, None]] = {}
        placed: set[str] = set()
        boxes = sorted(view.boxes.values(), key=lambda box: box.kind in SOURCES)
        for box in boxes:  # what is only there to be read has no place in the run
            for item in self.around(box.id):
                if item in placed:
                    break
                placed.add(item)
                self._children.setdefault(self.parent[item], {})[item] = None
        self._rows: Mapping[str | None, list[list[str]]] = {}
        self.into: dict[str, list[Arrow]] = {}
        self.out_of: dict[str, list[Arrow]] = {}
        self._places: dict[str, dict[str, int]] = {}
        self._forms: dict[str, tuple[object, ...]] = {}

    def compare(self, kin: Callable[[str], object]) -> None:
        """Find the rows of siblings of one kin, and the arrows that cross their edges.

        Args:
            kin: What items that repeat have in common; None where an item cannot repeat.
        """
        self._rows = self._find_rows(kin)
        candidates = {item for rows in self._rows.values() for row in rows for item in row}
        self.into = {item: [] for item in candidates}
        self.out_of = {item: [] for item in candidates}
        self._cross()

    def around(self, item: str) -> Iterator[str]:
        """*item* and the clusters around it, innermost first."""
        found: str | None = item
        while found is not None:
            yield found
            found = self.parent[found]

    def children(self, cluster: str | None) -> Iterator[str]:
        """What stands directly in a cluster, in run order; what is only read comes last."""
        return iter(self._children.get(cluster, ()))

    def rows(self, cluster: str | None) -> list[list[str]]:
        """Siblings next to each other that are of one kin."""
        return self._rows.get(cluster, [])

    def _find_rows(
        self, kin: Callable[[str], object]
    ) -> Mapping[str | None, list[list[str]]]:
        rows: dict[str | None, list[list[str]]] = {}
        for cluster, children in self._children.items():
            last: object = None
            for item in children:
                if item in self.view.boxes and self.view.boxes[item].kind in SOURCES:
                    continue
                found = kin(item)
                if found is not None and found == last:
                    rows[cluster][-1].append(item)
                else:
                    rows.setdefault(cluster, []).append([item])
                last = found
        return {cluster: [row for row in found if len(row) > 1] for cluster, found in rows.items()}

    @cached_property
    def crossings(self) -> list[tuple[list[str], list[str]]]:
        """For each arrow what it leaves and what it enters, from the inside out to siblings."""
        return [self._parted(arrow) for arrow in self.view.arrows]

    def _parted(self, arrow: Arrow) -> tuple[list[str], list[str]]:
        tails, heads = [*self.around(arrow.tail)], [*self.around(arrow.head)]
        while tails and heads and tails[-1] == heads[-1]:
            tails.pop()
            heads.pop()
        return tails, heads

    def _cross(self) -> None:
        """Note for each candidate the arrows that cross its edge."""
        for arrow, (tails, heads) in zip(self.view.arrows, self.crossings if self.into else ()):
            for item in tails:
                if item in self.out_of:
                    self.out_of[item].append(arrow)
            for item in heads:
                if item in self.into:
                    self.into[item].append(arrow)

    def inside(self, item: str) -> Iterator[str]:
        """*item* and all clusters and boxes in it, in run order."""
        waiting = [item]
        while waiting:
            found = waiting.pop()
            yield found
            waiting.extend(reversed(self._children.get(found, {})))

    def places(self, item: str) -> Mapping[str, int]:
        """The place of each box and cluster inside *item*."""
        if item not in self._places:
            self._places[item] = {each: place for place, each in enumerate(self.inside(item))}
        return self._places[item]

    def alike(self, one: str, other: str) -> bool:
        """Whether two items show the same boxes and clusters in the same places."""
        return self._form(one) == self._form(other)

    def _form(self, item: str) -> tuple[object, ...]:
        if item not in self._forms:
            self._forms[item] = tuple(map(self._sort, self.places(item)))
        return self._forms[item]

    def _sort(self, item: str) -> tuple[object, ...]:
        if item in self.view.clusters:
            return ("cluster", item in self.view.recording.ops)
        box, recording = self.view.boxes[item], self.view.recording
        step = recording.ops.get(OpId(item)) or recording.grad_nodes.get(GradId(item))
        return box.kind, box.count, step.name if step is not None else ""

    def end(self, box: str) -> str:
        """The box an arrow ends in; outputs of the run are all alike."""
        return "out" if self.view.boxes[box].kind is BoxKind.OUTPUT else box

    def start(self, arrow: Arrow) -> tuple[object, ...]:
        """What an arrow brings from where; each repeat may read a parameter of its own."""
        tail = self.view.boxes[arrow.tail]
        if tail.kind in (BoxKind.PARAMETER, BoxKind.BUFFER) and arrow.value is not None:
            return tail.kind, self.view.recording.values[arrow.value].shape
        return arrow.tail, arrow.value

    def step(self, one: Arrow, other: Arrow) -> int:
        """By how many *other* is further among the results of an op that both come from.

        0 where they bring the same, or where that cannot be told.
        """
        op = self.view.recording.ops.get(OpId(other.tail))
        if op is None or one.value == other.value or one.value is None or other.value is None:
            return 0
        if one.value not in op.outputs or other.value not in op.outputs:
            return 0
        values = self.view.recording.values
        mine, yours = values[one.value], values[other.value]
        if (mine.shape, mine.dtype) != (yours.shape, yours.dtype):
            return 0
        return op.outputs.index(other.value) - op.outputs.index(one.value)
