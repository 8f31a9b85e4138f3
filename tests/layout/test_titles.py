"""Titles of open modules: in one line where there is room for it, else in two."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import torchrecorder
from tests.layout.test_columns import in_columns
from tests.layout.test_nested import crosses
from torchrecorder.layout.layered import Item, Link, Picture, place, plan
from torchrecorder.layout.layered.constants import PAD, TITLE_SHIFT

INSIDE = 80.0
"""The width of the boxes in the module."""


def placed(width: float, direction: str = "TB", joined: bool = True) -> Picture:
    """A module with three boxes, a title of this *width* in one line, and half of it in two."""
    items = [Item("x", -1, 40, 20)]
    items += [Item("module", -1, 60, 30, (width / 2, 24.0), in_one=(width, 12.0))]
    items += [Item(str(number), 1, INSIDE, 20) for number in range(3)]
    links = [Link(2, 3, "a"), Link(3, 4, "b"), *[Link(0, 2, "x")] * joined]
    return place(plan(items, links, direction))  # type: ignore[arg-type]


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("more", [-1.0, 1.0])
def test_a_title_in_one_line_moves_little(more: float, joined: bool) -> None:
    """Only as far as is allowed, out of the way of a line into the module or by making it wider."""
    free = INSIDE / 2 - PAD if joined else INSIDE
    module = placed(free + TITLE_SHIFT + more, joined=joined).boxes[1]
    assert module.in_one == (more < 0)


@pytest.mark.parametrize("direction", ["LR", "RL"])
def test_a_title_along_the_flow_is_in_one_line_if_the_module_is_long_enough(direction: str) -> None:
    """No line into the module is in its way."""
    assert placed(3 * INSIDE, direction).boxes[1].in_one
    assert not placed(6 * INSIDE, direction).boxes[1].in_one


class Net(nn.Module):
    """A module with a long name in a short one, and in a long one."""

    def __init__(self) -> None:
        super().__init__()
        self.a_layer_with_a_name = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the layers."""
        out: torch.Tensor = self.a_layer_with_a_name(x)
        return out


@pytest.mark.parametrize(("suffix", "options"), [
    (".svg", {}), (".svg", {"attributes": {"tooltip": "Net"}}), (".drawio", {}),
])
def test_every_format_writes_the_title_as_it_is_placed(
    suffix: str, options: dict[str, object], tmp_path: Path
) -> None:
    """In one line from left to right, and in two from top to bottom."""
    recording = torchrecorder.record(Net(), (torch.rand(1, 2),))
    title = "a_layer_with_a_name: Sequential"
    for direction, whole in (("LR", True), ("TB", False)):
        path = tmp_path / f"net{suffix}"
        recording.render(path, depth=2, direction=direction, **options)  # type: ignore[arg-type]
        assert (title in path.read_text()) == whole


@pytest.mark.parametrize("limit", [200.0, 300.0])
def test_a_line_that_only_a_later_row_reads_does_not_enter_beside_the_title(limit: float) -> None:
    """From left to right, in rows: it enters below the title, as the others do."""
    header = 90.0, 12.0
    items = [Item("x", -1, 40, 20, first=True), Item("y", -1, 40, 20, first=True)]
    items += [Item("module", -1, 60, 30, header), *(Item(str(n), 2, 60, 20) for n in range(7))]
    links = [Link(0, 3, "x"), Link(1, 6, "y")]
    pairs = [(3, 4), (3, 5), (4, 6), (5, 7), (7, 8), (5, 9)]
    picture = in_columns(plan(items, links + [Link(*pair, "v") for pair in pairs], "LR"), limit)
    module = next(box for box in picture.boxes if box.item == 2)
    title = module._replace(width=PAD + header[0], height=header[1])
    inside = [way.points for way in picture.sections if way.scope == 2]
    assert inside and not any(crosses(points, title) for points in inside)
