"""Close scopes into boxes: below a depth, by name, or because all ops in them are hidden."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from torchrecorder.events import ScopeId
from torchrecorder.graph.mappings import grouped
from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.full_view import scope_kind
from torchrecorder.views.view import Arrow, Box, BoxKind, Cluster, Nesting, View

SOURCES = (BoxKind.INPUT, BoxKind.PARAMETER, BoxKind.BUFFER, BoxKind.CONSTANT)


@dataclass(frozen=True)
class Collapse:
    """Close every scope at depth *depth* into one box."""

    # 0 leaves one box per outermost scope; None closes nothing by depth. Scopes that are
    # `RecordedRun.transparent` are as deep as the scope around them.
    depth: int | None = None
    # ops that are not drawn: an innermost scope without others is closed at any depth, so that a
    # module does not vanish with its ops
    quiet: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()  # close these scopes too, whatever their depth

    def __call__(self, view: View) -> View:
        through = view.recording.transparent
        nesting = Nesting(view.nesting.parents, through) if through else view.nesting
        muted = self._muted(view)

        def closes(cluster: str) -> bool:
            deep = self.depth is not None and nesting.depth[cluster] >= self.depth
            return deep or cluster in muted or cluster in self.only

        return close(view, closes)

    def _muted(self, view: View) -> set[str]:
        """Innermost clusters in which every op is quiet."""
        ops = view.recording.ops
        loud = {cluster.parent for cluster in view.clusters.values()}
        for box in view.boxes.values():
            if box.kind not in SOURCES and box.id not in self.quiet:
                loud.add(box.cluster)
        return {cluster for cluster in view.clusters if cluster not in loud and cluster not in ops}


def close(view: View, closes: Callable[[str], bool]) -> View:
    """Turn each outermost cluster for which *closes* holds into a box."""
    home = _closed_by(view.clusters, closes)
    boxes = _boxes(view, home)
    clusters = {
        cluster.id: cluster for cluster in view.clusters.values() if home[cluster.id] is None
    }
    rewired = _in_order_of_arguments(view, list(_rewired(view, home)))
    return replace(view, boxes=boxes, clusters=clusters, arrows=tuple(rewired))


def _closed_by(
    clusters: Mapping[str, Cluster], closes: Callable[[str], bool]
) -> dict[str | None, str | None]:
    """For each cluster the outermost closed one around it, if any."""
    home: dict[str | None, str | None] = {None: None}
    for cluster in clusters.values():
        around = home[cluster.parent]
        home[cluster.id] = around or (cluster.id if closes(cluster.id) else None)
    return home


def _boxes(view: View, home: Mapping[str | None, str | None]) -> dict[str, Box]:
    """The boxes that remain; a closed scope takes the place of its first op."""
    members: dict[str, list[str]] = {}
    for cluster in view.clusters:
        closed = home[cluster]
        if closed is not None:
            members.setdefault(closed, []).append(cluster)
    order: dict[str, None] = {}
    for box in view.boxes.values():
        closed = home[box.cluster]
        if closed is not None:
            members[closed].extend(box.members)
        if closed is None or box.kind not in SOURCES:
            order[closed or box.id] = None
    order.update(dict.fromkeys(members))
    return {
        name: closed_box(view, view.clusters[name], members[name])
        if name in members
        else view.boxes[name]
        for name in order
    }


def members(
    view: View, known: Mapping[str, tuple[str, ...]] = MappingProxyType({})
) -> Mapping[str, tuple[str, ...]]:
    """The recorded nodes inside each cluster. *known* has those of some clusters, whose boxes may
    be hidden in *view*."""
    inside: dict[str, list[str]] = {
        cluster: [] if is_block(cluster) else [cluster]
        for cluster in view.clusters
        if cluster not in known
    }
    for box in view.boxes.values():
        if box.cluster in inside:
            inside[box.cluster].extend(box.members)
    for cluster in reversed(list(view.clusters.values())):
        if cluster.parent in inside:
            more = inside[cluster.id] if cluster.id in inside else known[cluster.id]
            inside[cluster.parent].extend(more)
    return {**known, **{cluster: tuple(found) for cluster, found in inside.items()}}


def closed_box(view: View, cluster: Cluster, members: Iterable[str]) -> Box:
    """The box of a closed cluster."""
    found = view.recording.scopes.get(ScopeId(cluster.id))
    kind = BoxKind.REGION if is_block(cluster.id) else BoxKind.OP
    kind = kind if found is None else scope_kind(found)
    return Box(cluster.id, kind, cluster.parent, tuple(members), cluster.count, cluster.names)


def _rewired(view: View, home: Mapping[str | None, str | None]) -> Iterable[Arrow]:
    """The arrows between different boxes. A value enters a closed box only once."""
    place = {box.id: home[box.cluster] or box.id for box in view.boxes.values()}
    seen = set()
    for arrow in view.arrows:
        tail, head = place[arrow.tail], place[arrow.head]
        if tail == head or head != arrow.head and _adds_elsewhere(view, arrow, tail, head):
            continue
        if head == arrow.head:
            yield arrow if tail == arrow.tail else Arrow(tail, head, arrow.value, arrow.slot)
        elif (tail, head, arrow.value) not in seen:
            seen.add((tail, head, arrow.value))
            yield Arrow(tail, head, arrow.value, _slot(view, head, arrow))


def _in_order_of_arguments(view: View, arrows: list[Arrow]) -> list[Arrow]:
    """*arrows*, with those into each closed scope in the order of its arguments, and then tensors
    that it reads without being passed them.

    Without this, they are in the order in which the operations inside read them.
    """
    into = grouped(
        (arrow.head, number) for number, arrow in enumerate(arrows)
        if arrow.head in view.recording.scopes
    )
    found = list(arrows)
    for head, numbers in into.items():
        names = [slot.name for slot in view.recording.scopes[ScopeId(head)].inputs]
        place = {name: number for number, name in enumerate(names)}
        ordered = [arrows[number] for number in numbers]
        ordered.sort(key=lambda arrow: place.get(arrow.slot, len(place)))
        for number, arrow in zip(numbers, ordered):
            found[number] = arrow
    return found


def _adds_elsewhere(view: View, arrow: Arrow, tail: str, head: str) -> bool:
    """Whether *arrow* only accumulates the gradient of a weight that is drawn with another call of
    the module, in *head*. No gradient flows from call to call."""
    if not view.backward or view.boxes[arrow.head].kind not in SOURCES:
        return False
    scopes = view.recording.scopes
    found = scopes.get(ScopeId(head))
    inside = (tail, *view.nesting.around(view.boxes[arrow.tail].cluster))
    calls = (scopes.get(ScopeId(item)) for item in inside)
    return found is not None and found.module is not None and any(
        call is not None and call.module == found.module for call in calls
    )


def _slot(view: View, scope: str, arrow: Arrow) -> str:
    """The argument of *scope* that has the value of the arrow; empty if none has it."""
    found = view.recording.scopes.get(ScopeId(scope))
    if found is None:
        return arrow.slot
    names = (slot.name for slot in found.inputs if slot.value == arrow.value)
    return next(names, "")
