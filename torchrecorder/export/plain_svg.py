"""Plain SVG: a figure in a nested layout as SVG, in half the time that Graphviz takes.

The SVG has the structure of the SVG of Graphviz, so that the same code adds tooltips, layers and
exact sizes. Figures with Graphviz attributes are painted by Graphviz; where it is missing, outlines
that only it has become boxes, and a list of colors becomes its first color.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from html import escape

from torchrecorder.export import legend
from torchrecorder.export.dot import corner_lines, font_family, node_name, output_labels
from torchrecorder.export.head_marks import HeadMark, head_marks
from torchrecorder.export.legend import SMALL_TEXT
from torchrecorder.export.nested import (
    AGAIN, CUT, PAD, SLANT, Bounds, Placed, arrow, bounds, extent, legend_boxes, loop_route,
)
from torchrecorder.graph.flat import printable
from torchrecorder.layout.layered import PlacedBox
from torchrecorder.layout.layered.positions import PlanePoint
from torchrecorder.layout.measure import line_height, text_size
from torchrecorder.style.color import faded, solid
from torchrecorder.style.figure import Figure, Group, Line, Look, Shape, Text

BASELINE = 0.35
"""Distance from the middle of a line of text to its baseline, relative to the font size."""

CORNER = 12.0
"""Radius of the corners of a rounded box."""

HALF_TIP = 2.1
"""Half the width of the tip of an arrow, in points."""

FOLD = 6.0
"""Size of the folded corner of a note, in points."""

LIDS = 11
"""The height of a cylinder, as a multiple of half the height of its lid."""

DASHES = {"dashed": "5,2", "dotted": "1,5"}

POLYGONS: Mapping[str, Sequence[PlanePoint]] = {
    "octagon": (
        (CUT, 0), (1 - CUT, 0), (1, CUT), (1, 1 - CUT),
        (1 - CUT, 1), (CUT, 1), (0, 1 - CUT), (0, CUT),
    ),
    "parallelogram": ((SLANT, 0), (1, 0), (1 - SLANT, 1), (0, 1)),
}
"""Corners of outlines, as shares of width and height."""


def plain_svg(figure: Figure, placed: Placed) -> str:
    """*figure* as SVG at full size, with the positions of *placed*."""
    boxes, routes = placed.boxes(), list(placed.routes())
    left, top, right, bottom = extent(figure, placed, routes)
    width, height = right - left + 2 * PAD, bottom - top + 2 * PAD
    parts = [
        '<?xml version="1.0" encoding="UTF-8" standalone="no"?>',
        f'<svg width="{width:.2f}pt" height="{height:.2f}pt"',
        f' viewBox="0.00 0.00 {width:.2f} {height:.2f}" xmlns="http://www.w3.org/2000/svg"'
        ' xmlns:xlink="http://www.w3.org/1999/xlink">',
        f'<g id="graph0" class="graph" transform="translate({PAD - left:.2f} {PAD - top:.2f})">',
    ]
    background = figure.attributes.get("bgcolor", figure.background)
    if solid(background) != "transparent":
        room = (left - PAD, top - PAD, width, height)
        parts.append(_rectangle(room, _filled(background) + ' stroke="none"'))
    for number, group in enumerate(figure.groups, 1):
        parts += _group(group, boxes[group.id], figure, number)
    for number, group in enumerate(figure.groups, 1):
        parts += _loop(group, boxes[group.id], figure, number)
    marks = head_marks(figure, routes, placed.outlines())
    for number, (line, points) in enumerate(zip(figure.lines, routes)):
        mark = _marked(marks[number], line, figure) if number in marks else ()
        parts += _line(line, points, number + 1, mark)
    outputs = output_labels(figure)
    for number, shape in enumerate(figure.shapes, 1):
        label = (*shape.label, outputs[shape.id]) if shape.id in outputs else shape.label
        parts += _shape(shape, label, bounds(boxes[shape.id]), figure, number)
    if figure.legend:
        parts += _legend(figure, placed)
    return printable("\n".join([*parts, "</g>", "</svg>", ""]))


def _legend(figure: Figure, placed: Placed) -> Iterator[str]:
    frame, entries = legend_boxes(figure, placed)
    stroke = f'fill="none" stroke="{legend.edge(figure)}"'
    inside = [_rectangle(frame, stroke, CORNER)]
    yield from _element("cluster", "cluster_legend", "cluster_legend", inside)
    for number, (shape, box) in enumerate(entries, 1):
        text = _centered(shape.label, shape.look, box, figure, figure.fontsize * SMALL_TEXT)
        inside = [*_outline(shape.look, box), *text]
        yield from _element("node", f"legend{number}", node_name(shape.id), inside)


def _group(group: Group, drawn: PlacedBox, figure: Figure, number: int) -> Iterator[str]:
    """An open module, with its label in the corner where the flow begins."""
    left, top, _, height = box = bounds(drawn)
    label = corner_lines(group, figure, drawn.in_one)
    sizes = [line_height(text, figure.fontsize) for text in label]
    start = top + 4.0 if figure.direction != "BT" else top + height - 4.0 - sum(sizes)
    written = _written(label, group.look, figure, figure.fontsize, (left + 9.0, start), "start")
    inside = [*_outline(group.look, box), *written]
    name = f"cluster_{node_name(group.id)}"
    yield from _element("cluster", f"clust{number}", name, inside, group.tooltip, group.look)


def _loop(group: Group, drawn: PlacedBox, figure: Figure, number: int) -> Iterator[str]:
    """The feedback edge of a loop."""
    if group.loop is not None:
        line = Line(*group.loop, "", loop_look(group))
        yield from _line(line, loop_route(drawn, figure), len(figure.lines) + number)


def loop_look(group: Group) -> Look:
    """The look of the feedback edge of a loop."""
    return replace(group.look, width=1.0, dash="dashed", attributes={})


def _shape(
    shape: Shape, label: Sequence[Text], box: Bounds, figure: Figure, number: int
) -> Iterator[str]:
    inside = list(_outline(shape.look, box))
    if shape.count > 1:
        inside += _again(shape.look, box)
    inside += _centered(label, shape.look, box, figure, figure.fontsize)
    name = node_name(shape.id)
    yield from _element("node", f"node{number}", name, inside, shape.tooltip, shape.look)


def _centered(
    label: Sequence[Text], look: Look, box: Bounds, figure: Figure, fontsize: float
) -> Iterator[str]:
    left, top, width, height = box
    high = sum(line_height(text, fontsize) for text in label)
    corner = (left + width / 2, top + (height - high) / 2)
    return _written(label, look, figure, fontsize, corner, "middle")


def _written(
    label: Sequence[Text], look: Look, figure: Figure, fontsize: float, at: PlanePoint, anchor: str
) -> Iterator[str]:
    """The lines of a label, one below the other."""
    x, y = at
    family = _escaped(font_family(figure))
    for number, text in enumerate(label):
        size, high = text_size(text, fontsize), line_height(text, fontsize)
        bold = ' font-weight="bold"' if text.part == "title" and look.bold else ""
        yield (
            f'<text xml:space="preserve" text-anchor="{anchor}" x="{x:.2f}"'
            f' y="{y + high / 2 + BASELINE * size:.2f}" font-family="{family}"{bold}'
            f' font-size="{size:.2f}"{_painted("fill", text_color(text, look))}>'
            f"{_escaped(text.text)}</text>"
        )
        y += high


def text_color(text: Text, look: Look) -> str:
    """The color of a line of a label."""
    color = look.attributes.get("fontcolor", look.text)
    return color if text.part == "title" else faded(color, look.fill)


_escaped = lru_cache(maxsize=4096)(escape)  # many boxes have the same texts


def _marked(mark: HeadMark, line: Line, figure: Figure) -> Iterator[str]:
    """The name of the argument at the head of a line."""
    label, size = (Text(mark.text),), figure.fontsize * SMALL_TEXT
    look = replace(line.look, fill=line.look.text)
    corner = (mark.at[0], mark.at[1] - line_height(label[0], figure.fontsize) / 2)
    yield from _written(label, look, figure, size / SMALL_TEXT, corner, "middle")


def _line(
    line: Line, points: Sequence[PlanePoint], number: int, mark: Iterable[str] = ()
) -> Iterator[str]:
    """A curve with round corners, the tip of an arrow at its end, and a mark beside that."""
    (x, y), curve = arrow(points)
    base_x, base_y = curve[-1]
    far = abs(x - base_x) + abs(y - base_y) or 1.0  # lines end vertically or horizontally
    ahead_x, ahead_y = (x - base_x) / far, (y - base_y) / far
    aside_x, aside_y = HALF_TIP * ahead_y, HALF_TIP * ahead_x
    beyond = line.look.width / 2 * math.hypot(1.0, far / HALF_TIP)  # where its outline ends
    corners = [
        (at_x - beyond * ahead_x, at_y - beyond * ahead_y)
        for at_x, at_y in (
            (base_x + aside_x, base_y - aside_y), (x, y), (base_x - aside_x, base_y + aside_y)
        )
    ]
    route = f"M{_spot(curve[0])}C{' '.join(map(_spot, curve[1:]))}"
    color = line.look.attributes.get("color", line.look.stroke)
    tip = _polygon(corners, _filled(color) + _stroke(line.look, dashed=False))
    inside = [f'<path fill="none"{_stroke(line.look)} d="{route}"/>', tip, *mark]
    name = f"{node_name(line.tail)}->{node_name(line.head)}"
    yield from _element("edge", f"edge{number}", name, inside, line.tooltip, line.look)


def _element(
    kind: str,
    id: str,
    name: str,
    inside: Sequence[str],
    tooltip: str = "",
    look: Look | None = None,
) -> Iterator[str]:
    """A group with its name and its tooltip, as Graphviz writes them."""
    attributes: Mapping[str, str] = look.attributes if look else {}
    link = attributes.get("URL", attributes.get("href", ""))
    tip = f' xlink:title="{escape(tooltip)}"' if tooltip else ""
    target = f' xlink:href="{escape(link)}"' if link else ""
    yield f'<g id="{id}" class="{kind}">'
    yield f"<title>{escape(name)}</title>"
    opened = f'<g id="a_{id}"><a{target}{tip}>' if target or tip else ""
    yield from filter(None, [opened, *inside, "</a>\n</g>" if opened else "", "</g>"])


def _outline(look: Look, box: Bounds) -> Iterator[str]:
    """The outline of a box, filled."""
    if look.outline == "plain":
        return
    left, top, width, height = box
    paint = _filled(look.attributes.get("fillcolor", look.fill)) + _stroke(look)
    if look.outline in ("ellipse", "circle"):
        center = f'cx="{left + width / 2:.2f}" cy="{top + height / 2:.2f}"'
        yield f'<ellipse{paint} {center} rx="{width / 2:.2f}" ry="{height / 2:.2f}"/>'
    elif look.outline in POLYGONS:
        spots = [(left + x * width, top + y * height) for x, y in POLYGONS[look.outline]]
        yield _polygon(spots, paint)
    elif look.outline == "note":
        right = left + width
        spots = [(left, top), (right - FOLD, top), (right, top + FOLD), (right, top + height)]
        yield _polygon([*spots, (left, top + height)], paint)
        corner = [(right - FOLD, top), (right - FOLD, top + FOLD), (right, top + FOLD)]
        yield f'<polyline fill="none"{_stroke(look)} points="{" ".join(map(_spot, corner))}"/>'
    elif look.outline == "cylinder":
        yield from _cylinder(box, look, paint)
    else:
        yield _rectangle(box, paint, CORNER if look.outline == "rounded" else 0.0)


def _again(look: Look, box: Bounds) -> Iterator[str]:
    """The second outline of a box, inside of the first; slanted sides are parallel."""
    left, top, width, height = box
    gap = AGAIN / 2
    if look.outline != "parallelogram":
        yield from _outline(look, (left + gap, top + gap, width - AGAIN, height - AGAIN))
        return
    near, far = slanted_inside(width, height)
    corners = [
        (left + far, top + gap), (left + width - near, top + gap),
        (left + width - far, top + height - gap), (left + near, top + height - gap),
    ]
    yield _polygon(corners, _filled(look.attributes.get("fillcolor", look.fill)) + _stroke(look))


def slanted_inside(width: float, height: float) -> tuple[float, float]:
    """How far the ends of a slanted side of the second outline of a parallelogram are from the side
    of its box."""
    gap, lean = AGAIN / 2, SLANT * width
    near, far = (gap * math.hypot(1.0, lean / height) + lean * at
                 for at in (gap / height, 1 - gap / height))
    return near, far


def _cylinder(box: Bounds, look: Look, paint: str) -> Iterator[str]:
    left, top, width, height = box
    lid = height / LIDS
    arc = f"a{width / 2:.2f},{lid:.2f} 0 0"
    sides = f"v{height - 2 * lid:.2f}{arc} 0 {width:.2f},0v{2 * lid - height:.2f}"
    yield f'<path{paint} d="M{left:.2f},{top + lid:.2f}{sides}{arc} 0 {-width:.2f},0z"/>'
    front = f"M{left:.2f},{top + lid:.2f}{arc} 0 {width:.2f},0"
    yield f'<path fill="none"{_stroke(look)} d="{front}"/>'


def _rectangle(box: Bounds, paint: str, corner: float = 0.0) -> str:
    left, top, width, height = box
    size = f'x="{left:.2f}" y="{top:.2f}" width="{width:.2f}" height="{height:.2f}"'
    radius = f' rx="{min(corner, width / 3, height / 3):.2f}"' if corner else ""
    return f"<rect {paint.strip()} {size}{radius}/>"


def _polygon(corners: Sequence[PlanePoint], paint: str) -> str:
    return f'<polygon{paint} points="{" ".join(map(_spot, corners))}"/>'


def _stroke(look: Look, *, dashed: bool = True) -> str:
    """Color, width and, if *dashed*, dashes of a line."""
    width = look.attributes.get("penwidth", f"{look.width:g}")
    thick = f' stroke-width="{escape(str(width))}"' if str(width) != "1" else ""
    dashes = f' stroke-dasharray="{DASHES[look.dash]}"' if dashed and look.dash in DASHES else ""
    return _painted("stroke", look.attributes.get("color", look.stroke)) + thick + dashes


def _filled(color: str) -> str:
    return _painted("fill", color)


@lru_cache(maxsize=4096)
def _painted(name: str, color: str) -> str:
    """An attribute with a color, and one with its opacity if it is not opaque."""
    found = one_color(color)
    if found == "transparent":
        return f' {name}="none"'
    opacity = f' {name}-opacity="{int(found[7:], 16) / 255:.2f}"' if len(found) == 9 else ""
    return f' {name}="{found[:7]}"{opacity}'


def one_color(color: str) -> str:
    """The first color of a list, as ``"#rrggbb"``, ``"#rrggbbaa"`` or ``"transparent"``."""
    found = solid(color.partition(":")[0].partition(";")[0]) or "#000000"
    if found == "transparent" or found.startswith("#"):
        return found
    return "#808080"  # a color of a scheme that only Graphviz knows


def _spot(point: PlanePoint) -> str:
    return f"{point[0]:.2f},{point[1]:.2f}"
