"""Place: a plan and a choice of open items -> where every box and line is on the paper."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import NamedTuple

from torchrecorder.layout.layered.compound import compose
from torchrecorder.layout.layered.positions import Composed, Point, Room
from torchrecorder.layout.layered.constants import BELOW, PAD
from torchrecorder.layout.layered.ports import OUTSIDE, End
from torchrecorder.layout.layered.plan import Plan
from torchrecorder.layout.layered.multi_column import wrapped

COLUMNS = 4
"""Columns on a page, at most."""

GAIN = 1.1
"""How much larger a picture is to become by one more column, at least."""

MOST = 0.6
"""Share of the length of a scope from which a child of it is the one to stand in columns."""


Turn = Callable[[float, float, float, float], tuple[float, float, float, float]]
"""From a corner and a size across and along the flow to those on the paper."""


class Drawn(NamedTuple):
    """A box on the paper: its upper left corner, its size, and whether it is open."""

    item: int
    x: float
    y: float
    width: float
    height: float
    open: bool


class Piece(NamedTuple):
    """A piece of a line, inside one scope.

    Attributes:
        scope: The item it is in; -1 for the paper.
        maker: The item that made what it carries.
        value: What it carries.
        tail: The child it leaves; the scope itself where it comes in from outside.
        head: The child it enters; the scope itself where it goes on outside.
        exits: Whether it goes on outside.
        points: The corners of its way.
    """

    scope: int
    maker: int
    value: str
    tail: int
    head: int
    exits: bool
    points: tuple[Point, ...]


class Picture(NamedTuple):
    """Everything on the paper, scopes before what is in them."""

    width: float
    height: float
    boxes: tuple[Drawn, ...]
    pieces: tuple[Piece, ...]


def place(
    plan: Plan,
    opened: Collection[int] | None = None,
    page: tuple[float, float] | None = None,
) -> Picture:
    """Where everything is, with the items *opened* open; all that can be, if not given.

    Closed items hide what is in them; whether something in them is open makes no difference.
    If the width and height of a *page* are given, the longest scope stands in columns where
    that makes the picture larger on it.
    """
    return _Placing(plan, opened).picture(page)


class _Placing:
    def __init__(self, plan: Plan, opened: Collection[int] | None) -> None:
        self.plan = plan
        self.children = plan.children()
        self.turned = plan.direction in ("LR", "RL")
        can = [number for number, each in enumerate(plan.items) if each.header is not None]
        wanted = set(can if opened is None else opened)
        self.open = [number for number in can if number in wanted]

    def picture(self, page: tuple[float, float] | None) -> Picture:
        """Compose scopes from the innermost outwards, then put them on the paper."""
        composed: dict[int, Composed] = {}
        known: dict[object, Composed] = {}
        for scope in (*reversed(self.open), -1):
            inner = self._inner(scope, composed)
            header = self.plan.items[scope].header if scope >= 0 else None
            template = self.plan.template[scope + 1]
            key = (template, header, tuple((place, id(each)) for place, each in inner.items()))
            if key not in known:
                known[key] = self._composed(scope, inner)
            composed[scope] = known[key]
        return self._spread(composed if page is None else self._wrapped(composed, page))

    def _inner(self, scope: int, composed: Mapping[int, Composed]) -> dict[int, Composed]:
        """The open children of a scope, by their place in it."""
        children = enumerate(self.children[scope + 1])
        return {place: composed[child] for place, child in children if child in composed}

    def _composed(self, scope: int, inner: Mapping[int, Composed]) -> Composed:
        header = self.plan.items[scope].header if scope >= 0 else None
        template = self.plan.templates[self.plan.template[scope + 1]]
        return compose(template, inner, self._room(header))

    def _wrapped(
        self, composed: dict[int, Composed], page: tuple[float, float]
    ) -> dict[int, Composed]:
        """The same with the longest scope in as many columns as make it largest on a page."""
        chain = self._longest(composed)
        best, largest = composed, self._scale(composed[-1], page)
        for columns in range(2, COLUMNS + 1):
            header = self.plan.items[chain[-1]].header if chain[-1] >= 0 else None
            found = wrapped(composed[chain[-1]], columns, self._room(header).before)
            if found is None or largest >= 1.0:
                break
            changed = {**composed, chain[-1]: found}
            for scope in reversed(chain[:-1]):
                changed[scope] = self._composed(scope, self._inner(scope, changed))
            if self._scale(changed[-1], page) > GAIN * largest:
                best, largest = changed, self._scale(changed[-1], page)
        return best

    def _scale(self, root: Composed, page: tuple[float, float]) -> float:
        """How large the picture is on a page, at most as it is."""
        size = (root.height, root.width) if self.turned else (root.width, root.height)
        return min(1.0, *(room / side for room, side in zip(page, size) if side))

    def _longest(self, composed: Mapping[int, Composed]) -> list[int]:
        """From the paper inwards, each scope that makes up most of the one around it."""
        chain = [-1]
        while True:
            here, inside = composed[chain[-1]], self.children[chain[-1] + 1]
            child = max(here.inner, key=lambda each: here.inner[each].height, default=None)
            if child is None or here.inner[child].height < MOST * here.height:
                return chain
            chain.append(inside[child])

    def _room(self, header: tuple[float, float] | None) -> Room:
        if header is None:
            return Room()
        width, height = header
        if self.turned:
            return Room(beside=height + BELOW - PAD / 2, length=width + 2 * PAD)
        return Room(before=height + BELOW, least=width + 2 * PAD, clear=width + 2 * PAD)

    def _spread(self, composed: dict[int, Composed]) -> Picture:
        root = composed[-1]
        turn = self._turning(root)
        boxes: list[Drawn] = []
        pieces: list[Piece] = []
        waiting = [(-1, 0.0, 0.0)]
        while waiting:
            scope, across, along = waiting.pop()
            here = composed[scope]
            pieces += self._pieces(scope, here, partial(_moved, turn, across, along))
            inside = []
            for place, child in enumerate(self.children[scope + 1]):
                frame = here.frames[place]
                at = (frame.across + across, frame.along + along)
                opened = place in here.inner
                boxes.append(Drawn(child, *turn(*at, frame.width, frame.height), opened))
                if opened:
                    inside.append((child, *at))
            waiting.extend(reversed(inside))
        width, height = (root.height, root.width) if self.turned else (root.width, root.height)
        return Picture(width, height, tuple(boxes), tuple(pieces))

    def _turning(self, root: Composed) -> Turn:
        back, length, turned = self.plan.direction in ("BT", "RL"), root.height, self.turned

        def turn(
            across: float, along: float, width: float, height: float
        ) -> tuple[float, float, float, float]:
            along = length - along - height if back else along
            return (along, across, height, width) if turned else (across, along, width, height)

        return turn

    def _pieces(
        self, scope: int, here: Composed, moved: Callable[[Point], Point]
    ) -> list[Piece]:
        plan, template = self.plan, self.plan.templates[self.plan.template[scope + 1]]
        children = self.children[scope + 1]
        found = []
        for path in here.paths:
            trunk = template.trunks[path.trunk]
            sink = trunk.branches[path.branch].sink
            found.append(
                Piece(
                    scope,
                    plan.makers[scope + 1][path.trunk],
                    plan.carried[scope + 1][path.trunk],
                    _item(trunk.source, scope, children),
                    _item(sink, scope, children),
                    sink.child == OUTSIDE,
                    tuple(map(moved, path.points)),
                )
            )
        return found


def _moved(turn: Turn, across: float, along: float, point: Point) -> Point:
    x, y, _, _ = turn(point[0] + across, point[1] + along, 0.0, 0.0)
    return x, y


def _item(end: End, scope: int, children: list[int]) -> int:
    return scope if end.child == OUTSIDE else children[end.child]
