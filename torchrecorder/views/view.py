"""View, Box, Arrow, Cluster: a smaller graph over a recording."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from math import prod

from torchrecorder.events import GradId, ScopeId, ValueId
from torchrecorder.graph.nodes import Row
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import maker_of


class Nesting:
    """A forest, defined by the parent of each member.

    Parents come before their children, as in run order.

    Args:
        parents: The parent of each member; None at the top.
        flat: Members that are as deep as their parents.
    """

    def __init__(
        self, parents: Mapping[str, str | None], flat: Collection[str] = frozenset()
    ) -> None:
        self.parents = parents
        self._flat = flat

    @cached_property
    def depth(self) -> dict[str | None, int]:
        """The number of ancestors of each member; -1 for None, the top."""
        found: dict[str | None, int] = {None: -1}
        for member, parent in self.parents.items():
            found[member] = found[parent] + (member not in self._flat)
        return found

    def around(self, member: str | None) -> Iterator[str]:
        """*member* and its ancestors, innermost first."""
        while member is not None:
            yield member
            member = self.parents[member]

    def common(self, members: Iterable[str | None]) -> str | None:
        """The innermost member that contains all *members*; None for the top."""
        distinct = list(dict.fromkeys(members))
        found = distinct[0] if distinct else None
        for item in distinct[1:]:
            found = self._common_ancestor(found, item)
        return found

    def _common_ancestor(self, first: str | None, second: str | None) -> str | None:
        while first != second:
            if first is not None and self.depth[first] >= self.depth[second]:
                first = self.parents[first]
            elif second is not None:
                second = self.parents[second]
        return first


class BoxKind(str, Enum):
    """The kind of node that a box stands for."""

    MODULE = "module"  # a closed module or function scope
    REGION = "region"  # a closed no_grad, autocast, checkpoint ... scope
    OP = "op"
    HIDDEN = "hidden"  # an op that only autograd, or the edge of a scope, shows
    GRAD = "grad"
    INPUT = "input"
    OUTPUT = "output"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"
    TENSOR = "tensor"  # an inner value drawn as a node


class Box(Row, frozen=True, gc=False):
    """One thing to draw.

    Attributes:
        id: The id of its scope, op, value or grad node; that of an output is
            ``"out:<number>"``.
        kind: The kind of node that it stands for.
        cluster: The cluster around it; None at the top.
        members: All scopes, ops, values and grad nodes that it stands for.
        count: The number of siblings in one box; more than 1 for a fold.
        names: For a fold, the names of the siblings.
        instances: If siblings that differ are folded, the boxes that it stands for: the siblings,
            or its counterpart in each of them. Itself first.
        share: If only some of the repeats have it, the number of those, and of all.
        carried: For a fold, the tensors that each sibling passes to the next, as arrows in the
            first of them.
    """

    id: str
    kind: BoxKind
    cluster: str | None
    members: tuple[str, ...]
    count: int = 1
    names: tuple[str, ...] = ()
    instances: tuple[str, ...] = ()
    share: tuple[int, int] | None = None
    carried: tuple[Arrow, ...] = ()

    @property
    def is_group(self) -> bool:
        """Whether it stands for several tensors of one argument or line; see `views.inputs`."""
        return self.kind in (BoxKind.INPUT, BoxKind.CONSTANT) and self.count > len(self.names) == 1

    def moved(self, cluster: str | None) -> Box:
        """The same box in another cluster."""
        return self if cluster == self.cluster else self.replace(cluster=cluster)


class Cluster(Row, frozen=True, gc=False):
    """An open scope, or an op opened to its grad nodes.

    Attributes:
        id: Scope or op id.
        parent: The cluster around it; None at the top.
        count: The number of siblings that it stands for; more than 1 for an open fold.
        names: For a fold, the names of the siblings.
        calls: If it, or a cluster around it, is folded: all scopes that it stands for, its own
            first.
        instances: See `Box`.
        share: See `Box`.
        carried: See `Box`.
    """

    id: str
    parent: str | None
    count: int = 1
    names: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    instances: tuple[str, ...] = ()
    share: tuple[int, int] | None = None
    carried: tuple[Arrow, ...] = ()

    def moved(self, parent: str | None) -> Cluster:
        """The same cluster in another one."""
        return self if parent == self.parent else self.replace(parent=parent)


class Arrow(Row, frozen=True, gc=False):
    """A flow from one box to another.

    Attributes:
        tail: The id of the box it leaves.
        head: The id of the box it enters.
        value: The value it carries; None between grad nodes where none is known.
        slot: The argument of the op or scope at its head.
        some: Whether only some of the repeats that its ends stand for have it.
    """

    tail: str
    head: str
    value: ValueId | None
    slot: str = ""
    some: bool = False


@dataclass(frozen=True)
class View:
    """Boxes, clusters and arrows over one recording, all in run order.

    Attributes:
        backward: Whether it shows the autograd graph.
        unfolded: Returns everything that can be opened, for formats in which boxes open.
    """

    recording: RecordedRun
    boxes: Mapping[str, Box]
    clusters: Mapping[str, Cluster]
    arrows: tuple[Arrow, ...]
    backward: bool = False
    unfolded: Callable[[], Unfolded] | None = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        boxes, arrows, clusters = map(len, (self.boxes, self.arrows, self.clusters))
        counts = f"{boxes} boxes, {arrows} arrows, {clusters} clusters"
        return f"<View of {self.recording.name}: {counts}>"

    @cached_property
    def box_of(self) -> Mapping[str, str]:
        """The box of each visible scope, op, value and grad node."""
        return {member: box.id for box in self.boxes.values() for member in box.members}

    @cached_property
    def tails(self) -> frozenset[str]:
        """The boxes that an arrow leaves."""
        return frozenset(arrow.tail for arrow in self.arrows)

    @cached_property
    def nesting(self) -> Nesting:
        """The nesting of clusters."""
        return Nesting({cluster.id: cluster.parent for cluster in self.clusters.values()})

    def is_idle(self, box: Box) -> bool:
        """Whether *box* took no part in the backward pass that is shown.

        A closed module may have weights to whose gradients only other calls of it add.
        """
        if not self.backward or not self._ran:
            return False
        found = map(self.recording.grad_nodes.get, map(GradId, box.members))
        own = {grad.id for grad in found if grad is not None and grad.variable is None}
        return self._ran.isdisjoint(own or box.members)

    @cached_property
    def _ran(self) -> frozenset[str]:
        return frozenset(ran.grad for ran in self.recording.grad_runs)

    def copies(self, box: Box) -> int:
        """The number of repeats that *box* stands for, counting the open folds around it."""
        around = self.nesting.around(box.cluster)
        folded = prod([box.count, *(self.clusters[outer].count for outer in around)])
        return len(box.instances) if folded > 1 and box.instances else folded

    def given(self, arrow: Arrow) -> ValueId | None:
        """The value that the tail of *arrow* returned, before any hidden ops between tail and
        head."""
        if arrow.value is None or arrow.value in self.box_of:
            return arrow.value
        key = arrow.tail, arrow.value
        if key not in self._given:
            self._given[key] = self._before_hidden(*key)
        return self._given[key]

    @cached_property
    def _given(self) -> dict[tuple[str, ValueId], ValueId | None]:
        return {}

    def _before_hidden(self, tail: str, value: ValueId) -> ValueId | None:
        """The value of the box *tail* from which hidden ops computed *value*."""
        scope = self.recording.scopes.get(ScopeId(tail))
        returned = {slot.value for slot in scope.outputs} if scope is not None else set[ValueId]()
        values = self.recording.values
        own = returned.union(map(ValueId, values.keys() & self.boxes[tail].members))
        if not own:  # an autograd node has no value
            return None
        first = min(map(self._computed_at, own))
        waiting, seen = [value], {value}
        while waiting:
            value = waiting.pop()
            if value in self.box_of:
                if self.box_of[value] == tail:
                    return value
                continue
            op = maker_of(self.recording, value)
            if op is None or op.id in self.box_of:
                if value in returned:
                    return value  # a weight that a module returns as it is
                continue
            if op.index > first:
                before = dict.fromkeys(slot.value for slot in op.inputs)
                waiting += [item for item in before if item not in seen]
                seen.update(before)
        return None

    def _computed_at(self, value: ValueId) -> int:
        """The place in the run of the op that computed *value*; -1 before the run."""
        op = maker_of(self.recording, value)
        return op.index if op is not None else -1

    def readers(self, arrow: Arrow) -> Iterator[str]:
        """The ops in the head of *arrow* that read its value, or the box of an output."""
        head = self.boxes[arrow.head]
        if head.kind is BoxKind.OUTPUT:
            yield head.id
        for op in dict.fromkeys(self.recording.consumers.get(arrow.value or ValueId(""), ())):
            if self.box_of.get(op) == head.id:
                yield op

    def check(self) -> None:
        """Check that the view is consistent, also with its recording.

        Raises:
            AssertionError: An arrow or box has an invalid reference, or a node is in two boxes.
        """
        seen: dict[str, str] = {}
        for box in self.boxes.values():
            assert box.cluster is None or box.cluster in self.clusters, box
            for member in box.members:
                assert member not in seen, f"{member} is in {seen[member]} and {box.id}"
                seen[member] = box.id
        for cluster in self.clusters.values():
            assert cluster.parent is None or cluster.parent in self.clusters, cluster
        for arrow in self.arrows:
            assert arrow.tail in self.boxes and arrow.head in self.boxes, arrow


@dataclass(frozen=True)
class Unfolded:
    """A view with everything open, and the data to close any of its clusters.

    Attributes:
        view: Every scope that can be opened is a cluster; repeated siblings are not folded.
        members: For each cluster, the nodes that it stands for when closed, hidden ones included.
        repeats: Groups of siblings that fold, at every level.
        similar: Whether siblings that fold may differ.
    """

    view: View
    members: Mapping[str, tuple[str, ...]]
    repeats: tuple[tuple[str, ...], ...]
    similar: bool = False


Step = Callable[[View], View]
"""A step that makes a view smaller."""
