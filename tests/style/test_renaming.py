"""Other names for modules, ops and tensors."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.figures import network
from tests.views.test_group import convnet
from torchrecorder.errors import InvalidArgument
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import title_of
from torchrecorder.style.style import Style
from torchrecorder.views.pipeline import ViewOptions, make_view


def titles(recording: Recording, names: Mapping[str, str], depth: int = 1) -> list[str]:
    """Titles of groups and shapes."""
    figure = draw(make_view(recording, ViewOptions(depth=depth)), Style(rename=names))
    return [each.label[0].text for each in (*figure.groups, *figure.shapes)]


@pytest.mark.parametrize("names, said", [
    ({"body": "Trunk"}, ["Net", "x", "Trunk", "skip: Identity", "+", "output"]),
    ({"Sequential": "Stack"}, ["Net", "x", "body: Stack", "skip: Identity", "+", "output"]),
    ({"*": "?", "add": "+"}, ["?", "?", "?", "?", "+", "?"]),
    ({"s*p": "Shortcut", "Ident*": "I"}, ["Net", "x", "body: Sequential", "Shortcut", "+",
                                          "output"]),
    ({"Sequential": "", "Identity": ""}, ["Net", "x", "body", "skip", "+", "output"]),
    ({"body": ""}, ["Net", "x", "Sequential", "skip: Identity", "+", "output"]),
    ({"x": "image", "output": "score", "Net": "Ours"},
     ["Ours", "image", "body: Sequential", "skip: Identity", "+", "score"]),
])
def test_titles(names: Mapping[str, str], said: list[str]) -> None:
    """A path or name gives the title, a class what stands after the colon."""
    assert titles(network(), names) == said


def test_what_is_inside() -> None:
    """Modules are told by their name at any depth, or by their path at one place."""
    assert "Linear map" in titles(network(), {"body.0": "Linear map"}, depth=2)
    assert titles(convnet(), {"c": "Mix", "layers.*": "Layer"}, depth=3)[2] == "Layer  ×4"
    assert titles(convnet(), {"c": "Mix"}, depth=3)[-3] == "Mix"


def test_an_op_by_its_path() -> None:
    """An op in one module only."""
    assert "sum" in titles(convnet(), {"layers.*.add": "sum"}, depth=3)
    assert "sum" not in titles(network(), {"layers.*.add": "sum"}, depth=3)


def test_looks_stay() -> None:
    """A new name changes no color, no hyperparameter and no fold."""
    view = make_view(convnet(), ViewOptions(depth=3))
    plain, other = draw(view), draw(view, Style(rename={"Linear": "Dense", "relu": "max"}))
    assert [each.look for each in plain.shapes] == [each.look for each in other.shapes]
    assert [each.label[1:] for each in plain.shapes] == [each.label[1:] for each in other.shapes]


@pytest.mark.parametrize("names", [["a"], {"a": 1}, "a=b"])
def test_no_mapping(names: object) -> None:
    """What maps no text to text is told at once."""
    with pytest.raises(InvalidArgument, match="rename must map"):
        Style(rename=names)  # type: ignore[arg-type]


LONG = "A rather long name with ünïcödé & <b>html</b> \\alpha, which nobody cuts"


@pytest.mark.parametrize("called", ["Sequential", "body", "add", "x", "output"])
@pytest.mark.parametrize("depth", [1, 9])
def test_a_long_name_is_whole_in_several_lines(called: str, depth: int) -> None:
    """On boxes and in corners, and no line is long."""
    view = make_view(network(), ViewOptions(depth=depth))
    figure = draw(view, Style(rename={called: LONG}))
    labels = [each.label for each in (*figure.groups, *figure.shapes)]
    assert [title_of(label) for label in labels if LONG in title_of(label)]
    assert max(len(text.text) for label in labels for text in label) <= 36
    broken = draw(view, Style(rename={called: "line\nbreak"}))
    said = [each.label for each in (*broken.groups, *broken.shapes)]
    assert any([text.text for text in label[:2]] in (["line", "break"], ["body: line", "break"])
               for label in said)
