"""Colors that a user gives to modules, operations and tensors by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import torchrecorder
from tests.figures import linear, network
from tests.page.test_data import Page, data_of
from tests.views.test_group import convnet
from tests.work import growth
from torchrecorder.comparison.compare import compare
from torchrecorder.errors import InvalidArgument
from torchrecorder.recording import Recording
from torchrecorder.style.color import READABLE, contrast
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Figure, Look, title_of
from torchrecorder.style.renaming import counterparts
from torchrecorder.style.style import RULES, Style
from torchrecorder.style.themes import THEMES, Theme
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind

RED, BLUE = "#ff0000", "#0000ff"


def figure(recording: Recording, style: Style, **options: object) -> Figure:
    """The figure in a style, with everything open except for *options*."""
    return draw(make_view(recording, ViewOptions(**{"depth": 9, **options})), style)


def filled(found: Figure, color: str = RED) -> list[str]:
    """The titles of boxes in a color."""
    return [title_of(shape.label) for shape in found.shapes if shape.look.fill == color]


def frames(found: Figure) -> Mapping[str, Look]:
    """The looks of frames by their names."""
    return {group.name: group.look for group in found.groups}


@pytest.mark.parametrize(("key", "titles"), [
    ("body", ["body: Sequential"]),
    ("Identity", ["skip: Identity"]),
    ("[bs]*", ["body: Sequential", "skip: Identity"]),
    ("add", ["+"]),
    ("x", ["x"]),
    ("input", ["x"]),
    ("output", ["output"]),
])
def test_boxes_by_name_class_or_pattern(key: str, titles: list[str]) -> None:
    """Modules, operations, inputs and outputs; X11 names are colors too."""
    assert filled(figure(network(), Style(colors={key: "red"}), depth=1)) == titles


def test_parameters_by_path() -> None:
    """Where they have boxes."""
    found = figure(network(), Style(colors={"body.0.weight": RED}), parameters=True)
    assert filled(found) == ["weight"]


def test_an_exact_key_wins_over_a_pattern() -> None:
    """Attention in an encoder can have another color than all else in it."""
    found = figure(network(), Style(colors={"*": BLUE, "skip": RED}), depth=1)
    assert filled(found) == ["skip: Identity"] and len(filled(found, BLUE)) == 4


@pytest.mark.parametrize("theme", THEMES.values(), ids=list(THEMES))
@pytest.mark.parametrize("color", ["#ffd6a5", "#0072b2", "#000000", "#fffffe"])
def test_text_is_readable(color: str, theme: Theme) -> None:
    """On boxes, which have the color, and on frames, which have a tint of it; outlines are seen."""
    found = figure(network(), Style(theme, colors={"body": color, "add": color}))
    looks = [shape.look for shape in found.shapes if shape.look.fill == color]
    looks.append(frames(found)["body"])
    assert len(looks) == 2
    assert all(contrast(look.text, look.fill) >= READABLE for look in looks)
    assert all(contrast(look.stroke, look.fill) > 1.3 for look in looks)


def test_a_tint_on_paper_without_a_color() -> None:
    """As on white paper, if text is dark."""
    clear = replace(THEMES["light"], paper="transparent")
    found = [figure(network(), Style(theme, colors={"body": RED})) for theme in ("light", clear)]
    assert frames(found[0])["body"] == frames(found[1])["body"]


@pytest.mark.parametrize("theme", THEMES.values(), ids=list(THEMES))
def test_an_open_module_has_a_tint(theme: Theme) -> None:
    """Its frame is closer to the paper than its closed box; what is inside has its own colors."""
    plain, found = (
        figure(network(), Style(theme, colors=colors)) for colors in ({}, {"body": "#0072b2"})
    )
    tint = frames(found)["body"].fill
    assert tint not in (frames(plain)["body"].fill, "#0072b2")
    assert contrast(tint, theme.paper) < contrast("#0072b2", theme.paper)
    assert [shape.look for shape in found.shapes] == [shape.look for shape in plain.shapes]


@pytest.mark.parametrize(("colors", "count"), [
    ({"layers.*": RED}, 1),
    ({"layers.0": RED}, 0),
    ({"layers.0": RED, "layers.?": BLUE}, 0),
    ({"layers.0": RED, "layers.?": RED}, 1),
])
def test_a_fold_has_the_color_of_all_its_siblings(colors: Mapping[str, str], count: int) -> None:
    """Not that of one of them."""
    found = figure(convnet(), Style(colors=colors), depth=2)
    assert len(filled(found)) == count
    plain = frames(figure(convnet(), Style()))
    opened = frames(figure(convnet(), Style(colors=colors)))
    assert (opened["layers.0"].fill != plain["layers.0"].fill) == bool(count)


@pytest.mark.parametrize(("key", "count"), [("layers.*.a.weight", 1), ("layers.0.*", 0)])
def test_a_parameter_of_a_fold(key: str, count: int) -> None:
    """It stands for those of all siblings."""
    found = figure(convnet(), Style(colors={key: RED}), parameters=True)
    assert len(filled(found)) == count


def test_a_group_by_its_name() -> None:
    """Closed and open."""
    style, group = Style(colors={"Stem": RED}), {"Stem": ["conv", "norm"]}
    assert filled(figure(convnet(), style, group=group, depth=1)) == ["Stem"]
    plain = figure(convnet(), Style(), group=group)
    assert [
        one.label[0].text
        for one, other in zip(figure(convnet(), style, group=group).groups, plain.groups)
        if one.look != other.look
    ] == ["Stem"]


def test_the_backward_view() -> None:
    """A grad node has the color of its operation."""
    found = figure(network(), Style(colors={"add": RED}), view="backward")
    assert filled(found) == ["AddBackward0"]


def rows(found: Figure) -> dict[str, Look]:
    """The looks in the legend by their texts."""
    return {entry.text: entry.look for entry in found.legend}


def test_the_legend_lists_colors_instead_of_what_they_replace() -> None:
    """By key, or the new name of that, where they are drawn; only frames have a row with a tint."""
    style = Style(
        legend=True, colors={"body": BLUE, "relu": RED, "x": RED}, rename={"relu": "Nonlinear"}
    )
    found, closed = figure(network(), style), figure(network(), style, depth=1)
    usual = ["output", "module", "operation"]
    assert list(rows(found)) == [*usual, "weights", "body", "Nonlinear", "x"]
    assert list(rows(closed)) == [*usual, "body", "x"]
    assert rows(found)["body"].fill == frames(found)["body"].fill
    assert rows(closed)["body"].fill == BLUE


def test_own_rules_come_first() -> None:
    """A rule that returns a look decides."""
    def rule(box, view, theme):
        return theme.looks["input"] if box.id in view.recording.ops else None

    style = Style(colors={"add": RED, "skip": RED}, rules=(rule, *RULES))
    assert filled(figure(network(), style, depth=1)) == ["skip: Identity"]


def test_a_failed_module_stays_marked() -> None:
    """A color does not hide where a run ended."""
    run = Builder("Net")
    with run.scope("Net"), run.scope("fc", "Linear"):
        run.op("linear", run.input("x"))
        run.fail()
    recording = run.recording()
    found = figure(recording, Style(colors={"fc": RED, "x": RED}, legend=True), depth=1)
    assert filled(found) == ["x"] and "failed here" in rows(found)


def test_not_with_a_number_that_colors() -> None:
    """Both would fill boxes."""
    with pytest.raises(InvalidArgument, match="give only one of them; numbers= writes"):
        Style(colors={"body": RED}, color_by="parameters")


@pytest.mark.parametrize("color", ["blu", "#ff000080", "red:blue", "transparent"])
def test_a_custom_color_is_one_without_opacity(color: str) -> None:
    """Tints are made of it."""
    with pytest.raises(InvalidArgument, match="the color of 'body' must be a color"):
        Style(colors={"body": color})


def test_in_a_comparison_only_what_is_equal_has_a_custom_color(tmp_path: Path) -> None:
    """The tint of frames, also in the legend; differences have theirs."""
    def net(size: int) -> Recording:
        run = Builder("Net")
        with run.scope("Net"):
            h = linear(run, "fc", run.input("x"))
            with run.scope("act", "ReLU" if size else "Tanh"):
                run.op("relu" if size else "tanh", h)
        return run.recording()

    both, looks = compare(net(0), net(1)), []
    for colors in ({}, {"fc": RED, "act": RED}):
        target = tmp_path / f"{len(colors)}.dot"
        drawn = both.render(target, depth=1, legend=True, colors=colors).read_text()
        assert RED not in drawn
        looks.append([
            re.findall(r'fillcolor="([^"]+)"', line)
            for name in ("fc: Linear", "act: ReLU") for line in drawn.splitlines() if name in line
        ])
    (plain, changed), (tinted, marked) = looks
    assert tinted != plain and marked == changed


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_keeps_colors_of_what_opens_and_closes(theme: str) -> None:
    """Each sibling and their fold: the color where closed, a tint where open."""
    page = Page(data_of(convnet(), Style(colors={"layers.?": RED}), depth=2))
    looks = {
        (page.items[state][page.find(title)]) for title in ("0 … 3: Block  ×4", "0: Block")
        for state in ("look", "open_look")
    }
    closed, opened = (page.items[state][page.find("2: Block")] for state in ("look", "open_look"))
    found = page.data["looks"]
    assert found[closed][theme]["fill"] == RED
    assert {found[look][theme]["fill"] for look in looks} == {RED, found[opened][theme]["fill"]}
    assert found[opened][theme]["fill"] == frames(
        figure(convnet(), Style(THEMES[theme], colors={"layers.?": RED}))
    )["layers.0"].fill


def test_a_page_colors_one_of_equal_siblings() -> None:
    """Its siblings and their fold have none."""
    page = Page(data_of(convnet(), Style(colors={"layers.2": RED}), depth=2))
    looks = zip(page.items["label"], page.items["look"])
    assert [
        page.lines(label)[0] for label, look in looks
        if page.data["looks"][look]["light"]["fill"] == RED
    ] == ["2: Block"]


def test_what_a_box_stands_for_is_found_in_proportion() -> None:
    """How deep a module is does not depend on how deep the modules in it are."""
    def asking(levels: int) -> Callable[[], object]:
        module: nn.Module = nn.Linear(2, 2)
        for _ in range(levels):
            module = nn.Sequential(module)
        view = make_view(torchrecorder.record(module, torch.ones(1, 2)), ViewOptions(depth=0))
        (box,) = (box for box in view.boxes.values() if box.kind is BoxKind.MODULE)
        assert [*counterparts(box, view)] == [box.id]
        return lambda: [*counterparts(box, view)]

    assert growth(asking, 10) < 2.2
