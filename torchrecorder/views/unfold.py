"""Unfold: the members of closed clusters, and groups of outputs, in a view with everything open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.outputs import joined, large_groups
from torchrecorder.views.view import BoxKind, View


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


def joined_outputs(view: View, repeats: Sequence[Sequence[str]]) -> View:
    """*view* with outputs grouped if they come from the same box after folding."""
    groups = large_groups(view, _stand_ins(view, repeats))
    first = {head: group[0] for group in groups for head in group}
    arrows = dict.fromkeys(
        arrow.replace(head=first[arrow.head]) if arrow.head in first else arrow
        for arrow in view.arrows
    )
    return joined(replace(view, arrows=tuple(arrows)), first)


def _stand_ins(view: View, repeats: Sequence[Sequence[str]]) -> Mapping[str, str]:
    """For each box with outputs, the first of the outermost repeated siblings around it."""
    first = {item: group[0] for group in repeats for item in group}
    parents: dict[str, str | None] = {
        cluster.id: cluster.parent for cluster in view.clusters.values()
    }
    parents.update((box.id, box.cluster) for box in view.boxes.values())
    found = {}
    for arrow in view.arrows:
        if view.boxes[arrow.head].kind is BoxKind.OUTPUT:
            at: str | None = arrow.tail
            while at is not None:
                if at in first:
                    found[arrow.tail] = first[at]
                at = parents[at]
    return found
