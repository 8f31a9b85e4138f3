"""Boxes have room for their text, in any usual font and size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from torchrecorder.export.nested import closed_size
from torchrecorder.layout.measure import text_width
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


def test_wide_fonts_get_more_than_narrow_ones() -> None:
    """Verdana is about a fifth wider than Helvetica."""
    plain, times, verdana = (
        text_width("BatchNorm2d", 10, fontname=name) for name in ("Arial", "Times", "Verdana")
    )
    assert plain < times < verdana and verdana > 1.18 * plain


@pytest.mark.parametrize("outline", ["box", "parallelogram", "octagon"])
def test_air_grows_with_the_letters(outline: str) -> None:
    """A box at twice the size of text is twice as large, in each direction."""
    (width, height), large = _size(10, outline), _size(20, outline)
    assert large == pytest.approx((2 * width, 2 * height), abs=0.2)
