"""U shapes: levels that are joined across, in reverse order, and what is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

import torchrecorder
from tests import real_models
from tests.layout.test_nested import SLACK, check, check_levels
from tests.work import growth
from torchrecorder.export.nested import Placed
from torchrecorder.layout import engine
from torchrecorder.layout.layered import Item, Link, Picture, PlacedBox, place, plan
from torchrecorder.layout.layered.edge_routing import edge_routes
from torchrecorder.layout.layered.positions import PlanePoint
from torchrecorder.style.draw import draw
from torchrecorder.views.pipeline import ViewOptions, make_view


class Net(NamedTuple):
    """A scope with levels, as items and links.

    Attributes:
        items: The boxes.
        links: What joins them.
        skips: The numbers of the links from side to side.
        ways: The boxes of each level: on the way down, and on the way up.
    """

    items: list[Item]
    links: list[Link]
    skips: list[int]
    ways: list[tuple[int, int]]


class _Build:
    """Makes a net, box by box."""

    def __init__(self) -> None:
        self.items = [Item("in", -1, 60, 20, first=True), Item("model", -1, 80, 30, (50.0, 12.0))]
        self.links: list[Link] = []
        self.last = 0

    def box(
        self, width: float, height: float, inside: bool, module: bool = True
    ) -> tuple[int, int]:
        """A box after the last one: its number, and that of what is read inside it."""
        header = (20.0, 10.0) if inside else None
        self.items.append(
            Item(f"b{len(self.items)}", 1, width, height, header, module=module)
        )
        number = reads = len(self.items) - 1
        if inside:
            for _ in range(2):
                self.items.append(Item(f"b{len(self.items)}", number, width, height))
            self.links.append(Link(reads + 1, reads + 2, "inner"))
            reads += 1
        self.links.append(Link(self.last, reads, "x"))
        self.last = len(self.items) - 1
        return number, reads


def u_net(
    sizes: Sequence[tuple[float, float]], opened: Sequence[bool], parallel: int = 1
) -> Net:
    """A net with as many levels as there are pairs of *sizes* and *opened*, and a bottom."""
    build, kept, skips, ways = _Build(), [], [], []
    for (width, height), inside in zip(sizes, opened):
        kept.append((build.box(width, height, inside)[0], build.last))
        build.box(40, 20, False)
    build.box(60, 40, False)
    for (left, gives), (width, height), inside in reversed(list(zip(kept, sizes, opened))):
        build.box(50, 20, False)
        right, reads = build.box(height, width, inside)
        for number in range(parallel):
            skips.append(len(build.links))
            build.links.append(Link(gives, reads, "x" if parallel == 1 else f"y{number}"))
        ways.append((left, right))
    build.items.append(Item("out", -1, 60, 20))
    build.links.append(Link(build.last, len(build.items) - 1, "x"))
    return Net(build.items, build.links, skips, ways[::-1])


def drawn(net: Net) -> tuple[Picture, dict[int, PlacedBox]]:
    """The picture of a net, which is right in itself and the same twice; its boxes by number."""
    planned = plan(net.items, net.links)
    picture = place(planned, side_by_side=True)
    check(picture, planned)
    assert place(plan(net.items, net.links), side_by_side=True) == picture
    return picture, {box.item: box for box in picture.boxes}


def check_shape(net: Net) -> None:
    """Levels stand side by side, in their order, and each line between two is level."""
    picture, boxes = drawn(net)
    ways = list(edge_routes(picture, net.links))
    for left, right in net.ways:
        assert boxes[left].x + boxes[left].width < boxes[right].x
    for one, other in zip(net.ways, net.ways[1:]):
        assert all(boxes[a].y + boxes[a].height <= boxes[b].y for a, b in zip(one, other))
    middle = max(boxes[a].x + boxes[a].width for a, _ in net.ways) + 1
    levels = [_across(ways[skip], middle) for skip in net.skips]
    assert len(set(levels)) == len(levels)
    out = boxes[len(net.items) - 1]
    assert out.y + out.height <= boxes[1].y and ways[-1][-1][1] >= out.y + out.height - SLACK


def _across(way: Sequence[PlanePoint], middle: float) -> float:
    """The only height at which a way runs from side to side."""
    (level,) = (
        ay
        for (ax, ay), (bx, by) in zip(way, way[1:])
        if min(ax, bx) < middle < max(ax, bx) and abs(ay - by) < SLACK
    )
    return round(level, 2)


SOME = settings(max_examples=25, deadline=None)
SIZES = st.tuples(st.floats(30, 120), st.floats(20, 120)).map(
    lambda size: (round(size[0], 1), round(size[1], 1))
)


@SOME
@given(st.data(), st.integers(2, 5), st.integers(1, 3))
def test_levels_stand_side_by_side(data: st.DataObject, levels: int, parallel: int) -> None:
    """Whatever the size of the boxes, and which of them are open."""
    sizes = data.draw(st.lists(SIZES, min_size=levels, max_size=levels))
    opened = data.draw(st.lists(st.booleans(), min_size=levels, max_size=levels))
    check_shape(u_net(sizes, opened, parallel))


def test_a_u_of_many_levels_is_in_proportion() -> None:
    """A level is compared with what is beside it, not with all other levels."""
    def placing(levels: int) -> Callable[[], object]:
        net = u_net([(60, 40)] * levels, [False] * levels)
        planned = plan(net.items, net.links)
        return lambda: place(planned, side_by_side=True)

    assert growth(placing, 12) < 2.2


@SOME
@given(st.data(), st.integers(2, 4))
def test_other_lines_run_beside_the_levels(data: st.DataObject, levels: int) -> None:
    """What is read on both sides runs through no box, whether or not a U is made."""
    net = u_net([(60, 40)] * levels, data.draw(st.lists(st.booleans(), min_size=4, max_size=4)))
    leaves = [n for n, item in enumerate(net.items) if item.header is None]
    for _ in range(data.draw(st.integers(1, 5))):
        tail = data.draw(st.sampled_from(leaves[:-1]))
        later = [leaf for leaf in leaves[:-1] if leaf > tail]
        if later:
            net.links.append(Link(tail, data.draw(st.sampled_from(later)), "other"))
    check_levels(list(edge_routes(drawn(net)[0], net.links)), net.links)


def test_without_graphviz_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of boxes is found in another way."""
    monkeypatch.setattr(engine, "available", lambda: False)
    check_shape(u_net([(90, 40)] * 4, [False, True, False, True]))


def _chain(count: int, extra: Sequence[tuple[int, int]], module: bool = True) -> Net:
    build = _Build()
    boxes = [build.box(60, 40, False, module)[0] for _ in range(count)]
    build.links += [Link(boxes[one], boxes[other], "x") for one, other in extra]
    return Net(build.items, build.links, [], [])


@pytest.mark.parametrize(
    "extra",
    [
        [],
        [(0, 3), (3, 6), (6, 9)],
        [(0, 9)],
        [(0, 8), (1, 9)],
        [(0, 9), (0, 8), (0, 7)],
        [(0, 9), (1, 9), (2, 9)],
        [(one, other) for one in range(10) for other in range(one + 2, 10)],
    ],
    ids=["chain", "residual", "one", "same order", "one source", "one sink", "dense"],
)
def test_other_skips_make_no_u(extra: Sequence[tuple[int, int]]) -> None:
    """Only several levels inside each other do."""
    assert runs_down(_chain(10, extra))


def runs_down(net: Net) -> bool:
    """Whether each link ends below the box where it begins."""
    _, boxes = drawn(net)
    ends = [(boxes[link.tail], boxes[link.head]) for link in net.links]
    return all(head.y >= tail.y + tail.height for tail, head in ends)


@pytest.mark.parametrize("tensors, folds", [(1, True), (3, False)])
def test_what_all_levels_read_may_cross_some_lines(tensors: int, folds: bool) -> None:
    """One tensor besides, as the time in a diffusion model, makes a U; with several, lines would
    cross everywhere."""
    net = u_net([(90, 40)] * 3, [False] * 3)
    for number in range(tensors):
        time = len(net.items)
        net.items.append(Item(f"time{number}", 1, 60, 20, module=True))
        levels = [box for way in net.ways for box in way]
        net.links.append(Link(0, time, "given"))
        net.links.extend(Link(time, box, "time") for box in levels)
    assert runs_down(net) != folds


def test_levels_are_of_modules() -> None:
    """The same lines between operations, as those of one formula, are no levels."""
    extra = [(2, 7), (1, 8), (0, 9)]
    assert not runs_down(_chain(10, extra))
    assert runs_down(_chain(10, extra, module=False))


def test_what_leaves_the_scope_from_the_left_makes_no_u() -> None:
    """It would have to run around the right side."""
    net = u_net([(90, 40)] * 3, [False] * 3)
    assert not runs_down(net)
    net.items.append(Item("early", -1, 60, 20))
    net.links.append(Link(net.ways[1][0], len(net.items) - 1, "early"))
    assert runs_down(net)


@pytest.mark.parametrize("plain", ["left", "right"])
def test_levels_have_modules_between_them_on_both_sides(plain: str) -> None:
    """Where one side is of operations only, they are no levels."""
    net = u_net([(90, 40)] * 3, [False] * 3)
    assert not runs_down(net)
    bottom = net.ways[-1][0] + 2
    for number, item in enumerate(net.items):
        if item.parent == 1 and number != bottom and (number < bottom) == (plain == "left"):
            net.items[number] = item._replace(module=False)
    assert runs_down(net)


def test_levels_lie_on_one_way() -> None:
    """Two long lines from ways that meet only later are no levels, one inside the other."""
    build = _Build()
    first = [build.box(60, 40, False)[0] for _ in range(6)]
    build.last = 0
    second = [build.box(60, 40, False)[0] for _ in range(3)]
    build.links.append(Link(second[-1], first[-1], "x"))
    build.links.append(Link(first[0], first[-1], "x"))
    assert runs_down(Net(build.items, build.links, [], []))


@pytest.mark.parametrize("direction", ["LR", "RL", "BT"])
def test_in_other_directions_the_flow_stays_as_asked_for(direction: str) -> None:
    """A U is for figures that run down."""
    net = u_net([(90, 40)] * 3, [False] * 3)
    planned = plan(net.items, net.links, direction)  # type: ignore[arg-type]
    assert place(planned, side_by_side=True) == place(planned)


class Twice(nn.Sequential):
    """Two convolutions."""

    def __init__(self, ins: int, outs: int) -> None:
        super().__init__(
            nn.Conv2d(ins, outs, 3, padding=1), nn.ReLU(),
            nn.Conv2d(outs, outs, 3, padding=1), nn.ReLU(),
        )


class UNet(nn.Module):
    """Four levels and a bottom."""

    def __init__(self) -> None:
        super().__init__()
        wide = [2, 4, 6, 8, 10]
        self.down = nn.ModuleList(Twice(a, b) for a, b in zip([1, *wide], wide[:-1]))
        self.bottom = Twice(8, 10)
        self.enlarge = nn.ModuleList(
            nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in zip(wide[::-1], wide[-2::-1])
        )
        self.up = nn.ModuleList(Twice(2 * b, b) for b in wide[-2::-1])
        self.head = nn.Conv2d(2, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for down in self.down:
            kept.append(down(x))
            x = nn.functional.max_pool2d(kept[-1], 2)
        x = self.bottom(x)
        for enlarge, up in zip(self.enlarge, self.up):
            x = up(torch.cat([kept.pop(), enlarge(x)], 1))
        return self.head(x)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_u_net(depth: int) -> None:
    """Each cat stands at the height at which the line from its level arrives."""
    recording = torchrecorder.record(UNet().eval(), torch.ones(1, 1, 32, 32))
    figure = draw(make_view(recording, ViewOptions(depth=depth, fold=False)))
    placed = Placed.lay_out(figure, 60.0)
    boxes = placed.boxes()
    cats = [shape.id for shape in figure.shapes if shape.label[0].text == "cat"]
    level = []
    for line, way in zip(figure.lines, edge_routes(placed.picture, placed.links)):
        side = boxes[line.head].x
        if line.head in cats and abs(way[-1][0] - side) < SLACK:
            assert way[-1][1] == way[-2][1] and side - way[-2][0] > 20
            level.append(way[-1][1])
            tail = boxes[line.tail]
            assert depth > 1 or tail.y < way[-1][1] < tail.y + tail.height
    assert len(level) == 4 and sorted(level, reverse=True) == level
    (top,) = (boxes[shape.id] for shape in figure.shapes if shape.kind == "output")
    (first,) = (boxes[shape.id] for shape in figure.shapes if shape.kind == "input")
    assert top.y + top.height == pytest.approx(first.y + first.height)


@pytest.mark.parametrize(
    "name",
    [
        "transformer",
        "lstm_seq2seq",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("resnet18", "densenet121", "gpt2", "t5", "whisper")
        ),
    ],
)
@pytest.mark.parametrize("depth", [None, 2])
def test_other_models_run_down(name: str, depth: int | None) -> None:
    """Residual and dense blocks, encoder and decoder: in no module the flow runs up."""
    run = real_models.make(name)
    recording = torchrecorder.record(run.model, run.args, run.kwargs or {})
    placed = Placed.lay_out(draw(make_view(recording, ViewOptions(depth=depth))), 60.0)
    for link, way in zip(placed.links, edge_routes(placed.picture, placed.links)):
        assert way[-2][1] <= way[-1][1], placed.items[link.head].id
