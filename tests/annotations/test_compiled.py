"""Numbers of a compiled run: graphs, breaks and kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.annotations.test_one_number import measured
from tests.figures import network
from tests.graph.test_consistency import blank
from torchrecorder.annotations.compiled import (
    break_table, breaks_at, common, graph_name, graphs_among, kernels_of,
)
from torchrecorder.drawing import figure
from torchrecorder.events import (
    COMPILED_GRAPH, FUSED_KERNEL, CompiledGraph, FusedKernel, GraphBreak, SourceLine,
)
from torchrecorder.recording import Recording


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((), ""), ((2,), "2"), ((1, 2), "1-2"), ((3, 1, 2), "1-3"), ((1, 3), "1, 3"),
        ((1, 2, 4, 5, 5), "1-2, 4-5"), ((0,), "Python"), ((0, 1), "1, Python"),
        ((0, 0, 2), "2, Python"), ((8, 1), "1, 8"), ((16, 8, 9), "8-9, 16"),
    ],
)
def test_graphs_of_several_ops(numbers: tuple[int, ...], said: str) -> None:
    """Those that follow each other from the first to the last; what is in none is in Python."""
    amounts = {f"o{place}": number for place, number in enumerate(numbers)}
    recording = measured(network(), COMPILED_GRAPH, **amounts)
    assert graphs_among(recording, [*amounts, "o99"]) == said


def test_what_several_ops_have_in_common() -> None:
    """Their graph, if it is one."""
    assert common([2, 2]) == 2 and common([1, 2]) is None
    assert graph_name(3) == "3" and graph_name(0) == "none (Python)"


def broken(*breaks: GraphBreak, graphs: int = 1) -> Recording:
    """A compiled run with graph breaks."""
    made = tuple(blank(CompiledGraph, number=number + 1) for number in range(graphs))
    return replace(network(), graph_breaks=breaks, compiled_graphs=made)


def test_a_break_that_ends_two_graphs_is_one_break() -> None:
    """At its op, if one of them knows it; in a list with all graphs that end there."""
    line = SourceLine("net.py", 7, "forward")
    inner = blank(GraphBreak, graph=1, reason="print", source=line, scope="s1", hints=())
    outer = inner._replace(graph=2, op="o2")
    third = inner._replace(graph=3, op="o3")
    for breaks in ((inner, outer), (outer, inner), (inner, outer, third)):
        recording = broken(*breaks)
        assert {place: len(found) for place, found in breaks_at(recording).items()} == {"o2": 1}
        (row,) = break_table(recording)
        assert row["graphs"] == tuple(one.graph for one in breaks)
        assert (row["line"], row["op"]) == ("net.py:7", "linear")
    other = inner._replace(source=SourceLine("net.py", 8, "forward"))
    nowhere = inner._replace(reason="other", source=None, scope=None)
    recording = broken(inner, other, nowhere)
    assert {place: len(found) for place, found in breaks_at(recording).items()} == {
        "s1": 2, "s0": 1,
    }
    assert [(row["module"], row["line"], row["op"]) for row in break_table(recording)] == [
        ("body", "net.py:7", ""), ("body", "net.py:8", ""), ("", "", ""),
    ]


def test_breaks_are_counted() -> None:
    """A compiled run without one has none; of what was not compiled nothing is known."""
    assert broken().annotations["breaks"].by_node == {"s0": 0}
    assert not broken(graphs=0).annotations["breaks"].by_node
    first, second = (blank(GraphBreak, graph=1, reason=str(each), scope="s1") for each in range(2))
    assert broken(first, second).annotations["breaks"].by_node == {"s0": 0, "s1": 2}
    assert broken(first._replace(scope=None)).annotations["breaks"].by_node == {"s0": 1}


def test_kernels_of_an_op() -> None:
    """All that compute it, in order."""
    first, second = blank(FusedKernel, number=1, ops=("o0", "o1")), blank(FusedKernel, number=2)
    found = kernels_of(replace(network(), fused_kernels=(first, second._replace(ops=("o1",)))))
    assert {op: [one.number for one in made] for op, made in found.items()} == {
        "o0": [1], "o1": [1, 2],
    }


@pytest.mark.parametrize(("quantity", "name"), [
    (COMPILED_GRAPH, "compiled_graph"), (FUSED_KERNEL, "kernel"),
])
def test_the_legend_lists_each_graph_and_kernel(quantity: str, name: str) -> None:
    """They are no steps of a scale, however far their numbers are from each other."""
    recording = measured(network(), quantity, o0=1, o1=2, o2=40)
    legend = figure(recording, color_by=name, depth=9, legend=False).legend
    assert [entry.text for entry in legend if entry.part in ("scale", "number")][1:] == [
        "1", "2", "40",
    ]
