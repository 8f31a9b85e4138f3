"""Looks: one fact of a box or cluster each, and the colour that says it."""

from __future__ import annotations

import pytest

from tests.figures import linear
from torchrecorder.style.draw import draw
from torchrecorder.style.marked import Marked
from torchrecorder.style.style import Style
from torchrecorder.style.themes import THEMES, Theme
from torchrecorder.style.together import together
from torchrecorder.testing import Builder
from torchrecorder.views.plan import ViewOptions, make_view


@pytest.mark.parametrize("theme", THEMES.values(), ids=list(THEMES))
def test_clusters_inside_each_other_differ_at_any_depth(theme: Theme) -> None:
    """The first have colours of their own; below, the last two take turns."""
    run = Builder("Net")
    scopes = [run.scope(f"level{number}") for number in range(9)]
    for scope in scopes:
        scope.__enter__()
    run.op("relu", run.input())
    for scope in reversed(scopes):
        scope.__exit__(None, None, None)
    view = make_view(run.recording(), ViewOptions(depth=99))
    fills = [group.look.fill for group in draw(view, Style(theme=theme)).groups]
    own = [look.fill for look in theme.groups]
    assert len(fills) == 9 and fills[: len(own)] == own
    assert set(fills[len(own) :]) == set(own[-2:])
    assert all(one != other for one, other in zip(fills, fills[1:]))


def composed(cls: str) -> str:
    """The colour of a closed module of this class that has another one inside."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        with run.scope("block", cls):
            h = linear(run, "inner", h)
            run.op("add", h, h)
    figure = draw(make_view(run.recording(), ViewOptions(depth=1)))
    return next(shape.look.fill for shape in figure.shapes if shape.name == "block")


def test_composed_modules_have_no_colour_unless_they_are_attention() -> None:
    """What is inside of one has; attention keeps its colour however it is made."""
    plain = composed("Block")
    assert composed("MyLinear") == composed("BatchNorm") == plain
    assert composed("SelfAttention") != plain


@pytest.mark.parametrize("ids", ["box", "inside", "all inside", "none"])
def test_a_closed_box_is_added_only_if_it_is_itself(ids: str) -> None:
    """Where something in it is, even all of it, the box is different."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        with run.scope("block", "Block"):
            h = linear(run, "a", h)
            linear(run, "b", h)
    view = make_view(run.recording(), ViewOptions(depth=1))
    box = view.boxes["s1"]
    inside = {"box": ["s1"], "inside": ["s2"], "all inside": ["s2", "s3"], "none": []}[ids]
    marked = Marked(dict.fromkeys(inside, "added"), (), ())
    assert marked.of(box) == {"box": "added", "none": None}.get(ids, "changed")
    style = marked.style(Style())
    figure = draw(view, style)
    fill = next(shape.look.fill for shape in figure.shapes if shape.id == "s1")
    named = [entry.text for entry in figure.legend if entry.look.fill == fill]
    assert named == {"box": ["added"], "none": []}.get(ids, ["different"])


def test_texts_of_several_modules_keep_what_only_some_say() -> None:
    """Numbers are ranges, kernels are listed, and how many say it is told; five at most."""
    assert together([("64 → 64",), ("128 → 128",)]) == ("64 … 128 → 64 … 128",)
    assert together([("3×3",), ("1×1",)]) == ("3×3, 1×1",)
    assert together([("stride 2", "no bias"), ("no bias",)]) == ("stride 2 in 1 of 2", "no bias")
    many = tuple("abcdefgh")
    assert together([many, many]) == many
    assert together([many, (*many, "i")]) == many[:5]
