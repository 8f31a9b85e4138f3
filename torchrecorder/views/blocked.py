"""Blocked: a view with a cluster around each block, and without those that did not fold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from torchrecorder.graph.recording import Recording
from torchrecorder.views.blocks import Unit, block_id, blocks, is_block, items_of, unit_of
from torchrecorder.views.collapse import SOURCES
from torchrecorder.views.items import Items
from torchrecorder.views.view import Box, BoxKind, Cluster, View


def blocked(
    view: View, unit: Callable[[Recording, str], Unit] = unit_of
) -> tuple[Items, Mapping[str, object]]:
    """The items of *view*, with a cluster around each block of siblings that repeat together.

    Args:
        view: What is to be folded.
        unit: Gives what a scope or op has in common with others.

    Returns:
        The items, and what scopes and blocks that may repeat have in common.
    """
    items = Items(view)
    parents: dict[str, str | None] = {}
    keys: dict[str, object] = {}
    readers = _readers(items)
    for around in (None, *view.clusters):
        row = [item for item in items.children(around) if not _is_source(view, item)]
        if len(row) < 2:
            continue
        units = [unit(view.recording, item) for item in row]
        keys.update((each.items[0], each.key) for each in units if each.alone)
        for parts in blocks(units, readers):
            for part in parts:
                block = block_id(items_of(part))
                keys[block] = tuple(unit.key for unit in part)
                parents[block] = around
                parents.update(dict.fromkeys(items_of(part), block))
    return (Items(_moved(view, parents)) if parents else items), keys


def unblocked(view: View, kept: Collection[str] = ()) -> View:
    """*view* without the blocks that stand for themselves alone, but for those to be *kept*."""
    lone = {
        each.id
        for each in view.clusters.values()
        if is_block(each.id) and each.count == 1 and each.id not in kept
    }
    if not lone:
        return view
    clusters = view.clusters

    def outside(cluster: str | None) -> str | None:
        while cluster in lone and cluster is not None:
            cluster = clusters[cluster].parent
        return cluster

    return replace(
        view,
        boxes={
            name: replace(box, cluster=outside(box.cluster)) if box.cluster in lone else box
            for name, box in view.boxes.items()
        },
        clusters={
            name: replace(each, parent=outside(each.parent)) if each.parent in lone else each
            for name, each in clusters.items()
            if name not in lone
        },
    )


def _is_source(view: View, item: str) -> bool:
    return item in view.boxes and view.boxes[item].kind in SOURCES


def _readers(items: Items) -> Mapping[str, Sequence[str]]:
    """For each sibling, those beside it that read something of it."""
    found: dict[str, dict[str, None]] = {}
    for tails, heads in items.crossings:
        if tails and heads:
            found.setdefault(tails[-1], {})[heads[-1]] = None
    return {item: tuple(heads) for item, heads in found.items()}


def _moved(view: View, parents: Mapping[str, str | None]) -> View:
    """*view* with the clusters that *parents* names, around what they are named for."""
    boxes = {
        name: replace(box, cluster=parents[name]) if name in parents else box
        for name, box in view.boxes.items()
    }
    added = {name: Cluster(name, around) for name, around in parents.items() if is_block(name)}
    old = {
        name: replace(each, parent=parents[name]) if name in parents else each
        for name, each in view.clusters.items()
    }
    inner = [box.cluster for box in boxes.values() if box.kind not in SOURCES]
    clusters = dict(_in_order({**old, **added}, inner))
    found = replace(view, boxes=boxes, clusters=clusters)
    return replace(found, boxes={**boxes, **_own_constants(found)})


def _in_order(
    clusters: Mapping[str, Cluster], met: Sequence[str | None]
) -> Iterator[tuple[str, Cluster]]:
    """Clusters as they are met, each after the one around it."""
    done: set[str] = set()
    for start in (*met, *clusters):
        chain: list[str] = []
        around = start
        while around is not None and around not in done:
            chain.append(around)
            around = clusters[around].parent
        for name in reversed(chain):
            done.add(name)
            yield name, clusters[name]


def _own_constants(view: View) -> Mapping[str, Box]:
    """Constants that only one block reads, inside it."""
    readers: dict[str, list[str | None]] = {}
    for arrow in view.arrows:
        if view.boxes[arrow.tail].kind is BoxKind.CONSTANT:
            readers.setdefault(arrow.tail, []).append(view.boxes[arrow.head].cluster)
    nesting = view.nesting
    homes = {name: nesting.common(heads) for name, heads in readers.items()}
    return {
        name: replace(view.boxes[name], cluster=home)
        for name, home in homes.items()
        if home is not None and is_block(home)
    }
