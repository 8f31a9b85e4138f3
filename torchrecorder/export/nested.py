"""Nested: a figure as DOT with the positions of the nested layout, which Graphviz only renders."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from torchrecorder.export import legend
from torchrecorder.export.dot import (
    TABLE, Pins, corner_label, corner_lines, dot_text, in_order, output_labels,
)
from torchrecorder.export.head_marks import head_marks
from torchrecorder.export.quoting import quote, verbatim
from torchrecorder.graph.gc_pause import without_gc
from torchrecorder.layout.layered import Item, Link, Picture, PlacedBox
from torchrecorder.layout.layered.edge_routing import Trunks, edge_routes, rounded, toward
from torchrecorder.layout.layered.encoder_decoder import laid_out
from torchrecorder.layout.layered.place import Sheet
from torchrecorder.layout.layered.positions import PlanePoint
from torchrecorder.layout.layered.side_entry import side_entries
from torchrecorder.layout.measure import label_size
from torchrecorder.style.figure import Figure, Group, Shape, Text
from torchrecorder.style.paper import Paper
from torchrecorder.views.collapse import SOURCES
from torchrecorder.views.view import BoxKind

PAINTER = "nop2"
"""The layout program of Graphviz that keeps given positions."""

PAD = 7.2
"""Free space around everything, in points."""

ARROW = 6.0
"""Length of the tip of an arrow, in points."""

AGAIN = 8.0
"""The size that the second outline of a fold adds, in points."""

READ = tuple(kind.value for kind in SOURCES)
"""The kinds of shapes that no operation produces."""

ROOM: Mapping[str, tuple[float, float, float]] = {
    "ellipse": (1.3, 16.0, 14.0),
    "parallelogram": (1.0, 36.0, 9.0),
    "octagon": (1.0, 26.0, 12.0),
    "cylinder": (1.0, 18.0, 14.0),
    "note": (1.0, 24.0, 9.0),
}
"""For each outline: the factor of the width of its label, and the padding in x and y, in points."""

ROUND = 2.0
"""The diameter of a circle, as a multiple of the font size."""

INSIDE, TURN = 4.5, 9.0
"""The distance of a feedback edge from the border of its group, and how far it begins beside that.

Its head points along the border: lines into the group may pass right beside it.
"""

SLANT = 0.2
"""How far a slanted side of a parallelogram leans, as a share of the width."""

LEANING = 1.5, 10.0
"""Minimum width of a parallelogram, as a multiple of the width of its label and more points: a
wide one has flat sides."""

CUT = 0.29
"""The corners of an octagon begin at this share of its width and height."""

Bounds = tuple[float, float, float, float]
"""Left, top, width and height."""


@without_gc()
def nested_text(figure: Figure, placed: Placed) -> str:
    """*figure* in DOT at full size with the positions of *placed*, for `PAINTER`."""
    return dot_text(replace(figure, paper=Paper()), _pins(figure, placed))


class Placed(NamedTuple):
    """A figure with all positions."""

    items: tuple[Item, ...]  # the boxes and open groups
    links: list[Link]  # the lines
    picture: Picture  # the positions of boxes, groups and lines
    upright: bool  # whether the flow runs down or up
    outline_of: Mapping[str, str]  # the outline of each box, by its id

    @classmethod
    def lay_out(cls, figure: Figure, timeout: float) -> Placed:
        """Lay out *figure*, in several columns if its paper needs that."""
        items = tuple(_items(figure))
        number = {item.id: place for place, item in enumerate(items)}
        links = [
            Link(number[line.tail], number[line.head], line.value or "", side=line.side)
            for line in figure.lines
        ]
        picture = laid_out(items, links, figure.direction, sheet_of(figure), timeout)
        outline_of = {shape.id: shape.look.outline for shape in figure.shapes}
        return cls(items, links, picture, figure.direction in ("TB", "BT"), outline_of)

    def boxes(self) -> dict[str, PlacedBox]:
        """Each box and open group by its id."""
        return {self.items[box.item].id: box for box in self.picture.boxes}

    def outlines(self) -> list[tuple[float, float, float, float]]:
        """Left, top, right and bottom of each box and open group."""
        boxes = self.picture.boxes
        return [(box.x, box.y, box.x + box.width, box.y + box.height) for box in boxes]

    def routes(self) -> Iterator[tuple[PlanePoint, ...]]:
        """The corners of each line; common parts belong to the first line."""
        trunks = Trunks()
        for key, points in zip(self._carried(), self.whole_routes()):
            yield trunks.fresh(key, points)

    def whole_routes(self) -> list[tuple[PlanePoint, ...]]:
        """All corners of each line, from box to box."""
        boxes, circles = self.boxes(), dict[int, PlacedBox]()
        routes = [tuple(points) for points in edge_routes(self.picture, self.links)]
        for number, link in enumerate(self.links):
            tail, head = self.items[link.tail].id, self.items[link.head].id
            if not self.upright and self.outline_of.get(tail) == "parallelogram":
                routes[number] = _from_slanted_side(routes[number], boxes[tail])
            if self.outline_of.get(head) == "circle":
                circles[number] = boxes[head]
        if not circles:
            return routes
        return side_entries(routes, self._carried(), circles, self.picture.boxes, self.upright)

    def _carried(self) -> list[tuple[int, str]]:
        """The tensor of each line, by its tail and value."""
        return [(link.tail, link.value) for link in self.links]


def _from_slanted_side(route: Sequence[PlanePoint], box: PlacedBox) -> tuple[PlanePoint, ...]:
    """The *route* of a line that leaves the left or right side of a parallelogram."""
    (x, y), *rest = route
    share = (y - box.y) / box.height
    if x > box.x + box.width / 2:
        return ((x - SLANT * box.width * share, y), *rest)
    return ((x + SLANT * box.width * (1 - share), y), *rest)


def closed_size(
    shape: Shape, figure: Figure, outputs: Text | None, label: tuple[Text, ...] | None = None
) -> tuple[float, float]:
    """Width and height of a box around its label, or another *label*, in points."""
    if shape.look.outline == "circle" and outputs is None:
        return figure.fontsize * ROUND, figure.fontsize * ROUND
    label = shape.label if label is None else label
    label = label if outputs is None else (*label, outputs)
    width, height = label_size(
        label, figure.fontsize, bold=shape.look.bold, fontname=figure.fontname
    )
    outline = shape.look.outline
    times, wider, higher = ROOM.get(outline, (1.0, 18.0, 9.0))
    again = AGAIN if shape.count > 1 else 0.0
    grown = max(1.0, figure.fontsize / 10)  # large letters need more space around them
    tall, least = height + higher * grown, 0.0
    if outline == "parallelogram":
        least = width * LEANING[0] + LEANING[1] * grown
    elif outline == "octagon":  # of several lines: the first and the last are beside its corners
        least = width / (1 - 2 * CUT + (higher * grown + 0.3 * figure.fontsize) / tall)
    size = max(width * times + wider * grown, least), tall
    size = max(size[0], 29.0) + again, max(size[1], 21.0) + again
    return round(size[0], 1), round(size[1], 1)


def _items(figure: Figure) -> Iterator[Item]:
    outputs = output_labels(figure)
    number: dict[str | None, int] = {None: -1}
    for item in in_order(replace(figure, shapes=tuple(_as_run(figure)))):
        around = number[item.group if isinstance(item, Shape) else item.parent]
        number[item.id] = len(number) - 1
        if isinstance(item, Shape):
            size = closed_size(item, figure, outputs.get(item.id))
            first, module = item.kind == "input", item.kind == BoxKind.MODULE.value
            yield Item(item.id, around, *size, first=first, module=module)
        else:
            lines = corner_lines(item, figure)
            width, height = header = header_size(lines, figure)
            in_one = header_size(item.label, figure) if lines != item.label else None
            yield Item(item.id, around, width + 18.0, height + 9.0, header, False, True, in_one)


def _as_run(figure: Figure) -> list[Shape]:
    """The shapes in run order. In the view all sources come first; here, a source inside a group
    comes directly before the first other shape there."""
    parent = {group.id: group.parent for group in figure.groups}
    begins: dict[str | None, int] = {}
    for number, shape in enumerate(figure.shapes):
        around = shape.group if shape.kind not in READ else None
        while around is not None and around not in begins:
            begins[around] = number
            around = parent[around]

    def order(numbered: tuple[int, Shape]) -> tuple[int, bool]:
        number, shape = numbered
        read = shape.kind in READ
        return (begins.get(shape.group, number), False) if read else (number, True)

    return [shape for _, shape in sorted(enumerate(figure.shapes), key=order)]


def header_size(lines: tuple[Text, ...], figure: Figure) -> tuple[float, float]:
    """Width and height of the text in the corner of an open group, in points."""
    width, height = label_size(lines, figure.fontsize, fontname=figure.fontname)
    return round(width, 1), round(height, 1)


def _pins(figure: Figure, placed: Placed) -> Pins:
    picture, boxes = placed.picture, placed.boxes()
    below = picture.height
    shapes = {shape.id: _shape(shape, boxes[shape.id], below) for shape in figure.shapes}
    frame: Mapping[str, str] = {}
    if figure.legend:
        left, top, (width, height, spots) = legend_at(figure, picture)
        frame = {"bb": quote(_numbers(left, top - height, left + width, top))}
        for shape, (x, y, wide) in zip(legend.shapes(figure), spots):
            spot = quote(_spot((left + x, top - y)))
            shapes[shape.id] = {"pos": spot, "width": quote(f"{wide / 72:.4f}")}
    groups = {group.id: _group(group, figure, boxes[group.id], below) for group in figure.groups}
    loops = [
        (group.loop, _loop(group, figure, boxes[group.id], below))
        for group in figure.groups
        if group.loop is not None
    ]
    return Pins(shapes, groups, tuple(_lines(figure, placed)), frame, loops)


def _shape(shape: Shape, box: PlacedBox, below: float) -> Mapping[str, str]:
    center = box.x + box.width / 2, below - box.y - box.height / 2
    again = AGAIN if shape.count > 1 else 0.0
    return {
        "pos": quote(_spot(center)),
        "width": quote(f"{(box.width - again) / 72:.4f}"),
        "height": quote(f"{(box.height - again) / 72:.4f}"),
        "fixedsize": quote("true"),
    }


def _group(group: Group, figure: Figure, box: PlacedBox, below: float) -> Mapping[str, str]:
    label, text = corner_label(group, figure, box.in_one)
    width, height = header_size(label, figure)
    cell = f'<td align="left" balign="left" width="{width:.0f}">{text}</td>'
    y = box.y + 4.0 + height / 2
    if figure.direction == "BT":  # the header is where the flow begins, in all directions
        y = box.y + box.height - 4.0 - height / 2
    corners = (box.x, below - box.y - box.height, box.x + box.width, below - box.y)
    return {
        "label": f"<{TABLE}<tr>{cell}</tr></table>>",
        "bb": quote(_numbers(*corners)),
        "lp": quote(_spot((box.x + 9.0 + width / 2, below - y))),
    }


def _loop(group: Group, figure: Figure, box: PlacedBox, below: float) -> Mapping[str, str]:
    route = [(x, below - y) for x, y in loop_route(box, figure)]
    color = quote(group.look.stroke)
    return {"pos": quote(_spline(route)), "style": quote("dashed"), "color": color}


def _lines(figure: Figure, placed: Placed) -> Iterator[Mapping[str, str]]:
    below, routes = placed.picture.height, list(placed.routes())
    marks = head_marks(figure, routes, placed.outlines())
    for number, points in enumerate(routes):
        pinned = {"pos": quote(_spline([(x, below - y) for x, y in points]))}
        if number in marks:
            text, (x, y) = marks[number]
            pinned.update(headlabel=verbatim(text), head_lp=quote(_spot((x, below - y))))
        yield pinned


def loop_route(box: PlacedBox, figure: Figure) -> list[PlanePoint]:
    """The route of a feedback edge inside the border of a loop, from the end of its flow to the
    beginning."""
    left, top, right, bottom = box.x, box.y, box.x + box.width, box.y + box.height
    left, top, right, bottom = left + INSIDE, top + INSIDE, right - INSIDE, bottom - INSIDE
    if figure.direction in ("TB", "BT"):
        near = right - TURN
        down = figure.direction == "TB" and not box.up
        end, begin = (bottom, top) if down else (top, bottom)
        return [(near, end), (right, end), (right, begin)]
    near = bottom - TURN
    end, begin = (right, left) if figure.direction == "LR" else (left, right)
    return [(end, near), (end, bottom), (begin, bottom)]


def _spline(points: Sequence[PlanePoint]) -> str:
    """A route as a spline of Graphviz: the tip of the arrow, and the curve up to its base."""
    tip, curve = arrow(points)
    parts, last, text = [f"e,{_spot(tip)}"], tip, ""
    for point in curve:
        if point is not last:
            last, text = point, _spot(point)
        parts.append(text)
    return " ".join(parts)


def arrow(points: Sequence[PlanePoint]) -> tuple[PlanePoint, list[PlanePoint]]:
    """The tip of an arrow, and the curve up to its base."""
    tip, before = points[-1], points[-2]
    base = toward(tip, before, min(ARROW, 0.9 * math.dist(tip, before)))
    return tip, rounded([*points[:-1], base])


def _spot(point: PlanePoint) -> str:
    return _numbers(*point)


def _numbers(*at: float) -> str:
    return ",".join(f"{item:.2f}" for item in at)


def smallest(figure: Figure) -> float:
    """The smallest size of text in a figure, in points."""
    labels = [shape.label for shape in figure.shapes] + [group.label for group in figure.groups]
    small = any(text.part != "title" for label in labels for text in label)
    small = small or bool(figure.legend) or any(line.label for line in figure.lines)
    return figure.fontsize * (legend.SMALL_TEXT if small else 1.0)


def sheet_of(figure: Figure) -> Sheet | None:
    """The space for a figure with its legend on its paper; None if its flow may be of any
    length."""
    paper = figure.paper
    along = paper.height if figure.direction in ("TB", "BT") else paper.width
    if not (paper.limits or along):
        return None
    enough = min(1.0, paper.min_fontsize / smallest(figure))
    return Sheet(
        lambda *size: paper.scale(*with_legend(figure, *size)), enough, paper.limits is None
    )


def printed_size(figure: Figure, placed: Placed) -> tuple[float, float]:
    """The width and height of a figure with its margins: those of the file."""
    left, top, right, bottom = extent(figure, placed, list(placed.routes()))
    return right - left + 2 * PAD, bottom - top + 2 * PAD


def extent(
    figure: Figure, placed: Placed, routes: Iterable[Sequence[PlanePoint]]
) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of everything that is drawn; *routes* are those of the lines."""
    frames = placed.outlines()
    if figure.legend:
        (left, top, width, height), _ = legend_boxes(figure, placed)
        frames.append((left, top, left + width, top + height))
    spots = [spot for route in routes for spot in route]
    for left, top, right, bottom in frames:
        spots += [(left, top), (right, bottom)]
    across, along = zip(*spots) if spots else ((0.0,), (0.0,))
    return min(across), min(along), max(across), max(along)


def bounds(box: PlacedBox) -> Bounds:
    """Where *box* is."""
    return box.x, box.y, box.width, box.height


def legend_boxes(figure: Figure, placed: Placed) -> tuple[Bounds, list[tuple[Shape, Bounds]]]:
    """The frame of the legend with y downwards, and its entries, each with its box."""
    left, up, (width, height, spots) = legend_at(figure, placed.picture)
    top, high = placed.picture.height - up, legend.entry_height(figure)
    entries = [
        (shape, (left + x - wide / 2, top + y - high / 2, wide, high))
        for shape, (x, y, wide) in zip(legend.shapes(figure), spots)
    ]
    return (left, top, width, height), entries


def with_legend(figure: Figure, width: float, height: float) -> tuple[float, float]:
    """The width and height of a figure of this size with its legend and margins, at most."""
    if figure.legend:
        bare = Picture(width, height, (), ())
        left, top, (wide, high, _) = legend_at(figure, bare)
        width = max(width, left + wide) - min(0.0, left)
        height = max(height, top) - min(0.0, top - high)
    return width + 2 * PAD, height + 2 * PAD


def legend_at(figure: Figure, picture: Picture) -> tuple[float, float, legend.LegendFrame]:
    """The upper left corner of the legend (y upwards from the lower edge), and its frame.

    The legend is below the figure, or beside it if that needs less space and the paper has no
    given width.
    """
    column, rows = legend.laid_out(figure), legend.laid_out(figure, picture.width)
    beside = (picture.width + legend.LEGEND_GAP + column.width) * max(picture.height, column.height)
    under = max(picture.width, rows.width) * (picture.height + legend.LEGEND_GAP + rows.height)
    if not figure.paper.width and beside < under:
        return picture.width + legend.LEGEND_GAP, picture.height, column
    return (picture.width - rows.width) / 2, -legend.LEGEND_GAP, rows
