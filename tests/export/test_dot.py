"""DOT: what Graphviz reads, and that every name survives it."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.figures import network, regions
from torchrecorder.export.dot import dot_text, node_name
from torchrecorder.export.quoting import attribute, quote, verbatim
from torchrecorder.export.styler import to_digraph
from torchrecorder.export.svg import centered
from torchrecorder.layout import engine
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Figure
from torchrecorder.style.style import Style
from torchrecorder.style.themes import DARK
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view

GOLDEN = Path(__file__).parents[1] / "golden"

NASTY = [
    'quote"quote',
    "</script><img onerror=alert(1)>",
    "<b>bold</b>",
    "<",
    "<lambda>",
    "{a|b}",
    "back\\slash",
    "ends in \\",
    "\\N \\G \\l \\n",
    "two\nlines",
    "&amp; &lt; &#9760; &",
    "emoji 🔥 and 漢字",
    "a:b:c",
    "tab\there",
    "nul\x00 and bell\x07",
    "lone surrogate \ud800",
    "]]>",
    "-->",
    " ",
    "x" * 1000,
    "digraph {",
    "%s %d {0}",
    "rtl \u202e override",
]


def figure_of(recording: Recording, style: Style = Style(), **options: Any) -> Figure:
    """A figure of a recording."""
    return draw(make_view(recording, ViewOptions(**options)), style)


def placed(text: str) -> Any:
    """What Graphviz makes of a DOT text."""
    return json.loads(engine.run(text, "json0"))


@pytest.mark.parametrize(
    ("case", "options", "style"),
    [
        ("network", {}, Style()),
        ("network_depth_3", {"depth": 3, "parameters": True}, Style(direction="LR", legend=True)),
        ("network_tensors", {"depth": 1, "tensors": True}, Style(theme=DARK)),
    ],
)
def test_golden(case: str, options: dict[str, object], style: Style, update_golden: bool) -> None:
    """The whole text, to see what a change does to it."""
    text = dot_text(figure_of(network(), style, **options))
    path = GOLDEN / f"{case}.dot"
    if update_golden:
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


def test_two_ways_to_the_same_text() -> None:
    """The Digraph and the text say the same; graphviz quotes the name in its own way."""
    view = make_view(regions(), ViewOptions())
    text = dot_text(draw(view, Style()))
    assert to_digraph(view, Style()).source.split("\n")[1:] == text.split("\n")[1:]


def nasty_network(name: str) -> Recording:
    """The name wherever a user can put one."""
    run = Builder(name)
    with run.scope(name, name, detail=name):
        x = run.input(name)
        with run.scope(name, f"{name}2", detail=f"p={name}"):
            h = run.op(name, x, run.parameter(name), arguments=((name, name),))
        run.op("add", h, run.parameter(name))
    return run.recording()


@pytest.mark.parametrize("name", NASTY)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_nasty_names_are_shown_as_they_are(name: str, depth: int) -> None:
    """Graphviz accepts the text, and every letter that can be shown is in the picture."""
    figure = figure_of(nasty_network(name), depth=depth, parameters=True)
    svg = engine.run(dot_text(figure), "svg").decode()
    shown = {html.unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)}
    for shape in figure.shapes:
        for line in shape.label:
            for piece in line.text.split("\n"):
                expected = re.sub(r"[\x00-\x08\x0e-\x1f\ud800-\udfff]", "\ufffd", piece)
                assert not expected.strip() or any(same(expected, text) for text in shown)
    assert len(re.findall(r'class="node', svg)) == len(figure.shapes)


def same(one: str, other: str) -> bool:
    """Equal but for spaces, which XML joins."""
    return "".join(one.split()) == "".join(other.replace("\xa0", " ").split())


@pytest.mark.parametrize("name", NASTY)
def test_verbatim_and_quote_end_where_they_should(name: str) -> None:
    """An attribute after them is still an attribute."""
    for quoted in (verbatim(name), quote(name)):
        made = placed(f"digraph {{ a [label={quoted}, comment=after] }}")
        assert made["objects"][0]["comment"] == "after"


def test_users_may_give_html_labels() -> None:
    """As graphviz does, in angle brackets; anything else is text."""
    assert attribute("<<b>x</b>>") == "<<b>x</b>>"
    assert attribute("a < b") == '"a < b"'
    assert attribute("<lambda>") == "<lambda>"
    assert attribute("<a <b>") == '"<a <b>"'


def test_colons_do_not_name_ports() -> None:
    """Output boxes are ``out:0``."""
    assert node_name("out:0") == "out_0"
    made = placed(dot_text(figure_of(network())))
    assert "out_0" in {each["name"] for each in made["objects"]}


def test_clusters_are_nested_and_hold_their_boxes() -> None:
    """As Graphviz sees them."""
    made = placed(dot_text(figure_of(network())))
    named = {each["name"]: each for each in made["objects"]}
    ids = {each["_gvid"]: each["name"] for each in made["objects"]}
    assert [ids[number] for number in named["cluster_s0"]["subgraphs"]] == ["cluster_s1"]
    assert [ids[number] for number in named["cluster_s1"]["nodes"]] == ["s2", "s3", "s4"]


def test_attributes_of_ones_own() -> None:
    """On the graph, on every box, on every arrow."""
    style = Style(
        attributes={"splines": "ortho", "label": "A title"},
        node_attributes={"shape": "egg", "penwidth": "3"},
        edge_attributes={"arrowhead": "vee"},
    )
    made = placed(dot_text(figure_of(network(), style)))
    assert (made["splines"], made["label"]) == ("ortho", "A title")
    boxes = [each for each in made["objects"] if not each["name"].startswith("cluster")]
    assert {(box["shape"], box["penwidth"]) for box in boxes} == {("egg", "3")}
    assert {edge["arrowhead"] for edge in made["edges"]} == {"vee"}


@pytest.mark.parametrize("direction", ["TB", "LR"])
def test_the_legend_takes_no_part_in_the_rows_of_boxes(direction: Any) -> None:
    """Graphviz lays it out on its own: as high as it is without large boxes beside it."""
    heights = []
    for arguments in ((), tuple((f"a{number}", "1") for number in range(12))):
        run = Builder()
        with run.scope("Net"):
            h = run.input()
            for name in ("linear", "relu", "add", "layer_norm", "view"):
                h = run.op(name, h, arguments=arguments)
        shown = figure_of(run.recording(), Style(legend=True, direction=direction), depth=1)
        made = placed(dot_text(shown))["objects"]
        box = next(each["bb"] for each in made if each["name"] == "cluster_legend")
        low, high = map(float, box.split(",")[1::2])
        heights.append(round(high - low))
    assert heights[0] == heights[1]


def test_large_figures_are_laid_out_with_less_effort() -> None:
    """Settings that keep Graphviz quick, only where they are needed."""
    run = Builder()
    with run.scope("Net"):
        h = run.input()
        for _ in range(500):
            h = run.op("relu", h)
    assert "nslimit" in dot_text(figure_of(run.recording(), depth=1, fold=False))
    assert "nslimit" not in dot_text(figure_of(network()))


def test_deep_nesting_does_not_recurse() -> None:
    """Two thousand scopes inside each other."""
    run = Builder()
    opened = [run.scope(f"n{number}") for number in range(2000)]
    for scope in opened:
        scope.__enter__()
    run.op("relu", run.input())
    for scope in reversed(opened):
        scope.__exit__(None, None, None)
    text = dot_text(figure_of(run.recording(), depth=2000))
    assert text.count("subgraph") == 2000


def test_labels_are_centered_for_any_font() -> None:
    """Each line is anchored at the middle of its box."""
    svg = engine.run(dot_text(figure_of(network())), "svg")
    text = centered(svg.decode())
    boxes = text.split('class="node"')[1:]
    assert len(boxes) == 7 and all('text-anchor="middle"' in box for box in boxes)
    assert svg.count(b'class="node centered"') == 7


def test_labels_of_ones_own_are_left_alone() -> None:
    """A table may be aligned in many ways."""
    svg = '<g id="node1" class="node">\n<text text-anchor="start" x="3">a</text>\n</g>\n'
    assert centered(svg) == svg
