"""Captions, colors and complaints: one fact each, and what says it."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from types import MappingProxyType
from typing import Any

import pytest
from torch import nn

from tests.figures import linear, network
from tests.style.test_composites import caption
from tests.style.test_draw import figure_of
from tests.style.test_weights import with_frozen
from tests.views.test_blocks import cell, loop
from tests.views.test_similar import label, similar
from torchrecorder.errors import DoesNotFit
from torchrecorder.events import COMPILED_GRAPH, CompiledGraph, ScopeKind, SourceLine
from torchrecorder.export.page_data.data import page_data
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Figure
from torchrecorder.style.hyperparameters import arguments
from torchrecorder.style.paper import Paper
from torchrecorder.style.renaming import called
from torchrecorder.style.style import Style
from torchrecorder.style.themes import THEMES, Theme
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import View


@pytest.mark.parametrize(
    ("sides", "said"),
    [
        ((200.0, 2000.0), ("on paper 71 mm wide the", "a width of at least 353 mm.")),
        ((2000.0, 200.0), ("on paper 71 mm high the", "a height of at least 353 mm.")),
        ((200.0, 200.0), ("71 mm wide and 71 mm high", "353 mm and a height of at least 353 mm.")),
        ((200.0, None), ("on paper 71 mm wide the", "a width of at least 353 mm.")),
    ],
)
def test_a_complaint_names_the_sides_that_are_short(sides: Any, said: tuple[str, str]) -> None:
    """Half of the text's size is asked for, so half of the figure's 2000 points would do."""
    with pytest.raises(DoesNotFit) as raised:
        Paper(*sides, min_fontsize=5.0).fit(2000, 2000, smallest=10.0)
    assert all(text in str(raised.value) for text in said)


def test_the_background_is_that_of_the_theme_unless_another_is_given() -> None:
    """A color of one's own comes first."""
    assert figure_of(network()).background == THEMES["light"].paper
    assert draw(make_view(network()), Style(background="#123456")).background == "#123456"


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_fold_shows_how_often_its_weights_are_there(times: int) -> None:
    """From two on; one is just its own."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        for place in range(times):
            with run.scope(f"layers.{place}", "Block"):
                h = run.op("relu", linear(run, "fc", h))
    box = make_view(run.recording(), ViewOptions(depth=1)), Style()
    (said,) = (shape.label[-1].text for shape in draw(*box).shapes if shape.kind == "module")
    assert said == (f"{times} × 16 params" if times > 1 else "16 params")


def test_a_loop_of_ops_shows_what_it_passes_on() -> None:
    """By its shape, as the argument has no name; ops of one round pass nothing on."""
    figure = draw(make_view(loop(6, cell)))
    (group,) = (group for group in figure.groups if group.count > 1)
    assert [text.text for text in group.label[1:]] == ["carried over: 2×4"]
    assert not any("carried" in text.text for shape in figure.shapes for text in shape.label)


def test_an_op_can_be_renamed_by_its_path_and_by_its_name() -> None:
    """At the top, where there is no path, by its name alone."""
    run = Builder("run")
    with run.scope("Net"), run.scope("body", "Body"):
        h = run.op("relu", run.input())
    run.op("sum", h)
    assert {"relu", "body.relu", "sum"} <= set(called(run.recording()))


def test_a_scope_without_inputs_has_no_line_of_inputs() -> None:
    """Its tooltip starts with what it is and goes on with what it gives."""
    run = Builder("Net")
    with run.scope("Net"), run.scope("noise", "Noise"):
        run.op("randn")
    (shape,) = (
        shape for shape in draw(make_view(run.recording(), ViewOptions(depth=1))).shapes
        if shape.name == "noise"
    )
    assert shape.tooltip.splitlines()[2:] == ["out: 2×4"]


def optional_gate(gated: int) -> Recording:
    """Three blocks, of which so many have a part with an op that is nowhere else."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        for place in range(3):
            with run.scope(f"layers.{place}", "Block"):
                h = linear(run, "b", linear(run, "a", h))
                if place < gated:
                    with run.scope("gate", "Gate"):
                        h = run.op("sigmoid", linear(run, "fc", h))
                h = run.op("add", h)
    return run.recording()


def test_what_is_in_an_optional_part_is_not_shown_besides() -> None:
    """The part says it all."""
    view = similar(optional_gate(2), depth=1)
    assert label(view, "layers.0")[-1] == "gate in 2 of 3"


def test_plain_layers_that_differ_show_their_sizes_once() -> None:
    """Among their hyperparameters, and not again as what differs."""
    run = Builder("Net")
    with run.scope("Net"):
        h: Any = run.input("x", (2, 4))
        width = 4
        for place in range(4):
            detail = f"in_features={width}, out_features={2 * width}, bias=False"
            with run.scope(f"fc{place}", "Linear", detail=detail):
                weight = run.parameter("weight", (2 * width, width))
                h = run.op("linear", h, weight, shape=(2, 2 * width))
            width *= 2
    view = similar(run.recording(), depth=1)
    assert label(view, "fc0")[1] == "4 … 32 → 8 … 64, no bias"
    assert not any(text.startswith("features") for text in label(view, "fc0"))


class Projection(nn.Linear):
    """A layer of another name."""


class Twice(nn.Module):
    """Two activations."""

    def forward(self, x: Any) -> Any:
        return nn.functional.relu(x).tanh()


def test_modules_of_unknown_classes_are_recognized_by_what_they_run() -> None:
    """With the sizes of a single layer, and each op of several."""
    assert caption(nn.Sequential(Projection(6, 3), nn.ReLU())) == "6 → 3 + ReLU"
    assert caption(nn.Sequential(nn.Linear(6, 3), Twice())) == "6 → 3 + ReLU + Tanh"


def compiled(recording: Recording) -> Recording:
    """*recording*, as if all of its ops had run in one compiled graph."""
    graphs = CompiledGraph(1, None, len(recording.ops), (), None, 1, False),
    measured = MappingProxyType({COMPILED_GRAPH: dict.fromkeys(map(str, recording.ops), 1.0)})
    return replace(recording, compiled_graphs=graphs, measured=measured)


def test_compiled_graphs_are_marked_in_the_forward_view_only() -> None:
    """Backward runs in graphs of its own, of which nothing is known."""
    found = compiled(network())
    plain, marked = (draw(make_view(item, ViewOptions(depth=9))) for item in (network(), found))
    assert [row.text for row in marked.legend] == ["compiled graph 1 of 1"] and not plain.legend
    assert all(a.look != b.look for a, b in zip(plain.groups, marked.groups))
    plain, marked = (draw(make_view(item, ViewOptions(view="backward", depth=9)))
                     for item in (network(), found))
    assert marked.legend == plain.legend
    assert [group.look for group in marked.groups] == [group.look for group in plain.groups]


def test_the_tooltip_of_a_fold_shows_which_have_the_optional_part() -> None:
    """And of the others that there is nothing to say."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        for place in range(3):
            with run.scope(f"layers.{place}", "Block"):
                h = linear(run, "b", linear(run, "a", h))
                if place == 1:
                    with run.scope("gate", "Gate"):
                        h = run.op("sigmoid", h)
    view = similar(run.recording(), depth=1)
    (shape,) = (shape for shape in draw(view).shapes if shape.count > 1)
    assert shape.tooltip.splitlines()[-3:] == [
        "layers.0: nothing special", "layers.1: gate yes", "layers.2: nothing special",
    ]


def test_a_loop_leads_back_along_one_of_the_values_it_passes_on() -> None:
    """Of two, the first, from where it is made to where it is read."""
    run = Builder("Loop")
    with run.scope("Loop"):
        h, c = run.input("h"), run.input("c")
        for _ in range(6):
            h = run.op("tanh", run.op("add", h, c))
            c = run.op("sigmoid", run.op("mul", c, h))
    view = make_view(run.recording())
    (cluster,) = (cluster for cluster in view.clusters.values() if cluster.count > 1)
    (group,) = (group for group in draw(view).groups if group.count > 1)
    assert len(cluster.carried) > 1
    assert group.loop == (cluster.carried[0].tail, cluster.carried[0].head)


@pytest.mark.parametrize(
    ("op", "given", "said"),
    [
        ("transpose", {"dim0": "1"}, ("1",)),
        ("transpose", {"dim0": "1", "dim1": "2"}, ("1, 2",)),
        ("permute", {"dims": "0", **dict(zip("12345", "51324"))}, ("0, 5, 1, 3, 2, 4",)),
        ("permute", {"dims": "(-6, -1, -5, -3, -4, -2)"}, ("-6, -1, -5, -3, …",)),
        ("sum", {"dim": "(10, 11, 12, 13, 14, 15)"}, ("dim 10, 11, 12, …",)),
        ("add", {"other": "1"}, ("+ 1",)),
        ("rsub", {"other": "1"}, ("1 − …",)),
        ("sub", {"self": "1"}, ("1 − …",)),
    ],
)
def test_arguments_of_ops(op: str, given: dict[str, str], said: tuple[str, ...]) -> None:
    """A sign stands between the operands of those that have one; all dimensions, or ``…``."""
    assert arguments(op, tuple(given.items())) == said


@pytest.mark.parametrize(
    ("op", "slots", "marks"),
    [
        ("sub", ("input", "other"), ["", "−"]),
        ("matmul", ("input", "other"), ["1", "2"]),
        ("add", ("input", "other"), ["", ""]),
        ("where", ("self", "other"), ["then", "else"]),
    ],
)
def test_arguments_are_marked_where_their_order_matters(
    op: str, slots: tuple[str, ...], marks: list[str]
) -> None:
    """By a sign, a number or a word."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input()
        run.op(op, run.op("exp", x), run.op("abs", x), slots=slots)
    figure = draw(make_view(run.recording()))
    assert [line.mark for line in figure.lines if line.head == "o2"] == marks


def test_a_tooltip_shows_where_the_module_was_called() -> None:
    """Where that is known."""
    recording = network()
    called_at = SourceLine("/home/me/net.py", 7, "forward")
    scopes = {
        key: scope.replace(source=called_at if scope.name == "skip" else None)
        for key, scope in recording.scopes.items()
    }
    view = make_view(replace(recording, scopes=MappingProxyType(scopes)), ViewOptions(depth=1))
    told = {shape.name for shape in draw(view).shapes if "net.py:7" in shape.tooltip}
    assert told == {"skip"}


@pytest.mark.parametrize(("layers", "more"), [(24, []), (25, ["… and 1 more"])])
def test_a_tooltip_lists_up_to_24_siblings(layers: int, more: list[str]) -> None:
    """And says how many it leaves out."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        for place in range(layers):
            with run.scope(f"layers.{place}", "Block"):
                h = linear(run, "b", linear(run, "a", h))
                h = run.op("sin" if place else "cos", h)
    (shape,) = (shape for shape in draw(similar(run.recording(), depth=1)).shapes
                if shape.count > 1)
    rows = shape.tooltip.splitlines()
    assert sum(row.startswith("layers.") for row in rows[1:]) == min(layers, 24)
    assert [row for row in rows if row.startswith("…")] == more


class ScaledNorm(nn.Module):
    """A norm of its own make, of several ops."""

    def forward(self, x: Any) -> Any:
        return (x - x.mean()) * 2


def test_a_norm_of_several_ops_is_recognized_by_its_class() -> None:
    """As its class says what it is."""
    model = nn.Sequential(nn.Linear(6, 3), ScaledNorm(), nn.ReLU())
    assert caption(model) == "6 → 3 + ScaledNorm + ReLU"


def test_a_setting_that_all_have_is_reported_with_its_values() -> None:
    """Not in how many of the siblings it is."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        for place, size in enumerate((3, 5, 7)):
            with run.scope(f"layers.{place}", "Block"):
                detail = f"4, 4, kernel_size=({size}, {size})"
                with run.scope("conv", "Conv2d", detail=detail):
                    h = run.op("conv2d", h)
                h = linear(run, "fc", h)
    assert "kernel 3×3, 5×5, 7×7" in label(similar(run.recording(), depth=1), "layers.0")


@pytest.mark.parametrize("nodes", [False, True])
def test_nothing_is_passed_on_where_operations_are_open(nodes: bool) -> None:
    """Grad nodes are no steps of a loop."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        for _ in range(6):
            with run.scope("cell", "Cell"):
                h = run.op("tanh", run.op("neg", h, grads=("Neg",)), grads=("Tanh",))
    figure = draw(make_view(run.recording(), ViewOptions(depth=9, grad_nodes=nodes)))
    (group,) = (group for group in figure.groups if group.count > 1)
    assert ("carried over: 2×4" in [text.text for text in group.label]) is not nodes


def test_a_loop_passes_on_what_a_region_in_its_module_reads() -> None:
    """The module around the region is what runs again."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        for _ in range(6):
            with run.scope("cell", "Cell"):
                with run.scope("no_grad", kind=ScopeKind.NO_GRAD):
                    h = run.op("neg", h)
                h = run.op("tanh", h)
    (group,) = (group for group in figure_of(run.recording(), depth=9).groups if group.count > 1)
    assert "carried over: 2×4" in [text.text for text in group.label]


def biased() -> Recording:
    """Four equal layers with a weight and a bias."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        for place in range(4):
            with run.scope(f"layers.{place}", "Linear"):
                weights = run.parameter("weight"), run.parameter("bias", (4,))
                h = run.op("linear", h, *weights)
    return run.recording()


@pytest.mark.parametrize(
    ("frozen", "said"),
    [
        (["layers.0.bias"], "4 × 20 params, partly frozen"),
        (["layers.0.bias", "layers.0.weight"], "4 × 20 params, 1 of 4 frozen"),
        ([], "4 × 20 params"),
    ],
)
def test_a_fold_shows_how_much_of_it_is_frozen(frozen: list[str], said: str) -> None:
    """Whole layers are counted; of parts there is no number that says it."""
    view = make_view(with_frozen(biased(), frozen), ViewOptions(depth=1))
    assert [shape.label[-1].text for shape in draw(view).shapes if shape.count > 1] == [said]


def test_a_grad_node_that_no_recorded_op_made_shows_its_name() -> None:
    """And of the others who made them, and where."""
    recording = network()
    first = next(iter(recording.grad_nodes.values()))
    nodes = {**recording.grad_nodes, first.id: first.replace(owner=None, scope=None)}
    found = replace(recording, grad_nodes=MappingProxyType(nodes))
    tooltips = {
        shape.id: shape.tooltip
        for shape in draw(make_view(found, ViewOptions(view="backward", depth=9))).shapes
    }
    assert tooltips[first.id] == first.name
    assert all("made by" in text for node, text in tooltips.items() if node != first.id)


def test_figures_do_not_change() -> None:
    """What finishes a figure gives another one."""
    figure = figure_of(network(), depth=2)
    for part in (figure, *figure.shapes, *figure.groups, *figure.lines, figure.shapes[0].look):
        for field in fields(part):  # type: ignore[arg-type]
            with pytest.raises(FrozenInstanceError):
                setattr(part, field.name, None)


def test_what_finishes_a_figure_gets_its_theme() -> None:
    """A page has two: it is asked for both."""
    asked: list[str] = []

    class Finish:
        def in_theme(self, theme: Theme) -> Finish:
            asked.append(theme.name)
            return self

        def __call__(self, figure: Figure, view: View) -> Figure:
            return figure

    for theme in ("print", "dark"):
        figure_of(network(), Style(theme=theme, finish=Finish()))  # type: ignore[arg-type]
    assert asked == ["print", "dark"]
    page_data(make_view(network(), ViewOptions()), Style(finish=Finish()))
    assert {*asked[2:]} == {"light", "dark"}
