"""Encoder and decoder: a U whose two sides are two modules.

The boxes in both modules are laid out as if they were in the scope around these, with a spacer
where the main line enters and leaves each module. If the result is a U, the frames of the modules
are drawn around its sides, from spacer to spacer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from torchrecorder.layout.layered.constants import HEADER_GAP, PAD
from torchrecorder.layout.layered.items import Item, Link
from torchrecorder.layout.layered.place import EdgeSection, Picture, PlacedBox, Sheet, place
from torchrecorder.layout.layered.plan import Direction, plan
from torchrecorder.layout.layered.ports import Carried
from torchrecorder.layout.layered.positions import PlanePoint
from torchrecorder.layout.layered.side_by_side import MIN_U_LEVELS

EDGE = 1.0
"""The height of a spacer that has no room for a title, in points."""


class _Modules(NamedTuple):
    """Two open modules of one scope, of which only the second reads the first; all else that it
    reads is what the first one reads. *lowest* is the last item that joins them, and *inside* has
    the module that each item is in, or -1."""

    encoder: int
    decoder: int
    lowest: int
    inside: tuple[int, ...]


def laid_out(
    items: Sequence[Item], links: Sequence[Link], direction: Direction, sheet: Sheet | None,
    timeout: float,
) -> Picture:
    """All positions in a figure with everything open: an encoder and a decoder are a U, if they
    can be drawn as one and it fits the *sheet*."""
    u = encoder_decoder(items, links, sheet, timeout) if direction == "TB" else None
    if u is not None and not u.cut:
        return u
    planned = plan(items, links, direction, timeout=timeout)
    picture = place(planned, sheet=sheet, side_by_side=True)
    return picture._replace(cut=picture.cut or u is not None)


def encoder_decoder(
    items: Sequence[Item], links: Sequence[Link], sheet: Sheet | None, timeout: float
) -> Picture | None:
    """All positions, if an encoder and a decoder in *items* can be drawn as a U; else None.

    If the picture is *cut*, it has positions without the frames of both.
    """
    modules = _modules(items, links)
    if modules is None:
        return None
    narrow = _Flat(items, links, modules)
    picture = narrow.picture(None, timeout)
    if not picture.shaped:
        return None
    wide = _Flat(items, links, modules, narrow.widths(picture))
    picture = wide.picture(sheet, timeout)
    return picture if picture.cut else wide.framed(picture)


def _modules(items: Sequence[Item], links: Sequence[Link]) -> _Modules | None:
    """The first encoder and decoder, if enough tensors join them for a U."""
    entering: dict[int, list[Carried]] = {}
    leaving: dict[int, list[Carried]] = {}
    joining: dict[tuple[int, int], list[Carried]] = {}
    for link in links:
        around = [[*_around(items, items[end].parent)] for end in (link.tail, link.head)]
        shared, carried = {*around[0]}.intersection(around[1]), (link.tail, link.value)
        one, other = ([module for module in each if module not in shared] for each in around)
        for module in one:
            leaving.setdefault(module, []).append(carried)
        for module in other:
            entering.setdefault(module, []).append(carried)
        if one and other:
            joining.setdefault((one[-1], other[-1]), []).append(carried)
    for (here, there), tensors in joining.items():
        given = {*entering.get(here, ())}
        alone = len(tensors) == len(leaving[here]) and given.issuperset(
            {*entering[there]}.difference(tensors)
        )
        single = len(given) == len({*leaving.get(there, ())}) == 1
        lowest = max(tensors)[0]
        last = {tensor for tensor in tensors if tensor[0] == lowest}
        if alone and single and len({*tensors}) > MIN_U_LEVELS and len(last) == 1:
            if items[here].parent >= 0:
                return _Modules(here, there, lowest, tuple(_inside(items, (here, there))))
    return None


def _around(items: Sequence[Item], item: int) -> Iterator[int]:
    while item >= 0:
        yield item
        item = items[item].parent


def _inside(items: Sequence[Item], modules: Sequence[int]) -> Iterator[int]:
    """Which of the *modules* each item is in."""
    found: list[int] = []
    for item in items:
        around = item.parent
        found.append(around if around in modules else found[around] if around >= 0 else -1)
        yield found[-1]


class _Flat:
    """Items without the frames of two modules, and links through the spacers.

    Attributes:
        items: The items, with spacers.
        links: The links.
        was: For each of *items*, its number among *original*; -1 for a spacer.
        now: For each of *original*, its number; for the two modules, that of the scope around them.
        spacers: The numbers of the spacers: where the first module is entered and left, and where
            the second one is.
    """

    def __init__(
        self, original: Sequence[Item], links: Sequence[Link], modules: _Modules,
        widths: Sequence[float] = (0.0, 0.0),
    ) -> None:
        """Spacers are at least as wide as the *widths* of the modules."""
        self.original, self.modules = original, modules
        self.both = both = modules[:2]
        self.items, self.was, self.spacers = list[Item](), list[int](), list[int]()
        self.now = {-1: -1}
        wide = dict(zip(both, widths))
        last = {module: number for number, module in enumerate(modules.inside)}
        for number, item in enumerate(original):
            self.now[number] = len(self.items)
            if number in both:
                self.now[number] = self.now[item.parent]
                self._space(number, wide[number], number == modules.encoder)
            else:
                self.items.append(item._replace(parent=self.now[item.parent]))
                self.was.append(number)
            for module in both:
                if last[module] == number:
                    self._space(module, wide[module], module == modules.decoder)
        self.links = [*self._spaced(links)]

    def _space(self, module: int, least: float, titled: bool) -> None:
        """Append a spacer of a module, with room for its title or without."""
        width, height = self.original[module].header or (0.0, 0.0)
        size = max(2 * (width + 2 * PAD), least), height + HEADER_GAP if titled else EDGE
        self.spacers.append(len(self.items))
        self.items.append(Item(f"spacer {len(self.spacers)}", self.now[module], *size))
        self.was.append(-1)

    def picture(self, sheet: Sheet | None, timeout: float) -> Picture:
        """All positions."""
        planned = plan(self.items, self.links, timeout=timeout)
        return place(planned, sheet=sheet, side_by_side=True, lowest=self.spacers[1])

    def _spaced(self, links: Sequence[Link]) -> Iterator[Link]:
        """The links, of which the main line runs through the spacers."""
        inside, (encoder, decoder) = self.modules.inside, self.both
        entered = set[Link]()
        for link in links:
            tail, head = self.now[link.tail], self.now[link.head]
            ends = inside[link.tail], inside[link.head]
            through: Sequence[int] = ()
            if ends == (-1, encoder):
                through = self.spacers[:1]
            elif ends == (decoder, -1):
                through = self.spacers[3:]
            elif ends == (encoder, decoder) and link.tail == self.modules.lowest:
                through = self.spacers[1:3]
            for stop in through:
                into, tail = Link(tail, stop, link.value, side=link.side), stop
                if into not in entered:
                    entered.add(into)
                    yield into
            yield link._replace(tail=tail, head=head)

    def widths(self, picture: Picture) -> list[float]:
        """How wide the spacers of each module must be."""
        boxes, found = {box.item: box for box in picture.boxes}, []
        for module, at in zip(self.both, self.spacers[::2]):
            middle = boxes[at].x + boxes[at].width / 2
            reach = max(abs(x - middle) for x, _ in self._within(picture, module))
            found.append(2 * (reach + PAD))
        return found

    def _within(self, picture: Picture, module: int) -> Iterator[PlanePoint]:
        """The corners of all boxes in a module, and of the lines between them."""
        inside = self._of(module)
        for box in picture.boxes:
            if box.item in inside:
                yield box.x, box.y
                yield box.x + box.width, box.y + box.height
        for section in picture.sections:
            if section.tail in inside and section.head in inside:
                yield from section.points

    def _of(self, module: int) -> set[int]:
        """The items in a module."""
        inside = self.modules.inside
        return {at for at, was in enumerate(self.was) if was >= 0 and inside[was] == module}

    def framed(self, picture: Picture) -> Picture | None:
        """The picture with the frames of both modules; None if they would not be around these
        alone."""
        boxes, frames = {box.item: box for box in picture.boxes}, []
        for module, number in zip(self.both, (self.spacers[0], self.spacers[3])):
            title, (across, along) = boxes[number], zip(*self._within(picture, module))
            end, height = title.x + title.width, max(along) + PAD - title.y
            if not title.x < min(across) < max(across) < end or min(along) <= title.y:
                return None
            up = module == self.modules.decoder
            frames.append(PlacedBox(module, title.x, title.y, title.width, height, True, up))
        left, right = frames
        scope = boxes[self.items[self.spacers[0]].parent]
        if left.x + left.width > right.x or not all(self._apart(picture, each) for each in frames):
            return None
        found = list[PlacedBox]()
        for box in picture.boxes:
            if self.was[box.item] >= 0:
                found.append(box._replace(item=self.was[box.item]))
            if box is scope:
                found += frames
        return picture._replace(boxes=tuple(found), sections=tuple(self._joined(picture.sections)))

    def _apart(self, picture: Picture, frame: PlacedBox) -> bool:
        """Whether all boxes beside a frame, and the lines between these, are outside of it."""
        around = {self.now[each] for each in _around(self.original, frame.item)}
        outer = {-1, *range(len(self.items))}.difference(self.spacers, self._of(frame.item))
        corners = [
            ((box.x, box.y), (box.x + box.width, box.y + box.height))
            for box in picture.boxes if box.item in outer - around
        ]
        for section in picture.sections:
            if section.tail in outer and section.head in outer:
                corners += map(_ordered, section.points, section.points[1:])
        return not any(_meets(frame, *each) for each in corners)

    def _joined(self, sections: Iterable[EdgeSection]) -> Iterator[EdgeSection]:
        """The sections of the edges without spacers."""
        into = {each.head: each for each in sections if each.head in self.spacers}
        for section in sections:
            if section.head in into and not section.exits:
                continue
            while section.tail in into:
                before = into[section.tail]
                points = before.points + section.points
                section = section._replace(tail=before.tail, points=points)
            while section.maker in into:
                section = section._replace(maker=into[section.maker].maker)
            ends = (section.scope, section.maker, section.tail, section.head)
            scope, maker, tail, head = (self.was[each] if each >= 0 else -1 for each in ends)
            yield section._replace(scope=scope, maker=maker, tail=tail, head=head)


def _ordered(one: PlanePoint, other: PlanePoint) -> tuple[PlanePoint, PlanePoint]:
    """The upper left and the lower right end of a segment."""
    (ax, ay), (bx, by) = one, other
    return (min(ax, bx), min(ay, by)), (max(ax, bx), max(ay, by))


def _meets(box: PlacedBox, begin: PlanePoint, end: PlanePoint) -> bool:
    """Whether a box and a rectangle have a place in common."""
    across = begin[0] < box.x + box.width and box.x < end[0]
    return across and begin[1] < box.y + box.height and box.y < end[1]
