"""Block clusters: a cluster around each block, which is a few siblings that repeat together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from torchrecorder.events import NO_STORAGE, ScopeId, ScopeKind, ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import step_of
from torchrecorder.views.bundles import FlowClassifier
from torchrecorder.views.collapse import SOURCES
from torchrecorder.views.fold.blocks import (
    FoldItem, Readers, block_id, blocks, is_block, items_of, place_dependent, unit_of,
)
from torchrecorder.views.fold.sibling_index import SiblingIndex
from torchrecorder.views.view import Box, BoxKind, Cluster, View


def with_block_clusters(
    view: View,
    unit: Callable[[RecordedRun, str], FoldItem] = unit_of,
    apart: Collection[str] = frozenset(),
) -> tuple[SiblingIndex, Mapping[str, object]]:
    """The items of *view*, with a cluster around each block of siblings that repeat together, and
    the fold keys of scopes and blocks. Siblings *apart* are in no block."""
    items = SiblingIndex(view)
    parents: dict[str, str | None] = {}
    keys: dict[str, object] = {}
    known: dict[Hashable, tuple[Sequence[str], _Repeats]] = {}
    unlike = place_dependent(view.recording).union(apart)
    for around in (None, *view.clusters):
        row = items.siblings(around)
        if len(row) < 2:
            continue
        contents = _contents(view.recording, around, row, unlike)
        if contents not in known:
            units = [
                FoldItem(None, (item,)) if item in apart else unit(view.recording, item)
                for item in row
            ]
            known[contents] = row, _repeats(units, partial(_readers, items, row))
        first, found = known[contents]
        here = dict(zip(first, row))
        keys.update((here[scope], key) for scope, key in found.scopes)
        for key, block, members in found.blocks:
            inside = [here[member] for member in members]
            here[block] = block_id(inside)
            keys[here[block]] = key
            parents[here[block]] = around
            parents.update(dict.fromkeys(inside, here[block]))
    if not parents:
        return items, keys
    blocked = with_parents(view, parents)
    boxes = {**blocked.boxes, **_own_sources(blocked, items.sources, keys)}
    return SiblingIndex(replace(blocked, boxes=boxes)), keys


class _Repeats(NamedTuple):
    """The scopes among siblings with their fold keys, and the blocks with their fold keys and
    members; nested blocks come before those that contain them."""

    scopes: Sequence[tuple[str, Hashable]]
    blocks: Sequence[tuple[Hashable, str, Sequence[str]]]


def _repeats(units: Sequence[FoldItem], readers: Callable[[], Readers]) -> _Repeats:
    parts = (part for run in blocks(units, readers) for part in run)
    return _Repeats(
        [(one.items[0], one.key) for one in units if one.alone],
        [(tuple(one.key for one in part), block_id(items), items)
         for part in parts for items in [items_of(part)]],
    )


def _contents(
    recording: RecordedRun, around: str | None, row: Sequence[str], unlike: Collection[str]
) -> Hashable:
    """A key that is equal for clusters with the same repeats: calls of modules of equal structure
    that show the same steps, none of which is in *unlike*, which the same lines called."""
    scope = recording.scopes.get(ScopeId(around or ""))
    if scope is None or scope.module is None:
        return around
    steps = list[Hashable]()
    for item in row:
        step = step_of(recording, item)
        if step is None or item in unlike:
            return around
        steps.append((step.index - scope.index, step.source))
    return recording.structures[scope.id], *steps


def _readers(items: SiblingIndex, row: Sequence[str]) -> Readers:
    """The readers of each sibling, except those that only zero its result or read what an optimizer
    step leaves for later steps."""
    counted = FlowClassifier(items.view).without_state
    scopes, readers = items.view.recording.scopes, items.readers(row, counted)
    zeroing = {
        item for item in row
        if item in scopes and scopes[ScopeId(item)].kind is ScopeKind.ZEROING
    }
    if not zeroing:
        return readers
    return {
        item: [reader for reader in found if reader not in zeroing]
        for item, found in readers.items()
    }


def without_single_blocks(view: View, kept: Collection[str] = ()) -> View:
    """*view* without the blocks that did not fold, except those *kept*."""
    lone = {
        block.id
        for block in view.clusters.values()
        if is_block(block.id) and block.count == 1 and block.id not in kept
    }
    if not lone:
        return view
    clusters = view.clusters

    def home(box: Box) -> str | None:
        found = outside(box.cluster)
        return None if box.kind is BoxKind.INPUT and found != box.cluster else found

    def outside(cluster: str | None) -> str | None:
        while cluster in lone and cluster is not None:
            cluster = clusters[cluster].parent
        return cluster

    return replace(
        view,
        boxes={name: box.moved(home(box)) for name, box in view.boxes.items()},
        clusters={
            name: cluster.moved(outside(cluster.parent))
            for name, cluster in clusters.items()
            if name not in lone
        },
    )


def with_parents(view: View, parents: Mapping[str, str | None]) -> View:
    """*view* with blocks as clusters; *parents* has the new cluster around each item."""
    boxes = {
        name: box.moved(parents[name]) if name in parents else box
        for name, box in view.boxes.items()
    }
    added = {name: Cluster(name, around) for name, around in parents.items() if is_block(name)}
    old = {
        name: cluster.moved(parents[name]) if name in parents else cluster
        for name, cluster in view.clusters.items()
    }
    inner = [box.cluster for box in boxes.values() if box.kind not in SOURCES]
    clusters = dict(in_order({**old, **added}, inner))
    return replace(view, boxes=boxes, clusters=clusters)


def in_order(
    clusters: Mapping[str, Cluster], first: Sequence[str | None] = ()
) -> Iterator[tuple[str, Cluster]]:
    """Clusters, those that are named in *first* before others, each after the one around it."""
    done: set[str] = set()
    for start in dict.fromkeys((*first, *clusters)):
        chain: list[str] = []
        around = start
        while around is not None and around not in done:
            chain.append(around)
            around = clusters[around].parent
        for name in reversed(chain):
            done.add(name)
            yield name, clusters[name]


def _own_sources(
    view: View, sources: Mapping[str, Box], keys: Mapping[str, object]
) -> Mapping[str, Box]:
    """The inputs and constants among the *sources* that move into a block: constants that only it
    reads, and inputs if each block with an equal key (*keys*) reads its own.

    A constant that only the first of equal blocks reads is the initial value of what they pass on.
    So is a constant whose memory an operation writes and others read.
    """
    readers: dict[str, list[str | None]] = {}
    memory = _written_constants(view)
    values = view.recording.values
    kinds = BoxKind.CONSTANT, BoxKind.INPUT
    movable = {name for name, box in sources.items() if box.kind in kinds}
    for arrow in view.arrows if movable else ():
        if arrow.tail in movable:
            readers.setdefault(arrow.tail, []).append(view.boxes[arrow.head].cluster)
        elif memory and arrow.value is not None and values[arrow.value].storage in memory:
            known = memory[values[arrow.value].storage]
            readers.setdefault(known, []).append(view.boxes[arrow.head].cluster)
    nesting, found = view.nesting, dict[str, Box]()
    inputs: dict[str, list[Box]] = {}
    constants: dict[str, list[Box]] = {}
    for name, heads in readers.items():
        box = view.boxes[name]
        home = next(filter(is_block, nesting.around(nesting.common(heads))), None)
        if home is None or nesting.depth[box.cluster] >= nesting.depth[home]:
            continue
        kind = constants if box.kind is BoxKind.CONSTANT else inputs
        kind.setdefault(home, []).append(box.moved(home))
    blocks = filter(is_block, view.clusters)
    rows = grouped(((view.clusters[block].parent, keys[block]), block) for block in blocks)
    for row in rows.values():
        given = [inputs.get(block, []) for block in row]
        if len({*map(len, given)}) == 1:
            found.update((box.id, box) for each in given for box in each)
        held = [constants.get(block, []) for block in row]
        if len(held[0]) > len(held[1]):
            held[0] = []
        found.update((box.id, box) for each in held for box in each)
    return found


def _written_constants(view: View) -> Mapping[int, str]:
    """The boxes of constants in whose memory operations write, by that memory."""
    values = view.recording.values
    constants = {
        values[ValueId(box.id)].storage: box.id
        for box in view.boxes.values() if box.kind is BoxKind.CONSTANT
    }
    written = {
        values[value].storage for op in view.recording.ops.values() for value in op.writes
    } - {NO_STORAGE} if constants else set[int]()
    return {memory: box for memory, box in constants.items() if memory in written}
