"""Place: the positions of all boxes and edges, for a plan and a choice of open items."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from math import ceil, inf
from typing import NamedTuple

from torchrecorder.layout.layered.compound import compose
from torchrecorder.layout.layered.constants import HEADER_GAP, PAD, TITLE_SHIFT
from torchrecorder.layout.layered.cuts import crossings
from torchrecorder.layout.layered.multi_column import cut_before, wrapped
from torchrecorder.layout.layered.plan import Plan
from torchrecorder.layout.layered.ports import OUTSIDE, End
from torchrecorder.layout.layered.positions import HeaderSpace, PlacedScope, PlanePoint
from torchrecorder.layout.layered.shortcuts import with_shortcuts
from torchrecorder.layout.layered.side_by_side import UShape, beginnings, find_u_shape
from torchrecorder.layout.layered.template import Template
from torchrecorder.layout.layered.turned import mirrored, reader_above, risen, upside_down
from torchrecorder.layout.layered.u_shape import comes_from_right, right_side, u_shape

MAX_COLUMNS = 12
"""The maximum number of columns of a scope."""

LENGTH_FACTOR = 0.87
"""Each column length that is tried, as a share of the previous one."""

MAX_TRIES = 22
"""How many column lengths are tried; they do not depend on the size of the sheet."""

MIN_TRIES, MAX_WORK = 6, 20_000
"""For large pictures: the minimum number of tries, and the maximum of tries times items."""

STACK_HEIGHT = 0.75
"""The maximum height of stacks that are side by side, as a share of that of one long stack."""

MIN_GAIN = 1.04
"""The minimum gain in scale that justifies more columns."""

SHAPE_GAIN = 1.5
"""The same if the picture has a U or stacks side by side, whose text is readable."""

Size = tuple[float, float] | None
"""Width and height of a header, if there is one."""

ToPaper = Callable[[float, float, float, float], tuple[float, float, float, float]]
"""Maps a corner and a size, across and along the flow, to a corner and a size on the paper."""


class PlacedBox(NamedTuple):
    """A box on the paper: its upper left corner, its size, whether it is open, whether the flow in
    it runs up, and whether its title is in one line."""

    item: int
    x: float
    y: float
    width: float
    height: float
    open: bool
    up: bool = False
    in_one: bool = False


class Sheet(NamedTuple):
    """The space that a picture must fit.

    Attributes:
        scale: Returns the scale of a picture of a width and height; 1 at most.
        enough: The smallest scale with readable text.
        open_ended: Whether the space has no limit across the flow: then columns are only made until
            the text is readable.
    """

    scale: Callable[[float, float], float]
    enough: float = 1.0
    open_ended: bool = False


class EdgeSection(NamedTuple):
    """The section of an edge inside one scope.

    Attributes:
        scope: The item it is in; -1 for the paper.
        maker: The item that made its tensor.
        value: Its tensor.
        tail: The child it leaves; the scope itself for a tensor that enters the scope.
        head: The child it enters; the scope itself for a tensor that leaves the scope.
        exits: Whether the tensor leaves the scope.
        points: Its corners.
    """

    scope: int
    maker: int
    value: str
    tail: int
    head: int
    exits: bool
    points: tuple[PlanePoint, ...]


class Picture(NamedTuple):
    """Everything on the paper, scopes before their contents.

    Attributes:
        width: Its width.
        height: Its height.
        boxes: The boxes.
        sections: The sections of all edges.
        shaped: Whether a scope is a U, or has stacks side by side.
        cut: Whether a scope would be, but columns are larger.
    """

    width: float
    height: float
    boxes: tuple[PlacedBox, ...]
    sections: tuple[EdgeSection, ...]
    shaped: bool = False
    cut: bool = False


def place(
    plan: Plan,
    opened: Collection[int] | None = None,
    sheet: Sheet | None = None,
    side_by_side: bool = False,
    lowest: int | None = None,
) -> Picture:
    """All positions, with the items *opened* open; by default everything is open.

    Items inside closed items are hidden, open or not. With a *sheet*, long scopes are laid out in
    columns if that makes the picture larger on it. A larger sheet never makes it smaller. With
    *side_by_side*, stacks that are joined only across are side by side. The scope with the item
    *lowest* becomes a U only if this is the last one on the left.
    """
    return _Placing(plan, opened, lowest).picture(sheet, side_by_side)


class _Placing:
    def __init__(
        self, plan: Plan, opened: Collection[int] | None, lowest: int | None = None
    ) -> None:
        self.plan, self.lowest = plan, lowest
        self.children = plan.children()
        self.turned = plan.direction in ("LR", "RL")
        can = [number for number, item in enumerate(plan.items) if item.header is not None]
        wanted = set(can if opened is None else opened)
        self.open = [number for number in can if number in wanted]
        self.known: dict[object, PlacedScope] = {}
        self.in_columns: dict[tuple[int, int], PlacedScope] = {}
        self.stacked: dict[int, PlacedScope | None] = {}
        self.shapes: dict[tuple[int, frozenset[int]], UShape | None] = {}
        self.risen: dict[int, int] = {}
        self.shaped = False  # whether a scope is a U, or has stacks side by side

    def picture(self, sheet: Sheet | None, side_by_side: bool) -> Picture:
        """Compose scopes from the innermost outwards, then put them on the paper."""
        tall = self._all(side_by_side=side_by_side)
        chosen = tall if sheet is None else self._fitted(tall, sheet)
        shaped, cut = self.shaped and chosen is tall, self.shaped and chosen is not tall
        return self._spread(chosen)._replace(shaped=shaped, cut=cut)

    def _all(self, limit: float = inf, side_by_side: bool = False) -> dict[int, PlacedScope]:
        """All open scopes; those that are longer than a limit in columns."""
        composed: dict[int, PlacedScope] = {}
        for scope in (*reversed(self.open), -1):
            children = enumerate(self.children[scope + 1])
            inner = {place: composed[child] for place, child in children if child in composed}
            template, headers = self.plan.template[scope + 1], self._headers(scope)
            key = (template, headers, tuple((place, id(item)) for place, item in inner.items()))
            if key not in self.known:
                self.known[key] = self._composed(self.plan.templates[template], inner, *headers)
            whole = self.known[key]
            space = self._header_space(headers[whole.in_one])
            if side_by_side:
                composed[scope] = self._side_by_side(scope, whole, space, composed)
            else:
                composed[scope] = self._limited(whole, limit, space)
        return composed

    def _composed(
        self, template: Template, inner: Mapping[int, PlacedScope], in_two: Size, in_one: Size
    ) -> PlacedScope:
        """A scope, whose title is in one line if that hardly moves anything."""
        found = compose(template, inner, self._header_space(in_two))
        space = self._header_space(in_one)
        free = min(found.height - space.length, found.width - space.least,
                   *(entry - space.clear for entry in found.entries))
        if in_one is None or free < -TITLE_SHIFT:
            return found
        return compose(template, inner, space)._replace(in_one=True)

    def _side_by_side(
        self, scope: int, whole: PlacedScope, space: HeaderSpace, composed: dict[int, PlacedScope]
    ) -> PlacedScope:
        """A scope with its stacks side by side, or as a U."""
        template = self.plan.templates[self.plan.template[scope + 1]]
        for place, child in enumerate(self.children[scope + 1]):
            if child in self.risen:
                return risen(whole, template, place, self.risen[child])
        if id(whole) not in self.stacked:  # equal scopes are the same object
            self.stacked[id(whole)] = self._stacks(scope, whole, space)
        made = self.stacked[id(whole)]
        if made is None and self.plan.direction == "TB":
            made = self._as_u(scope, whole, space, composed)
        self.shaped |= made is not None
        return made or whole

    def _stacks(self, scope: int, whole: PlacedScope, space: HeaderSpace) -> PlacedScope | None:
        """A scope with its stacks side by side, if it has some, and is less high then."""
        template = self.plan.templates[self.plan.template[scope + 1]]
        places = beginnings(template, whole, self._inputs(scope))
        beside = cut_before(whole, places, space) if places else None
        if beside is not None and beside.width <= beside.height <= STACK_HEIGHT * whole.height:
            return with_shortcuts(beside)
        return None

    def _inputs(self, scope: int) -> set[int]:
        """The children of a scope that are inputs."""
        inside = enumerate(self.children[scope + 1])
        return {place for place, child in inside if self.plan.items[child].first}

    def _as_u(
        self, scope: int, whole: PlacedScope, space: HeaderSpace, composed: dict[int, PlacedScope]
    ) -> PlacedScope | None:
        """A scope as a U, if possible; open children on its right side are turned over."""
        inside = [*enumerate(self.children[scope + 1])]
        modules = frozenset(place for place, child in inside if self.plan.items[child].module)
        key = id(whole), modules
        if key not in self.shapes:
            template = self.plan.templates[self.plan.template[scope + 1]]
            lowest = [place for place, child in inside if child == self.lowest]
            inputs = self._inputs(scope)
            self.shapes[key] = find_u_shape(template, whole, inputs, modules, space, lowest)
        shape = self.shapes[key]
        if shape is None:
            return None
        children = self.children[scope + 1]
        within = self._open_in([children[place] for place in right_side(whole, shape)])
        reader = self._reader_above(scope)
        across = sum(map(len, shape.skips)) + shape.strays
        most = crossings(whole) + 2 * across  # each may cross the main path at both ends
        for mirror in (True, False) if comes_from_right(whole, shape) else (False,):
            turned = {item: self._turned_over(item, composed[item], mirror) for item in within}
            if not all(turned.values()):
                continue
            found = u_shape(whole, shape, space, risen=reader is not None, mirror=mirror)
            if found is not None and crossings(found) <= most:
                composed.update((item, each) for item, each in turned.items() if each is not None)
                self.risen.update({} if reader is None else {scope: reader})
                return found
        return None

    def _reader_above(self, scope: int) -> int | None:
        """The index of the reader of an outermost scope, if it can be placed above it."""
        if scope < 0 or self.plan.items[scope].parent >= 0:
            return None
        template, children = self.plan.templates[self.plan.template[0]], self.children[0]
        reader = reader_above(template, children.index(scope))
        return None if reader is None or children[reader] in self.open else reader

    def _open_in(self, items: Sequence[int]) -> list[int]:
        """The open ones among some items and all in them."""
        found, waiting, opened = [], list(items), set(self.open)
        while waiting:
            item = waiting.pop()
            if item in opened:
                found.append(item)
                waiting += self.children[item + 1]
        return found

    def _turned_over(self, item: int, composed: PlacedScope, mirror: bool) -> PlacedScope | None:
        """An open item upside down; None if an edge would leave it through its header."""
        space = self._header_space(self._headers(item)[composed.in_one])
        found = mirrored(composed) if mirror else composed
        free = all(at >= space.clear for at in found.exits)
        return upside_down(found, space) if free else None

    def _limited(self, scope: PlacedScope, limit: float, space: HeaderSpace) -> PlacedScope:
        """A scope in so many columns that none is much longer than *limit*."""
        columns = min(
            ceil((scope.height - space.before) / max(limit - space.before, 1)), MAX_COLUMNS
        )
        while columns > 1:
            key = (id(scope), columns)
            if key not in self.in_columns:
                found = wrapped(scope, columns, space)
                self.in_columns[key] = with_shortcuts(found) if found else scope
            if self.in_columns[key] is not scope:
                return self.in_columns[key]
            columns -= 1
        return scope

    def _fitted(self, tall: dict[int, PlacedScope], sheet: Sheet) -> dict[int, PlacedScope]:
        """All open scopes, in columns if that gives a sufficiently larger scale on a sheet."""
        found = [(sheet.scale(*self._size(tall[-1])), tall)]
        limit = tall[-1].height
        tries = max(MIN_TRIES, min(MAX_TRIES, MAX_WORK // max(len(self.plan.items), 1)))
        full = sheet.enough if sheet.open_ended else 1.0
        for _ in range(tries):
            if found[-1][0] >= full:
                break
            limit *= LENGTH_FACTOR ** (MAX_TRIES / tries)
            tried = self._all(limit)
            found.append((sheet.scale(*self._size(tried[-1])), tried))
        best = max(scale for scale, _ in found)
        least = min(best, sheet.enough)
        if self.shaped and found[0][0] >= max(best / SHAPE_GAIN, least):
            return tall
        if not sheet.open_ended:
            least = max(best / MIN_GAIN, least)
        return next(composed for scale, composed in found if scale >= least)

    def _size(self, root: PlacedScope) -> tuple[float, float]:
        """Width and height on the paper."""
        return (root.height, root.width) if self.turned else (root.width, root.height)

    def _headers(self, scope: int) -> tuple[Size, Size]:
        """The size of the header of a scope, and of that with its title in one line."""
        item = self.plan.items[scope] if scope >= 0 else None
        return (item.header, item.in_one) if item is not None else (None, None)

    def _header_space(self, header: Size) -> HeaderSpace:
        if header is None:
            return HeaderSpace()
        width, height = header
        if self.turned:
            return HeaderSpace(beside=height + HEADER_GAP - PAD / 2, length=width + 2 * PAD)
        return HeaderSpace(before=height + HEADER_GAP, least=width + 2 * PAD, clear=width + 2 * PAD)

    def _spread(self, composed: dict[int, PlacedScope]) -> Picture:
        root = composed[-1]
        to_paper = self._to_paper(root)
        boxes: list[PlacedBox] = []
        sections: list[EdgeSection] = []
        waiting = [(-1, 0.0, 0.0)]
        while waiting:
            scope, across, along = waiting.pop()
            here = composed[scope]
            sections += self._sections(scope, here, partial(_moved, to_paper, across, along))
            inside = []
            for place, child in enumerate(self.children[scope + 1]):
                frame = here.frames[place]
                at = (frame.across + across, frame.along + along)
                opened = place in here.inner
                about = (composed[child].up, composed[child].in_one) if opened else ()
                corners = to_paper(*at, frame.width, frame.height)
                boxes.append(PlacedBox(child, *corners, opened, *about))
                if opened:
                    inside.append((child, *at))
            waiting.extend(reversed(inside))
        return Picture(*self._size(root), tuple(boxes), tuple(sections))

    def _to_paper(self, root: PlacedScope) -> ToPaper:
        back, length, turned = self.plan.direction in ("BT", "RL"), root.height, self.turned

        def to_paper(
            across: float, along: float, width: float, height: float
        ) -> tuple[float, float, float, float]:
            along = length - along - height if back else along
            return (along, across, height, width) if turned else (across, along, width, height)

        return to_paper

    def _sections(
        self, scope: int, here: PlacedScope, moved: Callable[[PlanePoint], PlanePoint]
    ) -> list[EdgeSection]:
        plan, template = self.plan, self.plan.templates[self.plan.template[scope + 1]]
        children = self.children[scope + 1]
        found = []
        for path in here.paths:
            trunk = template.trunks[path.trunk]
            sink = trunk.branches[path.branch].sink
            found.append(
                EdgeSection(
                    scope,
                    *plan.carried[scope + 1][path.trunk],
                    _item(trunk.source, scope, children),
                    _item(sink, scope, children),
                    sink.child == OUTSIDE,
                    tuple(map(moved, path.points)),
                )
            )
        return found


def _moved(to_paper: ToPaper, across: float, along: float, point: PlanePoint) -> PlanePoint:
    x, y, _, _ = to_paper(point[0] + across, point[1] + along, 0.0, 0.0)
    return x, y


def _item(end: End, scope: int, children: list[int]) -> int:
    return scope if end.child == OUTSIDE else children[end.child]
