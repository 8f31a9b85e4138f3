"""Names of arguments at the heads of lines: there where lines enter out of order, else not."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import torchrecorder
from torchrecorder.events import OpId
from torchrecorder.export.head_marks import head_marks
from torchrecorder.export.nested import Placed
from torchrecorder.recording import Recording
from torchrecorder.style.argument_marks import COMMUTATIVE, argument_marks
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Figure, Line
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.bundles import bundles
from torchrecorder.views.pipeline import ViewOptions, make_view


class Crossed(torch.nn.Module):
    """Ops whose arguments come from the left and from the right, in either order."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (torch.nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention, choice, quotient, product and concatenation of three projections."""
        a, b, c = self.a(x), self.b(x).relu(), self.c(x)
        attended = scaled_dot_product_attention(b[None], a[None], c[None])[0]
        chosen = torch.where(a > 0, b - a, c / b) + torch.where(c > 0, a / c, a - b)
        return chosen + (c @ attended.T).softmax(-1) @ a + torch.cat([c, b, a])[:3]


def recorded() -> Recording:
    """A run of it."""
    torch.manual_seed(0)
    return torchrecorder.record(Crossed(), torch.ones(3, 4))


@pytest.mark.parametrize("direction", ["TB", "LR", "BT", "RL"])
def test_lines_enter_in_order_or_are_named(direction: Any) -> None:
    """Checked against the order of the arguments in the recording, and the ends of the lines."""
    recording = recorded()
    view = make_view(recording, ViewOptions())
    figure = draw(view, Style(direction=direction))
    ways = list(Placed.lay_out(figure, 60.0).routes())
    marks, named, ordered = head_marks(figure, ways), 0, 0
    axis = 0 if direction in ("TB", "BT") else 1
    for op in recording.ops.values():
        entering = [
            (ways[number][-1][axis], bundle.first.slot, number)
            for number, bundle in enumerate(bundles(view))
            if bundle.first.head == op.id
        ]
        if len(entering) < 2 or op.name in COMMUTATIVE:
            assert not any(number in marks for *_, number in entering)
            continue
        slots = [slot for _, slot, _ in sorted(entering)]
        wanted = [slot.name for slot in op.inputs if slot.name in slots]
        told = [number in marks for *_, number in entering]
        if slots == wanted:
            assert not any(told)
            ordered += 1
        else:
            assert sum(told) >= len(told) - 1
            named += 1
    assert named > 1 and named + ordered > 6


def test_marks_stand_in_the_picture(tmp_path: Path, no_graphviz: None) -> None:
    """The same names with Graphviz and without; beside the tip of their line."""
    recording = recorded()
    written = recording.render(tmp_path / "plain.svg")
    texts = "".join(fromstring(written.read_bytes()).itertext())
    figure = draw(make_view(recording, ViewOptions()))
    ways = list(Placed.lay_out(figure, 60.0).routes())
    found = head_marks(figure, ways)
    assert found
    for number, mark in found.items():
        x, y = ways[number][-1]
        assert abs(mark.at[0] - x) < 20 and 0 < y - mark.at[1] < 10
        assert mark.text in texts


def test_marks_are_painted(tmp_path: Path) -> None:
    """By Graphviz, in SVG; a commutative op has none."""
    pytest.importorskip("pygraphviz")
    attention = torch.nn.MultiheadAttention(8, 2)
    x = torch.ones(5, 2, 8)
    written = torchrecorder.record(attention, (x, x, x)).render(tmp_path / "a.svg", depth=0)
    assert "query = key = value" in written.read_text(encoding="utf-8")
    run = torchrecorder.record(lambda x, y: (y + x) * x, (torch.ones(2), torch.ones(2)))
    figure = draw(make_view(run, ViewOptions()))
    assert {line.mark for line in figure.lines} == {""}
    assert all(run.ops[OpId(each)].name in COMMUTATIVE for each in run.ops)


def test_formats_that_are_placed_elsewhere_name_arguments(tmp_path: Path) -> None:
    """DOT and Mermaid do not know the order in which lines will enter."""
    run = torchrecorder.record(lambda x, y: x / y, (torch.ones(2), torch.ones(2)))
    dot = run.render(tmp_path / "a.dot").read_text(encoding="utf-8")
    assert dot.count("headlabel") == 1 and 'headlabel="÷"' in dot
    mermaid = run.render(tmp_path / "a.mmd").read_text(encoding="utf-8")
    assert mermaid.count('-->|"÷"|') == 1


@pytest.mark.parametrize(("names", "told"), [
    (["query", "key"], ["q", "k"]), (["query", "mask"], ["", ""]), (["mask", "key"], ["", ""]),
    (["query", "key", "mask"], ["q", "k", "mask"]),
])
def test_a_closed_module_that_attends_names_its_arguments(
    names: list[str], told: list[str]
) -> None:
    """It has at least two of query, key and value; one may be the name of anything."""
    run = Builder("Net")
    given = [run.input(name) for name in names]
    with run.scope("Net"):
        run.op("matmul", *given)
    *into, _ = draw(make_view(run.recording(), ViewOptions(depth=0))).lines
    assert [line.mark for line in into] == told


def test_no_two_arguments_have_one_name() -> None:
    """Also where a list of tensors is one of several arguments."""
    class Picked(torch.nn.Module):
        """Reads a tensor at places in two dimensions."""

        def forward(self, x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
            return x[j, i]

    i, j = torch.tensor([0, 1]), torch.tensor([1, 0])
    view = make_view(torchrecorder.record(Picked(), (torch.ones(2, 2), i, j)))
    marks = argument_marks(view, bundles(view))
    assert sorted(mark.text for mark in marks.values()) == ["1", "2", "3"]


def test_a_name_stands_clear_of_other_lines() -> None:
    """Key and value of attention are named on the other side than the line of the query."""
    attention = torch.nn.MultiheadAttention(8, 2)
    x, y = torch.ones(5, 2, 8), torch.ones(5, 2, 8)
    figure = draw(make_view(torchrecorder.record(attention, (x, y, y)), ViewOptions(depth=0)))
    ways = list(Placed.lay_out(figure, 60.0).routes())
    ((number, mark),) = head_marks(figure, ways).items()
    own, other = ways[number][-1][0], ways[1 - number][-1][0]
    assert mark.text == "key = value" and (mark.at[0] < own) == (own < other)


@pytest.mark.parametrize("function, marks", [
    (lambda x, y: torch.nn.functional.cross_entropy(x * 2, y.argmax(1)), ["", "target"]),
    (lambda x, y: torch.nn.functional.linear(x, y * 2), ["", "w"]),
    (lambda x, y: torch.where(x > 0, x, y), ["if", "then", "else"]),
    (lambda x, y: torch.cat([x * 2, y * 2]), ["1", "2"]),
    (lambda x, y: x[x.argmax():y.argmax()], ["", "start", "stop"]),
    (lambda x, y: x[x.argmax():, y.argmax():], ["1", "2", "3"]),
])
def test_the_first_argument_needs_no_number_beside_one_with_a_name(
    function: Any, marks: list[str]
) -> None:
    """Numbers are for arguments that have no name among others that have none."""
    run = torchrecorder.record(function, (torch.ones(2, 4), torch.ones(2, 4)))
    view = make_view(run, ViewOptions())
    last = [*run.ops.values()][-1]
    drawn = bundles(view)
    found = argument_marks(view, drawn)
    arguments = [slot.name for slot in last.inputs]
    entering = sorted((arguments.index(bundle.first.slot), number)
                      for number, bundle in enumerate(drawn) if bundle.first.head == last.id)
    assert [found[number].text for _, number in entering] == marks


def test_marks_of_an_op_with_very_many_arguments() -> None:
    """The names of its arguments are compared once, not for each of them."""
    run = Builder("Wide")
    with run.scope("Wide"):
        x = run.input("x")
        run.op("stack", *(run.op("relu", x) for _ in range(40_000)))
    view = make_view(run.recording(), ViewOptions(depth="ops", fold=False))
    drawn = bundles(view)
    marks = argument_marks(view, drawn).items()
    shown = {int(drawn[item].first.slot): mark.text for item, mark in marks}
    assert shown == {place: str(place + 1) for place in range(40_000)}


def test_long_marks_are_compared_only_with_boxes_near_them() -> None:
    """A figure may have thousands of attentions below each other."""
    count, look = 40_000, Style().theme.line
    lines = tuple(Line(str(at), str(at + 1), "", look, mark="key = value") for at in range(count))
    figure = Figure("Chain", (), (), lines)
    ways = [[(50.0, 60.0 * at + 20.0), (50.0, 60.0 * at + 60.0)] for at in range(count)]
    boxes = [(0.0, 60.0 * at, 100.0, 60.0 * at + 20.0) for at in range(count)]
    marks = head_marks(figure, ways, boxes)
    assert {mark.text for mark in marks.values()} == {"key = value"} and len(marks) == count
