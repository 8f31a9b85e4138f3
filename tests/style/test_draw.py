"""Figures: which texts, colors and outlines a view gets."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import torchrecorder
from tests.figures import linear, network, regions
from tests.graph.test_consistency import changed
from torchrecorder.events import UNFINISHED
from torchrecorder.recording import Recording
from torchrecorder.style.color import contrast, faded, ink, mix, rgb, scale
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Figure, Shape, title_of
from torchrecorder.style.style import RULES, Style
from torchrecorder.style.themes import NAMES, THEMES, Theme
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind


def figure_of(recording: Recording, style: Style = Style(), **options: Any) -> Figure:
    """A figure of a recording."""
    return draw(make_view(recording, ViewOptions(**options)), style)


def texts(figure: Figure) -> dict[str, list[str]]:
    """The lines on each shape."""
    return {shape.id: [text.text for text in shape.label] for shape in figure.shapes}


def test_boxes_show_name_class_hyperparameters_and_parameter_count() -> None:
    """And inputs and outputs say their shape."""
    assert texts(figure_of(network())) == {
        "v0": ["x", "2×4"],
        "s2": ["0: Linear", "4 → 4, no bias", "16 params"],
        "s3": ["1: ReLU"],
        "s4": ["2: Linear", "4 → 4, no bias", "16 params"],
        "s5": ["skip: Identity"],
        "o4": ["+"],
        "out:0": ["output", "2×4"],
    }


def test_clusters_show_name_and_class() -> None:
    """The root is named once."""
    figure = figure_of(network())
    assert [group.label[0].text for group in figure.groups] == ["Net", "body: Sequential"]


def test_arrows_carry_shapes_once_per_tensor() -> None:
    """Inputs and outputs tell theirs themselves."""
    figure = figure_of(network(), Style(shapes="all"), depth=1)
    assert [line.label for line in figure.lines] == ["", "", "2×4", "2×4", ""]
    plain = figure_of(network(), Style(shapes=False), depth=1)
    assert not any(line.label for line in plain.lines)


def test_a_tensor_read_twice_is_labeled_once() -> None:
    """Two arrows with the same tail and value."""
    run = Builder()
    with run.scope("Net"):
        h = run.op("relu", run.input())
        run.op("mul", h, h)
    figure = figure_of(run.recording(), Style(shapes="all"))
    assert [line.label for line in figure.lines] == ["", "2×4", "", ""]


def test_a_module_called_again_shows_its_call() -> None:
    """Its parameters are shared between the calls."""
    run = Builder()
    with run.scope("Net"):
        h = run.op("relu", linear(run, "fc", run.input()))
        linear(run, "fc", h)
    labels = texts(figure_of(run.recording()))
    assert labels["s1"][-1] == "16 params, call 1 of 2"
    assert labels["s2"][-1] == "16 params, call 2 of 2"


class _Counted(dict[Any, Any]):
    """A mapping that counts how often it is asked."""

    asked = 0

    def __getitem__(self, key: Any) -> Any:
        self.asked += 1
        return super().__getitem__(key)


def test_drawing_calls_of_one_module_takes_linear_work() -> None:
    """Twice as many steps of a loop ask twice as much of the recording, not four times."""
    asked = []
    for steps in (50, 100):
        run = Builder()
        with run.scope("Net"):
            h = run.input()
            for _ in range(steps):
                h = linear(run, "cell", h)
        recording = run.recording()
        counted = _Counted(recording.scopes)
        figure_of(replace(recording, scopes=counted), depth=1, fold=False)
        asked.append(counted.asked)
    assert asked[1] <= 2 * asked[0]


def test_tied_parameters_count_once() -> None:
    """In the box of the root."""
    run = Builder()
    with run.scope("Net"):
        with run.scope("a"):
            weight = run.parameter("weight", (10, 10))
            h = run.op("linear", run.input(), weight)
        with run.scope("b"):
            run.op("linear", h, weight)
    assert texts(figure_of(run.recording(), depth=0))["s0"] == ["Net", "100 params"]


def test_kinds_differ_in_outline_or_dash_and_in_color() -> None:
    """In every theme, so that gray print and color-blind readers can tell."""
    kinds = ("input", "output", "parameter", "buffer", "constant", "tensor", "module", "op")
    for theme in THEMES.values():
        looks = [theme.looks[kind] for kind in kinds]
        assert len({(look.outline, look.dash) for look in looks}) == len(looks)
    colors = {THEMES["light"].looks[kind].stroke for kind in kinds}
    assert len(colors) == len(kinds)


def test_print_distinguishes_families_in_a_photocopy() -> None:
    """No hue and few grays, far apart; families of one gray differ in weight or in the color of
    their outline, in boxes of one kind too."""
    theme = THEMES["print"]
    families = ("shape", "norm", "activation", "pooling", "weights", "attention")
    used = {rgb(theme.looks[name].fill) for name in NAMES}
    assert all(red == green == blue for red, green, blue in used)
    grays = sorted(red for red, _, _ in used)
    assert len(grays) == 4 and min(dark - light for light, dark in zip(grays, grays[1:])) >= 30
    for kind in ("op", "module"):
        looks = [theme.looks[kind], *(theme.outlined(family, kind) for family in families)]
        for one, other in combinations(looks, 2):
            different = one.fill != other.fill
            heavier = abs(one.width - other.width) >= 1
            assert different or heavier or contrast(one.stroke, other.stroke) >= 3
            assert one.outline == other.outline == theme.looks[kind].outline


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_every_text_can_be_read(theme: Theme) -> None:
    """Contrast of titles at least 7, of small print at least 4.5 on every fill."""
    assert {kind.value for kind in BoxKind} <= set(theme.looks)
    for look in [*theme.looks.values(), *theme.groups]:
        assert contrast(look.text, look.fill) >= 7
        assert contrast(faded(look.text, look.fill), look.fill) >= 4.5
    assert contrast(theme.line.text, theme.paper) >= 4.5


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_text_on_every_color_of_the_scale_can_be_read(theme: Theme) -> None:
    """Titles and small print; the latter is fainter wherever that leaves it readable."""
    for share in range(101):
        fill = scale(theme.heat, share / 100)
        text = ink(fill)
        small = faded(text, fill)
        assert contrast(text, fill) >= contrast(small, fill) >= 4.5, fill
        assert small != text or contrast(mix(text, fill, 0.07), fill) < 4.5, fill


@pytest.mark.parametrize("color_by", [None, "output_bytes"])
def test_failure_is_marked_on_the_op_and_around_it(color_by: str | None) -> None:
    """With the error on the innermost box, which has no other color."""
    run = Builder()
    with run.scope("Net"):
        with run.scope("bad", "Linear"):
            run.op("linear", run.input())
            run.fail("RuntimeError", "mat1 and mat2 shapes cannot be multiplied (2x4 and 5x6)")
    figure = figure_of(run.recording(), Style(color_by=color_by), depth=1)
    box = next(shape for shape in figure.shapes if shape.id == "s1")
    failed = THEMES["light"].looks["failed"]
    assert (box.look.fill, box.look.stroke, box.look.bold) == (failed.fill, failed.stroke, True)
    said = " ".join(text.text for text in box.label)
    error = "RuntimeError at net.py:12: mat1 and mat2 shapes cannot be multiplied (2x4 and 5x6)"
    assert error in said
    assert [group.look.stroke for group in figure.groups] == [failed.stroke]


@pytest.mark.parametrize("depth", [0, 1])
def test_an_error_between_operations_is_at_its_module(depth: int) -> None:
    """Closed or open; the module is not called unused, though nothing reads its results."""
    run = Builder()
    with run.scope("Net"):
        run.op("add", run.op("mul", run.input()))
        run.fail("IndexError", "list index out of range")
    failed = run.recording()
    failure = failed.run.failure
    assert failure is not None and failure.op is not None
    failed = replace(
        changed(failed, "ops", failure.op, failed=False),
        run=replace(failed.run, failure=replace(failure, op=None)), outputs=(),
    )
    figure = figure_of(failed, depth=depth)
    (box,) = (each for each in (*figure.shapes, *figure.groups) if each.id == "s0")
    assert [line.text for line in box.label] == [
        "Net", "IndexError at net.py:12: list index out of", "range"
    ]


def test_dropout_in_eval_mode_shows_that_it_is_off() -> None:
    """Its rate would mislead."""
    run = Builder()
    with run.scope("Net"):
        with run.scope("drop", "Dropout", detail="p=0.5", training=False):
            run.op("dropout", run.input())
    assert texts(figure_of(run.recording()))["s1"] == ["drop: Dropout", "off in eval mode"]


@pytest.mark.parametrize("training", [True, False])
def test_a_dropout_is_on_or_off_in_each_call(training: bool) -> None:
    """As in a program that validates between its steps, or before the first one."""
    run = Builder()
    for told in (training, not training):
        with run.scope("drop", "Dropout", detail="p=0.5", training=training):
            run.op("dropout", run.input(), arguments=(("training", str(told)),))
    shown = texts(figure_of(run.recording()))
    found = [shown[call][1] for call in ("s0", "s1")]
    assert found == ["p 0.5", "off in eval mode"][::1 if training else -1]


def test_parameter_names_are_short_inside_their_module() -> None:
    """The cluster around them says the rest."""
    labels = texts(figure_of(regions(), depth=2, parameters=True))
    assert ["token", "1×192"] in labels.values()
    assert ["weight", "4×4"] in labels.values()


def test_tooltips_show_class_shapes_and_source() -> None:
    """For modules and ops."""
    tips = {shape.id: shape.tooltip for shape in figure_of(network()).shapes}
    assert tips["s2"].splitlines() == [
        "body.0",
        "nets.Linear",
        "in_features=4, out_features=4, bias=False",
        "in: 2×4",
        "out: 2×4",
    ]
    assert "torch.add" in tips["o4"] and "net.py:" in tips["o4"]
    assert "/home" not in "".join(tips.values())


def test_rules_of_ones_own_come_first() -> None:
    """First answer wins; None leaves it to the next."""

    def pink(box: object, view: object, theme: Theme) -> object:
        return replace(theme.looks["op"], fill="#ffc0cb") if getattr(box, "id") == "o4" else None

    figure = figure_of(network(), Style(rules=(pink, *RULES)))
    fills = {shape.id: shape.look.fill for shape in figure.shapes}
    assert fills["o4"] == "#ffc0cb" and fills["s2"] == THEMES["light"].looks["weights"].fill


def test_long_names_of_outputs_are_broken_at_a_dot() -> None:
    """Many outputs stand side by side; what is no picture has the name in one piece."""
    run, name = Builder(), "vision_model_output.pooler_output"
    with run.scope("Net"):
        run.op("relu", run.input())
    recording = run.recording()
    output = recording.outputs[0]._replace(name=name)
    shape = figure_of(replace(recording, outputs=(output,))).shapes[-1]
    lines = [text.text for text in shape.label if text.part == "title"]
    assert lines == ["vision_model_output", ".pooler_output"]
    assert title_of(shape.label) == name


def test_legend_lists_what_is_there() -> None:
    """And nothing else."""
    assert figure_of(network()).legend == ()
    legend = figure_of(network(), Style(legend=True)).legend
    assert [entry.text for entry in legend] == [
        "input",
        "output",
        "module",
        "operation",
        "weights",
        "activation",
    ]


def test_legend_draws_what_it_explains() -> None:
    """Each entry in the outline of its boxes: modules have corners, inputs lean."""
    figure = figure_of(network(), Style(legend=True, theme=THEMES["print"]))
    outlines = {entry.text: entry.look.outline for entry in figure.legend}
    assert outlines == {
        "input": "parallelogram", "output": "octagon", "module": "box", "operation": "rounded",
        "weights": "box", "activation": "box",
    }
    drawn = {
        (shape.look.outline.replace("circle", "rounded"), shape.look.fill)  # a sum without text
        for shape in figure.shapes
    }
    assert {(entry.look.outline, entry.look.fill) for entry in figure.legend} == drawn


def test_legend_of_colored_boxes_lists_no_family() -> None:
    """No box has the color of one; the scale and the outlines of kinds are left."""
    style = Style(legend=True, color_by="output_bytes")
    figure = figure_of(network(), style)
    rows = {entry.text: entry.look for entry in figure.legend[6:]}
    assert list(rows) == ["input", "output", "module", "operation"]
    assert [entry.part for entry in figure.legend] == ["scale"] * 6 + ["look"] * 4
    assert {look.fill for look in rows.values()} == {style.theme.paper}


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_boxes_colored_by_a_number_have_no_look_of_a_family(theme: Theme) -> None:
    """Nor a heavy outline that the legend does not explain, with the number or without."""
    for number in ("output_bytes", "peak_bytes"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            figure = figure_of(network(), Style(legend=True, color_by=number, theme=theme))
        kinds = {shape.kind: shape.look for shape in figure.shapes}
        for shape in figure.shapes:
            assert shape.look.width == theme.looks[str(shape.kind)].width
            if number == "peak_bytes":
                assert shape.look.stroke == kinds[shape.kind].stroke


def test_shapes_carry_kind_and_lines_carry_value() -> None:
    """For other layouts."""
    figure = figure_of(network(), depth=1)
    assert [shape.kind for shape in figure.shapes] == ["input", "module", "module", "op", "output"]
    assert all(isinstance(shape, Shape) for shape in figure.shapes)
    assert [line.value for line in figure.lines] == ["v0", "v0", "v5", "v6", "v7"]


def test_colors() -> None:
    """Mixing, ink on fills, scales."""
    assert mix("#000000", "#ffffff", 0.5) == "#808080"
    assert ink("#ffffff") == "#1b1f24" and ink("#102040") == "#ffffff"
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)  # the largest there is
    assert scale(("#000000", "#ff0000", "#ffffff"), 0.5) == "#ff0000"
    assert scale(("#000000", "#ffffff"), 7.0) == "#ffffff"


def test_grad_nodes_of_similar_siblings_have_the_arguments_of_all() -> None:
    """Those of the operation that each is of, if it is its only one."""

    class Limited(nn.Module):
        def __init__(self, most: int) -> None:
            super().__init__()
            self.layer, self.most = nn.Linear(4, 4), most

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x).clamp(max=self.most)

    model = nn.Sequential(*map(Limited, (2, 3, 4)))
    recording = torchrecorder.record(model, torch.rand(2, 4))
    view = make_view(recording, ViewOptions(depth=2, fold="similar", grad_nodes=True))
    view.check()
    assert ["clamp: ClampBackward1", "max 2 … 4"] in texts(draw(view, Style())).values()


@pytest.mark.parametrize("ran", [True, False])
def test_errors_outside_of_calls_have_a_note(ran: bool, tmp_path: Path) -> None:
    """Beside what ran, in all formats; those in a call are marked there."""
    with pytest.raises(ValueError) as raised, torchrecorder.Recorder():
        if ran:
            torch.ones(2).exp()
        raise ValueError("no batch")
    recording = torchrecorder.recording_of(raised.value)
    shapes = {shape.id: shape for shape in torchrecorder.figure(recording).shapes}
    texts = [line.text for line in shapes["failure:0"].label]
    assert texts[0] == "failed" and texts[1].startswith("ValueError at test_draw.py:")
    assert texts[1].endswith(": no batch") and ("nothing" in shapes) is not ran
    for ending in (".svg", ".dot", ".mmd"):
        recording.render(tmp_path / f"failed{ending}")
        assert "no batch" in (tmp_path / f"failed{ending}").read_text()
    run = replace(recording.run, failure=replace(recording.run.failure, error=UNFINISHED))
    note = torchrecorder.figure(replace(recording, run=run)).shapes[-1]
    assert [line.text for line in note.label] == ["unfinished", "no batch"]
    with pytest.raises(RuntimeError) as raised, torchrecorder.Recorder():
        torch.ones(2) + torch.ones(3)
    inside = torchrecorder.figure(torchrecorder.recording_of(raised.value)).shapes
    assert "failure:0" not in {shape.id for shape in inside}
