"""Stacked areas: read back from the picture, in the units that its own axis has."""

from __future__ import annotations

import xml.etree.ElementTree
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from tests.export.test_chart import NAMESPACE, texts
from torchrecorder.export.area_chart import (
    BOTTOM, HEIGHT, LEFT, QUIET, RIGHT, TOP, WIDTH, AreaChart, Phase,
)

COLORS = ("#111111", "#222222", "#333333", "#444444")
Root = xml.etree.ElementTree.Element


def drawn(columns: Sequence[Sequence[float]], *phases: Phase, said: str = "most") -> Root:
    """The chart of these columns, of kinds a, b, c and d."""
    sums = [sum(column) for column in columns]
    peak = sums.index(max(sums)) if sums else 0
    kinds = dict(zip("abcd", COLORS[: len(columns[0]) if columns else 1]))
    shown = phases or (Phase(0, ""),)
    chart = AreaChart("Title <all>", "time", columns, kinds, shown, peak, said, "{:g} B".format)
    return xml.etree.ElementTree.fromstring(chart.svg())


def scale(root: Root) -> float:
    """Points per unit, from the labels of the axis."""
    labels = texts(root, text_anchor="end")
    at: dict[float, float] = {float(text.split()[0]): y for text, (_, y) in labels.items()}
    return (at[0] - min(at.values())) / max(at)


def levels(root: Root) -> dict[str, list[tuple[float, ...]]]:
    """Of each area by its color: the left and the right of each column, its bottom and top."""
    found: dict[str, list[tuple[float, ...]]] = {}
    for each in root.iter(f"{NAMESPACE}polygon"):
        edge = [tuple(map(float, at.split(","))) for at in each.get("points", "").split()]
        half = len(edge) // 2
        above, below = edge[:half], edge[half:][::-1]
        found[each.get("fill", "")] = [
            (left[0], right[0], low[1], left[1])
            for left, right, low in zip(above[::2], above[1::2], below[::2])
        ]
    return found


def test_areas_are_stacked() -> None:
    """Each on those before it, as high as its amount and as wide as its moment."""
    columns = [(1, 0, 3), (2, 5, 0), (0, 5, 3), (4, 0, 1)]
    root = drawn(columns)
    one, base = scale(root), HEIGHT - BOTTOM
    width = (WIDTH - LEFT - RIGHT) / 4
    found = levels(root)
    for kind, color in enumerate(COLORS[:3]):
        for place, column in enumerate(columns):
            left, right, low, high = found[color][place]
            assert left == pytest.approx(LEFT + place * width) and right - left == width
            assert base - low == pytest.approx(one * sum(column[:kind]), abs=0.1)
            assert low - high == pytest.approx(one * column[kind], abs=0.1)


def test_a_single_moment_is_as_wide_as_the_axis() -> None:
    """From its left end to its right."""
    ((left, right, _, _),) = levels(drawn([(3,)]))["#111111"]
    assert (left, right) == (LEFT, WIDTH - RIGHT)


def test_the_axis_reaches_over_the_highest() -> None:
    """From nothing at the bottom to a round amount at the top; the lines are equally far apart."""
    root = drawn([(7, 6), (1, 1)])
    at = sorted((float(text.split()[0]), y) for text, (_, y) in
                texts(root, text_anchor="end").items())
    assert [amount for amount, _ in at] == [0, 5, 10, 15]
    assert at[0][1] == HEIGHT - BOTTOM + 4 and at[-1][1] == TOP + 4
    assert {round(before - after) for (_, before), (_, after) in pairwise(at)} == {93}


def test_the_legend_names_what_is_drawn() -> None:
    """From the top of the stack down, in its colors, with the amounts at the peak; right of
    the areas."""
    root = drawn([(1, 0, 3), (2, 0, 7), (4, 0, 0)])
    marks = [each for each in root.iter(f"{NAMESPACE}rect") if each.get("height") == "11"]
    assert [each.get("fill") for each in marks] == ["#333333", "#111111"]
    said = {text: at for text, at in texts(root).items() if "  " in text}
    assert [*said] == ["c  7 B", "a  2 B"]
    (x, y) = texts(root, fill=QUIET)["at the peak"]
    assert WIDTH - RIGHT < x < WIDTH - RIGHT / 2
    below = [y, *(at[1] for at in said.values())]
    assert all(before < after - 11 for before, after in pairwise(below)) and below[0] > TOP
    for each, at in zip(marks, said.values()):
        left, top = float(each.get("x", "")), float(each.get("y", ""))
        assert left == x and left + 11 < at[0] < left + 22 and top < at[1] < top + 11


@pytest.mark.parametrize("place", [0, 5, 9])
@pytest.mark.parametrize(
    "said", ["most", "a long text of what there is at the peak, and where", "longer " * 17]
)
def test_the_peak_is_marked(place: int, said: str) -> None:
    """By a line down to it and a text above, which stays on the paper."""
    columns = [(1.0,) if column != place else (3.0,) for column in range(10)]
    root = drawn(columns, said=said)
    (line,) = [each for each in root.iter(f"{NAMESPACE}line") if each.get("stroke-width") == "0.8"]
    top = levels(root)["#111111"][place]
    middle = (top[0] + top[1]) / 2
    assert float(line.get("x1", "")) == float(line.get("x2", "")) == pytest.approx(middle, abs=0.1)
    assert float(line.get("y1", "")) < float(line.get("y2", "")) <= top[3]
    x, y = texts(root, text_anchor="middle")[said]
    half = 5.6 * len(said) / 2
    assert y < float(line.get("y1", "")) and LEFT <= x - half + 0.1 and x + half <= WIDTH - 7.9
    if LEFT <= middle - half and middle + half <= WIDTH - 8:
        assert x == pytest.approx(middle, abs=0.1)


def test_phases_are_named_where_there_is_room() -> None:
    """In the middle of their part; each begins with a mark under the axis."""
    root = drawn([(1,)] * 100, Phase(0, "forward"), Phase(60, "loss"), Phase(62, "backward"))
    room = WIDTH - LEFT - RIGHT
    named = {text: x for text, (x, y) in texts(root, text_anchor="middle").items()
             if HEIGHT - BOTTOM < y < HEIGHT - 10}
    wanted = {"forward": LEFT + 0.3 * room, "backward": LEFT + 0.81 * room}
    assert named == pytest.approx(wanted, abs=0.1)
    marks = [float(each.get("x1", "")) for each in root.iter(f"{NAMESPACE}line")
             if each.get("stroke") == QUIET]
    assert marks == pytest.approx([LEFT, LEFT + 0.6 * room, LEFT + 0.62 * room], abs=0.1)


@pytest.mark.parametrize("count", [491, 492, 493, 5000])
def test_no_more_columns_than_points(count: int) -> None:
    """The highest of each point is drawn: none of what is there is higher than its picture."""
    amounts = [(place * 7919 % 1000,) for place in range(count)]
    root: Any = drawn(amounts)
    one, parts = scale(root), levels(root)["#111111"]
    assert len(parts) == min(count, 492)
    assert LEFT <= parts[0][0] <= LEFT + 1 and parts[-1][1] == WIDTH - RIGHT
    assert all(before[1] == after[0] for before, after in pairwise(parts))
    high = max((low - top) / one for _, _, low, top in parts)
    assert high == pytest.approx(max(amounts)[0], rel=0.01)


def test_nothing_is_drawn_of_nothing() -> None:
    """Title and axes, without areas, peak and legend."""
    root = drawn([])
    assert not levels(root) and "at the peak" not in texts(root) and "most" not in texts(root)
    assert {"Title <all>", "time", "0 B", "1 B"} <= texts(root).keys()
