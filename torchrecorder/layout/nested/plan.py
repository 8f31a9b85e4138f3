"""Plan: every distinct scope of a tree of items laid out once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torchrecorder.layout import engine
from torchrecorder.layout.nested.columns import PASSING, Grid, columns
from torchrecorder.layout.nested.items import Item, Link
from torchrecorder.layout.nested.nets import OUTSIDE, End, Level, Net, levels
from torchrecorder.layout.nested.rows import rows
from torchrecorder.layout.nested.template import Branch, Spot, Stem, Template, Trunk

Direction = Literal["TB", "LR", "BT", "RL"]

BESIDE = 3
"""Rows that lines pass, for each box of a scope, before the longest lines go into lanes."""

PASSED = 24
"""Rows that a line passes at most without going into a lane."""

STEP, PASS, TURN = 20, 4, 1
"""How much it matters that two nodes stand in line: a box and the only one that reads it in
the next row, two of one passing line, and where such a line begins and ends."""

LANE = 6.0
"""Points from one lane to the next."""


@dataclass(frozen=True)
class Plan:
    """Scopes laid out with everything in them closed.

    Attributes:
        items: What was laid out.
        direction: Where the flow runs to.
        templates: The distinct scopes.
        template: For the paper and then each item, the number of its template; -1 if it has
            nothing in it.
        carried: For the paper and then each item, the value of each trunk of its template.
        makers: The same for the item that made it.
    """

    items: tuple[Item, ...]
    direction: Direction
    templates: tuple[Template, ...]
    template: tuple[int, ...]
    carried: tuple[tuple[str, ...], ...]
    makers: tuple[tuple[int, ...], ...]

    def children(self) -> list[list[int]]:
        """The items in each scope, in their order; the paper first."""
        found: list[list[int]] = [[] for _ in range(len(self.items) + 1)]
        for number, item in enumerate(self.items):
            found[item.parent + 1].append(number)
        return found


def plan(
    items: Sequence[Item],
    links: Sequence[Link],
    direction: Direction = "TB",
    *,
    timeout: float = engine.TIMEOUT,
) -> Plan:
    """Lay out every distinct scope of *items*.

    Args:
        items: What can be drawn, each after the item around it.
        links: Lines between items that have nothing in them.
        direction: Where the flow runs to.
        timeout: Seconds that all of Graphviz' work may take; what is not done by then is
            put side by side.
    """
    turned = direction in ("LR", "RL")
    found = levels(items, links)
    numbers: dict[object, int] = {}
    drafts: list[_Draft] = []
    template = [-1] * (len(items) + 1)
    for scope, level in found.items():
        key = _key(level, items)
        if key not in numbers:
            numbers[key] = len(drafts)
            drafts.append(_Draft(level, items, turned))
        template[scope + 1] = numbers[key]
    places = columns([draft.grid for draft in drafts], timeout=timeout)
    nets = [found[scope].nets if scope in found else () for scope in range(-1, len(items))]
    return Plan(
        tuple(items),
        direction,
        tuple(draft.template(across) for draft, across in zip(drafts, places)),
        tuple(template),
        tuple(tuple(net.carried[1] for net in each) for each in nets),
        tuple(tuple(net.carried[0] for net in each) for each in nets),
    )


def _key(level: Level, items: Sequence[Item]) -> object:
    """What two scopes have in common that look the same."""
    boxes = tuple(
        (items[child].width, items[child].height, items[child].first) for child in level.children
    )
    nets = tuple((net.source, tuple(net.sinks)) for net in level.nets)
    return boxes, nets, level.entries, level.exits


class _Draft:
    """A scope with its rows known, on the way to a template."""

    def __init__(self, level: Level, items: Sequence[Item], turned: bool) -> None:
        sizes = [(items[child].width, items[child].height) for child in level.children]
        self.sizes = [(tall, wide) if turned else (wide, tall) for wide, tall in sizes]
        self.level = level
        self.row = _rows(level, [items[child].first for child in level.children])
        self.rows = max(self.row, default=-1) + 1
        self.grid = Grid()
        for (width, _), row in zip(self.sizes, self.row):
            self.grid.add(width, row)
        self.entry = [self.grid.add(PASSING, -1) for _ in range(level.entries)]
        self.exit = [self.grid.add(PASSING, self.rows) for _ in range(level.exits)]
        self.lanes: list[tuple[int, int]] = []
        longest = self._longest()
        self.ways = [_Way(self, net, longest) for net in level.nets]

    def begin(self, end: End) -> int:
        """The row of what a net comes from; -1 for an entry."""
        return -1 if end.child == OUTSIDE else self.row[end.child]

    def end(self, end: End) -> int:
        """The row of what a net goes to; that after the last for an exit."""
        return self.rows if end.child == OUTSIDE else self.row[end.child]

    def node(self, end: End, exits: bool) -> int:
        """The node in the grid that an end of a net is at."""
        if end.child != OUTSIDE:
            return end.child
        return (self.exit if exits else self.entry)[end.port]

    def _longest(self) -> int:
        """How many rows a line may pass without going into a lane."""
        spans = sorted(
            max(self.end(sink) for sink in net.sinks) - self.begin(net.source) - 1
            for net in self.level.nets
        )
        room = max(60, BESIDE * len(self.row))
        for span in spans:
            room -= max(span, 0)
            if room < 0:
                return min(max(span - 1, 2), PASSED)
        return PASSED

    def template(self, across: Sequence[float]) -> Template:
        """The template, once it is known where the nodes of the grid are."""
        widths = self.grid.widths
        core = max((at + width / 2 for at, width in zip(across, widths)), default=0.0)
        lane = _lanes(self.lanes)
        used = max(lane, default=-1) + 1
        beside = [round(core + LANE * (number + 1.5), 2) for number in lane]
        return Template(
            tuple(
                Spot(at, row, *size) for at, row, size in zip(across, self.row, self.sizes)
            ),
            self.rows,
            tuple(across[node] for node in self.entry),
            tuple(across[node] for node in self.exit),
            tuple(way.trunk(across, beside) for way in self.ways),
            round(core + LANE * (used + 1) if used else core, 2),
        )


def _rows(level: Level, first: Sequence[bool]) -> list[int]:
    pairs, anchored = [], list(first)
    for net in level.nets:
        for sink in net.sinks:
            if sink.child == OUTSIDE:
                continue
            if net.source.child == OUTSIDE:
                anchored[sink.child] = True
            else:
                pairs.append((net.source.child, sink.child))
    return rows(len(level.children), pairs, anchored)


class _Way:
    """How a net runs: the nodes it passes in the grid, or the lane it takes."""

    def __init__(self, draft: _Draft, net: Net, longest: int) -> None:
        self.net = net
        self.stems: list[tuple[int, int, int]] = []  # node (or ~lane), first gap, last gap
        self.ways: list[tuple[End, tuple[int, ...]]] = []
        self.passed: dict[int, int] = {}
        self.lane: int | None = None
        self.back: dict[int, int] = {}
        begin = draft.begin(net.source)
        self.next = sum(draft.end(sink) == begin + 1 for sink in net.sinks)
        far = [draft.end(sink) for sink in net.sinks if draft.end(sink) - begin - 1 > longest]
        if far:
            self.lane = self._stem(~len(draft.lanes), begin + 1, max(far))
            draft.lanes.append((begin + 1, max(far)))
        for sink in sorted(net.sinks, key=draft.end):
            self.ways.append((sink, self._way(draft, sink, begin, draft.end(sink), longest)))

    def _stem(self, node: int, begin: int, end: int) -> int:
        self.stems.append((node, begin, end))
        return len(self.stems) - 1

    def _way(
        self, draft: _Draft, sink: End, begin: int, end: int, longest: int
    ) -> tuple[int, ...]:
        if end <= begin:
            return (self._backwards(draft, begin, end),)
        if end - begin - 1 > longest and self.lane is not None:
            return (self.lane,)
        last = draft.node(self.net.source, exits=False)
        way: list[int] = []
        for row in range(begin + 1, end):
            if row not in self.passed:
                node = draft.grid.add(PASSING, row)
                self.passed[row] = self._stem(node, row, row + 1)
                draft.grid.edges.append((last, node, PASS if way else TURN))
            way.append(self.passed[row])
            last = self.stems[self.passed[row]][0]
        weight = TURN if way else STEP if self.next == 1 else PASS
        draft.grid.edges.append((last, draft.node(sink, exits=True), weight))
        return tuple(way)

    def _backwards(self, draft: _Draft, begin: int, end: int) -> int:
        if end not in self.back:
            self.back[end] = self._stem(~len(draft.lanes), begin + 1, end)
            draft.lanes.append((end, begin + 1))
        return self.back[end]

    def trunk(self, across: Sequence[float], beside: Sequence[float]) -> Trunk:
        """The net with its places, pieces in line joined to one."""
        stems: list[Stem] = []
        number: dict[int, int] = {}
        before = {way[at]: way[at - 1] for _, way in self.ways for at in range(1, len(way))}
        for place, (node, begin, end) in enumerate(self.stems):
            at = beside[~node] if node < 0 else across[node]
            last = number.get(before.get(place, -1))
            if last is not None and stems[last].across == at and stems[last].end == begin:
                stems[last] = stems[last]._replace(end=end)
                number[place] = last
            else:
                number[place] = len(stems)
                stems.append(Stem(at, begin, end))
        branches = tuple(
            Branch(sink, tuple(dict.fromkeys(number[each] for each in way)))
            for sink, way in self.ways
        )
        return Trunk(self.net.source, tuple(stems), branches)


def _lanes(spans: Sequence[tuple[int, int]]) -> list[int]:
    """The lane of each long line: shorter ones further in, no two at once in one."""
    taken: list[list[tuple[int, int]]] = []
    lane = [0] * len(spans)
    for number in sorted(range(len(spans)), key=lambda each: spans[each][1] - spans[each][0]):
        begin, end = spans[number]
        free = 0
        while free < len(taken) and any(a <= end and begin <= b for a, b in taken[free]):
            free += 1
        if free == len(taken):
            taken.append([])
        taken[free].append(spans[number])
        lane[number] = free
    return lane
