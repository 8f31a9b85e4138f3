"""Legends, names of arguments beside lines, and layers: where they stand and what they hold."""

from __future__ import annotations

import xml.etree.ElementTree
from dataclasses import replace
from typing import Any

import pytest

from tests.export.test_geometry import LOOK, alone, parts
from tests.export.test_plain_svg import SVG
from torchrecorder.export import legend as legend_module
from torchrecorder.export.head_marks import BACK, MARK_OFFSET, HeadMark, head_marks
from torchrecorder.export.legend import SMALL_TEXT
from torchrecorder.export.nested import PAD, Placed, legend_at, sheet_of
from torchrecorder.export.plain_svg import plain_svg
from torchrecorder.export.svg import layered
from torchrecorder.layout.layered import Picture
from torchrecorder.layout.measure import label_size, text_width
from torchrecorder.style.figure import Figure, LegendEntry, Line, Shape, Text
from torchrecorder.style.paper import Paper


def legend_of(texts: str) -> Figure:
    """A figure with an entry for each word."""
    return replace(alone(), legend=tuple(LegendEntry(text, LOOK) for text in texts.split()))


def rows_of(figure: Figure, width: float = 0.0) -> list[list[str]]:
    """The texts in each row of a legend that may have this width."""
    rows: dict[float, list[str]] = {}
    for entry, spot in zip(figure.legend, legend_module.laid_out(figure, width).spots):
        rows.setdefault(spot.y, []).append(entry.text)
    return [*rows.values()]


def width_of(figure: Figure, *texts: str) -> float:
    """The width of a legend whose longest row has these texts."""
    wide = dict(zip((entry.text for entry in figure.legend), legend_module.widths(figure)))
    inside = sum(wide[text] for text in texts) + legend_module.GAP * (len(texts) - 1)
    return inside + 2 * legend_module.MARGIN


@pytest.mark.parametrize("width", [0.0, 1.0, 70.0, 110.0, 900.0])
def test_entries_of_a_legend_stand_in_rows(width: float) -> None:
    """Apart from each other and from the frame, each as wide as its own text needs."""
    figure = legend_of("a bb ccccccccc d ee")
    wide, high, spots = legend_module.laid_out(figure, width)
    height = legend_module.entry_height(figure)
    margin, gap = legend_module.MARGIN, legend_module.GAP
    assert min(x - width / 2 for x, _, width in spots) == pytest.approx(margin)
    assert max(x + width / 2 for x, _, width in spots) == pytest.approx(wide - margin)
    assert min(y - height / 2 for _, y, _ in spots) == pytest.approx(margin)
    assert max(y + height / 2 for _, y, _ in spots) == pytest.approx(high - margin)
    rows = sorted({y for _, y, _ in spots})
    for one, other in zip(rows, rows[1:]):
        assert other - one == pytest.approx(height + gap)
    for (x, y, width), (other_x, other_y, other) in zip(spots, spots[1:]):
        if y == other_y:
            assert other_x - other / 2 - x - width / 2 == pytest.approx(gap)
        else:
            assert other_x - other / 2 == pytest.approx(margin)
    for (_, _, width), shape in zip(spots, legend_module.shapes(figure)):
        assert width == label_size(shape.label, 8.0, fontname="Helvetica")[0] + 16.0


def test_a_legend_has_as_few_rows_as_fit() -> None:
    """Exactly as wide is enough; rows of one legend are about equally long; one at least."""
    figure = legend_of("aa bb ba ab")
    assert rows_of(figure, width_of(figure, "aa", "bb", "ba", "ab")) == [["aa", "bb", "ba", "ab"]]
    for texts in (("aa", "bb", "ba"), ("aa", "bb")):
        assert rows_of(figure, width_of(figure, *texts)) == [["aa", "bb"], ["ba", "ab"]]
    column = [["aa"], ["bb"], ["ba"], ["ab"]]
    assert rows_of(figure, width_of(figure, "aa", "bb") - 0.1) == column
    assert rows_of(figure) == column
    mixed = legend_of("aaaaaaaaaaaa b c d")
    rows = rows_of(mixed, width_of(mixed, "aaaaaaaaaaaa") + 1)
    assert rows == [["aaaaaaaaaaaa"], ["b", "c", "d"]]
    assert 0 < legend_module.GAP < legend_module.MARGIN < legend_module.LEGEND_GAP


TEXT = replace(LOOK, outline="plain")
SCALED = (
    LegendEntry("Time", TEXT, "scale"),
    *(LegendEntry(text, LOOK, "scale") for text in ("0", "5 ms", "100 ms")),
    *(LegendEntry(text, LOOK) for text in ("input", "output")),
    *(LegendEntry(text, LOOK, "difference") for text in ("added", "removed")),
    *(LegendEntry(text, TEXT, "total") for text in ("Params: 1.17 M → 2.18 M", "FLOPs: 3 → 4")),
)


def test_each_part_of_a_legend_has_its_rows() -> None:
    """The scale with its title in front, or above it if there is no room; a row for each total."""
    figure = replace(alone(), legend=SCALED)
    below = [
        ["input", "output"], ["added", "removed"], ["Params: 1.17 M → 2.18 M"], ["FLOPs: 3 → 4"]
    ]
    scale = ["0", "5 ms", "100 ms"]
    assert rows_of(figure, 900.0) == [["Time", *scale], *below]
    room = width_of(figure, "Time", *scale)
    assert rows_of(figure, room) == [["Time", *scale], *below]
    assert rows_of(figure, room - 0.1) == [["Time"], scale, *below]
    assert rows_of(figure, width_of(figure, *scale) - 0.1)[:3] == [["Time"], scale[:2], scale[2:]]
    assert rows_of(figure, 1.0)[:3] == [["Time"], scale[:2], scale[2:]]  # as wide as the totals
    assert rows_of(figure) == [[entry.text] for entry in SCALED]


def test_the_colors_of_a_scale_are_equally_wide() -> None:
    """Texts without a box are as wide as they are."""
    figure = replace(alone(), legend=SCALED)
    title, *steps, first, second = legend_module.widths(figure)[:6]
    assert len({*steps}) == 1 and first != second
    for text, wide in (("Time", title - 4.0), ("100 ms", steps[0] - 8.0)):
        assert wide == label_size((Text(text, "title"),), 8.0, fontname="Helvetica")[0]


@pytest.mark.parametrize(
    ("wide", "high", "size"), [
        (50.0, 40.0, "below"), (900.0, 100.0, "beside"), (20.0, 900.0, "below"),
        (400.0, 400.0, "below"),
    ]
)
def test_a_figure_fits_its_place_with_its_legend(wide: float, high: float, size: str) -> None:
    """Both are scaled as one, whichever is wider or higher."""
    legend = legend_of("one two three four five").legend
    papers = Paper(place=(80.0, 30.0)), Paper(width=80.0, height=30.0)
    for below, paper in enumerate(papers):
        figure = replace(alone(), legend=legend, paper=paper)
        sheet = sheet_of(figure)
        assert sheet is not None
        picture = Picture(wide, high, (), ())
        left, _, (legend_wide, legend_high, _) = legend_at(figure, picture)
        if left == wide + legend_module.LEGEND_GAP:
            whole = left + legend_wide, max(high, legend_high)
        else:
            whole = max(wide, legend_wide), high + legend_module.LEGEND_GAP + legend_high
        whole = whole[0] + 2 * PAD, whole[1] + 2 * PAD
        assert sheet.scale(wide, high) == pytest.approx(figure.paper.scale(*whole))
        assert (left > wide) == (size == "beside" and not below)
    bare = sheet_of(replace(figure, legend=()))
    assert bare is not None
    assert bare.scale(wide, high) == figure.paper.scale(wide + 2 * PAD, high + 2 * PAD)
    assert sheet_of(replace(figure, paper=Paper())) is None
    for direction, along in (("TB", "height"), ("BT", "height"), ("LR", "width"), ("RL", "width")):
        for side in ("width", "height"):  # of one that limits the flow alone
            half = replace(figure, paper=Paper(**{side: 80.0}), direction=direction)
            assert (sheet_of(half) is not None) == (side == along)
    for least, scale in ((4.0, 0.5), (8.0, 1.0), (12.0, 1.0), (0.0, 0.0)):
        read = sheet_of(replace(figure, paper=replace(paper, min_fontsize=least)))
        assert read is not None and read.enough == scale


def entering(*lines: Line, **facts: Any) -> Figure:
    """Lines between boxes whose positions are given with the ways of the lines."""
    return Figure("f", (), (), lines, **facts)


def line(tail: str, head: str = "h", mark: str = "", place: int = -1) -> Line:
    """A line with the name of an argument."""
    return Line(tail, head, "", LOOK, mark=mark, place=place)


def down(x: float, top: float = 0.0) -> list[tuple[float, float]]:
    """A way straight down to a box at 100."""
    return [(x, top), (x, 100.0)]


def half(text: str) -> float:
    """Half the width of a mark."""
    return text_width(text, 10.0 * SMALL_TEXT) / 2


def test_arguments_that_enter_in_order_have_no_names() -> None:
    """Of those that do not, the first stands left of its line, the others right of theirs."""
    lines = [line("a", mark="x", place=0), line("b", mark="y", place=1), line("c", "other")]
    ways = [down(0), down(50), down(90)]
    assert not head_marks(entering(*lines), ways)
    assert head_marks(entering(*lines), [ways[1], ways[0], ways[2]]) == {
        0: HeadMark("x", (50 + MARK_OFFSET + half("x"), 100 - BACK)),
        1: HeadMark("y", (0 - MARK_OFFSET - half("y"), 100 - BACK)),
    }


def test_upwards_a_mark_is_below_the_tip_and_level_it_is_above() -> None:
    """Always back along the line; beside a line up, over a level one."""
    given = line("a", mark="x")
    (up,) = head_marks(entering(given, direction="BT"), [[(0, 100), (0, 0)]]).values()
    assert up.at == (MARK_OFFSET + half("x"), BACK)
    (right,) = head_marks(entering(given, direction="LR"), [[(0, 0), (100, 0)]]).values()
    assert right.at[0] == 100 - half("x") - 2 and -8.0 < right.at[1] < -4.0
    (left,) = head_marks(entering(given, direction="RL"), [[(100, 0), (0, 0)]]).values()
    assert left.at[0] == half("x") + 2 and left.at[1] == right.at[1]


def test_names_that_have_no_room_are_numbers() -> None:
    """Between two lines: of all arguments of this box, counted from one, none left out."""
    names = ["first argument", "second argument", "third argument"]
    places = zip("abc", names, (2, 1, 0))
    lines = [line(tail, mark=name, place=place) for tail, name, place in places]
    wide = head_marks(entering(*lines), [*map(down, (0, 200, 400))])
    assert [mark.text for mark in wide.values()] == names
    near = head_marks(entering(*lines), [*map(down, (0, 200, 220))])
    assert [mark.text for mark in near.values()] == ["3", "2", "1"]
    room = text_width(names[1], 10.0 * SMALL_TEXT) + MARK_OFFSET
    for beyond, told in ((0.01, names[1]), (-0.01, "2")):
        found = head_marks(entering(*lines), [*map(down, (0, 20, 20 + room + beyond))])
        assert found[1].text == told
    aside = [[(0, y), (100, y)] for y in (0, 20, 40)]
    level = head_marks(entering(*lines, direction="LR"), aside)
    assert [mark.text for mark in level.values()] == names


def test_a_mark_keeps_away_from_level_lines_of_its_own_box() -> None:
    """Right of its line, or left of it where a line runs level on the right only."""
    lines = [line("a", mark="x"), line("a", "other")]
    right = [(0.0, 0.0), (0.0, 90.0), (60.0, 90.0), (60.0, 200.0)]
    left = [(-x, y) for x, y in right]
    far = [(0.0, 0.0), (0.0, 70.0), (60.0, 70.0), (60.0, 200.0)]
    upright = [(60.0, 90.0), (60.0, 200.0)]

    def side(*others: Any) -> int:
        found = head_marks(entering(lines[0], *[lines[1]] * len(others)), [down(0), *others])
        return 1 if found[0].at[0] > 0 else -1

    assert side() == side(left) == side(far) == side(upright) == side(left, right) == 1
    assert side(right) == -1


def test_marks_are_written_where_they_stand() -> None:
    """The middle of the text is that of the mark."""
    shapes = tuple(Shape(name, None, (Text(name, "title"),), LOOK) for name in "abc")
    lines = (line("a", "c", "always"), line("b", "c", "never", 0))
    figure = Figure("f", shapes, (), lines)
    marks = head_marks(figure, [*Placed.lay_out(figure, 5.0).routes()])
    assert [mark.text for mark in marks.values()] == ["always"]
    for number, edge in enumerate(parts(figure, "edge")):
        texts = [*edge.iter(f"{SVG}text")]
        assert len(texts) == (number in marks)
        for text in texts:
            assert float(text.get("x", "")) == pytest.approx(marks[number].at[0], abs=0.02)
            below = float(text.get("y", "")) - marks[number].at[1]
            assert 0 < below < figure.fontsize * SMALL_TEXT / 2 and text.text == marks[number].text


@pytest.mark.parametrize(
    ("wide", "high", "beside"), [(3000.0, 100.0, True), (100.0, 600.0, False)]
)
def test_a_legend_stands_where_it_needs_less_space(wide: float, high: float, beside: bool) -> None:
    """Beside a flat picture, below a tall one or where that is asked for; never in it."""
    figure, picture = legend_of("one two three"), Picture(wide, high, (), ())
    found = legend_at(figure, picture)
    if beside:
        assert found == (wide + legend_module.LEGEND_GAP, high, legend_module.laid_out(figure))
    left, top, frame = legend_at(replace(figure, paper=Paper(width=80.0)), picture)
    assert top == -legend_module.LEGEND_GAP and frame == legend_module.laid_out(figure, wide)
    assert left == pytest.approx((wide - frame.width) / 2)
    assert beside or found == (left, top, frame)


def test_a_layer_that_would_be_empty_is_left_out() -> None:
    """A picture of boxes alone has one."""
    figure = alone()
    svg = plain_svg(figure, Placed.lay_out(figure, 5.0))
    (graph,) = xml.etree.ElementTree.fromstring(layered(svg, {"a": "A"}))
    assert [part.get("class") for part in graph if part.tag == f"{SVG}g"] == ["layer"]


def test_layers_hold_what_belongs_to_them() -> None:
    """Open modules below arrows below boxes, by name; the frame around them stays."""
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg">\n<g id="graph0" class="graph">\n'
        '<g id="n1" class="node">\n<title>a</title>\n</g>\n'
        '<g id="e1" class="edge">\n<title>a-&gt;b</title>\n</g>\n'
        '<g id="c1" class="cluster">\n<title>cluster_c</title>\n</g>\n'
        '<g id="n2" class="node">\n<title>b</title>\n</g>\n</g>\n</svg>\n'
    )
    names = {"a": "A", "b": "B", "cluster_c": "C & D"}
    label = "{http://www.inkscape.org/namespaces/inkscape}label"
    root = xml.etree.ElementTree.fromstring(layered(svg, names))
    (graph,) = root
    assert [(layer.get(label), [part.get(label) for part in layer]) for layer in graph] == [
        ("open modules", ["C & D"]), ("arrows", ["A → B"]), ("boxes", ["A", "B"]),
    ]
