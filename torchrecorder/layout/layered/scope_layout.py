"""Scope layout: the grid of one scope, and the template that is made from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torchrecorder.layout.layered.equal_branches import equal_branches
from torchrecorder.layout.layered.items import Item
from torchrecorder.layout.layered.layering import rows
from torchrecorder.layout.layered.ordering import DUMMY_WIDTH, Grid
from torchrecorder.layout.layered.port_order import port_groups
from torchrecorder.layout.layered.ports import OUTSIDE, End, Net, ScopeNets
from torchrecorder.layout.layered.template import Branch, ClosedChild, Stem, Template, Trunk
from torchrecorder.layout.layered.tracks import lanes

LAYERS_PER_BOX = 3
"""Edges of a scope may pass this many layers per box; the longest edges beyond that use lanes."""

MAX_PASSED = 24
"""The maximum number of layers that an edge passes without a lane."""

BOX_WEIGHT, DUMMY_WEIGHT, END_WEIGHT = 20, 4, 1
"""Weights of alignment: of a box and its only reader in the next layer, of two dummy nodes of an
edge, and of a dummy node and a box."""


class ScopeLayout:
    """A scope whose boxes have layers, and the grid for their order. *turned*: the flow is
    horizontal."""

    def __init__(
        self, level: ScopeNets, items: Sequence[Item], structure: Sequence[int], turned: bool
    ) -> None:
        sizes = [(items[child].width, items[child].height) for child in level.children]
        self.sizes = [(tall, wide) if turned else (wide, tall) for wide, tall in sizes]
        nets = level.joined()
        first = [items[child].first for child in level.children]
        self.row = _rows(nets, first)
        self.rows = max(self.row, default=-1) + 1
        self.branches = equal_branches(nets, self.row, [structure[item] for item in level.children])
        self.grid = Grid()
        for (width, _), row in zip(self.sizes, self.row):
            self.grid.add(width, row)
        self.entry = [self.grid.add(DUMMY_WIDTH, -1) for _ in level.entries]
        self.exit = [self.grid.add(DUMMY_WIDTH, self.rows) for _ in level.exits]
        inputs = (child for child, is_first in enumerate(first) if is_first)
        self.grid.inputs = [*inputs, *self.entry]
        read = {net.source.child for net in nets}
        ends = (child for child in range(len(first)) if child not in read)
        self.grid.outputs = [*ends, *self.exit]
        self.lanes: list[tuple[int, int]] = []
        self.longest = self._longest(nets)
        can_open = [items[child].header is not None for child in level.children]
        self.reach = self._reach(nets, can_open)
        self.below: dict[int, dict[int, list[int]]] = {}
        self.routes = [_NetRoute(self, net) for net in nets]
        self.grid.detours += (each for route in self.routes for each in route.detours())
        between = [[node for node, *_ in route.stems] for route in self.routes]
        self.port_groups = port_groups(nets, self.entry, self.exit, between)

    def begin(self, source: End) -> int:
        """The layer of the source of a net; -1 for an entry."""
        return -1 if source.child == OUTSIDE else self.row[source.child]

    def end(self, sink: End) -> int:
        """The layer of a sink of a net; for an exit, the one after the last."""
        return self.rows if sink.child == OUTSIDE else self.row[sink.child]

    def _longest(self, nets: Sequence[Net]) -> int:
        """The number of layers that an edge of these nets may pass without a lane."""
        spans = sorted(
            max(self.end(sink) for sink in net.sinks) - self.begin(net.source) - 1
            for net in nets
        )
        room = max(60, LAYERS_PER_BOX * len(self.row))
        for span in spans:
            room -= max(span, 0)
            if room < 0:
                return min(max(span - 1, 2), MAX_PASSED)
        return MAX_PASSED

    def _reach(self, nets: Sequence[Net], can_open: Sequence[bool]) -> list[int]:
        """For each child that can open, the layer before its first reader; else its own layer."""
        found = [self.rows] * len(self.row)
        for net in nets:
            if net.source.child != OUTSIDE:
                ends = [self.end(sink) - 1 for sink in net.sinks]
                found[net.source.child] = min(found[net.source.child], *ends)
        return [
            last if can and row < last < self.rows else row
            for can, row, last in zip(can_open, self.row, found)
        ]

    def passing(self, child: int, row: int) -> int:
        """A new dummy node in layer *row* for an edge from *child*."""
        width = DUMMY_WIDTH
        if child != OUTSIDE and row <= self.reach[child]:
            rows = self.below.setdefault(child, {})
            width = DUMMY_WIDTH if row in rows else max(self.sizes[child][0], DUMMY_WIDTH)
            rows.setdefault(row, []).append(len(self.grid.row))
        return self.grid.add(width, row)

    def template(self, across: Sequence[float]) -> Template:
        """The template, for known positions of the nodes of the grid."""
        lane = lanes(self.lanes)
        last = self._last(across)
        return Template(
            tuple(
                ClosedChild(at, row, *size, end)
                for at, row, size, end in zip(across, self.row, self.sizes, last)
            ),
            self.rows,
            tuple(across[node] for node in self.entry),
            tuple(across[node] for node in self.exit),
            tuple(route.trunk(across, lane, last) for route in self.routes),
            max(lane, default=-1) + 1,
            self.branches,
        )

    def _last(self, across: Sequence[float]) -> list[int]:
        """The last layer that each child may fill."""
        if self.reach == self.row:
            return list(self.row)
        spans = Spans(self.grid, across)
        return [
            spans.last(child, row, reach, self.below.get(child, {})) if reach > row else row
            for child, (row, reach) in enumerate(zip(self.row, self.reach))
        ]


def _rows(nets: Sequence[Net], first: Sequence[bool]) -> list[int]:
    pairs, anchored = [], list(first)
    heads, tails = set[int](), set[int]()
    for net in nets:
        for sink in net.sinks:
            heads.add(sink.child)
            tails.add(net.source.child)
            if sink.child == OUTSIDE:
                continue
            if net.source.child == OUTSIDE:
                anchored[sink.child] = True
            else:
                pairs.append((net.source.child, sink.child))
    ends = {child for child in range(len(first)) if child not in heads or child not in tails}
    return rows(len(first), pairs, anchored, ends)


class _NetRoute:
    """The route of a net: through layers, with a dummy node in each, or over a lane.

    A stem is a node, or the bitwise complement of a lane, with the gaps in which it begins and
    ends. A branch is a sink with the stems that lead to it.
    """

    def __init__(self, layout: ScopeLayout, net: Net) -> None:
        self.layout, self.net = layout, net
        self.row = layout.begin(net.source)
        self.stems: list[tuple[int, int, int]] = []
        self.passed: dict[int, int] = {}
        self.lane: dict[int, int] = {}
        ends = [layout.end(sink) for sink in net.sinks]
        self.near = ends.count(self.row + 1)
        self.farthest = max(ends)
        self.branches = [
            (sink, self._to(sink, layout.end(sink))) for sink in sorted(net.sinks, key=layout.end)
        ]

    def _to(self, sink: End, end: int) -> tuple[int, ...]:
        """The stems that lead to a sink in layer *end*."""
        if end <= self.row:
            return (self._by_lane(end, (end, self.row + 1)),)
        if self.farthest - self.row - 1 > self.layout.longest and end > self.row + 1:
            return (self._by_lane(self.farthest, (self.row + 1, self.farthest)),)
        return self._past_rows(sink, end)

    def _by_lane(self, end: int, span: tuple[int, int]) -> int:
        if end not in self.lane:
            self.lane[end] = self._stem(~len(self.layout.lanes), self.row + 1, end)
            self.layout.lanes.append(span)
        return self.lane[end]

    def _past_rows(self, sink: End, row_end: int) -> tuple[int, ...]:
        grid, source = self.layout.grid, self.net.source
        last = self._node(source, self.layout.entry)
        route: list[int] = []
        for row in range(self.row + 1, row_end):
            if row not in self.passed:
                node = self.layout.passing(self.net.source.child, row)
                self.passed[row] = self._stem(node, row, row + 1)
                if not route:
                    grid.leaving[len(grid.edges)] = source.port
                grid.edges.append((last, node, DUMMY_WEIGHT if route else END_WEIGHT))
            route.append(self.passed[row])
            last = self.stems[self.passed[row]][0]
        weight = END_WEIGHT if route else BOX_WEIGHT if self.near == 1 else DUMMY_WEIGHT
        end = self._node(sink, self.layout.exit)
        grid.entering[len(grid.edges)] = sink.port
        if not route:
            grid.leaving[len(grid.edges)] = source.port
        grid.edges.append((last, end, weight))
        return tuple(route)

    def _node(self, end: End, ports: Sequence[int]) -> int:
        return ports[end.port] if end.child == OUTSIDE else end.child

    def _stem(self, node: int, begin: int, end: int) -> int:
        self.stems.append((node, begin, end))
        return len(self.stems) - 1

    def detours(self) -> Iterator[tuple[int, int]]:
        """The gaps in which it runs to and from a lane, with the node at the other end."""
        for sink, route in self.branches:
            if self.stems[route[0]][0] < 0 if route else False:
                yield self.row + 1, self._node(self.net.source, self.layout.entry)
                yield self.layout.end(sink), self._node(sink, self.layout.exit)

    def trunk(
        self, across: Sequence[float], lane: Sequence[int], last: Sequence[int]
    ) -> Trunk:
        """The net with positions, from the last layer that its source fills; aligned stems are
        joined."""
        child = self.net.source.child
        start = self.row + 1 if child == OUTSIDE else last[child] + 1
        stems: list[Stem] = []
        joined: dict[int, int] = {}
        before = {
            stem: earlier for _, route in self.branches for earlier, stem in zip(route, route[1:])
        }
        for number, (node, begin, end) in enumerate(self.stems):
            if node < 0:
                joined[number] = len(stems)
                stems.append(Stem(-1 - lane[~node], start, end))
                continue
            if begin < start:
                continue
            seat = joined.get(before.get(number, -1), -1)
            if seat >= 0 and stems[seat].across == across[node]:
                stems[seat] = stems[seat]._replace(end=end)
                joined[number] = seat
            else:
                joined[number] = len(stems)
                stems.append(Stem(across[node], begin, end))
        branches = tuple(
            Branch(sink, tuple(dict.fromkeys(joined[item] for item in route if item in joined)))
            for sink, route in self.branches
        )
        return Trunk(self.net.source, tuple(stems), branches, self.net.side)


class Spans:
    """Finds how many layers each box of a grid may fill when it is open.

    If the first reader of a box is several layers below it, the edge keeps the space below the box
    free. If no other box is there, and no other edge crosses it, an open box may fill that space.
    Then the boxes beside it need not be placed after its end.
    """

    def __init__(self, grid: Grid, across: Sequence[float]) -> None:
        self.across = across
        self.members: dict[int, list[int]] = {}
        self.crossing: dict[int, list[tuple[int, int]]] = {}
        self.detours: dict[int, list[int]] = {}
        for node, row in enumerate(grid.row):
            self.members.setdefault(row, []).append(node)
        for one, other, _ in grid.edges:
            self.crossing.setdefault(grid.row[other], []).append((one, other))
        for gap, node in grid.detours:
            self.detours.setdefault(gap, []).append(node)

    def last(self, box: int, row: int, reach: int, own: Mapping[int, Sequence[int]]) -> int:
        """The last layer, up to *reach*, that a box in layer *row* can fill; *own*: for each layer,
        the dummy nodes of its edges."""
        mine = {box, *(node for nodes in own.values() for node in nodes)}
        while row < reach and row + 1 in own and self._is_free(box, row + 1, own[row + 1], mine):
            row += 1
        return row

    def _is_free(self, box: int, row: int, own: Sequence[int], mine: set[int]) -> bool:
        """Whether a layer, and the gap before it, has nothing else on both sides of a box."""
        middle = self.across[box]
        places = [middle, *(self.across[node] for node in own)]
        low, high = min(places), max(places)
        others = (node for node in self.members[row] if node not in mine)
        if any(low <= self.across[node] <= high for node in others):
            return False
        return not any(
            (self.across[one] < middle) != (self.across[other] < middle)
            for one, other in self.crossing.get(row, ())
            if one not in mine and other not in mine
        ) and not any(
            node not in mine and self.across[node] < middle for node in self.detours.get(row, ())
        )
