"""Text formats: goldens of each, and what each has to be."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given, settings, strategies as st

import torchrecorder
from tests.export.test_dot import NASTY
from tests.export.test_text import odd
from tests.figures import linear, network, regions
from tests.random_recordings import recordings
from tests.views.test_fold import stack
from torchrecorder.annotations.annotation import Annotation
from torchrecorder.errors import NothingFound, UnknownAnnotation
from torchrecorder.events import Statistics
from torchrecorder.export import EXPORTERS, by_suffix
from torchrecorder.export.boxes import GraphML, NodeLink
from torchrecorder.export.json import Json, JsonGz
from torchrecorder.export.model_explorer import ExplorerData, ModelExplorer
from torchrecorder.graph.saved_files import loads
from torchrecorder.recording import Recording
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view

CASES = {"network": network, "regions": regions, "odd": odd}
TEXTS = (".mmd", ".graphml", ".nodelink.json", ".explorer.json", ".explorer-data.json", ".json")


def written(suffix: str, recording: Recording, **options: Any) -> Any:
    """What a file of this suffix holds."""
    return by_suffix(f"x{suffix}").export(make_view(recording, ViewOptions(**options)), Style())


@pytest.mark.parametrize("suffix", TEXTS)
@pytest.mark.parametrize("case", CASES)
def test_golden(case: str, suffix: str, golden: Callable[[str, str], None]) -> None:
    """Each format writes what it wrote before."""
    text = written(suffix, CASES[case](), depth=9, fold=False, grad_nodes=True)
    if suffix.endswith("json"):
        text = json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n"
    golden(f"{case}{suffix}", text)


@pytest.mark.parametrize("exporter", EXPORTERS, ids=lambda each: each.suffix)
def test_found_by_suffix(exporter: Any) -> None:
    """The longest suffix that fits decides."""
    assert type(by_suffix(f"some.model{exporter.suffix}")) is exporter
    assert type(by_suffix(f"SOME{exporter.suffix.upper()}")) is exporter


def test_json_is_the_recording() -> None:
    """JSON holds all of the recording, whatever the view shows."""
    view = make_view(regions(), ViewOptions(depth=0))
    assert loads(Json().export(view, Style()), Recording) == regions()
    packed = JsonGz().export(view, Style())
    assert packed == JsonGz().export(view, Style()) and packed[:2] == b"\x1f\x8b"


def _nasty(name: str) -> Recording:
    run = Builder(name)
    with run.scope(name, name, detail=name):
        x = run.input(name)
        with run.scope(name, name):
            run.op(name, x, run.parameter(name), arguments=((name, name),))
    return run.recording()


@pytest.mark.parametrize("name", NASTY, ids=lambda name: ascii(name)[:24])
@pytest.mark.parametrize("depth", [0, 3])
def test_nasty_names(name: str, depth: int) -> None:
    """Any name survives any format: it is well-formed and can be encoded."""
    recording = _nasty(name)
    for suffix in TEXTS:
        text = written(suffix, recording, depth=depth)
        if suffix.endswith("json"):
            json.loads(text)
        if suffix == ".graphml":
            nx.read_graphml(io.BytesIO(text.encode()))
        assert suffix == ".graphml" or text.isprintable() or "\x00" not in text
        text.encode("utf-8")


@settings(max_examples=25, deadline=None)
@given(recordings(), st.integers(0, 4))
def test_graph_formats_agree(recording: Recording, depth: int) -> None:
    """GraphML and node-link JSON hold the same boxes and arrows as the view."""
    view = make_view(recording, ViewOptions(depth=depth))
    linked = nx.node_link_graph(json.loads(NodeLink().export(view, Style())), edges="edges")
    text = GraphML().export(view, Style())
    marked = nx.read_graphml(io.BytesIO(text.encode()), force_multigraph=True)
    arrows = sorted((arrow.tail, arrow.head) for arrow in view.arrows)
    assert sorted(linked.edges()) == sorted(marked.edges()) == arrows
    assert list(linked.nodes) == list(view.boxes)
    assert set(marked.nodes) == set(view.boxes)


def test_boxes_carry_numbers() -> None:
    """Annotations are attributes of boxes, as numbers."""
    data = json.loads(written(".nodelink.json", network(), depth=1))
    (body,) = (node for node in data["nodes"] if node["path"] == "body")
    assert body["parameters"] == 32 and body["output_bytes"] == 96 and body["ops"] == 3


def test_numbers_without_end_are_left_out() -> None:
    """JSON and GraphML have no word for infinity: such numbers are not written."""
    recording = network()
    value = next(iter(recording.values))
    endless = Statistics(value, 0, -1, 1, inf, inf, -inf, inf, inf, 0, 0, 1)
    data = json.loads(written(".nodelink.json", replace(recording, statistics=(endless,))))
    (node,) = (node for node in data["nodes"] if node["id"] == value)
    assert not [name for name in node if name.startswith("activation")]


# Model Explorer -------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(recordings())
def test_explorer_is_sound(recording: Recording) -> None:
    """Node ids are unique, every arrow has a source, attributes are texts."""
    (graph,) = json.loads(written(".explorer.json", recording))["graphs"]
    ids = [node["id"] for node in graph["nodes"]]
    assert len(set(ids)) == len(ids)
    known = set(ids)
    spaces = {node["namespace"] for node in graph["nodes"]}
    for node in graph["nodes"]:
        assert all(edge["sourceNodeId"] in known for edge in node["incomingEdges"])
        pairs = [*node["attrs"], *(p for m in node["outputsMetadata"] for p in m["attrs"])]
        assert all(isinstance(pair["value"], str) for pair in pairs)
    assert all("//" not in space and not space.startswith("/") for space in spaces)


def test_explorer_has_a_sum_once() -> None:
    """A view for another file is made of a recording in which the sum is grouped already."""

    def program(x: torch.Tensor) -> torch.Tensor | int:
        return sum([x.exp(), x.sin(), x.cos()])

    recording = torchrecorder.record(program, torch.rand(3))
    (graph,) = json.loads(written(".explorer.json", recording))["graphs"]
    spaces = [node["namespace"] for node in graph["nodes"] if node["label"] == "add"]
    assert len(spaces) == 3 and all(space.endswith("/sum") for space in spaces)


def test_explorer_nests_by_namespace() -> None:
    """The namespace is the path of titles, without the node's own; slashes are replaced."""
    (graph,) = json.loads(written(".explorer.json", network(), depth=0))["graphs"]
    found = {node["label"]: node["namespace"] for node in graph["nodes"]}
    assert found["relu"] == "Net/body: Sequential/1: ReLU"
    assert found["add"] == "Net"
    (graph,) = json.loads(written(".explorer.json", _nasty("a/b")))["graphs"]
    assert {node["namespace"] for node in graph["nodes"]} == {"", "a∕b/a∕b"}


def test_explorer_distinguishes_calls() -> None:
    """Two calls of one module are two namespaces."""
    (graph,) = json.loads(written(".explorer.json", odd()))["graphs"]
    spaces = [node["namespace"] for node in graph["nodes"] if "cell" in node["namespace"]]
    assert set(spaces) == {"Odd/cell: Linear", "Odd/cell: Linear (2)"}


def test_explorer_outputs() -> None:
    """An arrow says which of several results it carries."""
    run = Builder("Net")
    with run.scope("Net"):
        first = run.op("chunk", run.input("x"), outputs=2)
        second = first.replace("1", "2")
        run.op("relu", second)
    (graph,) = json.loads(written(".explorer.json", run.recording()))["graphs"]
    (relu,) = (node for node in graph["nodes"] if node["label"] == "relu")
    assert relu["incomingEdges"][0]["sourceNodeOutputId"] == "1"


def test_explorer_data() -> None:
    """Numbers are laid over the nodes of the same graph."""
    recording = network()
    view = make_view(recording)
    (graph,) = json.loads(ModelExplorer().export(view, Style()))["graphs"]
    data = json.loads(ExplorerData("output_bytes").export(view, Style()))
    results = data[graph["id"]]["results"]
    assert set(results) <= {node["id"] for node in graph["nodes"]}
    assert results["o0"] == {"value": 32}
    with pytest.raises(UnknownAnnotation):
        ExplorerData("beauty").export(view, Style())


def test_explorer_data_has_finite_numbers_only() -> None:
    """JSON has no others."""
    numbers = {"o0": math.nan, "o1": math.inf, "o2": 1.0}
    mine = Annotation("mine", "Mine", "m", lambda recording: numbers, sum, str)
    found = json.loads(ExplorerData(mine).export(make_view(network()), Style()))["Net"]
    assert (found["name"], found["results"]) == ("Mine (m)", {"o2": {"value": 1.0}})


def test_node_link_is_readable_text() -> None:
    """Letters as they are, on one line, on many, or on many without spaces before them."""
    run = Builder("Net")
    with run.scope("Net"), run.scope("schön", "Schön"):
        run.op("relu", run.input("x"))
    view = make_view(run.recording())
    texts = {indent: NodeLink(indent).export(view, Style()) for indent in (None, 0, 1)}
    assert all("schön" in text for text in texts.values())
    assert texts[None].count("\n") == 1
    assert "\n " not in texts[0] and "\n  " in texts[1]
    assert json.loads(texts[None]) == json.loads(texts[0]) == json.loads(texts[1])


# Without PyTorch ------------------------------------------------------------------------

WITHOUT_TORCH = """
    import sys

    sys.modules["torch"] = None  # importing it raises ImportError
    import torchrecorder
    from torchrecorder.export import EXPORTERS

    recording = torchrecorder.load(sys.argv[1])
    print(recording.summary(ops=True))
    for exporter in EXPORTERS:
        recording.render(f"{sys.argv[2]}/model{exporter.suffix}")
    recording.to_networkx()
    assert torchrecorder.load(f"{sys.argv[2]}/model.json") == recording
    assert not [name for name in sys.modules if name.startswith("torch.")]
"""


@pytest.mark.dot
def test_without_torch(tmp_path: Path) -> None:
    """Where PyTorch is not installed, a saved recording is loaded and drawn in every format."""
    saved = torchrecorder.save(regions(), tmp_path / "run.json.gz")
    script = textwrap.dedent(WITHOUT_TORCH)
    subprocess.run(
        [sys.executable, "-c", script, str(saved), str(tmp_path)], check=True, timeout=120
    )
    for exporter in EXPORTERS:
        assert (tmp_path / f"model{exporter.suffix}").stat().st_size > 100


def test_explorer_data_are_of_each_of_equal_blocks() -> None:
    """As its graph has a node for each."""
    recording = stack(4)
    (results,) = (found["results"] for found in json.loads(
        ExplorerData("output_bytes").export(make_view(recording), Style())
    ).values())
    assert {*recording.ops} <= {*results}


@pytest.mark.parametrize("part", [{"focus": "0"}, {"since": "1"}, {"until": "0"}, {"depth": 0}])
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_a_recording_is_written_whole(
    tmp_path: Path, suffix: str, part: dict[str, Any]
) -> None:
    """Whatever a figure with the same options shows of it, and a warning says so."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    recording = torchrecorder.record(model, torch.ones(1, 2), backward=True, stats=True)
    with pytest.warns(NothingFound, match="has no effect"):
        path = recording.render(tmp_path / f"part{suffix}", **part)
    assert torchrecorder.load(path).ops == recording.ops


def test_half_a_surrogate_pair_in_a_table(tmp_path: Path) -> None:
    """A name from a path that could not be decoded can be written."""
    run = Builder("Net")
    with run.scope("Net"):
        linear(run, "half \udc80", run.input("x"))
    text = run.recording().render(tmp_path / "net.txt").read_text("utf-8")
    assert "half \ufffd (Linear)" in text


def test_a_name_of_two_lines_has_one_row() -> None:
    """Line breaks and tabs in a name do not break the table."""
    run = Builder("Net")
    with run.scope("Net"):
        linear(run, "two\nlines\there", run.input("x"))
    lines = run.recording().summary().splitlines()
    assert [line for line in lines if "Linear" in line][0].startswith("└─ two lines here (Linear)")
    assert lines[1] == lines[4]
