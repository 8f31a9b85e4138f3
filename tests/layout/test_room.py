"""Boxes have room for their text, in any usual font and size."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from torchrecorder.export.graphviz import rendered
from torchrecorder.export.nested import PAINTER, Placed, closed_size, nested_text
from torchrecorder.layout.measure import label_size, text_width
from torchrecorder.style.figure import Figure, Look, Shape, Text

LOOK = Look("#fff", "#000", "#000", "box")


def _size(fontsize: float, outline: str, fontname: str = "Helvetica") -> tuple[float, float]:
    shape = Shape("a", None, (Text("1: BatchNorm2d", "title"),), replace(LOOK, outline=outline))
    figure = Figure("net", (shape,), (), (), fontsize=fontsize, fontname=fontname)
    return closed_size(shape, figure, None)


@pytest.mark.parametrize("fontname", ["Courier", "DejaVu Sans Mono", "Consolas"])
def test_letters_that_are_equally_wide(fontname: str) -> None:
    """Each takes six tenths of the size, thin ones too; wide letters of Asia more."""
    assert text_width("iiii", 10, fontname=fontname) == text_width("WWWW", 10, fontname=fontname)
    assert text_width("ill", 10, fontname=fontname) >= 18
    assert text_width("層", 10, fontname=fontname) == 10


def test_widths_do_not_depend_on_what_was_measured_before() -> None:
    """A letter that another font had before is as wide as it would be without."""
    letters = "\u66f8\u03bb\u0301\u2192\u2026"
    for _ in range(2):
        widths = [text_width(letter, 10, fontname="Courier") for letter in letters]
        assert widths == pytest.approx([10, 6.4, 0, 6.2, 6.2])
        assert text_width(letters, 10) == pytest.approx(10 + 6.4 + 0 + 5.84 + 10)


def test_wide_fonts_get_more_than_narrow_ones() -> None:
    """Verdana is about a fifth wider than Helvetica."""
    plain, times, verdana = (
        text_width("BatchNorm2d", 10, fontname=name) for name in ("Arial", "Times", "Verdana")
    )
    assert plain < times < verdana and verdana > 1.18 * plain


@pytest.mark.parametrize(("letters", "width"), [
    ("'", 191), ("ijl", 222), ("|", 260), (" !,./:;I[\\]ft", 278), ("()-r", 333), ("{}", 334),
    ('"', 355), ("*", 389), ("^", 469), ("Jckszvxy", 500), ("+<=>~", 584), ("FTZ", 611),
    ("&ABEKPSVXY", 667), ("CDHNRUw", 722), ("GOQ", 778), ("Mm", 833), ("%", 889), ("W", 944),
    ("@", 1015), ("0123456789abdeghnopqu#$?_", 556),
])
def test_letters_are_as_wide_as_those_of_helvetica(letters: str, width: float) -> None:
    """In thousandths of the size, by Adobe's metrics of its font."""
    for letter in letters:
        assert text_width(letter, 1000) == pytest.approx(width)


@pytest.mark.parametrize("outline", ["box", "parallelogram", "octagon"])
def test_air_grows_with_the_letters(outline: str) -> None:
    """A box at twice the size of text is twice as large, in each direction."""
    (width, height), large = _size(10, outline), _size(20, outline)
    assert large == pytest.approx((2 * width, 2 * height), abs=0.2)


@pytest.mark.parametrize("name", ["x", "attention_mask", "edges.('user', 'buys', 'item')"])
def test_slanted_sides_do_not_cut_what_an_input_is_called(name: str) -> None:
    """They lean the more, the wider the box is, so a long name needs more room beside it."""
    label = Text(name, "title"), Text("2×9 int64")
    look = Look("#d6efe9", "#068262", "#000000", "parallelogram")
    figure = Figure("net", (Shape("a", None, label, look, kind="input"),), (), ())
    text = nested_text(figure, Placed.lay_out(figure, 5.0))
    found = rendered(text, "svg", program=PAINTER).decode()
    (sides,) = re.findall(r'<polygon fill="#d6efe9"[^>]*points="([^"]*)"', found)
    corners = [tuple(map(float, each.split(","))) for each in sides.split()]
    lean = max(x for x, _ in corners) - max(x for x, y in corners if y == corners[2][1])
    width = max(x for x, _ in corners) - min(x for x, _ in corners)
    assert text_width(name, figure.fontsize) + 2 * 0.75 * lean <= width


@pytest.mark.parametrize("text", ["1: BatchNorm2d", "x", "2×9 int64"])
def test_bold_letters_are_wider(text: str) -> None:
    """By less than a fifth; no text has no width, and twice the size twice the width."""
    plain, bold = text_width(text, 10), text_width(text, 10, bold=True)
    assert plain < bold < 1.2 * plain
    assert text_width("", 10, bold=True) == 0 and text_width(text, 20) == pytest.approx(2 * plain)


def test_only_the_first_line_of_a_label_is_bold() -> None:
    """A label is as wide as its longest line, and as high as all of them."""
    short, long = Text("x", "title"), Text("16×64×32×32 float32")
    wide, high = label_size([short, long], 10, bold=True)
    assert (wide, high) == label_size([short, long], 10)
    assert label_size([short], 10, bold=True)[0] > label_size([short], 10)[0]
    assert high == pytest.approx(sum(label_size([line], 10)[1] for line in (short, long)))
