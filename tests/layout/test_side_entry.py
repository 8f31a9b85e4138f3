"""Lines from aside enter circles at their sides, where nothing is in the way."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from torchrecorder.export.nested import Placed
from torchrecorder.layout.layered import Drawn
from torchrecorder.layout.layered.side_entry import side_entries
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.views.pipeline import ViewOptions, make_view

CIRCLE = Drawn(0, 40.0, 100.0, 20.0, 20.0, False)
MAIN = ((50.0, 60.0), (50.0, 85.0), (46.0, 85.0), (46.0, 100.0))
ASIDE = ((50.0, 0.0), (50.0, 10.0), (90.0, 10.0), (90.0, 90.0), (54.0, 90.0), (54.0, 100.0))


def entered(*more: Drawn, upright: bool = True) -> list[tuple[tuple[float, float], ...]]:
    """The ways of two lines into a circle, beside other boxes."""
    return side_entries([MAIN, ASIDE], ["a", "b"], {0: CIRCLE, 1: CIRCLE}, [CIRCLE, *more], upright)


def test_the_other_line_is_straight_then() -> None:
    """And that from aside has two bends after it has left."""
    main, aside = entered()
    assert main == ((50.0, 60.0), (50.0, 100.0))
    assert aside == (*ASIDE[:3], (90.0, 110.0), (60.0, 110.0))


@pytest.mark.parametrize(
    "box",
    [
        Drawn(1, 65.0, 95.0, 10.0, 30.0, False),  # beside the circle
        Drawn(1, 85.0, 105.0, 10.0, 30.0, False),  # where the line would come down
        Drawn(1, 62.0, 95.0, 60.0, 60.0, True),  # an open frame
    ],
)
def test_nothing_is_crossed(box: Drawn) -> None:
    """All stays as it is where something is in the way; a frame around the circle is not."""
    assert entered(box) == [MAIN, ASIDE]
    assert entered(Drawn(2, 0.0, 0.0, 200.0, 200.0, True)) == entered()


def test_other_lines_are_not_crossed() -> None:
    """But those of the same tensor may be."""
    other = ((75.0, 60.0), (75.0, 200.0))
    for carried, changed in (("c", False), ("b", True)):
        ways = side_entries(
            [MAIN, ASIDE, other], ["a", "b", carried], {0: CIRCLE, 1: CIRCLE}, [CIRCLE], True
        )
        assert (ways[1] != ASIDE) == changed and ways[2] == other


class Residual(nn.Module):
    """A block and a way around it."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both."""
        return (x + self.block(x)).relu()


@pytest.mark.parametrize("direction", ["TB", "LR", "BT", "RL"])
def test_a_residual_has_two_bends(direction: str) -> None:
    """In every direction; the line through the block has none at the sum."""
    view = make_view(torchrecorder.record(Residual(), torch.ones(1, 4)), ViewOptions())
    figure = draw(view, Style(direction=direction))  # type: ignore[arg-type]
    placed = Placed.of(figure, None, 60.0)
    (circle,) = (shape.id for shape in figure.shapes if shape.look.outline == "circle")
    box = placed.boxes()[circle]
    ways = [way for line, way in zip(figure.lines, placed.ways()) if line.head == circle]
    middle = box.x + box.width / 2, box.y + box.height / 2
    along = 1 if direction in ("TB", "BT") else 0
    straight, around = sorted(ways, key=len)
    assert len(straight) == 2 and abs(straight[-1][1 - along] - middle[1 - along]) < 5
    assert len(around) == 5 and around[-1][along] == around[-2][along] == middle[along]
