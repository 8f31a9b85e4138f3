"""Outlines of boxes around their labels: their sizes, and how near second ones are."""

from __future__ import annotations

import math

import pytest

from tests.export.test_geometry import alone
from torchrecorder.export.nested import AGAIN, SLANT, closed_size
from torchrecorder.export.plain_svg import slanted_inside
from torchrecorder.style.figure import Text


@pytest.mark.parametrize(("width", "height"), [(40.0, 20.0), (100.0, 20.0), (40.0, 60.0)])
def test_second_outlines_of_parallelograms_are_as_near_as_others(
    width: float, height: float
) -> None:
    """Also at the slanted sides, which both outlines have in one direction."""
    near, far = slanted_inside(width, height)
    gap, lean = AGAIN / 2, SLANT * width
    for x, y in ((far, gap), (near, height - gap)):
        apart = (x * height + y * lean - lean * height) / math.hypot(height, lean)
        assert apart == pytest.approx(gap)


@pytest.mark.parametrize("outline", ["octagon", "parallelogram", "note", "cylinder", "box"])
def test_boxes_grow_with_their_letters(outline: str) -> None:
    """Lines are not nearer to the corners of a large one."""
    label = (Text("a" * 30, "title"), Text("b" * 30, "title"), Text("c" * 30, "title"))
    small, large = (
        closed_size(shape, figure, None, label)
        for figure in (alone(outline, fontsize=size) for size in (10.0, 30.0))
        for shape in figure.shapes
    )
    assert large == pytest.approx([3 * side for side in small], rel=0.02)
