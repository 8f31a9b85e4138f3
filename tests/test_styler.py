"""Stylers of torchrecorder 1.x: what they see, and that their word is the last."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import graphviz
import pytest

from tests.figures import network, regions
from torchrecorder.errors import InvalidArgument
from torchrecorder.export.styler import (
    BaseNode, GraphvizStyler, LayerNode, OpNode, ParamNode, TensorNode, own_arguments, to_digraph,
)
from torchrecorder.recording import Recording
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view


class Module:
    """Stands for a live module."""

    def __init__(self, cls: str) -> None:
        self.cls = cls


class Tensor:
    """Stands for a meta tensor."""


class Live:
    """What capture gives: modules for scopes, tensors for values."""

    def fn(self, recording: Recording, node: str) -> Any:
        """The object behind a node."""
        if node in recording.scopes:
            return Module(recording.scopes[node].cls)
        return Tensor() if node in recording.values else None


class Spy(GraphvizStyler):
    """Notes what it is asked for."""

    def __init__(self, **styler_args: Any) -> None:
        super().__init__(**styler_args)
        self.nodes: list[BaseNode] = []
        self.edges: list[tuple[BaseNode, BaseNode]] = []

    def style_node(self, node: BaseNode) -> dict[str, Any]:
        self.nodes.append(node)
        return super().style_node(node)

    def style_edge(self, from_node: BaseNode, to_node: BaseNode) -> dict[str, Any]:
        self.edges.append((from_node, to_node))
        return super().style_edge(from_node, to_node)


def digraph(
    styler: Any, recording: Recording | None = None, style: Style = Style(), **options: Any
) -> graphviz.Digraph:
    """A styled graph of a small network."""
    recording = recording or replace(network(), live=Live())
    view = make_view(recording, ViewOptions(**{"depth": 1, "tensors": True, **options}))
    return to_digraph(view, style, styler)


def line(graph: graphviz.Digraph, node: str) -> str:
    """The statement of one node."""
    return next(text for text in graph.body if text.strip().startswith(f'"{node}" ['))


def test_layers_ops_tensors_and_params_are_distinguished() -> None:
    """By the classes of 1.x."""
    spy = Spy()
    digraph(spy, replace(regions(), live=Live()), depth=9, parameters=True, tensors=True)
    kinds = {type(node) for node in spy.nodes}
    assert kinds == {LayerNode, OpNode, TensorNode, ParamNode}
    assert {node.name for node in spy.nodes if type(node) is ParamNode} == {"patch.weight", "token"}


def test_nodes_offer_name_depth_fn_and_parent() -> None:
    """The module itself, a tensor, or None for an op."""
    spy = Spy()
    digraph(spy)
    named = {node.name: node for node in spy.nodes}
    assert (named["body"].depth, named["Net"].depth, named["x"].depth) == (1, 0, 0)
    assert isinstance(named["body"].fn, Module) and named["body"].fn.cls == "Sequential"
    assert isinstance(named["x"].fn, Tensor) and isinstance(named["output"].fn, Tensor)
    assert named["add"].fn is None and named["add"].parent.cls == "Net"
    assert repr(named["body"]) == "LayerNode('body', depth=1)"


def test_arguments_that_are_none_are_not_given() -> None:
    """The theme's stay."""
    styles = GraphvizStyler(color=None, penwidth=3).styles
    assert all(given == {"penwidth": "3"} for given in styles.values())


def test_nodes_have_the_attributes_of_the_theme() -> None:
    """Of closed and of open boxes: label, outline and colors."""
    spy = Spy()
    digraph(spy)
    named = {node.name: node.defaults for node in spy.nodes}
    assert named["body"]["label"].startswith("body: Sequential\n")
    assert named["add"]["shape"] == "circle" and named["Net"]["label"].startswith("Net")
    told = {"fillcolor", "color", "penwidth", "style"}
    assert all(told <= defaults.keys() for defaults in named.values())


def test_fn_is_none_once_nothing_is_alive() -> None:
    """Or where a recording was loaded from a file."""
    spy = Spy()
    digraph(spy, network())
    assert {node.fn for node in spy.nodes} == {node.parent for node in spy.nodes} == {None}


def test_styler_that_changes_nothing_leaves_the_theme() -> None:
    """The source is the same as without one."""
    assert digraph(GraphvizStyler()).source == digraph(None).source


def test_label_and_looks_can_be_changed() -> None:
    """As the scripts of 1.x do."""

    class Mine(GraphvizStyler):
        def style_node(self, node: BaseNode) -> dict[str, Any]:
            styles = super().style_node(node)
            if isinstance(node.fn, Module) and node.fn.cls == "Sequential":
                styles["label"] = f"{node.name}\n(two)"
                styles["penwidth"] = 2.4
            return styles

    changed = line(digraph(Mine), "s1")
    assert 'label="body\n(two)"' in changed and 'penwidth="2.4"' in changed
    assert 'fillcolor="#e5e9ef"' in changed and "centered" not in changed


def test_styles_are_set_by_class_of_node() -> None:
    """On top of the theme."""

    class Mine(GraphvizStyler):
        def __init__(self, **styler_args: Any) -> None:
            super().__init__(**styler_args)
            self.styles[OpNode]["fillcolor"] = "orange"

    graph = digraph(Mine)
    assert 'fillcolor="orange"' in line(graph, "o4") and "orange" not in line(graph, "s1")


def test_edges_see_both_ends() -> None:
    """And may be styled by what these are."""

    class Mine(GraphvizStyler):
        def style_edge(self, from_node: BaseNode, to_node: BaseNode) -> dict[str, Any]:
            if isinstance(from_node.fn, Module) and isinstance(to_node.fn, Tensor):
                return {"color": "#ee8800", "penwidth": 4.8}
            return super().style_edge(from_node, to_node)

    styled = [text for text in digraph(Mine).body if "#ee8800" in text]
    assert len(styled) == 2 and all('penwidth="4.8"' in text for text in styled)


def test_clusters_are_styled_too_but_keep_their_fill() -> None:
    """So that nesting can be seen."""

    class Mine(GraphvizStyler):
        def style_node(self, node: BaseNode) -> dict[str, Any]:
            return {**super().style_node(node), "fillcolor": "red", "color": "green"}

    cluster = next(text for text in digraph(Mine).body if "graph [" in text and "Net" in text)
    assert 'color="green"' in cluster and 'fillcolor="red"' not in cluster


def test_attributes_reach_nodes_and_styler() -> None:
    """``make_dot(rec, styler_cls=..., fontname="Lato", penwidth=3)``."""
    style = Style(fontname="Lato", node_attributes={"penwidth": "3"})
    graph = digraph(GraphvizStyler, style=style)
    assert 'penwidth="3"' in line(graph, "s1") and 'fontname="Lato"' in graph.source


def test_answer_of_none_changes_nothing() -> None:
    """A styler that forgets to return."""

    class Mine(GraphvizStyler):
        def style_node(self, node: BaseNode) -> Any:
            return None

    assert digraph(Mine).source == digraph(None).source


def test_the_note_of_an_empty_figure_is_no_node() -> None:
    """A run of nothing has no box to style."""
    styled, plain = (digraph(one, Builder("Net").recording()) for one in (GraphvizStyler, None))
    assert "nothing was recorded" in styled.source == plain.source


def test_what_is_no_styler_is_refused() -> None:
    """With what was given."""
    for other in (dict, "Bold", 3):
        with pytest.raises(InvalidArgument, match="styler_cls must be a subclass"):
            digraph(other)


def test_own_arguments_of_a_styler() -> None:
    """Those that its ``__init__`` names."""

    class Mine(GraphvizStyler):
        def __init__(self, accent: str = "red", **styler_args: Any) -> None:
            super().__init__(**styler_args)

    assert own_arguments(Mine, {"accent": "blue", "depth": 2}) == {"accent": "blue"}
    assert own_arguments(GraphvizStyler, {"accent": "blue"}) == {}
    assert own_arguments(None, {"accent": "blue"}) == {}
