"""Folding siblings that differ: one box, and what differs said and marked."""

from __future__ import annotations

from collections import Counter
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from tests.figures import arrows, boxes, clusters, linear
from tests.test_properties import RUNS, graph_of, ops_in
from torchrecorder.capture.record import record
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import OpId
from torchrecorder.export.page_data.data import page_data
from torchrecorder.graph.align import aligned
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.collapse import Collapse
from torchrecorder.views.fold.fold import Fold, repeats
from torchrecorder.views.full_view import full_view
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind, View


def conv(run: Builder, name: str, x: str, source: int, target: int, size: int) -> Any:
    """A convolution that gives so many channels."""
    detail = f"{source}, {target}, kernel_size=(3, 3), stride=(1, 1)"
    with run.scope(name, "Conv2d", detail=detail):
        weight = run.parameter("weight", (target, source, 3, 3))
        return run.op("conv2d", x, weight, shape=(1, target, size, size))


def residual(run: Builder, name: str, x: str, source: int, target: int, size: int) -> Any:
    """A block that brings its input to another number of channels only where it must."""
    shape = (1, target, size, size)
    with run.scope(name, "Block"):
        h = conv(run, "conv", x, source, target, size)
        if source != target:
            with run.scope("downsample", "Sequential"):
                x = conv(run, "0", x, source, target, size)
        return run.op("add", h, x, shape=shape)


def stages(*lengths: int) -> Recording:
    """Stages of so many residual blocks, each of more channels and a smaller size."""
    run = Builder("Stages")
    with run.scope("Stages"):
        h, width, size = run.input("x", (1, 8, 64, 64)), 8, 64
        for number, length in enumerate(lengths):
            with run.scope(f"layer{number + 1}", "Sequential"):
                size //= 2
                for place in range(length):
                    h = residual(run, str(place), h, width, 16 << number, size)
                    width = 16 << number
        linear(run, "head", h)
    return run.recording()


def similar(recording: Recording, depth: int, **options: Any) -> View:
    """The checked view in which siblings fold whatever differs."""
    view = make_view(recording, ViewOptions(depth=depth, fold="similar", **options))
    view.check()
    return view


def label(view: View, name: str) -> list[str]:
    """The lines of a box or cluster."""
    figure = draw(view, Style())
    found = [each for each in (*figure.shapes, *figure.groups) if each.name == name]
    return [text.text for text in found[0].label]


def test_stages_of_other_sizes_are_one_box() -> None:
    """It says what differs; where only equals fold they stay apart."""
    view = similar(stages(1, 2, 3), depth=1)
    assert boxes(view) == ["x", "layer1", "head", "out:0"]
    assert arrows(view) == ["x -> layer1", "layer1 -> head", "head -> out:0"]
    assert label(view, "layer1") == [
        "layer1 … layer3: Sequential  ×3",
        "2.3 k … 111 k params, 131 k in total",
        "Block ×1, 2, 3",
        "channels 16, 32, 64",
        "size 32×32, 16×16, 8×8",
    ]
    assert len(boxes(make_view(stages(1, 2, 3), ViewOptions(depth=1)))) == 6
    two = label(similar(stages(2, 2), depth=1), "layer1")
    assert two[-2:] == ["channels 16, 32", "size 32×32, 16×16"]


def test_blocks_of_all_stages_are_one() -> None:
    """With what only some of them have marked, and how many each stage has."""
    view = similar(stages(1, 2, 3), depth=4)
    assert clusters(view) == ["Stages", "layer1", "layer1.0", "layer1.0.downsample"]
    block = view.clusters["s2"]
    assert len(block.instances) == 6 and block.count == 3
    assert label(view, "layer1.0")[0] == "0 … 2: Block  ×1 … 3"
    assert "downsample in 3 of 6" in label(view, "layer1.0")
    assert view.clusters["s4"].share == (3, 6)
    assert label(view, "layer1.0.downsample")[-1] == "in 3 of 6"
    assert label(view, "layer1.0.conv")[1] == "8 … 64 → 16 … 64, 3×3"
    assert {group.name: group.look.dash for group in draw(view).groups} == {
        "Stages": "solid",
        "layer1": "solid",
        "layer1.0": "solid",
        "layer1.0.downsample": "dashed",
    }


def test_blocks_of_several_classes_are_counted_under_that_of_the_first() -> None:
    """That only some have each class is said beside it."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input("x")
        for number, cls in enumerate(("Narrow", "Wide"), 1):
            with run.scope(f"stage{number}", "Stage"):
                linear(run, "fc", run.op("neg", h))
                for place in range(number):
                    with run.scope(f"block{place}", cls):
                        h = run.op("mul", run.op("exp", h), h)
        linear(run, "head", h)
    said = label(similar(run.recording(), depth=1), "stage1")
    assert said[-3:] == ["Narrow ×1, 2", "block0: Narrow in 1 of 2", "block0: Wide in 1 of 2"]


def test_stages_without_modules_are_cut_at_their_poolings() -> None:
    """Two convolutions and a pooling, although one convolution of the stage before fits too."""
    run = Builder("Net")
    with run.scope("Net"):
        h, width, size = run.input("x", (1, 8, 64, 64)), 8, 64
        for number in "0p1p23p45p67p":
            if number != "p":
                h = conv(run, f"conv{number}", h, width, 2 * width, size)
                width *= 2
                continue
            size //= 2
            with run.scope(f"pool{size}", "MaxPool2d"):
                h = run.op("max_pool2d", h, shape=(1, width, size, size))
    view = similar(run.recording(), depth=1)
    once = ["conv0", "pool32", "conv1", "pool16"]
    assert boxes(view) == ["x", *once, "conv2", "conv3", "pool8", "out:0"]


def test_arrows_that_some_repeats_have_are_marked() -> None:
    """The way through the optional part, and the one beside it, which no first block has."""
    view = similar(stages(1, 2, 3), depth=3)
    marked = [(arrow.tail, arrow.head) for arrow in view.arrows if arrow.some]
    named = {box: draw(view).shapes[place].name for place, box in enumerate(view.boxes)}
    assert [(named[tail], named[head]) for tail, head in marked] == [
        ("x", "layer1.0.downsample"),
        ("layer1.0.downsample", "layer1.0.add"),
        ("x", "layer1.0.add"),
    ]
    assert len(view.arrows) == 7
    lines = [line.look.dash for line in draw(view).lines]
    assert lines.count("dashed") == 3


def test_an_optional_part_of_the_last_has_a_way_out() -> None:
    """What only the next repeat reads leaves beside what the last one gives."""
    run = Builder()
    with run.scope("Net"):
        h = run.input()
        for place in range(3):
            with run.scope(str(place), "Block"):
                h = linear(run, "fc", h)
                h = run.op("mul", h)
                if place == 1:
                    h = run.op("relu", h)
        linear(run, "head", h, "Head")
    view = similar(run.recording(), depth=2)
    assert arrows(view) == [
        "x -> 0.fc", "0.fc -> mul", "mul -> head", "head -> out:0", "mul -> relu", "relu -> head"
    ]


def test_layers_of_two_sorts_in_turn() -> None:
    """Both sorts are drawn, each marked with how often it is there."""
    run = Builder()
    with run.scope("Net"):
        h = run.input()
        for place in range(6):
            with run.scope(f"layers.{place}", "Layer"):
                h = linear(run, "norm", h, "Norm")
                h = linear(run, "mlp", h, "Dense" if place % 3 else "Experts")
                h = linear(run, "out", h)
    view = similar(run.recording(), depth=2)
    assert label(view, "layers.0")[1:] == ["mlp: Experts in 2 of 6", "mlp: Dense in 4 of 6"]
    assert [box.share for box in view.boxes.values()][2:5] == [(2, 6), None, (4, 6)]
    assert not any(arrow.some for arrow in view.arrows[:1])


def test_mere_containers_with_other_things_in_them_stay_apart() -> None:
    """A class that says nothing is not enough."""
    run = Builder()
    with run.scope("Net"):
        h = run.input()
        for place, ops in enumerate((("relu", "mul"), ("tanh", "sub"), ("exp", "mul"))):
            with run.scope(str(place), "Sequential"):
                for name in ops:
                    h = run.op(name, linear(run, "0", h, name.title()))
    assert boxes(similar(run.recording(), depth=1)) == ["x", "0", "1", "2", "out:0"]


@pytest.mark.parametrize("layers, repeats, together", [(1, 3, True), (3, 0, False)])
def test_equal_operations_count_each_and_adjacent_layers_once(
    layers: int, repeats: int, together: bool
) -> None:
    """Of two blocks that have most in common. Those of other names are no counterparts."""
    run = Builder()
    with run.scope("Net"):
        h = run.input()
        for place, ops in enumerate((("mul", "sub"), ("exp", "tanh"))):
            with run.scope(f"blocks.{place}", "Block"):
                for number in range(layers):
                    h = linear(run, str(number), h)
                for name in ["relu"] * repeats + [*ops]:
                    h = run.op(name, h)
    view = similar(run.recording(), depth=2)
    drawn = [op.name for box in view.boxes if (op := view.recording.ops.get(OpId(box)))]
    assert drawn == ["relu"] * repeats + ["mul", "sub", "exp", "tanh"]
    assert len(view.clusters) == (2 if together else 3)


def test_a_weight_that_another_module_holds_too_has_counterparts() -> None:
    """Its first name is that of the layer that reads it."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4 + place) for place in range(3))
            self.tied = nn.Module()
            self.tied.table = self.layers[1].weight

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [layer(x) for layer in self.layers]

    view = similar(record(Net(), torch.rand(1, 4)), depth=9, parameters=True)
    held = [box for box in view.boxes.values() if box.kind is BoxKind.PARAMETER]
    assert [len(box.members) for box in held] == [3, 3]


def test_tooltip_lists_each_repeat() -> None:
    """With its path and all in which it differs."""
    shape = draw(similar(stages(1, 2), depth=1)).shapes[1]
    assert shape.tooltip.splitlines()[-2:] == [
        "layer1: Block ×1, channels 16, size 32×32, 2.3 k params",
        "layer2: Block ×2, channels 32, size 16×16, 18.4 k params",
    ]


def test_numbers_are_those_of_all() -> None:
    """A box stands for the parameters of every repeat."""
    view = similar(stages(1, 2, 3), depth=1)
    recording = view.recording
    said = recording.annotations["parameters"]
    whole_sum = said.total()
    assert sum(said.of(box.members) or 0 for box in view.boxes.values()) == whole_sum


def test_only_known_words_are_taken() -> None:
    """The message lists them."""
    with pytest.raises(InvalidArgument, match="True, False or 'similar', not 'alike'"):
        ViewOptions(fold="alike")  # type: ignore[arg-type]


def test_legend_explains_the_dashes() -> None:
    """Where there are any."""
    rows = draw(similar(stages(1, 2), depth=3), Style(legend=True)).legend
    assert rows[-1].text == "in some repeats only (dashed)" and rows[-1].look.dash == "dashed"
    rows = draw(make_view(stages(1, 2), ViewOptions(depth=3)), Style(legend=True)).legend
    assert all("dashed" not in row.text for row in rows)


@given(RUNS, st.integers(0, 5))
def test_nothing_is_lost(recording: Recording, depth: int) -> None:
    """Every op is in one box; boxes and clusters have their instances around them."""
    closed = Collapse(depth)(full_view(recording))
    view = Fold(similar=True)(closed)
    view.check()
    assert ops_in(view) == ops_in(closed)
    drawn = Counter(
        each for box in view.boxes.values() for each in box.instances or (box.id,)
    )
    assert drawn == Counter(list(closed.boxes))


@given(RUNS, st.integers(0, 5))
def test_arrows_are_true(recording: Recording, depth: int) -> None:
    """Each was there, or stands for one between two repeats; none is missing; no circles."""
    closed = Collapse(depth)(full_view(recording))
    view = Fold(similar=True)(closed)
    home = {each: box.id for box in view.boxes.values() for each in box.instances or (box.id,)}
    known = {(home[arrow.tail], home[arrow.head]) for arrow in closed.arrows}
    plain = {(arrow.tail, arrow.head) for arrow in view.arrows if not arrow.some}
    assert plain <= known
    shown = {(arrow.tail, arrow.head) for arrow in view.arrows}
    parents = {each.id: each.parent for each in view.clusters.values()}
    folds = {each.id for each in (*view.boxes.values(), *view.clusters.values()) if each.count > 1}

    def around(box: str) -> set[str]:
        found, at = {box}, view.boxes[box].cluster
        while at is not None:
            found.add(at)
            at = parents[at]
        return found & folds

    for tail, head in known - shown:
        assert around(tail) & around(head) or tail == head
    assert nx.is_directed_acyclic_graph(graph_of(view))


@given(
    RUNS,
    st.none() | st.integers(0, 6),
    st.none() | st.booleans(),
    st.booleans(),
)
def test_every_depth_and_option_can_be_drawn(
    recording: Recording, depth: int | None, parameters: bool | None, tensors: bool
) -> None:
    """Down to grad nodes, in figures and in pages."""
    options = ViewOptions(depth=depth, parameters=parameters, tensors=tensors, fold="similar")
    view = make_view(recording, options)
    view.check()
    figure = draw(view, Style(legend=True, color_by="output_bytes"))
    assert len(figure.shapes) == len(view.boxes) and len(figure.lines) == len(view.arrows)
    assert page_data(view, Style())["name"] == recording.name


@given(RUNS)
def test_the_page_folds_the_same_siblings(recording: Recording) -> None:
    """One by one inside of what is folded, each in one group at most."""
    view, groups = repeats(full_view(recording), similar=True)
    view.check()
    members = [item for group in groups for item in group]
    assert len(members) == len(set(members))
    assert all(item in view.clusters or item in view.boxes for item in members)


@given(st.lists(st.integers(0, 4), max_size=30), st.lists(st.integers(0, 4), max_size=30))
def test_aligned_keeps_both_orders(one: list[int], other: list[int]) -> None:
    """And puts only equal things together."""
    pairs = list(aligned(one, other))
    assert [here for here, _ in pairs if here is not None] == list(range(len(one)))
    assert [there for _, there in pairs if there is not None] == list(range(len(other)))
    assert all(one[a] == other[b] for a, b in pairs if a is not None and b is not None)
    assert one != other or len(pairs) == len(one)


def test_long_sequences_are_aligned_quickly() -> None:
    """One after the other, where a search for the best would take too long."""
    one = [place % 7 for place in range(20_000)]
    other = [place % 11 for place in range(20_000)]
    assert sum(a is not None and b is not None for a, b in aligned(one, other)) > 5_000
