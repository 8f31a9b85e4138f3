"""Drawio: boxes, arrows and texts are where they are in the SVG, in cells that move together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest
import torch
from hypothesis import given, settings
from torch import nn

import torchrecorder
from tests.export.test_dot import NASTY
from tests.export.test_two_painters import CASES, LOOK, Form, around, figure, forms
from tests.figures import network
from tests.random_recordings import recordings
from torchrecorder.export.dot import node_name
from torchrecorder.export.drawio import LAYER, Drawio, drawio
from torchrecorder.export.nested import Placed
from torchrecorder.export.plain_svg import BASELINE, CORNER, plain_svg
from torchrecorder.graph.flat import printable
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Figure, Shape, Text
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view

Point = tuple[float, float]


class Diagram:
    """A file as draw.io reads it."""

    def __init__(self, text: str) -> None:
        (self.model,) = fromstring(text).findall("./diagram/mxGraphModel")
        cells = self.model.findall("./root/mxCell")
        self.cells = {cell.attrib["id"]: cell for cell in cells}
        assert len(self.cells) == len(cells) and cells[1].attrib == {"id": LAYER, "parent": "0"}
        self.vertices = [name for name, cell in self.cells.items() if "vertex" in cell.attrib]
        self.edges = [name for name, cell in self.cells.items() if "edge" in cell.attrib]
        for number, cell in enumerate(cells[2:], 2):
            assert cell.attrib["parent"] in [each.attrib["id"] for each in cells[:number]]

    def style(self, name: str) -> dict[str, str]:
        """The style of a cell."""
        entries = self.cells[name].attrib["style"].rstrip(";").split(";")
        return {key: text for key, _, text in (entry.partition("=") for entry in entries)}

    def texts(self, name: str) -> list[str]:
        """The lines of the label of a cell."""
        lines = re.findall("<div[^>]*>(.*?)</div>", self.cells[name].attrib["value"])
        return [unescape(line) for line in lines]

    def fonts(self, name: str) -> list[dict[str, str]]:
        """How each line of the label of a cell is written."""
        styles = re.findall('<div style="(.*?)">', self.cells[name].attrib["value"])
        return [dict(entry.split(":") for entry in style.split(";")) for style in styles]

    def inside(self, name: str) -> list[str]:
        """The cells around a cell, the innermost first."""
        parent = self.cells[name].get("parent", "0")
        return [] if parent == "0" else [parent, *self.inside(parent)]

    def corner(self, name: str) -> Point:
        """The upper left corner of a cell on the page, as the cells around it move it."""
        if name == LAYER:
            return 0.0, 0.0
        given = self.geometry(name).attrib
        x, y = self.corner(self.cells[name].attrib["parent"])
        return x + float(given["x"]), y + float(given["y"])

    def sides(self, name: str) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of a box."""
        (x, y), given = self.corner(name), self.geometry(name).attrib
        return x, y, x + float(given["width"]), y + float(given["height"])

    def geometry(self, name: str) -> Element:
        """Where a cell is."""
        (found,) = self.cells[name].findall("mxGeometry")
        assert found.get("as") == "geometry"
        return found

    def route(self, name: str) -> list[Point]:
        """The corners of an arrow, from its tail to its head."""
        edge, style = self.cells[name].attrib, self.style(name)
        x, y = self.corner(edge["parent"])
        points = self.geometry(name).findall("./Array[@as='points']/mxPoint")
        between = [(x + float(one.attrib["x"]), y + float(one.attrib["y"])) for one in points]
        ends = []
        for cell, side in ((edge["source"], "exit"), (edge["target"], "entry")):
            left, top, right, bottom = self.sides(cell)
            assert style[f"{side}Perimeter"] == "0"
            across, down = float(style[f"{side}X"]), float(style[f"{side}Y"])
            assert -1e-4 < across < 1.0001 and -1e-4 < down < 1.0001
            ends.append((left + across * (right - left), top + down * (bottom - top)))
        return [ends[0], *between, ends[1]]

    def move(self, name: str, by: float) -> None:
        """Do what a hand does to a box or frame."""
        geometry = self.geometry(name)
        geometry.set("x", str(float(geometry.attrib["x"]) + by))


def both(shown: Figure) -> tuple[Diagram, dict[str, list[Form]], Point]:
    """A figure as draw.io and browsers read it, and how far they are apart."""
    placed = Placed.lay_out(shown, 5.0)
    diagram, drawn = Diagram(drawio(shown, placed)), forms(plain_svg(shown, placed))
    first, box = around(drawn[node_name(shown.shapes[0].id)]), diagram.sides("box0")
    return diagram, drawn, (first[0] - box[0], first[1] - box[1])


def names(shown: Figure) -> Iterator[tuple[str, str, Any]]:
    """Each box and frame: its cell, its title in the SVG, and its look."""
    for number, shape in enumerate(shown.shapes):
        yield f"box{number}", node_name(shape.id), shape.look
    for number, group in enumerate(shown.groups):
        yield f"frame{number}", f"cluster_{node_name(group.id)}", group.look


@pytest.mark.parametrize("facts", CASES)
def test_it_is_the_picture_of_the_svg(facts: dict[str, Any]) -> None:
    """All outlines: where they are, in which colors and dashes, with which texts."""
    shown = figure(**facts)
    diagram, drawn, (x, y) = both(shown)
    for cell, title, look in names(shown):
        style, outlines = diagram.style(cell), [form for form in drawn[title] if not form.text]
        texts = [form for form in drawn[title] if form.text]
        assert diagram.texts(cell) == [form.text for form in texts]
        assert style["fontFamily"] == shown.fontname and style["html"] == "1"
        for css, form in zip(diagram.fonts(cell), texts):
            color, _, size, weight = form.paint
            assert (css["color"], css.get("font-weight")) == (color, weight)
            assert f"{float(css['font-size'].removesuffix('px')):.0f}" == size
        if look.outline == "plain":
            assert outlines == [] and style["fillColor"] == style["strokeColor"] == "none"
            continue
        left, top, right, bottom = diagram.sides(cell)
        if look.outline != "cylinder":  # whose path has no absolute corners
            sides = (left + x, top + y, right + x, bottom + y)
            assert sides == pytest.approx(around(outlines), abs=0.03)
        if cell.startswith("frame"):
            assert style["align"] == "left"
            across, down = texts[0].extent
            assert across - x - left == pytest.approx(float(style["spacingLeft"]))
            near = down - y - top < bottom + y - down
            assert style["verticalAlign"] == ("top" if near else "bottom")
            if near:  # in the middle of the first line, the baseline below it
                line = down - y - top - float(style["spacingTop"])
                assert line == pytest.approx((1.22 / 2 + BASELINE) * shown.fontsize, abs=0.02)
        if look.outline == "rounded":
            assert float(style["arcSize"]) == 2 * CORNER and style["absoluteArcSize"] == "1"
        fill, stroke, width, dashes = outlines[0].paint
        assert (style["fillColor"], style["strokeColor"]) == (fill, stroke)
        assert float(style["strokeWidth"]) == float(width or 1)
        assert style.get("dashPattern") == (dashes and dashes.replace(",", " "))
    for cell in diagram.vertices:
        held = cell.startswith("frame") or cell == "legend"
        assert (diagram.style(cell).get("container") == "1") == held
    again = [cell for cell in diagram.vertices if cell.endswith("-again")]
    assert len(again) == sum(shape.count > 1 for shape in shown.shapes) > 1


@pytest.mark.parametrize("facts", CASES)
def test_arrows_run_as_in_the_svg(facts: dict[str, Any]) -> None:
    """From box to box, along what is drawn there, with the names of arguments where they are."""
    shown = figure(**facts)
    diagram, drawn, (x, y) = both(shown)
    assert len(diagram.edges) == len(shown.lines) + 1
    assert [*diagram.cells][2:] == diagram.vertices + diagram.edges  # arrows are above frames
    for number, line in enumerate(shown.lines):
        name, cell = f"arrow{number}", diagram.cells[f"arrow{number}"].attrib
        assert (cell["source"], cell["target"]) == (f"box{line.tail[1:]}", f"box{line.head[1:]}")
        route = [(across + x, down + y) for across, down in diagram.route(name)]
        curve, tip, *marks = drawn[f"{line.tail}->{line.head}"]
        spots = [*zip(curve.extent[::2], curve.extent[1::2])]
        assert all(is_within(spot, route) for spot in spots)
        assert is_within(route[-1], [tip.extent[:2], tip.extent[2:]], 3.3)  # as of its outline
        assert diagram.style(name)["strokeColor"] == curve.paint[1]
        assert diagram.texts(name) == [mark.text for mark in marks]
        assert [css["color"] for css in diagram.fonts(name)] == [mark.paint[0] for mark in marks]
        for mark in marks:
            (offset,) = diagram.geometry(name).findall("./mxPoint[@as='offset']")
            assert diagram.geometry(name).attrib["x"] == "1"
            at = route[-1][0] + float(offset.attrib["x"]), route[-1][1] + float(offset.attrib["y"])
            assert at == pytest.approx(mark.extent, abs=0.4 * shown.fontsize)


def test_an_arrow_around_boxes_in_a_frame_keeps_its_corners() -> None:
    """They are in the frame, and where they are on the page of the SVG."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.op("exp", run.input("x"))
        with run.scope("block", "Block"):
            y = run.op("relu", run.op("relu", x))
            run.op("add", y, x)
    shown = draw(make_view(run.recording(), ViewOptions(depth=9)), Style())
    placed = Placed.lay_out(shown, 5.0)
    diagram = Diagram(drawio(shown, placed))
    whole = placed.whole_routes()
    assert max(map(len, whole)) > 3
    for number, route in enumerate(whole):
        assert sum(diagram.route(f"arrow{number}"), ()) == pytest.approx(sum(route, ()), abs=0.01)


def is_within(
    spot: tuple[float, ...], points: Sequence[tuple[float, ...]], far: float = 0.5
) -> bool:
    """Whether a spot is in the rectangle around some points, or not *far* from it."""
    return all(
        min(along) - far <= at <= max(along) + far for at, along in zip(spot, zip(*points))
    )


def test_a_loop_leads_back_inside_its_frame() -> None:
    """From the end of the frame to its beginning; it is in the frame, and moves with it."""
    diagram, drawn, (x, y) = both(figure())
    (loop,) = (diagram.cells[name].attrib for name in diagram.edges if name.endswith("-loop"))
    assert loop["source"] == loop["target"] == loop["parent"] == "frame0"
    route = [(across + x, down + y) for across, down in diagram.route(loop["id"])]
    assert is_within(drawn["s5->s1"][0].extent[:2], route) and route[0][1] > route[-1][1]
    assert diagram.style(loop["id"])["orthogonalLoop"] == "1"  # else draw.io runs it elsewhere


@settings(max_examples=15, deadline=None)
@given(recordings())
def test_what_is_moved_takes_along_what_belongs_to_it(recording: Recording) -> None:
    """A frame takes along its boxes and the arrows between them; a box the ends of its arrows."""
    text = Drawio().export(make_view(recording, ViewOptions(depth=9)), Style())
    diagram, still = Diagram(text), Diagram(text)
    for name in diagram.edges:
        route, edge = still.route(name), diagram.cells[name].attrib
        for (x, y), (other_x, other_y) in zip(route, route[1:]):
            assert min(abs(x - other_x), abs(y - other_y)) < 0.1  # or draw.io runs it elsewhere
        ends = [diagram.inside(edge[end]) for end in ("source", "target")]
        assert edge["parent"] == next(cell for cell in ends[0] if cell in ends[1])
    for moved in diagram.vertices:
        diagram.move(moved, 100.0)
        for name in diagram.vertices:
            by = 100.0 if moved in (name, *diagram.inside(name)) else 0.0
            assert diagram.corner(name)[0] - still.corner(name)[0] == pytest.approx(by)
        for name in diagram.edges:
            edge, found = diagram.cells[name].attrib, diagram.route(name)
            for end, at in (("source", 0), ("target", -1)):
                by = 100.0 if moved in (edge[end], *diagram.inside(edge[end])) else 0.0
                assert found[at][0] - still.route(name)[at][0] == pytest.approx(by)
            by = 100.0 if moved in diagram.inside(name) else 0.0
            assert [x - by for x, _ in found[1:-1]] == pytest.approx(
                [x for x, _ in still.route(name)[1:-1]]
            )
        diagram.move(moved, -100.0)


def test_a_legend_is_a_frame_with_its_entries() -> None:
    """It is where it is in the SVG."""
    shown = figure()
    diagram, drawn, (x, y) = both(shown)
    for cell, title in (("legend", "cluster_legend"), ("legend:0", "legend_0")):
        left, top, right, bottom = diagram.sides(cell)
        assert (left + x, top + y, right + x, bottom + y) == pytest.approx(
            around(drawn[title]), abs=0.03
        )
    assert diagram.inside("legend:1") == ["legend", LAYER] and diagram.texts("legend:1") == ["bbb"]
    (small,) = diagram.fonts("legend:1")
    assert small["font-size"] == "8px"


@pytest.mark.parametrize("name", [*NASTY, "two  spaces", "a;b=c"], ids=lambda name: ascii(name))
def test_nasty_texts(name: str) -> None:
    """Any text and any font is written so that it comes back, and breaks nothing."""
    shown = figure(fontname=f"Lato{name}")
    shape = replace(shown.shapes[0], label=(Text(name, "title"),))
    shown = replace(shown, shapes=(shape, *shown.shapes[1:]))
    diagram = Diagram(drawio(shown, Placed.lay_out(shown, 5.0)))
    assert diagram.texts("box0") == [printable(name).replace("\n", " ") or " "]
    assert diagram.style("box0").keys() == Diagram(drawio(*laid_out(figure()))).style("box0").keys()


def test_colors_in_any_spelling(tmp_path: Path) -> None:
    """As draw.io knows them, with the opacity apart."""
    given = {"fillcolor": "#12345680", "color": "red:blue", "penwidth": "3", "fontcolor": "navy"}
    path = network().render(tmp_path / "a.drawio", node_attributes=given, background="gray80")
    diagram = Diagram(path.read_text("utf-8"))
    style = diagram.style("box0")
    assert (style["fillColor"], round(float(style["fillOpacity"]))) == ("#123456", 50)
    assert style["strokeColor"] == "#ff0000" and style["strokeWidth"] == "3"
    assert "color:#000080" in diagram.cells["box0"].attrib["value"]
    assert diagram.model.attrib["background"] == "#cccccc"
    assert "background" not in Diagram(drawio(*laid_out(figure()))).model.attrib


@pytest.mark.parametrize("outline", ["parallelogram", "box"])
def test_a_second_outline_is_parallel_to_the_first(outline: Any) -> None:
    """It is a part of its box, and its slanted sides are as steep and as far as in the SVG."""
    label, look = (Text("a wide label", "title"),), replace(LOOK, outline=outline)
    shape = Shape("a", None, label, look, count=2)
    diagram = Diagram(drawio(*laid_out(Figure("f", (shape,), (), ()))))
    outer, inner = (diagram.sides(cell) for cell in ("box0", "box0-again"))
    assert diagram.inside("box0-again")[0] == "box0" and diagram.style("box0-again")["part"] == "1"
    assert (inner[1] - outer[1], outer[3] - inner[3]) == (4.0, 4.0)
    steep = [
        (right - left) * float(diagram.style(cell).get("size", 0)) / (bottom - top)
        for cell, (left, top, right, bottom) in (("box0", outer), ("box0-again", inner))
    ]
    assert steep[0] == pytest.approx(steep[1], abs=1e-4) and bool(steep[0]) == (outline != "box")


def laid_out(shown: Figure) -> tuple[Figure, Placed]:
    """A figure and its positions."""
    return shown, Placed.lay_out(shown, 5.0)


def test_paper_chooses_what_is_shown_as_for_an_svg(tmp_path: Path) -> None:
    """As many modules are open, in as many columns; the diagram has its full size."""
    block = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Dropout())
    model = nn.Sequential(*(nn.Sequential(block, nn.Tanh(), block) for _ in range(4)))
    recording = torchrecorder.record(model, torch.ones(1, 4))
    shown = {}
    for suffix in ("svg", "drawio"):
        for sizes in ({}, {"fit": ("80mm", "80mm")}):
            path = recording.render(tmp_path / f"a.{suffix}", fold=False, **sizes)
            text = path.read_text("utf-8")
            boxes = re.findall('class="node"| id="box\\d+"', text)
            shown[suffix, bool(sizes)] = len(boxes)
    assert shown["svg", True] == shown["drawio", True] < shown["svg", False]
    assert shown["svg", False] == shown["drawio", False]
