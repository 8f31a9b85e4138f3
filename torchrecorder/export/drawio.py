"""Drawio: a figure in a nested layout as a diagram that is edited in draw.io (diagrams.net).

A box is inside the cell of the frame around it, and an arrow inside that of the innermost frame
around both of its ends: a frame that is moved takes along all that is inside. The ends of an arrow
are at shares of the width and height of its boxes, and so move with these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import ClassVar
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from torchrecorder.export import legend
from torchrecorder.export.dot import corner_lines, in_order, output_labels
from torchrecorder.export.exporter import timeout_option
from torchrecorder.export.graphviz import Layout
from torchrecorder.export.head_marks import HeadMark, head_marks
from torchrecorder.export.legend import SMALL_TEXT
from torchrecorder.export.nested import (
    AGAIN, ARROW, SLANT, Bounds, Placed, bounds, legend_boxes, loop_route,
)
from torchrecorder.export.plain_svg import (
    CORNER, DASHES, FOLD, LIDS, POLYGONS, loop_look, one_color, slanted_inside, text_color,
)
from torchrecorder.export.shorter_lines import fitted
from torchrecorder.graph.flat import printable
from torchrecorder.layout.layered.constants import CORNER_RADIUS
from torchrecorder.layout.layered.positions import PlanePoint
from torchrecorder.layout.measure import line_height, text_size
from torchrecorder.option_table import Checked, documented
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Figure, Group, Line, Look, Outline, Shape, Text, nested
from torchrecorder.style.style import Style
from torchrecorder.views.view import View

LAYER = "1"
"""The cell of the only layer."""

FRAME = {"container": 1, "collapsible": 0, "recursiveResize": 0}
"""The style of cells that others are inside."""

PART = {"part": 1, "pointerEvents": 0}
"""The style of cells that are not selected, but the one that they are inside."""

ARROWS = {
    "edgeStyle": "orthogonalEdgeStyle",
    "orthogonalLoop": 1,
    "rounded": 1,
    "arcSize": 2 * CORNER_RADIUS,
    "endArrow": "blockThin",
    "endFill": 1,
    "endSize": ARROW,
    "labelBackgroundColor": "none",
}
"""The style of all arrows."""


@documented
@dataclass(frozen=True)
class Drawio(Checked):
    """A figure to edit in draw.io (diagrams.net)."""

    suffix: ClassVar[str] = ".drawio"
    layout: ClassVar[Layout] = "nested"
    timeout: float = timeout_option()

    def export(self, view: View, style: Style) -> str:
        return drawio(*fitted(draw(view, style), self.timeout))


def drawio(figure: Figure, placed: Placed) -> str:
    """*figure* as a file of draw.io at full size, with the positions of *placed*."""
    file = Element("mxfile", host="torchrecorder", compressed="false")
    page = SubElement(file, "diagram", id="figure", name=printable(figure.name))
    background = one_color(figure.attributes.get("bgcolor", figure.background))
    model = SubElement(page, "mxGraphModel", grid="0", page="0")
    if background != "transparent":
        model.set("background", background[:7])
    model.append(_Cells(figure, placed).root)
    indent(file)
    return tostring(file, encoding="unicode") + "\n"


class _Cells:
    """The cells of one figure, each after the one that it is inside. What comes later is drawn
    above: arrows come last."""

    def __init__(self, figure: Figure, placed: Placed) -> None:
        self.figure, self.boxes = figure, placed.boxes()
        self.cells = {group.id: f"frame{number}" for number, group in enumerate(figure.groups)}
        self.cells.update((shape.id, f"box{number}") for number, shape in enumerate(figure.shapes))
        self.around = {group.id: group.parent for group in figure.groups}
        self.around.update((shape.id, shape.group) for shape in figure.shapes)
        self.corners = {LAYER: (0.0, 0.0)}
        self.root = Element("root")
        SubElement(self.root, "mxCell", {"id": "0"})
        SubElement(self.root, "mxCell", {"id": LAYER, "parent": "0"})
        outputs = output_labels(figure)
        for _, each in nested(in_order(figure)):
            if isinstance(each, Shape):
                self._shape(each, outputs.get(each.id))
            elif each is not None:
                self._group(each)
        if figure.legend:
            self._legend(placed)
        for group in figure.groups:
            if group.loop is not None:
                cell, around = self.cells[group.id], loop_route(self.boxes[group.id], figure)
                self._arrow(f"{cell}-loop", (group.id, group.id), cell, loop_look(group), around)
        marks = head_marks(figure, list(placed.routes()), placed.outlines())
        for number, (line, route) in enumerate(zip(figure.lines, placed.whole_routes())):
            ends, cell = (line.tail, line.head), self._around_both(line)
            self._arrow(f"arrow{number}", ends, cell, line.look, route, marks.get(number))

    def _group(self, group: Group) -> None:
        drawn = self.boxes[group.id]
        box = bounds(drawn)
        lines = corner_lines(group, self.figure, drawn.in_one)
        label = _label(lines, group.look, self.figure.fontsize)
        start = "bottom" if self.figure.direction == "BT" else "top"
        header = {"align": "left", "verticalAlign": start, "spacingLeft": 9}
        style = {**FRAME, **header, f"spacing{start.title()}": 4, **_outline(group.look, box)}
        self._vertex(self.cells[group.id], self._parent(group.id), box, style, label)

    def _shape(self, shape: Shape, outputs: Text | None) -> None:
        box, cell = bounds(self.boxes[shape.id]), self.cells[shape.id]
        texts = shape.label if outputs is None else (*shape.label, outputs)
        label, style = _label(texts, shape.look, self.figure.fontsize), _outline(shape.look, box)
        self._vertex(cell, self._parent(shape.id), box, style, label)
        if shape.count > 1:
            inside, slant = _inside(shape.look, box)
            again = {**_outline(shape.look, inside, slant), "fillColor": "none", **PART}
            self._vertex(f"{cell}-again", cell, inside, again)

    def _legend(self, placed: Placed) -> None:
        figure = self.figure
        frame, entries = legend_boxes(figure, placed)
        look = Look("transparent", legend.edge(figure), figure.legend[0].look.text)
        self._vertex("legend", LAYER, frame, {**FRAME, **_outline(look, frame)})
        for shape, box in entries:
            label = _label(shape.label, shape.look, figure.fontsize * SMALL_TEXT)
            self._vertex(shape.id, "legend", box, _outline(shape.look, box), label)

    def _vertex(
        self, cell: str, parent: str, box: Bounds, style: Mapping[str, object], label: str = ""
    ) -> None:
        left, top, width, height = box
        x, y = self.corners[parent]
        self.corners[cell] = left, top
        vertex = self._cell(cell, parent, style, label, vertex="1")
        _geometry(vertex, x=left - x, y=top - y, width=width, height=height)

    def _arrow(
        self,
        cell: str,
        ends: tuple[str, str],
        parent: str,
        look: Look,
        route: Sequence[PlanePoint],
        mark: HeadMark | None = None,
    ) -> None:
        """An arrow between the boxes or frames with the ids *ends*."""
        style = {**ARROWS, **_stroke(look)}
        for end, side, (x, y) in zip(ends, ("exit", "entry"), (route[0], route[-1])):
            box = self.boxes[end]
            shares = {"X": (x - box.x) / box.width, "Y": (y - box.y) / box.height, "Perimeter": 0}
            style.update((side + name, share) for name, share in shares.items())
        plain = replace(look, fill=look.text)
        label = _label((Text(mark.text),), plain, self.figure.fontsize) if mark else ""
        source, target = (self.cells[end] for end in ends)
        edge = self._cell(cell, parent, style, label, edge="1", source=source, target=target)
        geometry = _geometry(edge, relative=1, x=1)  # a label has its place relative to the tip
        if mark:
            offset = mark.at[0] - route[-1][0], mark.at[1] - route[-1][1]
            _point(geometry, offset, **{"as": "offset"})
        points = SubElement(geometry, "Array", {"as": "points"})
        left, top = self.corners[parent]
        for x, y in route[1:-1]:
            _point(points, (x - left, y - top))

    def _cell(
        self, cell: str, parent: str, style: Mapping[str, object], label: str, **facts: str
    ) -> Element:
        family, size = self.figure.fontname.replace(";", " "), self.figure.fontsize
        font = {"fontFamily": family, "fontSize": size, "spacing": 0, "html": 1}
        text = "".join(f"{name}={_written(value)};" for name, value in {**font, **style}.items())
        given = {"id": cell, "value": printable(label), "style": printable(text), "parent": parent}
        return SubElement(self.root, "mxCell", {**given, **facts})

    def _parent(self, id: str) -> str:
        """The cell that a box or group is inside."""
        around = self.around[id]
        return LAYER if around is None else self.cells[around]

    def _around_both(self, line: Line) -> str:
        """The innermost cell around both ends of a line."""
        frames = {*self._frames(line.tail)}
        return next(frame for frame in self._frames(line.head) if frame in frames)

    def _frames(self, id: str | None) -> Iterator[str]:
        """The cells around a box, the innermost first."""
        while id is not None:
            yield self._parent(id)
            id = self.around[id]


def _inside(look: Look, box: Bounds) -> tuple[Bounds, float]:
    """Where the second outline of a box is, and how far its sides lean, as a share of its width."""
    left, top, width, height = box
    aside, slant = AGAIN / 2, SLANT
    if look.outline == "parallelogram":
        aside, far = slanted_inside(width, height)
        slant = (far - aside) / (width - 2 * aside)
    return (left + aside, top + AGAIN / 2, width - 2 * aside, height - AGAIN), slant


def _outline(look: Look, box: Bounds, slant: float = SLANT) -> dict[str, object]:
    """The style of a box. What only Graphviz has is a rectangle, as in SVG."""
    if look.outline == "plain":
        return {"fillColor": "none", "strokeColor": "none"}
    fill = _painted("fill", look.attributes.get("fillcolor", look.fill))
    return {**_form(look.outline, *box[2:], slant), **fill, **_stroke(look)}


def _form(outline: Outline, width: float, height: float, slant: float) -> dict[str, object]:
    """The form of an outline."""
    if outline in ("ellipse", "circle"):
        return {"shape": "ellipse", "perimeter": "ellipsePerimeter"}
    if outline == "parallelogram":
        return {"shape": outline, "perimeter": "parallelogramPerimeter", "size": slant}
    if outline == "octagon":
        corners = [list(corner) for corner in POLYGONS[outline]]
        return {"shape": "mxgraph.basic.polygon", "polyCoords": corners}
    if outline == "note":
        return {"shape": outline, "size": FOLD}
    if outline == "cylinder":
        return {"shape": "cylinder3", "size": height / LIDS}
    if outline == "rounded":
        radius = min(CORNER, width / 3, height / 3)
        return {"rounded": 1, "absoluteArcSize": 1, "arcSize": 2 * radius}
    return {}


def _stroke(look: Look) -> dict[str, object]:
    """The color, width and dashes of a line."""
    style = _painted("stroke", look.attributes.get("color", look.stroke))
    style["strokeWidth"] = look.attributes.get("penwidth", look.width)
    if look.dash in DASHES:
        style.update(dashed=1, fixDash=1, dashPattern=DASHES[look.dash].replace(",", " "))
    return style


def _painted(name: str, color: str) -> dict[str, object]:
    """A color, and its opacity in percent if it is not opaque."""
    found = one_color(color)
    if found == "transparent":
        return {f"{name}Color": "none"}
    opacity = {f"{name}Opacity": int(found[7:], 16) / 2.55} if len(found) == 9 else {}
    return {f"{name}Color": found[:7], **opacity}


def _label(label: Sequence[Text], look: Look, fontsize: float) -> str:
    """The lines of a label, in HTML."""
    rows = []
    for text in label:
        size = text_size(text, fontsize)
        leading = line_height(text, fontsize) / size
        css = f"white-space:pre;font-size:{size:g}px;line-height:{leading:g}"
        bold = ";font-weight:bold" if text.part == "title" and look.bold else ""
        color = one_color(text_color(text, look))
        shown = escape(text.text.replace("\n", " ") or " ")
        rows.append(f'<div style="{css}{bold};color:{color}">{shown}</div>')
    return "".join(rows)


def _geometry(cell: Element, **numbers: float) -> Element:
    shown = {name: _written(number) for name, number in numbers.items()}
    return SubElement(cell, "mxGeometry", {**shown, "as": "geometry"})


def _point(around: Element, at: PlanePoint, **role: str) -> None:
    SubElement(around, "mxPoint", {"x": _written(at[0]), "y": _written(at[1]), **role})


def _written(value: object) -> str:
    """A value; numbers with at most six digits."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
