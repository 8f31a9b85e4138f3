"""Scopes turned over, by hand: what is put above what it reads, and titles of modules."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import torchrecorder
from torchrecorder.export.dot import in_two
from torchrecorder.export.nested import Placed, header_size
from torchrecorder.layout.layered import Item, Link, place, plan
from torchrecorder.layout.layered.constants import PAD, SEPARATION
from torchrecorder.layout.layered.ports import OUTSIDE, End
from torchrecorder.layout.layered.positions import BranchPath, Frame, FramesAlong, PlacedScope
from torchrecorder.layout.layered.template import Branch, ClosedChild, Template, Trunk
from torchrecorder.layout.layered.turned import reader_above, risen
from torchrecorder.style.draw import draw
from torchrecorder.views.pipeline import ViewOptions, make_view

READ = Trunk(End(2, 0), (), (Branch(End(3, 0), ()),))
TEMPLATE = Template(
    (
        ClosedChild(0, 0, 60, 20, 0),
        ClosedChild(0, 0, 30, 20, 0),
        ClosedChild(0, 1, 80, 90, 1),
        ClosedChild(0, 2, 40, 30, 2),
    ),
    3, (), (), (READ,), 0,
)


@pytest.mark.parametrize("leaves", [20.0, 60.0, 200.0])
def test_what_reads_a_module_stands_above_it(leaves: float) -> None:
    """Beside all that is there, as near to where its tensor leaves as it can, in their row."""
    frames = (Frame(10, 10, 60, 20), Frame(90, 20, 30, 20), Frame(10, 100, 80, 90),
              Frame(30, 230, 40, 30))
    way = BranchPath(0, 0, ((leaves, 190.0), (leaves, 200.0), (45.0, 200.0), (45.0, 230.0)))
    before = PlacedScope(160.0, 270.0, (), (), frames, (way,), {})
    found = risen(before, TEMPLATE, 2, 3)
    assert found.frames[:3] == frames[:3]
    reader, free = found.frames[3], 120 + SEPARATION[True, True]
    assert reader == Frame(max(leaves - 15, free), 10, 40, 30)
    (path,) = found.paths
    (x, y), *_, (to, end) = path.points
    assert (x, y) == (leaves, 100) and (to, end) == (reader.across + 15, reader.end)
    for one, other in zip(path.points, path.points[1:]):
        assert one[0] == other[0] or one[1] == other[1]
    assert reader.end < path.points[1][1] < 100
    assert found.width == max(160.0, reader.across + 40 + PAD) and found.height == 190 + PAD


@pytest.mark.parametrize("direction", ["TB", "LR", "RL"])
@pytest.mark.parametrize("title", [(90.0, 12.0), (20.0, 60.0)])
def test_nothing_is_drawn_over_the_title_of_a_module(
    direction: str, title: tuple[float, float]
) -> None:
    """It is in the upper left corner; with boxes and lines in the module, and a line into it."""
    items = [Item("x", -1, 40, 20), Item("module", -1, 60, 30, title)]
    items += [Item(str(number), 1, 40, 20) for number in range(3)]
    links = [Link(0, 2, "x"), Link(0, 4, "x"), Link(2, 3, "a"), Link(3, 4, "b"), Link(2, 4, "c")]
    picture = place(plan(items, links, direction))  # type: ignore[arg-type]
    frame = next(box for box in picture.boxes if box.item == 1)
    left, top = frame.x + 9, frame.y + 4
    right, bottom = left + title[0], top + title[1]
    assert right <= frame.x + frame.width and bottom <= frame.y + frame.height
    for box in picture.boxes:
        assert box.item < 2 or box.x >= right or box.y >= bottom
    for piece in picture.sections:
        for (ax, ay), (bx, by) in zip(piece.points, piece.points[1:]):
            inside = frame.y < max(ay, by) and frame.x < max(ax, bx)
            assert not inside or min(ax, bx) >= right or min(ay, by) >= bottom or (
                piece.scope < 0 and max(ay, by) <= frame.y
            )


class Up(nn.Module):
    """Enlarges what comes from below, and joins it to what comes from the side."""

    def __init__(self, ins: int) -> None:
        super().__init__()
        self.enlarge = nn.ConvTranspose2d(ins, ins // 2, 2, stride=2)
        self.convolve = nn.Sequential(nn.Conv2d(ins, ins // 2, 3, padding=1), nn.ReLU())

    def forward(self, below: torch.Tensor, side: torch.Tensor) -> torch.Tensor:
        return self.convolve(torch.cat([side, self.enlarge(below)], 1))


class UNet(nn.Module):
    """A U-Net whose levels are joined inside of modules."""

    def __init__(self) -> None:
        super().__init__()
        self.begin = nn.Conv2d(1, 4, 3, padding=1)
        self.down = nn.ModuleList(
            nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(n, 2 * n, 3, padding=1), nn.ReLU(),
                          nn.Conv2d(2 * n, 2 * n, 3, padding=1), nn.ReLU())
            for n in (4, 8, 16)
        )
        self.up = nn.ModuleList(Up(n) for n in (32, 16, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = [self.begin(x)]
        for down in self.down:
            kept.append(down(kept[-1]))
        x = kept.pop()
        for up in self.up:
            x = up(x, kept.pop())
        return x


@pytest.mark.parametrize("depth", [2, 3])
def test_modules_that_are_turned_over_keep_their_titles_free(depth: int) -> None:
    """Everything in them runs up, also in what is open inside; no line runs through a title."""
    recording = torchrecorder.record(UNet().eval(), torch.ones(1, 1, 16, 16))
    figure = draw(make_view(recording, ViewOptions(depth=depth)))
    placed = Placed.lay_out(figure, 60.0)
    boxes, ways = placed.boxes(), list(placed.routes())
    for group in figure.groups:
        box = boxes[group.id]
        lines = group.label if box.in_one else tuple(in_two(group.label, figure))
        width, height = header_size(lines, figure)
        title = Frame(box.x + 9, box.y + 4, width, height)
        assert not any(FramesAlong([title]).are_hit(way) for way in ways), group.id
    right: set[str | None] = set()
    for group in figure.groups:
        if group.parent in right or any("Up" in text.text for text in group.label):
            right.add(group.id)
    up = {shape.id for shape in figure.shapes if shape.group in right}
    inside = [line for line in figure.lines if {line.tail, line.head} <= up]
    assert inside
    for line in inside:
        assert boxes[line.head].y + boxes[line.head].height <= boxes[line.tail].y


def test_a_reader_is_put_above_only_what_alone_it_reads() -> None:
    """Not where it reads something else too, even if that is read elsewhere as well."""
    assert reader_above(TEMPLATE, 2) == 3
    for more in (Trunk(End(0, 0), (), (Branch(End(3, 1), ()),)),
                 Trunk(End(0, 0), (), (Branch(End(3, 1), ()), Branch(End(2, 0), ()))),
                 Trunk(End(2, 1), (), (Branch(End(OUTSIDE, 0), ()),))):
        assert reader_above(TEMPLATE._replace(trunks=(READ, more)), 2) is None
    before = Trunk(End(0, 0), (), (Branch(End(2, 0), ()),))
    assert reader_above(TEMPLATE._replace(trunks=(READ, before)), 2) == 3
