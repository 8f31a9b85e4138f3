"""Labels in more and shorter lines, where a figure is too wide for its paper."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.export.test_geometry import LOOK
from tests.export.test_paper import size_of
from torchrecorder.errors import DoesNotFit
from torchrecorder.export.dot import output_labels
from torchrecorder.export.nested import PAD, Placed
from torchrecorder.export.shorter_lines import LENGTHS, fitted, with_shorter_lines
from torchrecorder.recording import Recording
from torchrecorder.style.figure import Figure, Group, Line, Shape, Text
from torchrecorder.style.paper import Paper
from torchrecorder.testing import Builder


def labeled(*lines: str) -> tuple[Text, ...]:
    """A title, and details below it."""
    title, *details = lines
    return Text(title, "title"), *map(Text, details)


def broken(length: int, *lines: str) -> list[str]:
    """The lines of a label after they are made shorter."""
    figure = Figure("f", (Shape("a", None, labeled(*lines), LOOK),), (), ())
    return [text.text for text in with_shorter_lines(figure, length).shapes[0].label]


def side_by_side(number: int, title: str = "branch: Sequential") -> Figure:
    """Boxes that all read one other, with their results on them."""
    shapes = [Shape(f"b{each}", None, labeled(title), LOOK) for each in range(number)]
    lines = tuple(Line("x", shape.id, "", LOOK) for shape in shapes)
    return Figure("f", (Shape("x", None, labeled("x"), LOOK), *shapes), (), lines)


@pytest.mark.parametrize(
    "length, lines, found",
    [
        (20, ["patch_embed: PatchEmbed", "148 k params"],
         ["patch_embed:", "PatchEmbed", "148 k params"]),
        (20, ["fc: Linear", "192 → 1000"], ["fc: Linear", "192 → 1000"]),
        (14, ["layers.0 … layers.5: Block  ×6"], ["layers.0 …", "layers.5:", "Block  ×6"]),
        (10, ["stage.1 … 4: Block"], ["stage.1 … 4:", "Block"]),
        (20, ["BertForSequenceClassification"], ["BertForSequence", "Classification"]),
        (20, ["scaled_dot_product_attention"], ["scaled_dot_", "product_attention"]),
        (14, ["encoder.last_state"], ["encoder", ".last_state"]),
        (14, ["Multi-head self-attention"], ["Multi-head", "self-attention"]),
        (14, ["conv", "64 → 256, 1×1 + BN + ReLU"], ["conv", "64 → 256, 1×1", "+ BN + ReLU"]),
        (10, ["getitem", "(:, :, None, None)"], ["getitem", "(:, :,", "None, None)"]),
        (10, ["unbind", "→ 3 tensors of 1×3×64"], ["unbind", "→ 3 tensors of", "1×3×64"]),
        (10, ["conv", "kernel 3, stride 2"], ["conv", "kernel 3", "stride 2"]),
        (10, ["an ExactClas: X"], ["an", "ExactClas:", "X"]),
        (10, ["twenty letter titles", 25 * "x"], ["twenty letter titles", 25 * "x"]),
        (10, ["more than that letters", 25 * "x"], ["more than", "that letters", 25 * "x"]),
    ],
)
def test_where_a_line_breaks(length: int, lines: list[str], found: list[str]) -> None:
    """After names, between words and at commas: nowhere else, and not where it is short."""
    assert broken(length, *lines) == found


def test_a_label_is_not_broken_where_it_stays_as_wide() -> None:
    """The shape in the box is as wide as its title; without it, the title has two lines."""
    assert broken(10, "norm: Norm1d", "→ 128×256×256×256") == ["norm: Norm1d", "→ 128×256×256×256"]
    assert broken(10, "norm: Norm1d") == ["norm:", "Norm1d"]


def test_results_have_lines_of_their_own() -> None:
    """A text at an arrow, which is written in its box, is broken like the others there; a short
    one stays at the arrow."""
    title = labeled("split")
    shapes = tuple(Shape(name, None, title, LOOK) for name in "abc")
    lines = (Line("a", "b", "2 tensors of 16×32×64", LOOK), Line("b", "c", "1×2", LOOK))
    short = with_shorter_lines(Figure("f", shapes, (), lines), 10)
    assert [text.text for text in short.shapes[0].label] == ["split", "→ 2 tensors of", "16×32×64"]
    assert output_labels(short) == {"b": Text("→ 1×2")}


def test_titles_of_open_modules() -> None:
    """They push the boxes below them aside."""
    group = Group("g", None, labeled("ForSequenceClassification"), LOOK)
    short = with_shorter_lines(Figure("f", (), (group,), ()), 14)
    assert [text.text for text in short.groups[0].label] == ["ForSequence", "Classification"]


def test_lines_are_as_long_as_the_paper_allows() -> None:
    """The narrower the paper, the shorter the lines."""
    figure = side_by_side(4, "layer_nr_one: SomeLongClassOf")
    tried = [figure, *(with_shorter_lines(figure, length) for length in LENGTHS[:-1])]
    widths = [Placed.lay_out(each, 5).picture.width + 2 * PAD for each in tried]
    assert widths == sorted(set(widths), reverse=True)
    for each, width in zip(tried, widths):
        paper = Paper(width=width, min_fontsize=10)
        found, placed = fitted(replace(figure, paper=paper), 5)
        assert found == replace(each, paper=paper)
        assert placed.picture == Placed.lay_out(found, 5).picture


def test_text_as_large_as_possible() -> None:
    """Where even the shortest lines are too long."""
    shortest = with_shorter_lines(side_by_side(4), LENGTHS[-1])
    width = Placed.lay_out(shortest, 5).picture.width
    paper = Paper(width=width, min_fontsize=10)
    assert fitted(replace(side_by_side(4), paper=paper), 5)[0] == replace(shortest, paper=paper)


@pytest.mark.parametrize("paper", [Paper(), Paper(width=200), Paper(width=60, min_fontsize=10)])
def test_lines_stay_as_they_are(paper: Paper) -> None:
    """Without a paper, if text of any size is allowed, and where no line is short enough."""
    figure = replace(side_by_side(4), paper=paper)
    assert fitted(figure, 5)[0] == figure


def test_shorter_lines_that_do_not_help() -> None:
    """On low paper they would make the figure higher, and its text smaller."""
    figure = replace(side_by_side(2), paper=Paper(height=70, min_fontsize=10))
    assert fitted(figure, 5)[0] == figure


def towers() -> Recording:
    """Three modules that read one input."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for number in range(3):
            with run.scope(f"branch_{number}", "MultiScaleBlock"):
                run.op("linear", run.op("relu", x))
    return run.recording()


@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_a_column_of_a_paper(suffix: str, tmp_path: Path) -> None:
    """Three boxes beside each other are in a column of 85 mm, with text that can be read."""
    options = {"width": "85mm", "min_fontsize": 6, "fontsize": 8, "depth": 1, "fold": False}
    written = towers().render(tmp_path / f"figure.{suffix}", **options)
    if suffix == "svg":
        svg = written.read_text()
        assert size_of(svg.encode())[0] == pytest.approx(85, abs=0.1)
        assert len(re.findall(r">branch_\d:<", svg)) == 3
    with pytest.raises(DoesNotFit):
        towers().render(tmp_path / f"figure.{suffix}", **{**options, "width": "50mm"})


def test_paper_of_the_size_of_a_figure(tmp_path: Path) -> None:
    """Its text is neither smaller there nor in other lines: the size is that of the file."""
    options: Any = {"depth": 1, "fold": False, "min_fontsize": 8}
    written = towers().render(tmp_path / "figure.svg", **options)
    width = re.search(r'<svg width="([\d.]+pt)"', written.read_text())
    assert width is not None
    again = towers().render(tmp_path / "again.svg", **options, width=width[1])
    texts = [re.findall(r"<text.*</text>", path.read_text()) for path in (written, again)]
    assert texts[0] == texts[1]
