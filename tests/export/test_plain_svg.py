"""SVG that Graphviz does not paint, with Graphviz for the order of boxes, and without it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args
from xml.etree.ElementTree import Element, fromstring

import pytest
import torch
from torch import nn

import torchrecorder
from tests import figures
from torchrecorder.errors import LayoutFailed
from torchrecorder.export import known
from torchrecorder.export.nested import Placed, closed_size
from torchrecorder.export.plain_svg import plain_svg
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Outline
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view

SVG = "{http://www.w3.org/2000/svg}"
LABEL = "{http://www.inkscape.org/namespaces/inkscape}label"


def read(recording: Recording, path: Path, **options: Any) -> Element:
    """A figure of *recording*, parsed."""
    written = recording.render(path, fold=False, **options)
    return fromstring(written.read_bytes())


def inside(root: Element, kind: str) -> Counter[tuple[str | None, str | None, tuple[str, ...]]]:
    """Of all boxes, arrows or open modules: layer label, tooltip, and lines of text."""
    return Counter(
        (part.get(LABEL), part.findtext(f"{SVG}title"), tuple(texts(part)))
        for part in root.iter(f"{SVG}g")
        if part.get("class") == kind
    )


def texts(part: Element) -> Iterator[str]:
    """The texts in a part of a picture."""
    return (text.text or "" for text in part.iter(f"{SVG}text"))


def sides(root: Element) -> tuple[float, ...]:
    """Width and height, in points."""
    return tuple(float(re.sub("[a-z]+", "", root.attrib[side])) for side in ("width", "height"))


class Residual(torch.nn.Module):
    """A block with a skip around it, an operation in place, and a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(), torch.nn.ReLU())

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Two results."""
        with torch.no_grad():
            mask = mask.clone().mul_(2)
        return self.body(x) + x, torch.cat([x, mask, torch.ones(2, 4)])


@pytest.mark.parametrize(
    "options",
    [
        {"depth": 1},
        {"depth": 3, "parameters": True, "direction": "LR"},
        {"depth": 4, "tensors": True, "direction": "BT", "legend": True},
        {"depth": 3, "theme": "print", "legend": True, "width": "150mm", "height": "250mm"},
    ],
)
def test_it_has_the_texts_of_graphviz(
    tmp_path: Path, request: pytest.FixtureRequest, options: dict[str, Any]
) -> None:
    """The same boxes, arrows and open modules with the same texts, tooltips, layers and names."""
    recording = torchrecorder.record(Residual(), (torch.ones(2, 4), torch.ones(2, 4)))
    painted = read(recording, tmp_path / "graphviz.svg", **options)
    request.getfixturevalue("no_graphviz")
    plain = read(recording, tmp_path / "plain.svg", **options)
    for kind in ("node", "cluster"):
        assert inside(plain, kind) == inside(painted, kind)
    assert unmarked(plain) == unmarked(painted)
    assert inside(plain, "node") and inside(plain, "edge")
    layers = [[part.get(LABEL) for part in root.iter() if part.get("class") == "layer"]
              for root in (plain, painted)]
    assert layers[0] == layers[1]
    assert sides(plain) == pytest.approx(sides(painted), rel=0.35)


def unmarked(root: Element) -> Counter[Any]:
    """The lines without the names of arguments, which depend on where they enter."""
    return Counter(each[:2] for each in inside(root, "edge").elements())


def test_everything_is_on_the_page(tmp_path: Path, no_graphviz: None) -> None:
    """No box, line or legend sticks out, whatever the direction."""
    for direction in ("TB", "LR", "BT", "RL"):
        options = {"depth": 3, "parameters": True, "legend": True, "direction": direction}
        root = read(figures.network(), tmp_path / "a.svg", **options)
        (graph,) = (part for part in root.iter() if part.get("class") == "graph")
        moved = re.fullmatch(r"translate\(([-\d.]+) ([-\d.]+)\)", graph.attrib["transform"])
        assert moved is not None
        x, y = map(float, moved.groups())
        width, height = sides(root)
        boxes = [part for part in root.iter(f"{SVG}rect") if "cluster" not in part.attrib]
        assert len(boxes) > 5
        for box in boxes:
            left, top, wide, high = (
                float(box.attrib[name]) for name in ("x", "y", "width", "height")
            )
            assert -0.02 <= left + x <= left + x + wide <= width + 0.02
            assert -0.02 <= top + y <= top + y + high <= height + 0.02


NO_FORMS = (f"{SVG}a", f"{SVG}text", f"{SVG}title")
FORMS = {
    "box": ["rect"],
    "rounded": ["rect"],
    "ellipse": ["ellipse"],
    "circle": ["ellipse"],
    "cylinder": ["path", "path"],
    "note": ["polygon", "polyline"],
    "parallelogram": ["polygon"],
    "octagon": ["polygon"],
    "plain": [],
    "diamond": ["rect"],
}


@pytest.mark.parametrize("outline", [*get_args(Outline), "diamond"])
def test_every_outline(outline: Any) -> None:
    """Each is drawn, from one side of its box to the other; what Graphviz alone has, as a box."""
    figure = draw(make_view(figures.network(), ViewOptions(depth=0)))
    shape = figure.shapes[0]
    alone = replace(shape, look=replace(shape.look, outline=outline), group=None)
    figure = replace(figure, shapes=(alone,), groups=(), lines=())
    text = plain_svg(figure, Placed.lay_out(figure, 1.0))
    (node,) = (part for part in fromstring(text).iter(f"{SVG}g") if part.get("class") == "node")
    drawn = [part for part in node.iter() if part.tag not in (f"{SVG}g", *NO_FORMS)]
    assert [part.tag[len(SVG):] for part in drawn] == FORMS[outline]
    for part in drawn[:1]:
        if "points" in part.attrib:
            width = closed_size(alone, figure, None)[0]
            across = [float(spot.partition(",")[0]) for spot in part.attrib["points"].split()]
            assert max(across) - min(across) == pytest.approx(width, abs=0.02)


@pytest.mark.parametrize(
    ("color", "written"),
    [
        ("gray80", 'fill="#cccccc"'),
        ("#12345680", 'fill="#123456" fill-opacity="0.50"'),
        ("transparent", 'fill="none"'),
        ("red:blue", 'fill="#ff0000"'),
        ("0.0 1.0 1.0", 'fill="#ff0000"'),
    ],
)
def test_colors_in_any_spelling(
    tmp_path: Path, no_graphviz: None, color: str, written: str
) -> None:
    """What browsers do not know is written as they do."""
    given = {"fillcolor": color, "penwidth": "3", "fontcolor": "steelblue4"}
    path = figures.network().render(tmp_path / "a.svg", depth=0, node_attributes=given)
    text = path.read_text(encoding="utf-8")
    assert written in text and 'stroke-width="3"' in text and 'fill="#36648b"' in text


@pytest.mark.parametrize(("background", "sheets"), [("transparent", 0), ("white", 1)])
def test_paper_without_a_color_is_not_painted(
    tmp_path: Path, no_graphviz: None, background: str, sheets: int
) -> None:
    """What lies below shows through."""
    root = read(figures.network(), tmp_path / "a.svg", background=background)
    (sheet,) = root.findall(f"{SVG}g")
    children = [child for child in sheet if child.tag != f"{SVG}g"]
    assert len([each for each in children if each.get("stroke") == "none"]) == sheets


def test_hostile_names_stay_text(tmp_path: Path, no_graphviz: None) -> None:
    """Names with markup, quotes and control characters make no broken file."""
    name = 'a<b>"c" & \\N \x01]]>'
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        with run.scope(name, "Linear"):
            run.op("linear", x)
    root = read(run.recording(), tmp_path / "a.svg", depth=3)
    assert any(text.startswith('a<b>"c" & \\N \ufffd]]>') for text in texts(root))


def test_nothing_to_draw(tmp_path: Path, no_graphviz: None) -> None:
    """A run without operations has a picture too."""
    assert sides(read(Builder("Empty").recording(), tmp_path / "a.svg"))[0] > 0


def test_a_graphviz_that_cannot_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken_graphviz: None
) -> None:
    """It is tried once; then all is as without it, and .pdf and .png say what to install."""
    recording = torchrecorder.record(nn.Linear(2, 2), torch.ones(1, 2))
    svg = recording.render(tmp_path / "figure.svg").read_text()
    assert "Linear" in svg and "Generated by graphviz" not in svg
    monkeypatch.setattr("subprocess.Popen", None)
    assert recording.render(tmp_path / "again.svg").read_text() == svg
    assert "Linear" in recording.render(tmp_path / "page.html").read_text()
    advice = r"libgobject-2.0.so.0: cannot open.*apt-get install libglib2.0-0.*\.svg is written"
    for name in ("figure.pdf", "figure.png"):
        with pytest.raises(LayoutFailed, match=advice):
            recording.render(tmp_path / name)


def test_the_first_page_without_a_graphviz_that_can_be_loaded(
    tmp_path: Path, broken_graphviz: None
) -> None:
    """Also what finds out that it cannot be loaded is written."""
    recording = torchrecorder.record(nn.Linear(2, 2), torch.ones(1, 2))
    assert "Linear" in recording.render(tmp_path / "page.html").read_text()


def test_links_lead_somewhere(tmp_path: Path, no_graphviz: None) -> None:
    """A box with an address is a link."""
    given = {"URL": "https://example.org/?a=1&b=2"}
    path = figures.network().render(tmp_path / "a.svg", depth=0, node_attributes=given)
    assert '<a xlink:href="https://example.org/?a=1&amp;b=2">' in path.read_text("utf-8")


def test_tooltips_need_no_link(tmp_path: Path, no_graphviz: None) -> None:
    """A box says more of itself where the pointer is."""
    root = read(figures.network(), tmp_path / "a.svg", depth=0)
    told = {label: tooltip or "" for label, tooltip, _ in inside(root, "node")}
    assert told["x"] == "x\n2×4 float32 on cpu" and "nets.Net" in told["Net"]


@pytest.mark.parametrize("suffix", [each for each in known() if each not in (".pdf", ".png")])
def test_all_other_formats(tmp_path: Path, no_graphviz: None, suffix: str) -> None:
    """They need no Graphviz."""
    assert figures.network().render(tmp_path / f"a{suffix}").stat().st_size > 100


@pytest.mark.parametrize("options", [{"suffix": ".pdf"}, {"suffix": ".png"}, {"layout": "dot"}])
def test_a_missing_graphviz_is_reported(
    tmp_path: Path, no_graphviz: None, options: dict[str, str]
) -> None:
    """What to install, and what works without."""
    path = tmp_path / f"a{options.pop('suffix', '.svg')}"
    with pytest.raises(LayoutFailed, match="pip install 'pygraphviz.*Without it, .svg"):
        figures.network().render(path, **options)
