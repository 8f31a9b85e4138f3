"""Marks of compiled graphs and of their breaks, on a run made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.annotations.test_one_number import measured
from tests.figures import network
from tests.graph.test_consistency import blank
from tests.views.test_bundles import unbound
from torchrecorder.events import COMPILED_GRAPH, CompiledGraph, FusedKernel, GraphBreak, SourceLine
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Figure, Shape
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view

REASON = blank(
    GraphBreak, graph=1, reason="print", explanation="It is called.", hints=("Remove it.",), op="o1"
)


def compiled(
    *graphs: int, breaks: tuple[Any, ...] = (), kernels: tuple[Any, ...] = ()
) -> Recording:
    """The network, each of whose first ops ran in one of *graphs*; 0 is Python."""
    numbers = {f"o{place}": float(graph) for place, graph in enumerate(graphs)}
    made = tuple(blank(CompiledGraph, number=number) for number in range(1, 1 + max(graphs)))
    recording = measured(network(), COMPILED_GRAPH, **numbers)
    return replace(
        recording, compiled_graphs=made, graph_breaks=breaks, fused_kernels=kernels
    )


def figure_of(recording: Recording, depth: int = 9) -> Figure:
    return draw(make_view(recording, ViewOptions(depth=depth)))


def box(recording: Recording, name: str, depth: int = 9) -> Shape:
    """The box with this title."""
    (found,) = (s for s in figure_of(recording, depth).shapes if s.label[0].text == name)
    return found


def marks(shape: Shape) -> list[str]:
    """Its captions about graph breaks."""
    return [text.text for text in shape.label if "graph break" in text.text]


def test_a_break_at_an_operation_says_why() -> None:
    """And on a closed module also where; of several only their number is said."""
    there = REASON._replace(source=SourceLine("net.py", 7, "forward"))
    one, two = compiled(1, 0, breaks=(there,)), compiled(1, 0, breaks=(there, REASON))
    assert marks(box(one, "relu")) == ["graph break: print"]
    assert marks(box(one, "body: Sequential", 1)) == ["graph break at net.py:7: print"]
    assert marks(box(two, "relu")) == marks(box(two, "body: Sequential", 1)) == ["2 graph breaks"]
    assert not marks(box(compiled(1, 1), "relu"))


def test_the_tooltip_tells_all_about_the_graphs() -> None:
    """The graphs, the kernels, and each of the breaks with PyTorch's explanation and hints."""
    kernels = blank(FusedKernel, number=3, name="fused_relu", ops=("o1",)),
    other = REASON._replace(reason="item", explanation="", hints=())
    recording = compiled(1, 0, breaks=(REASON, other), kernels=kernels)
    told = box(recording, "body: Sequential", 1).tooltip.splitlines()
    first = told.index("compiled graph 1, Python")
    assert told[first:first + 6] == [
        "compiled graph 1, Python", "kernel 3: fused_relu", "graph break: print", "It is called.",
        "Remove it.", "graph break: item",
    ]
    assert "graph" not in box(network(), "body: Sequential", 1).tooltip


def test_the_box_at_a_break_stands_out() -> None:
    """By a bold title, and an outline as the legend says, unlike other boxes that run in Python and
    a closed module with a break inside."""
    there, without = compiled(1, 0, breaks=(REASON,)), compiled(1, 0)
    look = box(there, "relu").look
    (row,) = (row for row in figure_of(there).legend if row.text.startswith("breaks the graph"))
    assert (look.stroke, look.dash, look.bold) == (row.look.stroke, row.look.dash, True)
    other, around = box(without, "relu").look, box(there, "body: Sequential", 1).look
    assert not other.bold and look.stroke not in (other.stroke, around.stroke)


@pytest.mark.parametrize("graphs", [(8, 1, 9), (1, 8, 9), (9, 8, 1)])
def test_the_legend_lists_graphs_by_number(graphs: tuple[int, ...]) -> None:
    """In whichever order they run."""
    legend = figure_of(compiled(*graphs)).legend
    assert [row.text for row in legend][:3] == [f"compiled graph {n} of 9" for n in (1, 8, 9)]


def test_a_wide_line_across_a_break_stays_wide() -> None:
    """Only dashed."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("stack", *unbound(run, 9))
    numbers = {"o0": 1.0, "o1": 2.0}
    recording = measured(run.recording(), COMPILED_GRAPH, **numbers)
    recording = replace(recording, compiled_graphs=tuple(
        blank(CompiledGraph, number=number) for number in (1, 2)
    ))
    usual, broken = (
        next(line.look for line in figure_of(each).lines if line.count == 9)
        for each in (run.recording(), recording)
    )
    assert (usual.dash, broken.dash) == ("solid", "dashed") and broken.width == usual.width


def test_graphs_take_turns_without_colors() -> None:
    """Two with numbers next to each other have different outlines, those of the legend."""
    view = make_view(compiled(1, 2, 3), ViewOptions(depth=9))
    figure = draw(view, Style(theme="print"))
    dashes = [shape.look.dash for shape in figure.shapes if shape.id in ("o0", "o1", "o2")]
    assert dashes[0] == dashes[2] != dashes[1]
    assert [row.look.dash for row in figure.legend][:3] == dashes
