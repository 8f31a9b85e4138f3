"""Figures that are made to fit a place: a page, a column, a slide, a cell, or any size."""

from __future__ import annotations

import contextlib
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.export.test_geometry import LOOK
from tests.export.test_paper import size_of
from tests.figures import linear, network
from tests.views.test_fold import stack
from torchrecorder.errors import DoesNotFit, InvalidArgument, LargerThanAPage, SmallText
from torchrecorder.export import by_suffix
from torchrecorder.export.graphviz import Pdf, Svg
from torchrecorder.export.nested import Placed, smallest
from torchrecorder.export.readable import SHARES, readable_view
from torchrecorder.integrations.cli import main
from torchrecorder.layout import layered as layout
from torchrecorder.options import drawing
from torchrecorder.recording import Recording
from torchrecorder.style.figure import Figure, Group, LegendEntry, Line, Shape, Text
from torchrecorder.style.paper import PLACES, Paper, place, points
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions

MM = 72 / 25.4
OPEN = {"depth": 2, "fold": False}


def drawn(recording: Recording, folder: Path, suffix: str = ".svg", **options: Any) -> bytes:
    """A figure as it is written to a file."""
    return recording.render(folder / f"figure{suffix}", **options).read_bytes()


@pytest.mark.parametrize("fit", [*PLACES, ("120mm", "5cm")])
@pytest.mark.parametrize("direction", ["TB", "LR"])
def test_a_figure_is_no_larger_than_its_place(fit: Any, direction: Any, tmp_path: Path) -> None:
    """Long chains and small networks, whatever the direction."""
    room = place(fit)
    assert room is not None
    for recording, options in ((stack(24), OPEN), (network(), {})):
        svg = drawn(recording, tmp_path, fit=fit, direction=direction, min_fontsize=0, **options)
        for side, most in zip(size_of(svg), room):
            assert side <= most / MM + 0.01


def test_the_ratio_is_that_of_the_place(tmp_path: Path) -> None:
    """A chain of 24 modules fills a page and a cell; it is 26 times as high as wide."""
    options = {"fold": False, "depth": 2, "min_fontsize": 0}
    for fit, low, high in (("page", 1.0, 2.0), ("cell", 0.5, 1.0), ("slide", 0.3, 0.8)):
        width, height = size_of(drawn(stack(24), tmp_path, fit=fit, **options))
        assert low < height / width < high


def test_a_small_figure_keeps_its_size(tmp_path: Path) -> None:
    """It is not made larger, and no paper is added around it."""
    plain = re.search(rb'<svg width="([\d.]+)pt" height="([\d.]+)pt"', drawn(network(), tmp_path))
    assert plain is not None
    width, height = size_of(drawn(network(), tmp_path, fit="page"))
    assert (width * MM, height * MM) == pytest.approx((float(plain[1]), float(plain[2])), abs=0.01)


def test_a_larger_place_never_fails(tmp_path: Path) -> None:
    """What can be read on a page of some width and height can be read on every larger one."""
    readable = []
    for width in range(60, 240, 10):
        size = {"width": f"{width}mm", "height": "150mm"}
        try:
            assert size_of(drawn(stack(16), tmp_path, **size, **OPEN)) == (width, 150)
            readable.append(True)
        except DoesNotFit:
            readable.append(False)
    assert readable == sorted(readable) and len(set(readable)) == 2


def test_small_text_is_reported(tmp_path: Path) -> None:
    """A figure is made, with a warning that says what would help; any size is asked for with 0."""
    tiny = {"fit": ("20mm", "20mm"), **OPEN}
    with pytest.warns(SmallText, match=r"in a place 20 mm .* would be [\d.]+ pt, and min_fonts"):
        svg = drawn(stack(12), tmp_path, **tiny)
    assert max(size_of(svg)) == pytest.approx(20, abs=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn(stack(12), tmp_path, **tiny, min_fontsize=0)


def two_parts() -> Recording:
    """Twelve layers in each of two modules."""
    run = Builder("Net")
    with run.scope("Net"):
        value = run.input("x")
        for part in ("first", "second"):
            with run.scope(part, "Sequential"):
                for number in range(12):
                    value = linear(run, str(number), value)
    return run.recording()


def test_fewer_levels_where_text_would_be_small(tmp_path: Path) -> None:
    """By default a figure shows what can be read in its place; a depth that is asked for stays."""
    chosen: Any = {"fold": False, "max_boxes": 100}
    small = {"fit": ("60mm", "60mm"), **chosen}
    figures = ({}, small, {"fit": ("900mm", "900mm")}, {**small, "depth": 2, "min_fontsize": 0})
    plain, small, wide, asked = (
        drawn(two_parts(), tmp_path, **{**chosen, **options}) for options in figures
    )
    boxes = [svg.count(b'class="node') for svg in (plain, small, wide, asked)]
    assert boxes[1] == 4 and boxes[0] == boxes[2] == boxes[3] == 26


@pytest.mark.filterwarnings("ignore::torchrecorder.errors.LargerThanAPage")
@pytest.mark.parametrize(
    ("side", "size", "direction"), [("width", "100mm", "LR"), ("height", "70mm", "TB")]
)
def test_a_long_flow_is_set_in_columns(
    side: str, size: str, direction: Any, tmp_path: Path
) -> None:
    """Where only the side along the flow is given, in as many as make the text readable."""
    chosen: Any = {"fold": False, "depth": 2, "direction": direction, "min_fontsize": 5}
    line, columns = (
        size_of(drawn(two_parts(), tmp_path, **{side: length}, **chosen))
        for length in ("900mm", size)
    )
    along = 0 if side == "width" else 1
    assert columns[along] == pytest.approx(float(size[:-2]), abs=0.1)
    assert columns[1 - along] > 2 * line[1 - along]


@pytest.mark.parametrize(("side", "direction"), [("width", "TB"), ("height", "LR")])
def test_fewer_levels_on_narrow_paper(side: str, direction: Any, tmp_path: Path) -> None:
    """As in a place; a depth that is asked for does not fit, and the error says what helps."""
    chosen: Any = {"fold": False, "max_boxes": 100, "direction": direction, side: "13mm"}
    least = {"min_fontsize": 5}
    with pytest.raises(DoesNotFit, match="Draw fewer boxes"):
        drawn(two_parts(), tmp_path, depth=2, **chosen, **least)


def test_paper_is_no_longer_than_a4_if_fewer_boxes_are_enough(tmp_path: Path) -> None:
    """If nothing is short enough, there is a warning, and the shortest figure is written."""
    chosen: Any = {"fold": False, "max_boxes": 100, "width": "85mm"}
    svg = drawn(two_parts(), tmp_path, **chosen)
    assert size_of(svg)[1] <= 297 and svg.count(b'class="node') == 4
    with pytest.warns(LargerThanAPage):
        assert size_of(drawn(stack(30), tmp_path, **chosen))[1] > 297


def test_levels_whose_frames_alone_do_not_fit_are_not_laid_out(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are; levels that may be readable are laid out."""
    made: list[int] = []
    for levels in (3, 10, 14):
        run = Builder("Net")
        with contextlib.ExitStack() as opened:
            opened.enter_context(run.scope("Net"))
            value = run.input("x")
            for level in range(levels):
                opened.enter_context(run.scope("inner", f"Level{level}"))
            linear(run, "one", linear(run, "two", value))
        calls: list[Figure] = []
        lay_out = Placed.lay_out
        with monkeypatch.context() as patch:
            patch.setattr(Placed, "lay_out", lambda figure, *rest: (
                calls.append(figure), lay_out(figure, *rest))[1])
            readable_view(run.recording(), ViewOptions(), Style(fit=("25mm", "25mm")), None)
        made.append(len(calls))
    assert made[0] < made[1] == made[2], made


def test_who_lays_out_decides_what_can_be_read() -> None:
    """Our layout knows the size of the text before; that of others is not asked for it."""
    options, style = ViewOptions(fold=False, max_boxes=100), Style(fit=("60mm", "60mm"))
    exporters = (None, Svg(), Pdf(), Svg(layout="dot"), by_suffix(".mmd"))
    boxes = [len(readable_view(two_parts(), options, style, each).boxes) for each in exporters]
    assert boxes == [4, 4, 4, 26, 26]
    assert len(readable_view(two_parts(), options, Style(), None).boxes) == 26


def test_a_figure_of_one_box_at_most_shows_no_more_in_a_place() -> None:
    """All is open where two boxes are allowed, however deep they are."""
    run = Builder("Net")
    with run.scope("Net"):
        value = run.input("x")
        for part in "ab":
            with run.scope(part, "Block"), run.scope("inner", "Inner"):
                value = run.op("relu", value)
    style, opened = Style(fit=("100mm", "100mm")), []
    for most in (1, 2):
        options = ViewOptions(fold=False, max_boxes=most)
        opened.append(len(readable_view(run.recording(), options, style, None).clusters))
    assert opened == [1, 3]


def test_fewer_and_fewer_boxes_are_tried() -> None:
    """First as many as are wanted."""
    assert SHARES[0] == 1 and [*SHARES] == sorted({*SHARES}, reverse=True)


def test_without_a_format_the_picture_is_an_svg() -> None:
    """What can be read in its place is shown; a format without places shows all."""
    run = Builder("Net")
    with run.scope("Net"):
        value = run.input("x")
        for part in "abcd":
            with run.scope(part, part.upper()):
                value = run.op("neg", run.op("relu", value))
    recording, style = run.recording(), Style(fit=("30mm", "30mm"))
    boxes = [len(readable_view(recording, ViewOptions(fold=False), style, each).boxes)
             for each in (None, Svg(), by_suffix(".mmd"))]
    assert boxes[0] == boxes[1] < boxes[2]


def test_the_smallest_text_of_a_figure() -> None:
    """Titles are larger than captions, legends and what stands on lines."""
    titled, noted = (Text("a", "title"),), (Text("a", "title"), Text("b"))
    box, look = Shape("a", None, titled, LOOK), LOOK
    named, plain = Line("a", "a", "said", look), Line("a", "a", "", look)
    figure = Figure("f", (box,), (), (plain,))
    assert smallest(figure) == 10.0
    smaller: list[dict[str, Any]] = [
        {"shapes": (replace(box, label=noted), box)},
        {"groups": (Group("g", None, noted, look),)},
        {"legend": (LegendEntry("e", look),)},
        {"lines": (plain, named)},
    ]
    assert [smallest(replace(figure, **facts)) for facts in smaller] == [8.0] * 4
    assert smallest(replace(figure, fontsize=20.0)) == 20.0


def test_several_models_are_closed_where_text_would_be_small(tmp_path: Path) -> None:
    """A single one is not: a figure of one box says nothing."""
    boxes = []
    for names in (("encoder", "decoder"), ("encoder",)):
        run = Builder("step")
        value = run.input("x")
        for name in names:
            with run.scope(name, "Net"):
                for number in range(24 // len(names)):
                    value = linear(run, str(number), value)
        svg = drawn(run.recording(), tmp_path, fold=False, fit=("30mm", "30mm"), min_fontsize=0)
        boxes.append(svg.count(b'class="node'))
    assert boxes == [4, 26]  # with input and output


def test_fit_is_for_pictures(tmp_path: Path) -> None:
    """A format without places shows as much with it as without."""
    text = drawn(stack(30), tmp_path, ".mmd", fit=("30mm", "30mm"), fold=False)
    assert text == drawn(stack(30), tmp_path, ".mmd", fold=False)


@pytest.mark.parametrize("suffix", [".pdf", ".png"])
def test_other_pictures(suffix: str, tmp_path: Path) -> None:
    """A PDF and a bitmap have the size of the SVG."""
    width, height = size_of(drawn(stack(16), tmp_path, fit="page", **OPEN))
    made = drawn(stack(16), tmp_path, suffix, fit="page", **OPEN)
    if suffix == ".pdf":
        from torchrecorder.export.paper_pdf import size_of as pages

        assert pages(made) == pytest.approx((width * MM, height * MM), abs=1.5)
    else:
        pixels = [int.from_bytes(made[at : at + 4], "big") for at in (16, 20)]
        assert pixels == pytest.approx([width / 25.4 * 144, height / 25.4 * 144], abs=2)


def test_graphviz_makes_it_smaller(tmp_path: Path) -> None:
    """Where it places the boxes there are no columns, but the place is kept to."""
    svg = drawn(stack(12), tmp_path, fit="cell", layout="dot", min_fontsize=0, **OPEN)
    assert size_of(svg)[1] == pytest.approx(450 / MM, abs=0.01)
    assert 'size="9.3750,6.2500"' in drawn(stack(2), tmp_path, ".dot", fit="cell").decode()


def test_the_legend_is_in_the_place(tmp_path: Path) -> None:
    """With it the figure is still no larger."""
    svg = drawn(stack(24), tmp_path, fit="cell", legend=True, min_fontsize=0, **OPEN)
    assert svg.count(b">weights<") == 1
    assert size_of(svg)[0] <= 675 / MM + 0.01 and size_of(svg)[1] <= 450 / MM + 0.01


def test_a_place_or_an_exact_size() -> None:
    """Both at once is no question that has an answer; a name is guessed."""
    with pytest.raises(InvalidArgument, match="give only one"):
        drawing(by_suffix(".svg"), fit="page", width="3in")
    with pytest.raises(InvalidArgument, match="did you mean 'column'"):
        drawing(by_suffix(".svg"), fit="colum")


def test_scale_of_a_paper() -> None:
    """It is that of the tighter side, and never above 1."""
    assert Paper(place=(100, 50)).scale(200, 60) == 0.5
    assert Paper(place=(100, 50)).scale(100, 100) == 0.5
    assert Paper(place=(100, 50)).scale(10, 10) == 1 == Paper().scale(1e5, 1e5)
    assert points("width", "96px") == 72
    assert not Paper(min_fontsize=3) and Paper(place=(1, 1)) and Paper(height=3)


def test_from_a_shell(tmp_path: Path) -> None:
    """By name, or width and height with a comma."""
    stack(24).save(tmp_path / "run.json")
    for fit, most in (("cell", 450 / MM), ("100mm,40mm", 40)):
        out = str(tmp_path / "figure.svg")
        deep = ["--depth", "2", "--no-fold", "--min-fontsize", "0"]
        main(["render", str(tmp_path / "run.json"), "-o", out, "--fit", fit, *deep])
        assert size_of(Path(out).read_bytes())[1] <= most + 0.01


@pytest.mark.parametrize(("ops", "scopes", "size"), [(600, 1, "40mm"), (0, 20, "10mm")])
def test_a_large_figure_is_not_laid_out_to_be_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ops: int, scopes: int, size: str
) -> None:
    """Where boxes alone are too many for the place, or frames in each other. It is not written
    either, as another with small text has larger text."""
    laid_out: list[int] = []
    plain = layout.plan

    def plan(items: Any, *args: Any, **options: Any) -> Any:
        laid_out.append(len(items))
        return plain(items, *args, **options)

    monkeypatch.setattr("torchrecorder.layout.layered.encoder_decoder.plan", plan)
    run = Builder("Net")
    with run.scope("Net"), contextlib.ExitStack() as around:
        value = run.input("x")
        for number in range(scopes):
            around.enter_context(run.scope(f"body{number}", f"Body{number}"))
            value = run.op(f"g{number}", value)
        for number in range(ops):
            value = run.op(f"f{number}", value)
    chosen: Any = {"max_boxes": 1000, "fit": (size, size), "min_fontsize": 0}
    svg = drawn(run.recording(), tmp_path, **chosen)
    assert svg.count(b'class="node') == 3 and max(laid_out) < 10
