"""Where things are: outlines in their boxes, texts in modules, tips of lines, loops."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import pytest

from tests import figures
from tests.export.test_plain_svg import NO_FORMS, SVG
from torchrecorder.export.dot import node_name
from torchrecorder.export.nested import (
    ARROW, Placed, arrow, closed_size, header_size, loop_route, nested_text,
)
from torchrecorder.export.plain_svg import HALF_TIP, plain_svg
from torchrecorder.export.svg import centered
from torchrecorder.layout.layered import PlacedBox
from torchrecorder.layout.measure import label_size
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Figure, Group, Line, Look, Outline, Shape, Text
from torchrecorder.views.pipeline import ViewOptions, make_view

LOOK = Look("#ffffff", "#000000", "#000000")
WIDE = (Text("a label that is wide enough", "title"), Text("and another line", "detail"))

Sides = tuple[float, float, float, float]
"""Left, top, right and bottom."""


def alone(outline: Any = "box", count: int = 1, **facts: Any) -> Figure:
    """A figure of one box."""
    shape = Shape("a", None, WIDE, replace(LOOK, outline=outline), count=count)
    return Figure("f", (shape,), (), (), **facts)


def parts(figure: Figure, kind: str) -> list[xml.etree.ElementTree.Element]:
    """Its boxes, lines or open modules, as they are written without Graphviz."""
    text = plain_svg(figure, Placed.lay_out(figure, 5.0))
    groups = xml.etree.ElementTree.fromstring(text).iter(f"{SVG}g")
    return [group for group in groups if group.get("class") == kind]


def spots(part: xml.etree.ElementTree.Element) -> Iterator[tuple[float, float]]:
    """The ends of all that is drawn; of the bow of an arc its outermost point."""
    given = part.attrib.items()
    said = {name: float(text) for name, text in given if re.fullmatch("-?[.0-9]+", text)}
    if part.tag == f"{SVG}rect":
        yield said["x"], said["y"]
        yield said["x"] + said["width"], said["y"] + said["height"]
    elif part.tag == f"{SVG}ellipse":
        yield said["cx"] - said["rx"], said["cy"] - said["ry"]
        yield said["cx"] + said["rx"], said["cy"] + said["ry"]
    elif "points" in part.attrib:
        for spot in part.attrib["points"].split():
            x, y = spot.split(",")
            yield float(x), float(y)
    else:
        yield from path_spots(part.attrib["d"])


def path_spots(d: str) -> Iterator[tuple[float, float]]:
    """Those of a path of lines straight down or up, and of halves of ellipses."""
    x = y = 0.0
    for letter, rest in re.findall(r"([Mvaz])([^Mvaz]*)", d):
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", rest)]
        if letter == "M":
            x, y = numbers
        elif letter == "v":
            y += numbers[0]
        elif letter == "a":
            _, high, _, _, sweep, wide, up = numbers
            bow = high if (wide > 0) == (sweep == 0) else -high
            yield x + wide / 2, y + bow
            x, y = x + wide, y + up
        yield x, y


def forms(part: xml.etree.ElementTree.Element) -> list[xml.etree.ElementTree.Element]:
    """What is drawn of a box or open module: its outline first, no texts."""
    return [inner for inner in part.iter() if inner.tag not in (f"{SVG}g", *NO_FORMS)]


def extent(found: list[tuple[float, float]]) -> Sides:
    """The smallest box around some points."""
    across, along = zip(*found)
    return min(across), min(along), max(across), max(along)


OUTLINES = [outline for outline in get_args(Outline) if outline != "plain"]


@pytest.mark.parametrize("outline", OUTLINES)
def test_an_outline_fills_its_box(outline: str) -> None:
    """From side to side and from top to bottom; all that is drawn in it lies in it."""
    figure = alone(outline)
    (node,) = parts(figure, "node")
    drawn = forms(node)
    width, height = closed_size(figure.shapes[0], figure, None)
    left, top, right, bottom = extent([*spots(drawn[0])])
    assert (right - left, bottom - top) == pytest.approx((width, height), abs=0.03)
    for part in drawn[1:]:
        inner = extent([*spots(part)])
        assert left - 0.02 <= inner[0] < inner[2] <= right + 0.02
        assert top - 0.02 <= inner[1] < inner[3] <= top + height / 4 + 0.02


@pytest.mark.parametrize("outline", OUTLINES)
def test_text_of_a_box_stands_in_its_middle(outline: str) -> None:
    """Both lines, one below the other, with as much room above as below."""
    figure = alone(outline)
    (node,) = parts(figure, "node")
    left, top, right, bottom = extent([*spots(forms(node)[0])])
    texts = [*node.iter(f"{SVG}text")]
    assert [float(text.get("x", "")) for text in texts] == pytest.approx(
        [(left + right) / 2] * 2, abs=0.02
    )
    first, last = (float(text.get("y", "")) for text in texts)
    assert top < first < last < bottom
    assert first - top > bottom - last > 0  # a baseline is below the middle of its line


@pytest.mark.parametrize("outline", [outline for outline in OUTLINES if outline != "circle"])
def test_boxes_grow_with_their_text(outline: str) -> None:
    """The room around it too, from the usual size on; a repeated box has a frame around it."""
    def room(size: float) -> tuple[float, float]:
        figure = alone(outline, fontsize=size)
        around = closed_size(figure.shapes[0], figure, None)
        label = label_size(WIDE, size, bold=False, fontname=figure.fontname)
        return around[0] - label[0], around[1] - label[1]

    usual, large, small = room(10.0), room(20.0), room(8.0)
    assert min(usual) > 0 and min(small) > 0
    if outline in ("box", "rounded"):
        assert large == pytest.approx((2 * usual[0], 2 * usual[1]), abs=0.3)
        assert small == pytest.approx(usual, abs=0.3)
    else:
        assert large[0] > usual[0] and large[1] > usual[1]
    again, once = (
        closed_size(shown.shapes[0], shown, None) for shown in (alone(outline, 2), alone(outline))
    )
    assert again[0] > once[0] and again[1] > once[1]


@pytest.mark.parametrize("outline", ["octagon", "box", "rounded", "ellipse"])
def test_outlines_that_look_the_same_from_all_sides(outline: str) -> None:
    """Each corner has its like on the other side."""
    (node,) = parts(alone(outline), "node")
    found = {(round(x, 1), round(y, 1)) for x, y in spots(forms(node)[0])}
    left, top, right, bottom = extent([*found])
    turned = {(round(left + right - x, 1), round(top + bottom - y, 1)) for x, y in found}
    assert all(min(math.dist(one, other) for other in found) < 0.15 for one in turned)


@pytest.mark.parametrize("outline", OUTLINES)
def test_room_around_a_text(outline: str) -> None:
    """No more than the outline needs: its text does not stand in an empty box."""
    figure = alone(outline)
    width, height = closed_size(figure.shapes[0], figure, None)
    if outline == "circle":
        assert (width, height) == (2 * figure.fontsize, 2 * figure.fontsize)
        return
    label = label_size(WIDE, figure.fontsize, bold=False, fontname=figure.fontname)
    slant = {"ellipse": 1.3, "parallelogram": 1.45}.get(outline, 1.0)
    assert label[0] + 15 < width < label[0] * slant + 30
    assert label[1] + 8 < height < label[1] + 15


@pytest.mark.parametrize("outline", ["octagon", "parallelogram"])
@pytest.mark.parametrize("size", [6.0, 10.0, 20.0])
def test_long_lines_stay_inside_slanted_sides(outline: str, size: float) -> None:
    """The corners of each letter, also those of the first of several lines."""
    lines = (Text("denoising_meta_values.dn_positive_idx", "title"), Text(".0", "title"), WIDE[1])
    figure = alone(outline, fontsize=size)
    (node,) = parts(replace(figure, shapes=(replace(figure.shapes[0], label=lines),)), "node")
    corners = [*spots(forms(node)[0])]
    first = next(node.iter(f"{SVG}text"))
    half, base = label_size(lines[:1], size)[0] / 2, float(first.get("y", ""))
    sides = [*zip(corners, corners[1:] + corners[:1])]
    for x in (float(first.get("x", "")) - half, float(first.get("x", "")) + half):
        for y in (base - 0.72 * size, base):  # of a capital letter
            turns = [(b[0] - a[0]) * (y - a[1]) - (b[1] - a[1]) * (x - a[0]) for a, b in sides]
            assert min(turns) > 0 or max(turns) < 0


def test_a_repeated_box_has_a_second_outline_inside() -> None:
    """As far from the first on every side."""
    (node,) = parts(alone("box", 3), "node")
    outer, inner = (extent([*spots(form)]) for form in forms(node))
    rooms = [abs(a - b) for a, b in zip(outer, inner)]
    assert rooms == pytest.approx([rooms[0]] * 4, abs=0.02) and rooms[0] > 1
    assert inner[0] > outer[0] and inner[3] < outer[3]


def test_short_texts_get_a_box_that_can_be_seen() -> None:
    """Never smaller than a box for one letter."""
    tiny = replace(alone(), shapes=(Shape("a", None, (Text("x", "title"),), LOOK),), fontsize=4.0)
    assert closed_size(tiny.shapes[0], tiny, None) == (29.0, 21.0)


@pytest.mark.parametrize("direction", ["TB", "BT", "LR", "RL"])
def test_the_name_of_an_open_module_is_where_the_flow_begins(direction: Any) -> None:
    """In its corner, and above all boxes in it; where the flow goes up, below them."""
    figure = draw(make_view(figures.network(), ViewOptions(depth=5)))
    figure = replace(figure, direction=direction)
    boxes = [extent([*spots(forms(node)[0])]) for node in parts(figure, "node")]
    for cluster in parts(figure, "cluster"):
        left, top, right, bottom = extent([*spots(forms(cluster)[0])])
        inside = [box for box in boxes if left < box[0] < right and top < box[1] < bottom]
        for text in cluster.iter(f"{SVG}text"):
            x, y = float(text.get("x", "")), float(text.get("y", ""))
            assert left < x < right and top < y < bottom
            if direction == "BT":
                assert all(y > box[3] for box in inside)
            else:
                assert all(y < box[1] for box in inside)


def tips(figure: Figure) -> list[list[tuple[float, float]]]:
    """The corners of the tips of arrows, without Graphviz."""
    return [[*spots(forms(edge)[1])] for edge in parts(figure, "edge")]


@pytest.mark.parametrize("direction", ["TB", "BT", "LR", "RL"])
def test_the_tip_of_an_arrow_touches_its_box(direction: Any) -> None:
    """With its outline; it points along the line, and is as long and wide as Graphviz makes it."""
    figure = draw(make_view(figures.network(), ViewOptions(depth=5)))
    figure = replace(figure, direction=direction, groups=(), shapes=tuple(
        replace(shape, group=None) for shape in figure.shapes
    ))
    boxes = {node.findtext(f"{SVG}title"): extent([*spots(forms(node)[0])])
             for node in parts(figure, "node")}
    ways = set()
    for line, (one, tip, other) in zip(figure.lines, tips(figure), strict=True):
        middle = (one[0] + other[0]) / 2, (one[1] + other[1]) / 2
        along = int(abs(tip[1] - middle[1]) > abs(tip[0] - middle[0]))
        sign = 1 if tip[along] > middle[along] else -1
        box = boxes[node_name(line.head)]
        beyond = line.look.width / 2 * math.hypot(ARROW, HALF_TIP) / HALF_TIP  # of its outline
        assert tip[along] + sign * beyond == pytest.approx(
            box[along if sign > 0 else along + 2], abs=0.03
        )
        assert (tip[along] - middle[along]) * sign == pytest.approx(ARROW, abs=0.03)
        assert tip[1 - along] == pytest.approx(middle[1 - along], abs=0.03)
        wide = abs(one[1 - along] - other[1 - along])
        assert wide == pytest.approx(2 * HALF_TIP, abs=0.03)
        ways.add((along, sign))
    assert {"TB": (1, 1), "BT": (1, -1), "LR": (0, 1), "RL": (0, -1)}[direction] in ways


def test_a_line_passes_all_its_corners() -> None:
    """They are round, and near to where they would be."""
    corners = [(0.0, 0.0), (0.0, 50.0), (40.0, 50.0), (40.0, 90.0), (70.0, 90.0), (70.0, 150.0)]
    tip, curve = arrow(corners)
    assert curve[0] == corners[0] and tip == corners[-1]
    for corner in corners[1:-1]:
        assert min(math.dist(corner, spot) for spot in curve) < 10
    assert extent(curve) == pytest.approx((0, 0, 70, 150 - ARROW))


def test_items_and_lines_that_are_placed() -> None:
    """An open module is as wide as its name, a line has its tensor, boxes have outlines."""
    long = Group("g", None, (Text("a rather long name of a module", "title"),), LOOK)
    shapes = Shape("a", "g", (Text("a", "title"),), LOOK), Shape("b", None, WIDE, LOOK)
    line = Line("a", "b", "", LOOK, value="v7")
    figure = Figure("f", shapes, (long,), (line, replace(line, value=None)))
    placed = Placed.lay_out(figure, 5.0)
    boxes = placed.boxes()
    around = boxes["g"].width - header_size(long.label, figure)[0]
    assert 15 < around < 25
    assert [link.value for link in placed.links] == ["v7", ""]
    assert placed.outlines() == [
        (box.x, box.y, box.x + box.width, box.y + box.height) for box in boxes.values()
    ]
    assert placed.upright and not Placed.lay_out(replace(figure, direction="LR"), 5).upright


@pytest.mark.parametrize("direction", ["LR", "RL"])
def test_lines_begin_at_the_slanted_side_of_an_input(direction: Any) -> None:
    """Those of a horizontal flow leave that side; between it and the line would be a gap."""
    leaning = Shape("a", None, WIDE, replace(LOOK, outline="parallelogram"), kind="input")
    shapes = leaning, *(Shape(name, None, WIDE, LOOK) for name in "bc")
    lines = tuple(Line("a", name, "", LOOK, value=name) for name in "bc")
    figure = Figure("f", shapes, (), lines, direction)
    (outline,) = (spots(part) for part in parts(figure, "node")[0].iter(f"{SVG}polygon"))
    upper_left, upper_right, lower_right, lower_left = outline
    side = (upper_right, lower_right) if direction == "LR" else (upper_left, lower_left)
    placed = Placed.lay_out(figure, 5)
    begins = [points[0] for points in placed.routes()]
    assert len({*begins}) == 2
    for x, y in begins:
        (top_x, top_y), (end_x, end_y) = side
        assert x == pytest.approx(top_x + (end_x - top_x) * (y - top_y) / (end_y - top_y), abs=0.1)


def test_short_lines_have_short_tips() -> None:
    """A bit of the line is always seen."""
    tip, curve = arrow([(0.0, 0.0), (0.0, 5.0)])
    assert tip == (0.0, 5.0) and curve[-1] == pytest.approx((0.0, 0.5))
    assert arrow([(0.0, 0.0), (0.0, 50.0)])[1][-1] == pytest.approx((0.0, 50.0 - ARROW))


@pytest.mark.parametrize(
    ("direction", "up", "ends"),
    [
        ("TB", False, ("bottom", "top")), ("TB", True, ("top", "bottom")),
        ("BT", False, ("top", "bottom")), ("LR", False, ("right", "left")),
        ("RL", False, ("left", "right")),
    ],
)
def test_the_line_back_in_a_loop(direction: Any, up: bool, ends: tuple[str, str]) -> None:
    """From where its flow ends to where it begins, as far from the border on every side."""
    box = PlacedBox(0, 100.0, 200.0, 80.0, 60.0, True, up)
    way = loop_route(box, replace(alone(), direction=direction))
    left, top, right, bottom = extent(way)
    inside = {"left": left - 100, "top": top - 200, "right": 180 - right, "bottom": 260 - bottom}
    near = "bottom" if direction in ("LR", "RL") else "right"
    touched = {*ends, near}
    assert {side: room for side, room in inside.items() if side in touched} == dict.fromkeys(
        touched, inside[near]
    )
    assert inside[near] > 0 and max(inside.values()) > 2 * inside[near]
    places = {"left": left, "top": top, "right": right, "bottom": bottom}
    axis = 1 if direction in ("TB", "BT") else 0
    assert [way[0][axis], way[-1][axis]] == [places[end] for end in ends]
    assert math.dist(way[0], way[1]) < 60 / 4
    assert way[1][1 - axis] == way[2][1 - axis] and len(way) == 3  # the head points along the side


def test_frames_of_open_modules_are_pinned() -> None:
    """For Graphviz, by two corners, around all boxes in them; y points up there."""
    figure = draw(make_view(figures.network(), ViewOptions(depth=5)))
    placed = Placed.lay_out(figure, 5.0)
    text = nested_text(figure, placed)
    found = {tuple(map(float, each.split(","))) for each in re.findall(r'bb="([-\d.,]+)"', text)}
    high, boxes = placed.picture.height, placed.boxes()
    drawn = [boxes[group.id] for group in figure.groups]
    frames = {
        (round(box.x, 2), round(high - box.y - box.height, 2), round(box.x + box.width, 2),
         round(high - box.y, 2))
        for box in drawn
    }
    assert frames <= found and len(frames) == len(figure.groups) > 2


def test_labels_are_put_in_the_middle_of_their_outline() -> None:
    """Of what Graphviz marks; spaces that only keep lines apart are gone."""
    text = '<text text-anchor="start" x="3.00" y="5">a</text>\n'
    space = '<text text-anchor="start" x="3.00" y="7"> </text>\n'
    box = '<polygon fill="none" points="54,-36 10,-36 10,0 54,0"/>\n'
    marked = f'<g id="n1" class="node centered">\n{box}{text}{space}</g>\n'
    other = f'<g id="n2" class="node">\n{box}{text}</g>\n'
    middle = text.replace('start" x="3.00"', 'middle" x="32.00"')
    assert centered(marked + other) == f'<g id="n1" class="node">\n{box}{middle}</g>\n{other}'
    bare = f'<g id="n3" class="node centered">\n{text}</g>\n'
    assert centered(bare) == bare.replace(" centered", "")
