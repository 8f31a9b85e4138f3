"""Chosen siblings under a made-up name."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.figures import arrows, boxes, clusters, linear, view_of
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import ScopeId, Slot
from torchrecorder.export.dot import output_labels
from torchrecorder.export.page_data.data import page_data
from torchrecorder.recording import Recording, load
from torchrecorder.select.group import GroupSiblings
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import View

STEM = {"Stem": ["conv", "norm", "pool"]}


def convnet(blocks: int = 4) -> Recording:
    """A stem of three modules, then equal blocks of three modules and an addition each."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for name in ("conv", "norm", "pool"):
            x = linear(run, name, x)
        with run.scope("layers", "Sequential"):
            for number in range(blocks):
                with run.scope(str(number), "Block"):
                    h = linear(run, "a", x)
                    h = linear(run, "b", h)
                    h = linear(run, "c", h)
                    x = run.op("add", h, x)
        run.returns(x)
    return run.recording()


def titles(view: View) -> list[str]:
    """The first lines on the boxes of a figure."""
    return [shape.label[0].text for shape in draw(view).shapes]


def test_a_group_is_one_box() -> None:
    """Closed, it stands at the place of its first member, with all arrows and weights."""
    view = view_of(convnet(), depth=1, group=STEM)
    assert titles(view) == ["x", "Stem", "layers: Sequential", "output"]
    assert arrows(view) == ["x -> Stem", "Stem -> layers", "layers -> out:0"]
    stem = next(shape for shape in draw(view).shapes if shape.label[0].text == "Stem")
    assert [text.text for text in stem.label] == ["Stem", "3 × Linear", "48 params"]


def test_an_open_group_is_one_more_level() -> None:
    """Its members are boxes in it, and keep their names."""
    view = view_of(convnet(), depth=2, group=STEM, fold=False)
    assert clusters(view) == ["Net", "Stem", "layers"]
    assert boxes(view)[1:4] == ["conv", "norm", "pool"]


@pytest.mark.parametrize("members", [
    ["conv", "norm", "pool"],
    ["conv", "pool"],
    ["norm", "layers"],
    ["n*", "p*"],
    "conv, pool",
])
def test_every_edge_is_kept(members: Any) -> None:
    """All open, a group changes no arrow, whether its members follow each other or not."""
    recording = convnet()
    plain = view_of(recording, depth=9, fold=False, parameters=True)
    grouped = view_of(recording, depth=9, fold=False, parameters=True, group={"G": members})
    assert grouped.arrows == plain.arrows
    assert list(grouped.boxes) == list(plain.boxes)


def test_members_apart() -> None:
    """What runs between two members stays outside, with an arrow out and one back in."""
    view = view_of(convnet(), depth=1, group={"Ends": ["conv", "pool"]})
    assert arrows(view) == [
        "x -> Ends", "Ends -> norm", "norm -> Ends", "Ends -> layers", "layers -> out:0",
    ]


def decoder(reads: str = "") -> Recording:
    """Two blocks with operations between them, one of which joins a skip connection; one more that
    reads a tensor of the name *reads*."""
    run = Builder("Net")
    with run.scope("Net"):
        first = linear(run, "down", run.input("x"))
        high = linear(run, "up1", first)
        wide = run.op("interpolate", high)
        both = run.op("cat", wide, run.op("contiguous", first))
        end = linear(run, "up2", both)
        tensors = {"high": high, "wide": wide, "both": both}
        run.returns(run.op("add", end, tensors[reads]) if reads else end)
    return run.recording()


def test_operations_between_members_are_in_the_group() -> None:
    """What they read of others comes into it; what only prepares that stays outside."""
    view = view_of(decoder(), depth=1, group={"Up": ["up*"]})
    assert sorted(titles(view)) == sorted(["x", "down: Linear", "contiguous", "Up", "output"])
    grouped, plain = (view_of(decoder(), depth=9, group=group) for group in ({"Up": ["up*"]}, {}))
    assert grouped.arrows == plain.arrows


@pytest.mark.parametrize(("reads", "outside"), [
    ("high", []), ("wide", ["interpolate", "cat"]), ("both", ["interpolate", "cat"]),
])
def test_what_others_read_too_is_not_between_members(reads: str, outside: list[str]) -> None:
    """Nor is what only that reads."""
    view = view_of(decoder(reads), depth=1, group={"Up": ["up*"]})
    found = [title for title in titles(view) if title in ("interpolate", "cat")]
    assert found == outside


def test_operations_of_another_group_are_not_taken() -> None:
    """They stay where they were put, whichever group comes first."""
    groups = {"Up": ["up*"], "Join": ["interpolate", "cat"]}
    for names in (groups, dict(reversed(groups.items()))):
        assert sorted(titles(view_of(decoder(), depth=1, group=names))) == sorted(
            ["x", "down: Linear", "contiguous", "Up", "Join", "output"]
        )


def test_a_pattern_groups_in_each_scope() -> None:
    """Blocks with a group in each fold as they would without."""
    group = {"Half": ["layers.*.a", "layers.*.b"]}
    view = view_of(convnet(), depth=3, group=group)
    assert [each.count for each in view.clusters.values()] == [1, 1, 4]
    assert titles(view)[4:7] == ["Half", "c: Linear", "+"]
    apart = view_of(convnet(), depth=3, group=group, fold=False)
    assert titles(apart).count("Half") == 4
    assert [name for name in boxes(apart) if "Half" in name][1] == "layers.1.Half"


def test_ops_can_be_members() -> None:
    """An op is called by the path of its scope and its name."""
    view = view_of(convnet(1), depth=3, group={"Out": ["layers.0.c", "layers.0.add"]})
    assert titles(view)[4:] == ["a: Linear", "b: Linear", "Out", "output"]


def test_groups_in_groups() -> None:
    """A later group can hold an earlier one by its name."""
    group = {**STEM, "Body": ["Stem", "layers"]}
    assert titles(view_of(convnet(), depth=1, group=group)) == ["x", "Body", "output"]
    assert clusters(view_of(convnet(), depth=2, group=group)) == ["Net", "Body"]


def test_groups_can_be_focused_on() -> None:
    """A group is a scope like any other: focus and hide know its name."""
    view = view_of(convnet(), depth=1, group=STEM, focus="Stem")
    assert clusters(view) == ["Stem"]
    assert titles(view)[1:4] == ["conv: Linear", "norm: Linear", "pool: Linear"]
    assert "Stem" not in titles(view_of(convnet(), depth=1, group=STEM, hide="Stem"))


def test_a_group_has_the_arguments_of_its_members() -> None:
    """What goes in and out of a group is told by its slots."""
    view = view_of(convnet(), depth=1, group=STEM)
    scope = next(each for each in view.recording.scopes.values() if each.name == "Stem")
    inputs = [view.recording.values[slot.value].names for slot in scope.inputs]
    assert inputs == [("x",)] and len(scope.outputs) == 1


@pytest.mark.parametrize("group, said", [
    ({"A": ["cnov"]}, r"group 'A': no module or operation is called 'cnov'; did you mean 'conv'"),
    ({"A": ["conv", "norm"], "B": ["norm"]}, r"'norm' is in two groups, 'A' and 'B'"),
    ({"A": ["conv", "layers.0.a"]}, r"'conv', 'layers.0.a' are in the model itself, 'layers.0'"),
])
def test_what_cannot_be_grouped(group: Any, said: str) -> None:
    """Unknown names, overlaps and members that are no siblings are told."""
    with pytest.raises(InvalidArgument, match=said):
        view_of(convnet(), group=group)


@pytest.mark.parametrize("group", [["conv"], {"A": []}, {"": ["conv"]}, {"A": " , "}])
def test_what_is_no_group(group: Any) -> None:
    """A mistake in the option itself is told before anything runs."""
    with pytest.raises(InvalidArgument, match="group"):
        ViewOptions(group=group)


def test_any_two_siblings() -> None:
    """At every depth, folded or not, any two siblings in one group give a sound view."""
    recording = convnet(3)
    whole = view_of(recording, depth=9, fold=False)
    for inside in recording.children.values():
        for pair in combinations(inside, 2):
            group = {"Pair": [each.id for each in pair]}
            for depth in range(5):
                draw(view_of(recording, depth=depth, group=group))
            assert view_of(recording, depth=9, fold=False, group=group).arrows == whole.arrows


def test_a_grouped_recording_can_be_saved(tmp_path: Path) -> None:
    """The group is a scope of what is written as JSON, and read back as one."""
    grouped = view_of(convnet(), group=STEM).recording
    loaded = load(grouped.save(tmp_path / "run.json"))
    assert loaded.scopes == grouped.scopes
    assert titles(view_of(loaded, depth=1))[1] == "Stem"


def unet() -> Recording:
    """Two steps up that others lie between, and a head: all of them to be one group."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x", (1, 8))
        with run.scope("up", "Up"):
            h = run.op("tanh", x, shape=(1, 16))
        with run.scope("join", "Join"):
            h = run.op("cat", h, shape=(1, 32))
        with run.scope("head", "Head"):
            skip = run.op("sin", h, shape=(1, 3))
            side = run.op("exp", h, shape=(1, 4))
            h = run.op("relu", h, shape=(1, 5))
        run.op("add", skip, side, shape=(1, 4))
        run.returns(h)
    return run.recording()


def test_a_group_gives_results_first_and_last_what_comes_back() -> None:
    """The result of the model is among what its box gives, and the first of it."""
    figure = draw(view_of(unet(), depth=1, group={"Decoder": ["up", "head"]}))
    assert output_labels(figure)["s:Decoder"].text == "→ 1×5, 1×4, …"
    group = next(shape for shape in figure.shapes if shape.id == "s:Decoder")
    assert "out: 1×5, 1×4, 1×3, 1×16" in group.tooltip


def test_the_page_shows_the_same_of_a_group() -> None:
    """Closed in the page it gives what it gives in the figure."""
    view = view_of(unet(), depth=1, group={"Decoder": ["up", "head"]})
    assert "→ 1×5, 1×4, …" in page_data(view, Style())["strings"]


def tokens() -> Recording:
    """A convolution, and a token and positions that its module reads itself."""
    run = Builder("Net")
    with run.scope("Net"):
        with run.scope("conv", "Conv2d"):
            x = run.op("conv2d", run.input("x"), run.parameter("weight"))
        x = run.op("cat", run.parameter("token"), x)
        x = run.op("add", x, run.parameter("positions"))
        run.op("mul", x, run.buffer("scale"))
        run.buffer("unused")
    return run.recording()


@pytest.mark.parametrize("named", [("token",), ("token", "positions"), ("conv.weight",), ("tok*",)])
def test_weights_may_be_named_with_what_reads_them(named: tuple[str, ...]) -> None:
    """They stand in the group anyway: nothing is changed by it."""
    members = ["conv", "cat", "add"]
    plain = make_view(tokens(), ViewOptions(group={"Embed": members}, parameters=True))
    view = make_view(tokens(), ViewOptions(group={"Embed": [*members, *named]}, parameters=True))
    assert view == plain
    assert {view.boxes[each].cluster for each in view.boxes if each == "v3"} == {"s:Embed"}


@pytest.mark.parametrize(
    ("members", "said"),
    [
        (["token", "positions"], "'token' is a parameter and is drawn with its readers; add 'cat'"),
        (["conv", "cat", "positions"], "'positions' is a parameter .* add 'add' to the group"),
        (["mul", "unused"], "'unused' is a buffer .* this run has none"),
        (["conv", "tokn"], "no module or operation is called 'tokn'"),
    ],
)
def test_weights_without_what_reads_them_are_refused(members: list[str], said: str) -> None:
    """The message says what to add."""
    with pytest.raises(InvalidArgument, match=f"group 'Embed': {said}"):
        make_view(tokens(), ViewOptions(group={"Embed": members}))


def test_what_reads_a_weight_again_in_backward_need_not_be_in_the_group() -> None:
    """A checkpointed call runs again, and what runs there cannot be named."""
    run = Builder("Net")
    with run.scope("Net"):
        x, weight = run.input("x"), run.parameter("weight")
        run.op("mul", x, weight)
    with run.scope("again", recompute=True):
        run.op("mul", x, weight)
    found = run.recording()
    last = [*found.ops][-1]
    found = replace(found, ops={**found.ops, last: found.ops[last].replace(recompute=True)})
    view = make_view(found, ViewOptions(group={"Part": ["mul", "weight"]}))
    assert "s:Part" in view.clusters


def test_what_a_hidden_group_reads_from_between_its_members_has_its_readers() -> None:
    """Although that ran, and is hidden, after the first member."""
    run = Builder("Net")
    with run.scope("Net"):
        x, y = run.input("x"), run.input("y")
        h = linear(run, "a", x)
        with run.scope("b"):
            h = run.op("add", h, y)
        run.returns(linear(run, "d", linear(run, "c", h)))
    options = {"group": {"Ends": ["a", "c"]}, "depth": 1}
    view = view_of(run.recording(), hide=("Ends", "b"), **options)
    assert arrows(view) == ["x -> d", "y -> d", "d -> out:0"]


def test_inputs_of_a_group_have_the_names_that_its_members_give_them() -> None:
    """Not those of the operations inside."""
    run = Builder("Net")
    with run.scope("Net"):
        x, y = run.input("x"), run.input("y")
        run.op("add", linear(run, "first", x), linear(run, "second", y))
    recording = run.recording()
    named = {"first": "image", "second": "text"}
    recording = replace(recording, scopes={
        item: scope.replace(inputs=tuple(Slot(named[scope.name], slot.value)
                                         for slot in scope.inputs)) if scope.name in named
        else scope
        for item, scope in recording.scopes.items()
    })
    found = GroupSiblings({"Both": ["first", "second"]})(recording)
    slots = found.scopes[ScopeId("s:Both")].inputs
    assert [slot.name for slot in slots] == ["image", "text"]
