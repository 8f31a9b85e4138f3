"""Flat graphs: plain attributes, the same edges, fit for every format."""

from __future__ import annotations

import io
import json
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings

from tests.figures import network, regions
from tests.random_recordings import recordings
from torchrecorder.graph.flat import flat, printable
from torchrecorder.recording import Recording


def test_what_nodes_show() -> None:
    """Ops and values say what they are in texts and numbers."""
    graph = network().to_networkx()
    assert graph.nodes["o0"] == {
        "type": "op",
        "name": "linear",
        "qualname": "torch.linear",
        "how": "called",
        "scope": "s2",
        "path": "body.0",
        "order": 3,
        "in_place": False,
        "failed": False,
        "recompute": False,
        "random": False,
        "arguments": "",
        "source": "/home/me/net.py:13",
        "seconds": 0.0,
    }
    assert graph.nodes["v1"] == {
        "type": "value",
        "name": "body.0.weight",
        "role": "parameter",
        "shape": "4,4",
        "dtype": "float32",
        "device": "cpu",
        "elements": 16,
        "bytes": 64,
        "storage": -1,
        "requires_grad": False,
        "trainable": True,
        "output": False,
    }


def test_the_function_has_the_defaults_of_the_method() -> None:
    """All tensors are nodes, and no grad node is one."""
    recording = network()
    assert [*flat(recording)] == [*recording.to_networkx()] == [*recording.values, *recording.ops]


def test_what_edges_show() -> None:
    """An edge says which argument it is, and what flows through it."""
    graph = network().to_networkx()
    (edge,) = graph.get_edge_data("v1", "o0").values()
    assert edge == {
        "type": "flow",
        "slot": "1",
        "value": "v1",
        "shape": "4,4",
        "dtype": "float32",
        "bytes": 64,
        "in_place": False,
    }


def test_outputs_are_marked() -> None:
    """The values that leave the run are the outputs of the recording."""
    recording = network()
    graph = recording.to_networkx()
    marked = {node for node, output in graph.nodes(data="output") if output}
    assert marked == {slot.value for slot in recording.outputs}


def test_without_values() -> None:
    """Without tensors, ops lead straight to the ops that read what they made."""
    graph = network().to_networkx(values=False)
    names = {node: said["name"] for node, said in graph.nodes(data=True)}
    edges = [f"{names[tail]} -> {names[head]}" for tail, head in graph.edges()]
    assert edges == [
        "x -> linear",
        "x -> pass",
        "body.0.weight -> linear",
        "body.2.weight -> linear",
        "linear -> relu",
        "relu -> linear",
        "linear -> add",
        "pass -> add",
    ]


def test_grads_on_request() -> None:
    """The autograd graph hangs together with ops by their owner."""
    recording = network()
    assert not any(kind == "grad" for _, kind in recording.to_networkx().nodes(data="type"))
    graph = recording.to_networkx(grads=True)
    owners = {said["owner"] for _, said in graph.nodes(data=True) if said["type"] == "grad"}
    assert owners <= set(recording.ops) and owners
    for grad in recording.grad_nodes.values():
        said = graph.nodes[grad.id]
        assert (said["owner"], said["scope"]) == (grad.owner or "", grad.scope or "")
    assert [said["type"] for *_, said in graph.out_edges("g0", data=True)] == []
    assert {said["type"] for *_, said in graph.out_edges("g1", data=True)} == {"gradient"}


def test_texts_keep_what_xml_allows() -> None:
    """By the rule of XML 1.0 for characters; in the place of any other stands one that it has."""
    allowed = {*range(0x20, 0xD800), *range(0xE000, 0xFFFE), 9, 10, 13}
    for code in {*range(0x300), *range(0xD7F0, 0xE010), *range(0xFFF0, 0x10010), 0x10FFFF}:
        kept = printable(f"a{chr(code)}b") == f"a{chr(code)}b"
        assert kept == (code in allowed or code > 0xFFFF)


@settings(max_examples=40, deadline=None)
@given(recordings())
def test_same_edges_as_the_graph(recording: Recording) -> None:
    """The flat graph has the nodes and edges of ``recording.graph``."""
    flat, graph = recording.to_networkx(grads=True), recording.graph
    assert set(flat.nodes) == set(graph.nodes)
    assert sorted(flat.edges()) == sorted(graph.edges())


@settings(max_examples=40, deadline=None)
@given(recordings())
def test_every_format_can_hold_it(recording: Recording) -> None:
    """Attributes are texts and numbers, and come back from GraphML, GEXF and JSON."""
    graph = recording.to_networkx(grads=True)
    for _, said in graph.nodes(data=True):
        assert all(type(each) in (str, int, float, bool) for each in said.values())
    back = nx.node_link_graph(
        json.loads(json.dumps(nx.node_link_data(graph, edges="edges"))), edges="edges"
    )
    assert nx.utils.graphs_equal(back, graph)
    buffer = io.BytesIO()
    nx.write_graphml(graph, buffer)
    buffer.seek(0)
    read = nx.read_graphml(buffer, force_multigraph=True)
    assert dict(read.nodes(data="type")) == dict(graph.nodes(data="type"))
    assert sorted(read.edges()) == sorted(graph.edges())


@pytest.mark.parametrize("make", [network, regions])
def test_the_copy_is_free(make: object, tmp_path: Path) -> None:
    """The copy may be changed; the recording's own graph may not."""
    recording = make()
    copy = recording.to_networkx()
    copy.remove_node("o0")
    assert "o0" in recording.to_networkx()
    with pytest.raises(nx.NetworkXError):
        recording.graph.remove_node("o0")
