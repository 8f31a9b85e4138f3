"""Compiled graphs by hand: their calls, which operations these are, and where a graph ends."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import Graph, GraphModule

from torchrecorder.capture.compiled.breaks import breaks
from torchrecorder.capture.compiled.match import Candidate, Matched
from torchrecorder.capture.compiled.second_run import _graphs
from torchrecorder.capture.compiled.traced import Stop, Traced, TracedGraph, TracedOp
from torchrecorder.events import ModuleId, OpId, OpKind, ScopeId, ScopeKind, SourceLine
from torchrecorder.graph.nodes import Op, Scope

# Where a graph ends -----------------------------------------------------------------------


def at(*lines: int) -> tuple[SourceLine, ...]:
    """Lines of a stack, innermost first."""
    return tuple(SourceLine("model.py", line, "forward") for line in lines)


def scope(id: str, parent: str | None, index: int, line: int | None) -> Scope:
    """A module call that the line of its parent makes."""
    source = at(line)[0] if line else None
    around = None if parent is None else ScopeId(parent)
    return Scope(ScopeId(id), around, index, ScopeKind.MODULE, id, id, "Net", None, 0, source,
                 False, (), (), None, False)


def op(name: str, inside: str, index: int, line: int) -> Op:
    """An operation without tensors."""
    return Op(OpId(f"{name}{index}"), ScopeId(inside), index, OpKind.CALLED, name, name, (), (),
              (), (), at(line)[0], None, False)


SCOPES = [scope("s0", None, 0, None), scope("s1", "s0", 2, 20), scope("s2", "s1", 3, 30),
          scope("s3", "s0", 6, 20), scope("s4", "s0", 9, 20)]
"""A model that calls a module three times in a loop, and this one another the first time."""

OPS = [op("sin", "s0", 1, 10), op("cos", "s2", 4, 40), op("item", "s1", 5, 31),
       op("cos", "s3", 7, 32), op("item", "s3", 8, 31), op("tan", "s4", 10, 33),
       op("item", "s4", 11, 31)]


def call(name: str, *lines: int) -> TracedOp:
    """A call in a graph."""
    return TracedOp(name, at(*lines), (), (), name, False, False)


SIN, FIRST, SECOND, TAN = (
    call("sin", 10), call("cos", 40, 30, 20), call("cos", 32, 20), call("tan", 33, 20)
)


def found(stop: tuple[int, ...], *graphs: Sequence[TracedOp]) -> tuple[str | None, str | None]:
    """The operation and the scope at which the first of the graphs ends."""
    traced = Traced(lambda file: file, fused=False)
    traced.graphs = [TracedGraph(tuple(calls), None, False) for calls in graphs]
    traced.graphs[0].stop = Stop("a reason", at(*stop), True)
    traced.runs = list(range(len(graphs)))
    matched = Matched(traced, [Candidate(each, {}, ()) for each in OPS], {})
    (one,) = breaks(traced, matched, [*SCOPES, *OPS])
    assert one.graph == 1 and one.source == (at(*stop)[0] if stop else None)
    assert [graph.number for graph in _graphs(traced, matched)] == [*range(1, len(graphs) + 1)]
    return one.op, one.scope


@pytest.mark.parametrize(
    ("stop", "graphs", "place"),
    [
        ((31, 20), [[SIN, FIRST]], ("item5", "s1")),
        ((31, 20), [[SIN, FIRST, SECOND]], ("item8", "s3")),
        ((31, 20), [[SIN, FIRST, SECOND, TAN]], ("item11", "s4")),
        ((31, 20), [[SIN], [FIRST]], (None, "s1")),
        ((31, 20), [[FIRST], [SECOND]], ("item5", "s1")),
        ((40, 30, 20), [[SIN], [FIRST]], (None, "s2")),
        ((41, 30, 20), [[SIN]], (None, "s2")),
        ((41, 20), [[SIN]], (None, "s1")),
        ((41, 20), [[FIRST]], (None, "s3")),
        ((41, 20), [[FIRST, SECOND]], (None, "s4")),
        ((41, 20), [[call("sin"), FIRST]], (None, "s3")),
        ((41, 20), [[SECOND, TAN]], (None, "s4")),
        ((41, 30, 99, 20), [[SIN]], (None, "s2")),
        ((41,), [[SIN]], (None, "s0")),
        ((), [[SIN]], (None, "s0")),
        ((41, 20), [[call("other", 10)]], (None, None)),
    ],
)
def test_where_a_graph_ends(stop: Any, graphs: Any, place: Any) -> None:
    """At the operation of the line after the graph and before the next one; else in the call of
    the stack that comes next, or in the last one if none comes."""
    assert found(stop, *graphs) == place


def test_a_call_between_two_others_is_an_operation_between_theirs() -> None:
    """On another line than the compiler says; one outside of them is not meant."""
    ops = [op(name, "s0", 1 + place, line) for place, (name, line) in enumerate(
        [("sin", 1), ("exp", 5), ("cos", 2), ("exp", 6), ("tan", 3)])]
    traced = Traced(lambda file: file, fused=False)
    calls = (call("sin", 1), call("exp", 50), call("cos", 2), call("tan", 3))
    traced.graphs, traced.runs = [TracedGraph(calls, None, False)], [0]
    matched = Matched(traced, [Candidate(each, {}, ()) for each in ops], {})
    assert list(matched.graphs) == ["sin1", "exp2", "cos3", "tan5"]
    assert matched.unmatched == {0: []}


def test_a_call_in_a_module_is_an_operation_in_this_module() -> None:
    """Of two on one line, the second one: the graph leaves out the first."""
    ops = [op("sin", "s1", 1, 10), op("sin", "s2", 2, 10)]
    inside = [{ModuleId("m1"): "Step"}, {ModuleId("m2"): "Step"}]
    traced = Traced(lambda file: file, fused=False)
    traced.graphs = [TracedGraph((call("sin", 10)._replace(modules=(7,)),), None, False)]
    traced.runs = [0]
    found = [Candidate(each, modules, ()) for each, modules in zip(ops, inside)]
    matched = Matched(traced, found, {7: ModuleId("m2")})
    assert list(matched.graphs) == ["sin2"]


# The calls of a graph ---------------------------------------------------------------------


class Graphs(Graph):
    """A graph whose nodes know their results, as those of the compiler do."""

    def call(self, kind: str, target: Any, *args: Any, gives: Any) -> Any:
        """Add a call."""
        node = self.create_node(kind, target, args)
        node.meta["example_value"] = gives
        return node


def names(graph: Graph, **parts: Any) -> list[str]:
    """The names of the calls."""
    module = nn.Module()
    for name, part in parts.items():
        setattr(module, name, part)
    graph.output(None)
    traced = Traced(lambda file: file, fused=False)
    return [each.name for each in traced._calls(GraphModule(module, graph))]


def test_what_is_no_operation_in_a_graph() -> None:
    """Items of tuples and computed sizes; what uses them is one."""
    x, graph = torch.ones(2, 3), Graphs()
    given = graph.call("placeholder", "x", gives=x)
    size = graph.call("call_method", "size", given, gives=x.shape)
    first = graph.call("call_function", operator.getitem, size, 0, gives=2)
    graph.call("call_function", operator.mul, first, 2, gives=4)
    graph.call("call_function", torch.zeros, first, gives=torch.zeros(2))
    both = graph.call("call_method", "max", given, 1, gives=tuple(x.max(1)))
    graph.call("call_function", operator.getitem, both, 0, gives=x[:, 0])
    graph.call("call_function", operator.getitem, given, 0, gives=x[0])
    graph.call("call_function", getattr, given, "T", gives=x.T)
    graph.call("call_function", torch.eye, gives=torch.eye(2))
    assert names(graph) == ["size", "zeros", "max", "getitem", "T", "eye"]


def test_the_calls_of_bodies_are_in_the_order_in_which_they_run() -> None:
    """In place of the operator that runs them, and before what comes after it."""

    def wrapped(*args: Any) -> None:
        """An operator that runs its bodies."""

    x, bodies = torch.ones(2), {}
    for name in ("sin", "cos"):
        body = Graphs()
        inner = body.call("placeholder", "x", gives=x)
        body.call("call_method", name, inner, gives=x)
        body.output(None)
        bodies[name] = GraphModule(nn.Module(), body)
    graph = Graphs()
    given = graph.call("placeholder", "x", gives=x)
    parts = [graph.create_node("get_attr", name) for name in bodies]
    graph.call("call_function", wrapped, *parts, given, gives=x)
    graph.call("call_method", "tan", given, gives=x)
    assert names(graph, **bodies) == ["sin", "cos", "tan"]
