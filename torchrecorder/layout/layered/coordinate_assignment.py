"""Coordinate assignment: positions across the flow in a scope with some children open.

The page has the same code in ``coordinate_assignment.js``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from torchrecorder.layout.layered.compaction import Body, Segment, compact
from torchrecorder.layout.layered.constants import (
    BEND_WEIGHT, LANE_PITCH, LONG_WEIGHT, MAX_LANES_WIDTH, MAX_PORT_OFFSET, PAD, SIDE_WEIGHT,
    STRAIGHT_WEIGHT, THROUGH_WEIGHT,
)
from torchrecorder.layout.layered.layering import BoxPair
from torchrecorder.layout.layered.ports import OUTSIDE, End
from torchrecorder.layout.layered.positions import HeaderSpace, PlacedScope
from torchrecorder.layout.layered.template import Branch, Template, Trunk
from torchrecorder.layout.layered.tracks import slots


class CrossCoordinates:
    """Positions across the flow.

    Attributes:
        side: The near side of each child.
        size: Width across and height along of each child.
        entries: The positions at which tensors enter the scope.
        exits: The positions at which tensors leave the scope.
        stems: The position of each stem of each trunk.
        width: The width of the scope.
        leaving: The positions at which edges leave boxes.
        arriving: The positions at which edges enter boxes.
    """

    def __init__(
        self, template: Template, inner: Mapping[int, PlacedScope], space: HeaderSpace
    ) -> None:
        self.template, self.inner = template, inner
        self.aside, self.bends = _aside(template, inner)
        self.size = [(closed.width, closed.height) for closed in template.children]
        anchors = [closed.width / 2 for closed in template.children]
        for child, item in inner.items():
            self.size[child], anchors[child] = (item.width, item.height), item.anchor
        self._compact(anchors, space)
        self.leaving: dict[End, float] = {}
        self.arriving: dict[End, float] = {}
        self._leave()
        self._arrive()

    def _compact(self, anchors: list[float], space: HeaderSpace) -> None:
        """Find the positions of boxes, ports and stems."""
        template, bodies = self.template, list(self._bodies(anchors))
        hints = [closed.across for closed in template.children]
        hints += [*template.entries, *template.exits]
        body: list[list[int]] = []
        for trunk in template.trunks:
            body.append([])
            for stem in trunk.stems:
                if stem.across < 0:  # a lane
                    body[-1].append(-1)
                    continue
                body[-1].append(len(bodies))
                bodies.append(Body(stem.begin, stem.end - 1, 0.0, 0.0, False))
                hints.append(stem.across)
        at = compact(bodies, hints, list(self._segments(body)), template.branches)
        entry = len(template.children)
        leave = entry + len(template.entries)
        begin = min((here - body.left for here, body in zip(at, bodies)), default=0.0)
        core = max((here + body.right for here, body in zip(at, bodies)), default=0.0)
        shift = space.offset(begin, at[entry:leave])
        self.middle = [here + shift for here in at[:entry]]
        self.entries = [here + shift for here in at[entry:leave]]
        self.exits = [here + shift for here in at[leave : leave + len(template.exits)]]
        lane = min(LANE_PITCH, MAX_LANES_WIDTH / max(template.lanes, 1))
        self.stems = [
            [
                (
                    core + shift + LANE_PITCH - lane * (stem.across + 1)
                    if item < 0
                    else at[item] + shift
                )
                for item, stem in zip(here, trunk.stems)
            ]
            for here, trunk in zip(body, template.trunks)
        ]
        self.side = [here - anchor for here, anchor in zip(self.middle, anchors)]
        beside = LANE_PITCH + lane * template.lanes if template.lanes else 0.0
        self.width = max(core + shift + beside + PAD, space.least)

    def _bodies(self, anchors: list[float]) -> Iterator[Body]:
        """Boxes and ports."""
        template = self.template
        for closed, (width, _), anchor in zip(template.children, self.size, anchors):
            yield Body(closed.row, closed.last, anchor, width - anchor, True)
        for _ in template.entries:
            yield Body(-1, -1, 0.0, 0.0, False)
        for _ in template.exits:
            yield Body(template.rows, template.rows, 0.0, 0.0, False)

    def _segments(self, body: list[list[int]]) -> Iterator[Segment]:
        """The segments of all edges, without those in lanes and without duplicates.

        Of several segments between two boxes, the first has the largest weight. Sources, such as
        weights, do not pull a box that also reads other boxes out of line.
        """
        template = self.template
        aside = self.aside
        if template.entries and template.exits:
            entry = len(template.children)
            leave = entry + len(template.entries)
            yield Segment(entry + _main_entry(template), 0.0, leave, 0.0, THROUGH_WEIGHT)
        known: set[tuple[int, int]] = set()
        for trunk, stems in zip(template.trunks, body):
            for segment in self._net_segments(trunk, stems):
                if segment.weight == STRAIGHT_WEIGHT:
                    pair = segment.one, segment.other
                    weight = (
                        BEND_WEIGHT
                        if pair in known
                        else SIDE_WEIGHT if pair in aside else STRAIGHT_WEIGHT
                    )
                    segment = segment._replace(weight=weight)
                    known.add(pair)
                yield segment

    def _net_segments(self, trunk: Trunk, stems: list[int]) -> Iterator[Segment]:
        """The segments of one net."""
        known: set[tuple[int, int]] = set()
        for branch in trunk.branches:
            for segment in self._branch_segments(trunk, branch, stems):
                if (segment.one, segment.other) not in known or segment.weight == STRAIGHT_WEIGHT:
                    known.add((segment.one, segment.other))
                    yield segment

    def _branch_segments(self, trunk: Trunk, branch: Branch, stems: list[int]) -> Iterator[Segment]:
        one, here = self._fixed_to(trunk.source, exits=True)
        weight: float = STRAIGHT_WEIGHT
        bend = self.bends.get((trunk.source.child, branch.sink.child), BEND_WEIGHT)
        for number in branch.stems:
            if stems[number] < 0:
                return
            weight = max(bend, BEND_WEIGHT) if weight == STRAIGHT_WEIGHT else LONG_WEIGHT
            yield Segment(one, here, stems[number], 0.0, weight)
            one, here = stems[number], 0.0
        other, there = self._fixed_to(branch.sink, exits=False)
        if branch.stems or bend == SIDE_WEIGHT:
            weight = bend
        yield Segment(one, here, other, there, weight)

    def _fixed_to(self, end: End, exits: bool) -> tuple[int, float]:
        """The body at the end of an edge, and the offset of the edge on it."""
        if end.child == OUTSIDE:
            ports = len(self.template.children) + (0 if exits else len(self.template.entries))
            return ports + end.port, 0.0
        each = self.inner.get(end.child)
        if each is None:
            return end.child, 0.0
        return end.child, (each.exits if exits else each.entries)[end.port] - each.anchor

    def _leave(self) -> None:
        """Find the positions at which edges leave boxes."""
        wanted: dict[int, dict[End, float]] = {}
        for number, trunk in enumerate(self.template.trunks):
            fixed = self._fixed(trunk.source, exits=True)
            if fixed is not None:
                self.leaving[trunk.source] = fixed
            else:
                ends = wanted.setdefault(trunk.source.child, {})
                ends[trunk.source] = self._next(number, trunk)
        self._assign_slots(wanted, self.leaving)

    def _arrive(self) -> None:
        """Find the positions at which edges enter boxes."""
        wanted: dict[int, dict[End, float]] = {}
        for number, trunk in enumerate(self.template.trunks):
            for branch in trunk.branches:
                fixed = self._fixed(branch.sink, exits=False)
                if fixed is not None:
                    self.arriving[branch.sink] = fixed
                else:
                    last = branch.stems[-1:]
                    comes = self.stems[number][last[0]] if last else self.leaving[trunk.source]
                    wanted.setdefault(branch.sink.child, {})[branch.sink] = comes
        self._assign_slots(wanted, self.arriving)

    def _assign_slots(
        self, wanted: Mapping[int, dict[End, float]], found: dict[End, float]
    ) -> None:
        for child, ends in wanted.items():
            places = slots(list(ends.values()), self.middle[child], self.size[child][0])
            found.update(zip(ends, places))

    def _fixed(self, end: End, exits: bool) -> float | None:
        """The position of a port of the scope or of an open child; None for a closed child."""
        if end.child == OUTSIDE:
            return (self.entries if exits else self.exits)[end.port]
        each = self.inner.get(end.child)
        if each is None:
            return None
        return self.side[end.child] + (each.exits if exits else each.entries)[end.port]

    def _next(self, number: int, trunk: Trunk) -> float:
        """The preferred position at which a trunk leaves its source: straight on if possible, else
        the mean of its branches."""
        found = []
        for branch in trunk.branches:
            if branch.stems:
                found.append(self.stems[number][branch.stems[0]])
            else:
                fixed = self._fixed(branch.sink, exits=False)
                found.append(self.middle[branch.sink.child] if fixed is None else fixed)
        middle = self.middle[trunk.source.child]
        near = [at for at in found if abs(at - middle) <= MAX_PORT_OFFSET]
        return near[0] if near else sum(found) / len(found)


def _aside(
    template: Template, opened: Collection[int] = ()
) -> tuple[set[BoxPair], dict[BoxPair, float]]:
    """Pairs of a source and a child that reads it together with something else: data, if the source
    has none; an edge from further away, the first of several sources, or a child on a longer path.
    But if an open child, which has the places of its entries, reads only sources, these are alike.
    Pairs of a source and a child that makes something else of its data, such as a mask, if another
    child makes data of them.

    Also the weights of the bends of edges from sources without data and from the data beside them.
    """
    side: dict[BoxPair, bool] = {}
    for trunk in template.trunks:
        for branch in trunk.branches:
            pair = trunk.source.child, branch.sink.child
            side[pair] = side.get(pair, True) and trunk.side
    idle = {*range(len(template.children))} - {sink for _, sink in side}
    free = {OUTSIDE, *idle}  # these follow what they feed
    data = {pair for pair, is_side in side.items() if not is_side and pair[1] != OUTSIDE}
    given = {sink for _, sink in data}
    computed = {sink for source, sink in data if source not in free}
    bends = {
        (source, sink): SIDE_WEIGHT
        for (source, sink), is_side in side.items()
        if is_side and sink in (computed if source in free else given)
    }
    pairs = [pair for pair in side if pair not in bends]
    depth = _depths(template, pairs)
    main = {sink for source, sink in pairs if source not in idle}
    alike = {*opened} - main
    carry = {source for (source, _), is_side in side.items() if not is_side}
    masks = {source for source, _ in side} - carry
    forks = {source for source, sink in data if sink in carry}
    found = {(source, sink) for source, sink in data if source in forks and sink in masks}
    found.update(bends)
    for source, sink in pairs:
        if sink != OUTSIDE and sink in main and sink not in alike:
            if source in idle or depth[source] + 1 < depth[sink]:
                found.add((source, sink))
        main.add(sink)
    crowded = {sink for _, sink in bends}
    for source, sink in data:
        if sink in crowded and source != OUTSIDE and depth[source] + 1 == depth[sink]:
            bends[source, sink] = LONG_WEIGHT
    return found, bends


def _depths(template: Template, pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """The length of the longest path to each child: less than its layer, if it is just above its
    first reader because it depends on no input."""
    row = {child: closed.row for child, closed in enumerate(template.children)}
    row[OUTSIDE] = -1
    depth = dict.fromkeys(row, 0)
    depth[OUTSIDE] = -1
    for source, sink in sorted(pairs, key=lambda pair: row[pair[1]]):
        if row[source] < row[sink]:
            depth[sink] = max(depth[sink], depth[source] + 1)
    return depth


def _main_entry(template: Template) -> int:
    """The first entry with data and several branches, if possible."""
    entries = [
        (trunk.side, len(trunk.branches) < 2, trunk.source.port)
        for trunk in template.trunks
        if trunk.source.child == OUTSIDE
    ]
    return min(entries)[-1]
