"""Figures laid out scope by scope: what Graphviz paints is where nested layout put it."""

from __future__ import annotations

import re
import xml.etree.ElementTree

import pytest

from tests import figures
from torchrecorder.errors import InvalidArgument
from torchrecorder.export import legend
from torchrecorder.export.graphviz import Pdf, Png, Svg, is_nested
from torchrecorder.export.nested import Placed, header_size, nested_text
from torchrecorder.layout import engine
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Figure, Group, Look, Shape, Text
from torchrecorder.style.style import Style
from torchrecorder.style.themes import THEMES
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view

NAMESPACE = "{http://www.w3.org/2000/svg}"
SIDES = ("width", "height")


def figure(recording: Recording, style: Style = Style(), **options: object) -> Figure:
    """The figure of a recording."""
    return draw(make_view(recording, ViewOptions(**options)), style)  # type: ignore[arg-type]


def painted(recording: Recording, style: Style = Style()) -> xml.etree.ElementTree.Element:
    """The nested SVG of a recording with all its ops."""
    view = make_view(recording, ViewOptions(depth=5))
    return xml.etree.ElementTree.fromstring(Svg(layout="nested").export(view, style))


def text_of(shown: Figure) -> str:
    """A figure in DOT, with all positions."""
    return nested_text(shown, Placed.lay_out(shown, 5.0))


def test_everything_is_painted() -> None:
    """As many boxes, clusters and lines as the figure has, with their texts."""
    recording = figures.network()
    shown = figure(recording, depth=5)
    root = painted(recording)
    kinds = [(each.get("class") or "none").split()[0] for each in root.iter(f"{NAMESPACE}g")]
    assert kinds.count("node") == len(shown.shapes)
    assert kinds.count("cluster") == len(shown.groups)
    assert kinds.count("edge") == len(shown.lines)
    texts = {each.text for each in root.iter(f"{NAMESPACE}text")}
    assert {line.text for shape in shown.shapes for line in shape.label} <= texts


@pytest.mark.parametrize("direction", ["TB", "BT", "LR", "RL"])
def test_texts_fit_their_boxes(direction: str) -> None:
    """Every box is larger than its label, in every direction; the file is well-formed."""
    style = Style(direction=direction, legend=True)  # type: ignore[arg-type]
    text = text_of(figure(figures.network(), style, depth=5))
    sizes = re.findall(r'width="([\d.]+)", height="([\d.]+)"', text)
    assert sizes and all(float(width) > 0.35 and float(height) > 0.2 for width, height in sizes)
    painted(figures.network(), style)


def test_the_legend_is_of_boxes_in_a_frame() -> None:
    """In the outlines that they explain, beside or below what is drawn, and off the frame."""
    shown = figure(figures.network(), Style(legend=True, theme=THEMES["print"]), depth=5)
    text = text_of(shown)
    entry = r'"legend_\d+" \[shape="(\w+)".*? width="([\d.]+)".*? pos="([-\d.]+),([-\d.]+)"'
    rows = re.findall(entry, text)
    assert [row[0] for row in rows[:2]] == ["parallelogram", "octagon"]
    found = re.search(r'subgraph "cluster_legend" {\s*graph \[.*?bb="([^"]*)"', text)
    assert found is not None and len(rows) == len(shown.legend)
    left, low, right, top = map(float, found[1].split(","))
    height = legend.entry_height(shown)
    for _, wide, x, y in rows:
        assert left + 5 < float(x) - 36 * float(wide) < float(x) + 36 * float(wide) < right - 5
        assert low + 5 < float(y) - height / 2 < float(y) + height / 2 < top - 5


def test_the_same_run_gives_the_same_bytes() -> None:
    """Two drawings of one recording are identical."""
    shown = figure(figures.regions(), depth=5)
    assert text_of(shown) == text_of(shown)


def test_pdf_and_png_too() -> None:
    """No other program is needed for the other formats."""
    view = make_view(figures.network(), ViewOptions(depth=5))
    assert Pdf(layout="nested").export(view, Style()).startswith(b"%PDF")
    assert Png(layout="nested", dpi=50).export(view, Style()).startswith(b"\x89PNG")


def test_hostile_names_stay_text() -> None:
    """Names with markup and quotes are painted as they are."""
    name = 'a<b>"c" & \\N {d|e}'
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        with run.scope(name, "Linear"):
            run.op("linear", x)
    texts = " ".join(each.text or "" for each in painted(run.recording()).iter(f"{NAMESPACE}text"))
    assert "a<b>" in texts and "\\N {d|e}" in texts


def test_nothing_and_one_box() -> None:
    """A run without ops says so, one with a single op is its box, both on a paper."""
    run = Builder("One")
    run.op("rand")
    empty = Builder("Empty").recording()
    for recording, text in ((empty, "nothing was recorded"), (run.recording(), "rand")):
        root = painted(recording)
        assert [each.text for each in root.iter(f"{NAMESPACE}text")][:1] == [text]
        kinds = [(each.get("class") or "none").split()[0] for each in root.iter(f"{NAMESPACE}g")]
        assert kinds.count("edge") == 0 and kinds.count("node") == 1
        assert all(float(root.get(side, "0").removesuffix("pt")) > 20 for side in SIDES)


def test_graphviz_attributes_of_positions_need_its_layout() -> None:
    """Colors do not; an explicit choice always holds."""
    view = make_view(figures.network())
    plain = draw(view, Style(attributes={"bgcolor": "red"}))
    spaced = draw(view, Style(attributes={"ranksep": "2"}))
    shaped = draw(view, Style(node_attributes={"shape": "circle"}))
    assert is_nested(plain, "auto") and not is_nested(plain, "dot")
    assert not is_nested(spaced, "auto") and is_nested(spaced, "nested")
    assert not is_nested(shaped, "auto")


def test_an_unknown_layout_is_refused() -> None:
    """The message lists those there are."""
    with pytest.raises(TypeError):
        Svg("dot")  # type: ignore[misc]
    with pytest.raises(InvalidArgument, match="'auto', 'dot' or 'nested'"):
        Svg(layout="neat")  # type: ignore[arg-type]


def test_only_figures_with_graphviz_attributes_are_painted_by_graphviz(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others are written directly, with the same parts; their boxes are ordered by Graphviz."""
    painted_formats: list[str] = []

    def run(source: str, format: str, **options: object) -> bytes:
        painted_formats.append(format)
        return engine_run(source, format, **options)  # type: ignore[arg-type]

    engine_run = engine.run
    monkeypatch.setattr(engine, "run", run)
    view = make_view(figures.network(), ViewOptions(depth=5))
    plain = Svg().export(view, Style())
    assert painted_formats == []
    asked_for = Svg().export(view, Style(node_attributes={"tooltip": "box"}))
    assert painted_formats == ["svg"]
    for kind in ("node", "edge", "cluster"):
        assert plain.count(f'class="{kind}'.encode()) == asked_for.count(f'class="{kind}'.encode())


def test_layers_and_names() -> None:
    """Drawing programs show open modules, arrows and boxes as layers, each part by its name."""
    key = "{http://www.inkscape.org/namespaces/inkscape}"
    view = make_view(figures.network(), ViewOptions(depth=3, parameters=True))
    for layout in ("nested", "dot"):
        root = xml.etree.ElementTree.fromstring(Svg(layout=layout).export(view, Style()))
        layers = [each for each in root.iter() if each.get(f"{key}groupmode") == "layer"]
        assert [each.get(f"{key}label") for each in layers] == ["open modules", "arrows", "boxes"]
        inside = [[part.get(f"{key}label") for part in layer] for layer in layers]
        assert sorted(inside[0]) == ["Net", "body", "body.0", "body.1", "body.2"]
        assert {"x → body.0.linear", "body.0.weight → body.0.linear"} <= set(inside[1])
        assert {"x", "body.0.weight", "body.1.relu", "add", "output 0"} <= set(inside[2])
        assert [len(each) for each in inside] == [
            len(view.clusters), len(view.arrows), len(view.boxes)
        ]


def test_layers_hold_any_name() -> None:
    """Names with quotes, brackets and what no XML has are written safely."""
    run = Builder("Net")
    with run.scope('a"b<c>&\x01 -> d'):
        run.op("relu", run.input("x"))
    text = painted(run.recording())
    key = "{http://www.inkscape.org/namespaces/inkscape}label"
    labels = [each.get(key) for each in text.iter()]
    assert 'a"b<c>&\ufffd -> d' in labels


@pytest.mark.parametrize("direction", ["TB", "BT", "LR", "RL"])
def test_titles_stand_in_a_corner_of_their_cluster(direction: str) -> None:
    """At the left, at the top, but where the flow begins below; whole, and off the border."""
    style = Style(direction=direction)  # type: ignore[arg-type]
    shown = figure(figures.network(), style, depth=5)
    text = text_of(shown)
    number = r"(-?[\d.]+)"
    sizes = [header_size(group.label, shown) for group in shown.groups]
    box = ",".join([number] * 4)
    found = re.findall(rf'bb="{box}"[^\]]*?lp="{number},{number}', text)
    clusters = [tuple(map(float, each)) for each in found if float(each[0]) > 0]
    assert len(clusters) == len(sizes) > 1
    for (left, low, right, high, x, y), (width, height) in zip(clusters, sizes):
        assert 5 < x - width / 2 - left < 10 and x + width / 2 < right
        ends = low, high
        near = abs(y - ends[direction != "BT"]) - height / 2
        assert 3 < near < 5 and low < y < high


def placed_in_order(*shapes: tuple[str, str | None, str]) -> list[str]:
    """The items of a figure with a group in a group, as they are given to the layout."""
    look = Look("#fff", "#000", "#000", "box")
    found = tuple(
        Shape(name, group, (Text(name),), look, kind=kind) for name, group, kind in shapes
    )
    groups = Group("outer", None, (), look), Group("inner", "outer", (), look)
    used = [group for group in groups if group.id == "outer" or "inner" in {s.group for s in found}]
    placed = Placed.lay_out(Figure("f", found, tuple(used), ()), 60.0)
    return [item.id for item in placed.items]


def test_what_is_read_in_a_group_comes_when_something_runs_there() -> None:
    """Not before all; what is read outside of groups, and what nothing in a group reads, stays."""
    read, ran = "parameter", "op"
    first, weight, last = ("a", None, ran), ("w", "outer", read), ("b", "outer", ran)
    assert placed_in_order(weight, first, last) == ["a", "outer", "w", "b"]
    assert placed_in_order(weight, ("v", "outer", "buffer"), first, last)[1:] == [
        "outer", "w", "v", "b"
    ]
    assert placed_in_order(("w", None, read), first, last) == ["w", "a", "outer", "b"]
    assert placed_in_order(("w", "outer", ran), first, last) == ["outer", "w", "a", "b"]
    deep = ("c", "inner", ran)
    assert placed_in_order(weight, first, deep, last) == ["a", "outer", "w", "inner", "c", "b"]
    assert placed_in_order(("w", "inner", read), first, last, deep) == [
        "a", "outer", "b", "inner", "w", "c"
    ]
    assert placed_in_order(last, weight) == ["outer", "w", "b"]
    assert placed_in_order(first, last, deep, ("d", "outer", ran), weight) == [
        "a", "outer", "w", "b", "inner", "c", "d"
    ]
    assert placed_in_order(first, weight) == ["a", "outer", "w"]
    assert placed_in_order(weight, first) == ["outer", "w", "a"]
