"""The same picture twice: what our own code writes as SVG is what Graphviz paints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple, get_args
from xml.etree.ElementTree import Element, fromstring

import pytest

from tests.export.test_plain_svg import NO_FORMS, SVG, sides
from torchrecorder.export.nested import PAINTER, Placed, nested_text
from torchrecorder.export.plain_svg import plain_svg
from torchrecorder.export.svg import centered
from torchrecorder.layout import engine
from torchrecorder.style.figure import Figure, Group, LegendEntry, Line, Look, Outline, Shape, Text
from torchrecorder.style.paper import Paper

LOOK = Look("#ffeedd", "#112233", "#445566")
LABEL = (Text("title", "title"), Text("small", "detail"))
OUTLINES = [*get_args(Outline)]
OUTLINES.insert(2, OUTLINES.pop())  # Graphviz gives no room to a plain one, which shows at an edge
PAINT = ("fill", "stroke", "stroke-width", "stroke-dasharray")
LETTERS = ("fill", "font-family", "font-size", "font-weight")


class Form(NamedTuple):
    """An outline, line or text, on the page."""

    paint: tuple[str | None, ...]
    extent: tuple[float, ...]
    text: str = ""


def figure(**facts: Any) -> Figure:
    """All outlines and dashes, some in a group, some repeated, with marks, a loop and a legend."""
    dashes = ("solid", "dashed", "dotted")
    shapes = tuple(
        Shape(
            f"s{number}",
            "g" if number % 2 else None,
            LABEL,
            replace(LOOK, outline=outline, dash=dashes[number % 3], width=1.0 + number % 4 / 2,
                    bold=number % 4 == 1),
            count=1 + (number in (0, 1, 4)),
        )
        for number, outline in enumerate(OUTLINES)
    )
    inner = replace(LOOK, fill="#eeeeee", dash="dashed", width=2.0)
    groups = (
        Group("g", None, (Text("a group", "title"), Text("small")), inner, loop=("s5", "s1")),
        Group("h", "g", (Text("another", "title"),), replace(LOOK, outline="box")),
    )
    shapes = tuple(replace(each, group="h") if each.id == "s7" else each for each in shapes)
    ends = ((0, 2), (2, 4), (1, 3), (3, 5), (5, 7), (4, 8), (0, 6), (2, 6))
    lines = tuple(
        Line(f"s{tail}", f"s{head}", "said" if tail == 1 else "",
             replace(LOOK, stroke="#ff0000", dash=dashes[tail % 3], width=1.0 + tail % 2),
             mark="mark" if head == 6 else "", value=f"v{tail}", place=-1)
        for tail, head in ends
    )
    legend = tuple(LegendEntry(word, replace(LOOK, outline="octagon")) for word in ("a", "bbb"))
    return Figure("f", shapes, groups, lines, **{"legend": legend, **facts})


def forms(svg: str) -> dict[str, list[Form]]:
    """For each box, group and line what is drawn of it, where 0, 0 is the corner of the page."""
    root = fromstring(svg)
    (graph,) = (part for part in root.iter(f"{SVG}g") if part.get("class") == "graph")
    moved = re.search(r"translate\(([-\d.]+) ([-\d.]+)\)", graph.attrib["transform"])
    assert moved is not None
    x, y = map(float, moved.groups())
    found: dict[str, list[Form]] = {}
    for part in graph.iter(f"{SVG}g"):
        title = part.findtext(f"{SVG}title")
        if title is not None and part is not graph:
            assert title not in found
            found[title] = [*_forms(part, x, y)]
    return found


def _forms(part: Element, x: float, y: float) -> Iterator[Form]:
    for each in part.iter():
        given = each.attrib
        if each.tag == f"{SVG}text" and (each.text or "").strip():
            spot = (float(given["x"]) + x, float(given["y"]) + y)
            size = f"{float(given['font-size']):.0f}"
            paint = {**{name: given.get(name) for name in LETTERS}, "font-size": size}
            yield Form(tuple(paint.values()), spot, each.text or "")
        elif each.tag not in (f"{SVG}g", *NO_FORMS):
            across, along = zip(*_spots(each))
            sides = (min(across) + x, min(along) + y, max(across) + x, max(along) + y)
            yield Form(tuple(given.get(name) for name in PAINT), sides)


def _spots(form: Element) -> Iterator[tuple[float, float]]:
    """Corners; of curves those between which they bend."""
    given = {name: text for name, text in form.attrib.items()}
    if form.tag == f"{SVG}rect":
        left, top, wide, high = (float(given[name]) for name in ("x", "y", "width", "height"))
        yield from ((left, top), (left + wide, top + high))
    elif form.tag == f"{SVG}ellipse":
        x, y, wide, high = (float(given[name]) for name in ("cx", "cy", "rx", "ry"))
        yield from ((x - wide, y - high), (x + wide, y + high))
    else:
        numbers = re.findall(r"-?\d+(?:\.\d+)?", given.get("points") or given["d"])
        yield from zip(map(float, numbers[::2]), map(float, numbers[1::2]))


def both(shown: Figure, below: bool = False) -> tuple[str, str]:
    """The picture as our code and as Graphviz write it."""
    shown = replace(shown, paper=Paper(width=1e5)) if below else shown
    placed = Placed.lay_out(shown, 5.0)
    plain = plain_svg(shown, placed)
    painted = engine.run(nested_text(shown, placed), "svg", program=PAINTER)
    return plain, centered(painted.decode())


CASES: list[dict[str, Any]] = [
    {},
    {"direction": "BT", "background": "#fafafa"},
    {"direction": "LR", "fontsize": 14.0},
    {"direction": "RL", "fontname": "Lato"},
]


@pytest.mark.parametrize("facts", CASES)
@pytest.mark.parametrize("below", [False, True])
def test_our_own_picture_is_that_of_graphviz(facts: dict[str, Any], below: bool) -> None:
    """Outlines, lines, tips and texts: where they are, in which colors, dashes and letters."""
    shown = figure(**facts)
    pictures = both(shown, below)
    assert sides(fromstring(pictures[0])) == pytest.approx(sides(fromstring(pictures[1])), abs=1.01)
    plain, painted = map(forms, pictures)
    assert plain.keys() == painted.keys() and len(plain) > len(shown.shapes) + len(shown.lines)
    for name, ours in plain.items():
        theirs = painted[name]
        assert letters(ours) == letters(theirs) and colors(ours) == colors(theirs)
        outline = next((each.look.outline for each in shown.shapes if each.id == name), None)
        if outline not in ("cylinder", "plain"):
            far = 1.5 if outline == "parallelogram" else 0.3
            assert around(ours) == pytest.approx(around(theirs), abs=far)
            for our, their in zip(*(sorted(form.extent for form in found if form.text)
                                    for found in (ours, theirs))):
                assert our == pytest.approx(their, abs=0.35 * shown.fontsize)


@pytest.mark.parametrize(("outline", "radius"), [("rounded", 12.0), ("box", None), ("egg", None)])
def test_corners_are_as_round_as_those_of_graphviz(outline: Any, radius: float | None) -> None:
    """Where there is room for it."""
    label = tuple(Text("a wide label", "title") for _ in range(4))
    shape = Shape("a", None, label, replace(LOOK, outline=outline))
    plain, painted = both(Figure("f", (shape,), (), ()))
    (rect,) = (each for each in fromstring(plain).iter(f"{SVG}rect"))
    assert rect.get("rx") == (radius and f"{radius:.2f}")
    if radius is not None:
        path = next(fromstring(painted).iter(f"{SVG}path"))
        across = sorted({round(x, 1) for x, _ in _spots(path)})
        assert across[1] - across[0] == pytest.approx(radius / 2, abs=0.1)
        assert across[2] - across[0] == pytest.approx(radius, abs=0.1)


def test_what_has_a_place_is_not_moved() -> None:
    """No line that is not seen holds the legend, which is not packed either."""
    shown = figure()
    text = nested_text(shown, Placed.lay_out(shown, 5.0))
    assert "invis" not in text and "packmode" not in text and "legend_1" in text


def letters(found: list[Form]) -> list[Any]:
    """The texts, and how they are written."""
    return sorted((form.text, *map(str, form.paint)) for form in found if form.text)


def colors(found: list[Form]) -> tuple[set[Any], set[Any]]:
    """How outlines are drawn, and what fills them; the frame of a legend has the paper behind."""
    drawn = [form.paint for form in found if not form.text]
    return {paint[1:] for paint in drawn}, {paint[0] for paint in drawn} - {"none", "#fafafa"}


def around(found: list[Form]) -> tuple[float, ...]:
    """The sides of all that is drawn."""
    left, top, right, bottom = zip(*(form.extent for form in found if not form.text))
    return min(left), min(top), max(right), max(bottom)
