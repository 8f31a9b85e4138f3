"""Looks: one fact of a box or cluster each, and the color that says it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest

from tests.figures import linear, network
from torchrecorder.annotations.annotation import Annotation
from torchrecorder.events import OpId, ScopeKind
from torchrecorder.recording import Recording
from torchrecorder.style.captions import Captions
from torchrecorder.style.color import scale
from torchrecorder.style.diff_colors import DiffColors
from torchrecorder.style.draw import draw, draw_in
from torchrecorder.style.figure import Look
from torchrecorder.style.merge_captions import together
from torchrecorder.style.style import Style
from torchrecorder.style.themes import THEMES, Theme
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import Arrow


@pytest.mark.parametrize("theme", THEMES.values(), ids=list(THEMES))
def test_clusters_inside_each_other_differ_at_any_depth(theme: Theme) -> None:
    """The first have colors of their own; below, the last two take turns."""
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


def composed(cls: str, part: str = "inner") -> str:
    """The color of a closed module of this class that has another one, *part*, inside."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        with run.scope("block", cls):
            h = linear(run, part, h)
            run.op("add", h, h)
    figure = draw(make_view(run.recording(), ViewOptions(depth=1)))
    return next(shape.look.fill for shape in figure.shapes if shape.name == "block")


def test_composed_modules_have_no_color_unless_they_are_attention() -> None:
    """What is inside of one has; attention keeps its color however it is made."""
    plain = composed("Block")
    assert composed("MyLinear") == composed("BatchNorm") == plain
    assert composed("SelfAttention") != plain


def test_module_with_parametrized_weights_has_the_color_of_its_class() -> None:
    """What computes a weight is no part of the network."""
    cls = "ParametrizedLinear"
    assert composed(cls, "parametrizations.weight") != composed(cls)


def colored(cls: str, region: bool = False, weights: bool = False) -> bool:
    """Whether a closed module of this class has the color of its family."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        with run.scope("inner", cls):
            weight = [run.parameter("inner.weight")] if weights else []
            with run.scope("no_grad", kind=ScopeKind.NO_GRAD) if region else nullcontext():
                run.op("add", run.op("mul", h, *weight), h)
    figure = draw(make_view(run.recording(), ViewOptions(depth=1)))
    looks = {shape.name: shape.look for shape in figure.shapes}
    return looks["inner"].fill != Style().theme.looks["module"].fill


@pytest.mark.parametrize("region", [False, True])
def test_a_region_inside_does_not_change_the_color(region: bool) -> None:
    """A module that computes without gradients is no other module."""
    assert colored("LayerNorm", region) and colored("ReLU", region)
    assert not colored("Block", region)


@pytest.mark.parametrize("region", [False, True])
def test_only_what_has_weights_has_their_color(region: bool) -> None:
    """A rotary embedding is computed, whatever its name says."""
    assert colored("Embedding", region, weights=True)
    assert not colored("RotaryEmbedding", region)


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
    marked = DiffColors(dict.fromkeys(inside, "added"), (), ())
    assert marked.mark(box) == {"box": "added", "none": None}.get(ids, "changed")
    style = marked.style(Style())
    figure = draw(view, style)
    fill = next(shape.look.fill for shape in figure.shapes if shape.id == "s1")
    named = [entry.text for entry in figure.legend if entry.look.fill == fill]
    assert named == {"box": ["added"], "none": []}.get(ids, ["different"])


def test_texts_of_several_modules_keep_what_only_some_have() -> None:
    """Numbers are ranges, kernels are listed, and how many say it is told; five at most."""
    assert together([("64 → 64",), ("128 → 128",)]) == ("64 … 128 → 64 … 128",)
    assert together([("3×3",), ("1×1",)]) == ("3×3, 1×1",)
    assert together([("stride 2", "no bias"), ("no bias",)]) == ("stride 2 in 1 of 2", "no bias")
    many = tuple("abcdefgh")
    assert together([many, many]) == many
    assert together([many, (*many, "i")]) == many[:5]


def halves() -> Recording:
    """A block whose three operations read the same two values; the first reads one only."""
    run = Builder("Net")
    with run.scope("Net"):
        x, y = run.input("x"), run.input("y")
        with run.scope("block", "Block"):
            run.op("relu", x)
            run.op("add", x, y)
            run.op("mul", x, y)
    return run.recording()


@pytest.mark.parametrize("reads, wanted", [(["o0", "o1", "o2"], True), (["o0", "o1"], False)])
@pytest.mark.parametrize("mark", ["gone", "new"])
def test_an_arrow_has_a_mark_if_all_reads_behind_it_have(
    reads: list[str], wanted: bool, mark: str
) -> None:
    """An arrow into a closed box stands for several reads; other arrows stay as they are."""
    recording = halves()
    view = make_view(recording, ViewOptions(depth=1))
    x = recording.inputs[0].value
    pairs = [(x, read) for read in reads]
    marked = DiffColors({}, pairs if mark == "gone" else (), pairs if mark == "new" else ())
    plain, done = draw(view), draw(view, marked.style(Style()))
    changed = [
        arrow.value
        for arrow, one, other in zip(view.arrows, plain.lines, done.lines)
        if one.look != other.look
    ]
    assert changed == ([x] if wanted else [])
    dashes = {line.look.dash for line in done.lines}
    assert ("dashed" in dashes) is (wanted and mark == "gone")


def test_an_arrow_that_nothing_reads_any_more_is_removed() -> None:
    """It is drawn from what was read before; another such arrow that is not marked stays."""
    recording = halves()
    view = make_view(recording, ViewOptions(depth=1))
    tail, unread = recording.inputs[1].value, recording.ops[OpId("o0")].outputs[0]
    view = replace(view, arrows=(*view.arrows, Arrow(tail, "s1", unread, "")))
    for gone, removed in ([(unread, "o0")], 1), ([(unread, "o9")], 0):
        done = draw(view, DiffColors({}, gone, ()).style(Style()))
        assert [line.look.dash for line in done.lines].count("dashed") == removed


def test_only_what_some_repeats_have_is_dashed() -> None:
    """Arrows, boxes and clusters of the parts that are optional."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        for place in range(2):
            with run.scope(f"layers.{place}", "Layer"):
                x = linear(run, "a", linear(run, "b", h))
                if place:
                    with run.scope("extra", "Extra"):
                        x = linear(run, "c", linear(run, "d", x))
                h = run.op("add", x, h)
    view = make_view(run.recording(), ViewOptions(depth=2, fold="similar"))
    figure = draw(view)
    dashed = [shape.name for shape in figure.shapes if shape.look.dash == "dashed"]
    assert dashed == ["layers.1.extra"]
    some = [arrow.some for arrow in view.arrows]
    assert any(some) and not all(some)
    assert [line.look.dash == "dashed" for line in figure.lines] == some


def test_clusters_of_operations_regions_and_loops_have_their_own_looks() -> None:
    """An operation opened to its grad nodes; a region; modules and loops."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.op("relu", run.input(), grads=("One", "Two"))
        with run.scope("no_grad", "no_grad", kind=ScopeKind.NO_GRAD):
            h = run.op("add", h, h)
        for _ in range(6):
            h = run.op("tanh", run.op("sin", h))
    theme = THEMES["light"]
    view = make_view(run.recording(), ViewOptions(depth=3, grad_nodes=True))
    figure = draw(view, Style(theme=theme))
    looks = {group.label[0].text.split()[0]: group.look for group in figure.groups}
    assert looks["relu"] == theme.opened and looks["no_grad"] == theme.region
    assert looks["Net"] == theme.groups[0] and looks["loop"].fill == theme.groups[1].fill


def test_tooltips_of_arrows_name_the_argument() -> None:
    """Unless its name is only a number."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input()
        h = run.op("relu", x, slots=("input",))
        run.op("add", h, x)
    figure = draw(make_view(run.recording(), ViewOptions(depth=2)))
    tooltips = {(line.tail, line.head): line.tooltip for line in figure.lines}
    assert tooltips[x, "o0"].startswith("input: 2×4") and "from" not in tooltips[x, "o0"]
    assert tooltips["o0", "o1"] == "2×4 float32\nfrom relu"


@pytest.mark.parametrize("color", ["transparent", "/blues9/3", "red:blue"])
def test_a_rule_may_give_any_outline_beside_a_scale(color: str) -> None:
    """One that cannot be mixed with the paper stays as it is."""
    run = Builder("Net")
    with run.scope("Net"):
        linear(run, "fc", run.input())
    look = Look("white", color, "red")
    style = Style(color_by="parameters", rules=(lambda box, view, theme: look,))
    looks = {shape.kind: shape.look for shape in draw(make_view(run.recording()), style).shapes}
    assert looks["input"].stroke == color


@pytest.mark.parametrize(("number", "share"), [(0.0, 0.0), (3.0, 1.0)])
@pytest.mark.parametrize("log", [False, True])
def test_equal_numbers_are_the_largest_and_zeros_the_smallest(
    log: bool, number: float, share: float
) -> None:
    """A number of NaN that is zero everywhere is no alarm; the legend has its color."""
    own = Annotation("own", "Own", "", lambda run: dict.fromkeys(run.ops, number), None, str, log)
    view = make_view(network(), ViewOptions())
    figure = draw(view, Style(color_by=own, legend=True))
    fill = scale(THEMES["light"].heat, share)
    assert fill in {shape.look.fill for shape in figure.shapes}
    assert fill == next(row.look.fill for row in figure.legend if row.text == str(number))


def test_a_brief_figure_has_labels_only() -> None:
    """No tooltips, no full names, no marks of arguments; otherwise it is the same."""
    run = Builder("Net")
    with run.scope("Net"):
        h = linear(run, "fc", run.input("x"))
        run.op("sub", run.input("y"), h, slots=("input", "other"))
    view, style = make_view(run.recording(), ViewOptions(depth=2)), Style()
    whole, brief = (
        draw_in([style.theme], view, style, {}, Captions(view, style), brief=brief)[0]
        for brief in (False, True)
    )
    plain = {"tooltip": "", "name": ""}
    assert any(line.mark for line in whole.lines) and all(line.tooltip for line in whole.lines)
    assert brief == replace(
        whole,
        shapes=tuple(replace(shape, **plain) for shape in whole.shapes),
        groups=tuple(replace(group, **plain) for group in whole.groups),
        lines=tuple(replace(line, tooltip="", mark="", place=-1) for line in whole.lines),
    )
