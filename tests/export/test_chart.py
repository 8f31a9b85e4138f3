"""Charts: where lines, labels and marks of the axes are."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree
from types import SimpleNamespace
from typing import Any

import pytest

from torchrecorder.export.area_chart import _round_step
from torchrecorder.export.line_chart import (
    BOTTOM, COLORS, END, HEIGHT, LEFT, NAMED, NAMES_AT, OTHERS, PAPER, SPACING, TOP, LineChart,
    common_parent,
)
from torchrecorder.layout.measure import text_width
from torchrecorder.style.color import READABLE, contrast

BASE = HEIGHT - BOTTOM
NAMESPACE = "{http://www.w3.org/2000/svg}"


def drawn(
    lines: dict[str, list[tuple[float, float]]],
    logarithmic: bool = False,
    notable: tuple[str, ...] = (),
) -> xml.etree.ElementTree.Element:
    """The chart of some lines."""
    text = LineChart(
        "Norms <all>", "step", lines, logarithmic, lambda number: f"{number:g}", notable
    ).svg()
    return xml.etree.ElementTree.fromstring(text)


def curves(root: xml.etree.ElementTree.Element) -> list[list[tuple[float, ...]]]:
    """The points of every line."""
    return [
        [tuple(map(float, point.split(","))) for point in line.get("points", "").split()]
        for line in root.iter(f"{NAMESPACE}polyline")
    ]


def texts(root: xml.etree.ElementTree.Element, **wanted: str) -> dict[str, Any]:
    """Texts that have these attributes, and where they are."""
    return {
        each.text or "": (float(each.get("x", "")), float(each.get("y", "")))
        for each in root.iter(f"{NAMESPACE}text")
        if all(each.get(name.replace("_", "-")) == value for name, value in wanted.items())
    }


def test_lines_span_the_paper() -> None:
    """The first step is left, the last right; the largest number on top, the smallest below."""
    root = drawn({"a": [(10, 1.0), (20, 3.0), (30, 2.0)], "b": [(10, 5.0), (30, 2.0)]})
    middle = (LEFT + END) / 2
    assert curves(root) == [
        [(LEFT, BASE), (middle, (TOP + BASE) / 2), (END, BASE - (BASE - TOP) / 4)],
        [(LEFT, TOP), (END, BASE - (BASE - TOP) / 4)],
    ]


def test_the_marks_of_an_axis_are_quarters() -> None:
    """Grid lines across, each with its number beside it; the steps are below."""
    root = drawn({"a": [(0, 0.0), (30, 8.0)]})
    quarter = (BASE - TOP) / 4
    assert texts(root, text_anchor="end") == {
        f"{2 * part}": (LEFT - 6, BASE - part * quarter + 4) for part in range(5)
    }
    grid = [each for each in root.iter(f"{NAMESPACE}line")]
    assert [float(each.get("y1", "")) for each in grid] == [
        BASE - part * quarter for part in range(5)
    ]
    assert all(each.get("y1") == each.get("y2") for each in grid)
    assert all((each.get("x1"), each.get("x2")) == (str(LEFT), str(END)) for each in grid)
    below = {"0": (LEFT, BASE + 16), "30": (END, BASE + 16), "step": ((LEFT + END) / 2, BASE + 16)}
    assert texts(root, text_anchor="middle") == below
    assert texts(root, font_size="13") == {"Norms <all>": (LEFT, 20)}


@pytest.mark.parametrize(
    ("low", "high", "marks"),
    [
        (-2, 1, [0.01, 0.1, 1, 10]),
        (-2.5, 0.5, [0.01, 0.1, 1]),
        (0, 6, [1, 10, 100, 1e3, 1e4, 1e5, 1e6]),
        (0, 7, [1, 100, 1e4, 1e6]),
        (0, 1, [1, 10]),
        (0, 0.5, [10 ** (part / 8) for part in range(5)]),
    ],
)
def test_orders_of_magnitude(low: float, high: float, marks: list[float]) -> None:
    """At most seven whole ones; quarters where there is not even one."""
    root = drawn({"a": [(0, 10**low), (1, 10**high)]}, logarithmic=True)
    assert list(texts(root, text_anchor="end")) == [f"{mark:g}" for mark in marks]
    assert curves(root) == [[(LEFT, BASE), (END, TOP)]]


def test_what_has_no_place_is_left_out() -> None:
    """No infinity, no NaN, and no logarithm of nothing; a line without points is none."""
    lines = {"a": [(0, 1.0), (1, math.inf), (2, 3.0)], "b": [(0, math.nan)], "c": [(0, 0.0)]}
    assert [len(points) for points in curves(drawn(lines))] == [2, 1]
    assert [len(points) for points in curves(drawn(lines, logarithmic=True))] == [2]
    assert curves(drawn({"b": [(0, math.nan)]})) == []
    for nothing in (drawn({}), drawn({"b": [(0, math.nan)]})):
        assert "no numbers to show" in texts(nothing)
        assert not texts(nothing, text_anchor="end") and not texts(nothing, text_anchor="middle")


def test_one_point_is_a_dot() -> None:
    """In the middle, as is a line that does not change; only it has one."""
    root = drawn({"a": [(5, 7.0)]})
    (dot,) = root.iter(f"{NAMESPACE}circle")
    assert (float(dot.get("cx", "")), float(dot.get("cy", ""))) == (LEFT, (TOP + BASE) / 2)
    assert dot.get("fill") == COLORS[0]
    assert texts(root, text_anchor="middle").keys() == {"5", "step"}
    flat = drawn({"a": [(5, 7.0), (6, 7.0)]})
    assert curves(flat) == [[(LEFT, (TOP + BASE) / 2), (END, (TOP + BASE) / 2)]]
    assert not list(flat.iter(f"{NAMESPACE}circle"))


@pytest.mark.parametrize("height", [1e17, -1e30, 1e-15, 0.0])
def test_a_number_that_stays_the_same_is_in_the_middle(height: float) -> None:
    """However large it is, as in a run that diverged."""
    for steps in ((1,), (1, 2)):
        ((first, *rest),) = curves(drawn({"a": [(step, height) for step in steps]}))
        assert {y for _, y in (first, *rest)} == {(TOP + BASE) / 2}


def test_small_numbers_that_differ_have_lines_that_rise() -> None:
    """What counts is their difference relative to their size."""
    ((first, last),) = curves(drawn({"a": [(1, 1e-15), (2, 2e-15)]}))
    assert (first[1], last[1]) == (BASE, TOP)


@pytest.mark.parametrize(("names", "wanted"), [("abc", COLORS), ("ab", (COLORS[0], COLORS[-1]))])
def test_colors_go_from_the_first_to_the_last(names: str, wanted: tuple[str, ...]) -> None:
    """Each line has its own, and its name has the same."""
    root = drawn({name: [(0, 1.0), (1, number)] for number, name in enumerate(names)})
    colors = [each.get("stroke") for each in root.iter(f"{NAMESPACE}polyline")]
    assert tuple(colors) == wanted
    for name, color in zip(names, colors):
        assert name in texts(root, fill=str(color))
        assert contrast(str(color), PAPER) >= READABLE


def test_names_stand_at_the_ends_of_their_lines() -> None:
    """Beside its end each, where there is room."""
    root = drawn({"low": [(0, 0.0), (1, 0.0)], "high": [(0, 0.0), (1, 10.0)]})
    start = NAMES_AT
    names = texts(root)
    assert names["low"] == (start, BASE + 4) and names["high"] == (start, TOP + 4)
    ways = [each.get("d") for each in root.iter(f"{NAMESPACE}path")]
    assert ways[1] == f"M{END + 2:.1f},{TOP:.1f} L{start - 3},{TOP:.1f}"


@pytest.mark.parametrize("count", [2, 5, 10, 40, 300])
@pytest.mark.parametrize("height", [0.0, 0.5, 1.0])
def test_names_keep_apart(count: int, height: float) -> None:
    """Lines that end together have names around their end, in order, and on the paper."""
    lines = {f"l{i}": [(0.0, i / count), (1.0, height + i / 1e4)] for i in range(count)}
    root = drawn({"zero": [(0, 0.0)], "one": [(0, 1.0)], **lines})
    places = {
        name: y - 4 for name, (x, y) in texts(root).items() if re.fullmatch(r"l\d+", name)
    }
    assert len(places) >= min(count, NAMED - 2)
    found = [places[f"l{i}"] for i in range(count) if f"l{i}" in places][::-1]
    apart = [after - before for before, after in zip(found, found[1:])]
    assert all(gap >= SPACING - 0.11 for gap in apart)
    below_title = 20 + 11
    assert found[0] >= below_title and found[-1] <= HEIGHT - 7.9


def many(count: int) -> dict[str, list[tuple[float, float]]]:
    """Lines that end where they began, at 0, 1 ..., with a name for each."""
    return {f"l{i}": [(0.0, float(i)), (1.0, float(i))] for i in range(count)}


def names_of(root: xml.etree.ElementTree.Element) -> set[int]:
    """The numbers of the lines that have names."""
    return {int(name[1:]) for name in texts(root) if re.fullmatch(r"l\d+", name)}


def test_of_many_lines_the_highest_and_the_lowest_are_named() -> None:
    """A few more than have names; the chart says so, and the others are gray."""
    assert names_of(drawn(many(NAMED))) == {*range(NAMED)}
    root, half = drawn(many(NAMED + 1)), NAMED // 2
    assert names_of(root) == {*range(NAMED + 1)} - {half}
    assert f"{NAMED} of {NAMED + 1} are named: highest, lowest" in texts(root)
    assert not any("named" in text for text in texts(drawn(many(NAMED))))
    colors = [each.get("stroke") for each in root.iter(f"{NAMESPACE}polyline")]
    assert colors[0] == OTHERS and OTHERS not in colors[1:] and len(colors) == NAMED + 1


def test_notable_lines_are_named_first() -> None:
    """At most half of the names are theirs, unless the others are fewer."""
    half = NAMED // 2
    for notable, expected in (
        ({50, 51}, {50, 51}),
        ({*range(20, 80)}, {20, 21, 22, 77, 78, 79, 0, 1, 2, 97, 98, 99}),
        ({*range(1, 100)}, {0, *range(1, half), *range(94, 100)}),
    ):
        root = drawn(many(100), notable=tuple(f"l{i}" for i in sorted(notable)))
        assert names_of(root) >= expected and len(names_of(root)) == NAMED
        assert f"{NAMED} of 100 are named: highest, lowest, those with remarks" in texts(root)


def test_lines_have_their_whole_names_as_tooltips() -> None:
    """Also those that have no name beside them, and points alone."""
    lines = {f"{'very.' * 12}long<{i}>": [(0.0, float(i))] for i in range(30)}
    root = drawn(lines)
    for kind in ("polyline", "circle"):
        found = [each.findtext(f"{NAMESPACE}title") for each in root.iter(f"{NAMESPACE}{kind}")]
        assert sorted(map(str, found)) == sorted(lines)


def test_what_all_names_begin_with_is_said_once() -> None:
    """Whole parts of paths, and only where there are several names."""
    within = {f"encoder.layers.1{i}.mlp": [(0.0, float(i))] for i in range(3)}
    root = drawn(within)
    assert {"10.mlp", "11.mlp", "12.mlp", "in encoder.layers"} <= texts(root).keys()
    assert "encoder.layers.10.mlp" in texts(drawn({"encoder.layers.10.mlp": [(0, 1.0)]}))
    assert common_parent(["a.b", "a.b.c"]) == "a" and common_parent(["a", "a.b"]) == ""


def test_the_paper_is_as_wide_as_its_names() -> None:
    """The longest name ends before the edge, and the lines have the same room for all names."""
    widths = []
    for name in ("x", "module.with.a.rather.long.name"):
        root = drawn({name: [(0, 1.0), (1, 2.0)]})
        widths.append(int(root.get("width", "")))
        assert NAMES_AT + text_width(name, 11.0) < widths[-1] < NAMES_AT + 40 + 7 * len(name)
        assert curves(root)[0][-1][0] == END
    assert widths[0] < widths[1]


def test_names_around_one_end() -> None:
    """Where all lines end at one height, so does the middle of their names."""
    lines = {f"l{i}": [(0.0, float(i)), (1.0, 2.0)] for i in range(5)}
    root = drawn(lines)
    found = sorted(y - 4 for name, (x, y) in texts(root).items() if name in lines)
    middle = (TOP + BASE) / 2
    assert found == [middle + SPACING * part for part in (-2, -1, 0, 1, 2)]


def test_long_names_keep_both_ends() -> None:
    """In the middle there is an ellipsis; all that the name says is in the tooltip."""
    exactly, longer = "x" * 48, "model." + "y" * 40 + ".out_proj"
    root = drawn({exactly: [(0, 1.0)], longer: [(0, 2.0)]})
    (name,) = (text for text in texts(root) if "…" in text)
    assert name.startswith("model.") and name.endswith(".out_proj") and len(name) == 48


@pytest.mark.parametrize("highest", [0.5, 1, 5, 6, 7, 12, 13, 30, 31, 59, 60, 61, 1e6, 1.3e9])
def test_grid_lines_are_at_round_places(highest: float) -> None:
    """At most six of them, and no more apart than that takes: 1, 2 or 5 times a power of ten."""
    step = _round_step(highest)
    power = 10.0 ** math.floor(math.log10(step))
    assert step / power in (1.0, 2.0, 5.0) and highest / step <= 6
    finer = step / (2.5 if step / power == 5 else 2)
    assert step == 1 or highest / finer > 6


@pytest.mark.parametrize(("low", "high"), [(-1, 3), (100, 103), (-30, -20), (0, 1), (250, 300)])
def test_powers_of_ten_have_few_lines(low: int, high: int) -> None:
    """Equally far apart, from the lowest on, however large the numbers are."""
    drawing = SimpleNamespace(logarithmic=True, low=low, high=high)
    ticks = LineChart._ticks(drawing)  # type: ignore[arg-type]
    apart = {after - before for before, after in zip(ticks, ticks[1:])}
    assert ticks[0] == low and 2 <= len(ticks) <= 7 and len(apart) == 1
    assert high - ticks[-1] < max(apart)
