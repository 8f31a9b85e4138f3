"""Pictures through the embedded Graphviz: files, formats, and the Digraph of make_dot."""

from __future__ import annotations

import io
import os
import xml.etree.ElementTree
from pathlib import Path

import graphviz
import pytest
from PIL import Image

from torchrecorder.errors import LayoutFailed, UnknownFormat
from torchrecorder.export import by_suffix, known
from torchrecorder.export.digraph import Digraph
from torchrecorder.export.graphviz import Png, Svg, rendered
from torchrecorder.layout import engine
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import make_view


@pytest.fixture(autouse=True)
def without_dot(monkeypatch, tmp_path):
    """No test here may find a dot program, or write outside its own folder."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.chdir(tmp_path)


def pair() -> Digraph:
    """Two boxes and an arrow."""
    graph = Digraph("pair")
    graph.node("a", "first", tooltip="what a is\nand where")
    graph.edge("a", "b")
    return graph


def test_render_as_the_old_scripts_do(tmp_path):
    """A format, an attribute, a folder and cleanup: one file, and its path returned."""
    graph = pair()
    graph.format = "svg"
    graph.attr(rankdir="LR")
    path = graph.render("name", directory="./", cleanup=True)
    assert path == os.path.join("./", "name.svg")
    assert os.listdir(tmp_path) == ["name.svg"]
    assert Path(path).read_text().count('class="node"') == 2


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        ({}, ["pair.gv", "pair.gv.pdf"]),
        ({"filename": "x", "format": "svg"}, ["x", "x.svg"]),
        ({"filename": "x", "format": "png", "renderer": "cairo"}, ["x", "x.cairo.png"]),
        ({"outfile": "x.svg"}, ["x.gv", "x.svg"]),
        ({"outfile": "x.svg", "cleanup": True}, ["x.svg"]),
        ({"filename": "deep/x", "format": "svg", "cleanup": True}, ["deep"]),
    ],
)
def test_render_names_files_as_graphviz_does(tmp_path, arguments, files):
    """The source and the picture lie where the graphviz package would put them."""
    path = pair().render(**arguments)
    assert sorted(os.listdir(tmp_path)) == files
    assert os.path.getsize(path) > 0


def test_outfile_has_the_format_of_its_suffix(tmp_path):
    """Whatever the format of the graph is."""
    for name, begin in (("x.png", b"\x89PNG"), ("y.SVG", b"<?xml"), ("z.pdf", b"%PDF")):
        path = pair().render(outfile=name)
        assert Path(path).read_bytes().startswith(begin)


def test_render_rejects_what_graphviz_rejects(tmp_path):
    """Unknown formats, a picture over its own source, an existing result."""
    with pytest.raises(ValueError, match="swg"):
        pair().render(format="swg")
    with pytest.raises(ValueError, match="source"):
        pair().render("x.svg", outfile="x.svg")
    (tmp_path / "x.svg").touch()
    with pytest.raises(graphviz.FileExistsError):
        pair().render(outfile="x.svg", raise_if_result_exists=True)


def test_render_names_files_by_its_own_renderer(tmp_path):
    """A renderer and formatter given to the graph are part of the name, as if given here."""
    graph = Digraph("pair", format="png", renderer="cairo", formatter="gd")
    assert graph.render(cleanup=True) == "pair.gv.gd.cairo.png"
    assert os.listdir(tmp_path) == ["pair.gv.gd.cairo.png"]


@pytest.mark.parametrize("method", ["render", "pipe"])
@pytest.mark.parametrize("name", ["format", "renderer", "formatter", "engine"])
def test_unknown_names_are_value_errors(tmp_path, method, name):
    """They are, as in the graphviz package, and no file is left."""
    with pytest.raises(ValueError, match=f"unknown {name}: 'nonesuch'"):
        getattr(pair(), method)(**{name: "nonesuch"})
    assert os.listdir(tmp_path) == []


def test_a_formatter_needs_a_renderer(tmp_path):
    """A formatter alone is refused before anything is written."""
    with pytest.raises(graphviz.RequiredArgumentError):
        pair().render(format="svg", formatter="core")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("outfile", ["picture", "picture.nonesuch"])
def test_outfile_must_have_a_known_suffix(tmp_path, outfile):
    """A PDF is not written under a name that says nothing, or something else."""
    with pytest.raises(graphviz.RequiredArgumentError, match="provide format"):
        pair().render(outfile=outfile)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("outfile", "warning"),
    [("x.pdf", graphviz.FormatSuffixMismatchWarning), ("x.y", graphviz.UnknownSuffixWarning)],
)
def test_outfile_that_holds_something_else_is_warned_of(outfile, warning):
    """The format that is asked for is written, and the odd name is told."""
    with pytest.warns(warning, match="svg"):
        path = pair().render(outfile=outfile, format="svg")
    assert b"<svg" in Path(path).read_bytes()


@pytest.mark.parametrize(
    ("style", "paper"),
    [(Style(), "#ffffff"), (Style(background="transparent"), "transparent"),
     (Style(background="#ffeedd"), "#ffeedd")],
)
def test_viewers_show_bitmaps_on_white(monkeypatch, style, paper):
    """Unless something else is asked for."""
    seen = []
    monkeypatch.setattr(
        Png, "_painted", lambda self, figure, attributes: seen.append(figure) or b"x" * 33
    )
    run = Builder()
    run.op("relu", run.input())
    Png().export(make_view(run.recording()), style)
    assert [figure.background for figure in seen] == [paper]


@pytest.mark.parametrize(
    ("options", "quiet"), [({}, []), ({"view": True}, [False]), ({"quiet_view": True}, [True])]
)
def test_what_is_rendered_is_shown_on_request(monkeypatch, options, quiet):
    """The file that was written, with or without what its viewer says."""
    shown = []
    monkeypatch.setattr(
        Digraph, "_view", lambda self, path, *, format, quiet: shown.append((path, quiet))
    )
    path = pair().render("x", format="svg", **options)
    assert shown == [(path, each) for each in quiet]


def test_pipe():
    """Bytes, or text in an encoding; other programs and formats too."""
    assert pair().pipe("pdf").startswith(b"%PDF")
    assert pair().pipe(format="svg", encoding="utf-8").startswith("<?xml")
    assert pair().pipe(format="plain", engine="neato").startswith(b"graph")
    assert pair().pipe(format="plain", engine="circo") != pair().pipe(format="plain")


def test_notebook_display():
    """The bundle holds SVG; other pictures on demand."""
    assert list(pair()._repr_mimebundle_()) == ["image/svg+xml"]
    bundle = pair()._repr_mimebundle_(include=["image/png", "image/svg+xml"])
    assert bundle["image/png"].startswith(b"\x89PNG")
    assert "first" in bundle["image/svg+xml"]


def test_nested_in_another_graph():
    """It can be a subgraph of a plain graphviz graph, and hold one."""
    outer = Digraph("outer")
    outer.subgraph(pair())
    with outer.subgraph(name="cluster_more") as more:
        more.node("c")
    assert isinstance(outer.copy(), Digraph)
    assert outer.pipe("svg").count(b'class="node"') == 3


def test_hovering_shows_the_tooltip():
    """Titles are what tooltips say; without one there is no title but the id is not shown."""
    tree = xml.etree.ElementTree.fromstring(pair().pipe("svg"))
    titles = [each.text for each in tree.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["what a is\nand where"]


def test_links_stay():
    """A box with an address is a link and has its tooltip; one without is no link."""
    graph = pair()
    graph.node("b", URL="page.html?a=1&b", target="_parent", tooltip="where it leads")
    svg = rendered(graph.source, "svg").decode()
    assert svg.count("<a ") == svg.count("</a>") == 1
    assert '<a xlink:href="page.html?a=1&amp;b" target="_parent">' in svg
    assert "<title>where it leads</title>" in svg
    xml.etree.ElementTree.fromstring(svg)


def test_svg_is_plain_xml():
    """The picture can be parsed, holds no comment, and says how large it is."""
    svg = rendered("digraph { a -> b [label=\"<&>\"] }", "svg")
    root = xml.etree.ElementTree.fromstring(svg)
    assert b"<!--" not in svg and b"<!DOCTYPE" not in svg
    assert root.get("width", "").endswith("pt") and len(root.get("viewBox", "").split()) == 4


def test_png_resolution():
    """Twice the dpi is twice the pixels."""
    def width(dpi: float) -> int:
        picture = engine.run(pair().source, "png", attributes={"dpi": f"{dpi:g}"})
        return int.from_bytes(picture[16:20], "big")

    assert abs(width(288) - 2 * width(144)) <= 2
    assert Png().dpi == 144


def test_formats_are_found_by_suffix():
    """Whatever the case and the folder; options are the fields."""
    assert isinstance(by_suffix("figures/Model.V2.SVG"), Svg)
    assert {".svg", ".pdf", ".png", ".dot", ".gv"} <= {*known()}


@pytest.mark.parametrize(("name", "guess"), [("model.swg", ".svg"), ("model.pngg", ".png")])
def test_unknown_suffix(name, guess):
    """The error has the nearest suffix, and all that are known."""
    with pytest.raises(UnknownFormat, match=rf"did you mean '{guess}'.*Known: .*\.pdf"):
        by_suffix(name)


def test_no_suffix():
    """A name without a suffix is an error, not a guess."""
    with pytest.raises(UnknownFormat, match="'g18' has no suffix, .* as in g18.svg"):
        by_suffix("g18")
    for folder in (".", ".."):
        with pytest.raises(UnknownFormat, match="the path has no file name; .* as in net.svg"):
            by_suffix(Path(folder).name)


def test_layout_errors_come_through():
    """What Graphviz cannot read is an error of ours."""
    with pytest.raises(LayoutFailed, match="syntax error"):
        rendered("digraph { a -> ", "svg")


@pytest.mark.parametrize(("background", "opaque"), [(None, True), ("transparent", False)])
def test_bitmap_has_paper(background, opaque):
    """A bitmap is drawn on white, unless it is asked to be transparent."""
    run = Builder("Net")
    with run.scope("Net"):
        run.returns(run.op("relu", run.input("x", (1, 4)), shape=(1, 4)))
    view = make_view(run.recording())
    picture = Png(dpi=30).export(view, Style(background=background))
    with Image.open(io.BytesIO(picture)) as image:
        corner = image.convert("RGBA").getpixel((0, 0))
    assert (corner == (255, 255, 255, 255)) == opaque and (corner[3] == 255) == opaque


@pytest.mark.parametrize(
    ("fontname", "family"),
    [
        ("Lato", "Lato,sans-serif"),
        ("Times New Roman", "Times New Roman,serif"),
        ("Noto Sans Mono", "Noto Sans Mono,monospace"),
        ("Gill Sans Times", "Gill Sans Times,sans-serif"),
        ("serif", "serif"),
        ("Lato,Georgia", "Lato,Georgia"),
        ("A&B", "A&amp;B,sans-serif"),
        ("A<B,serif", "A&lt;B,serif"),
    ],
)
def test_a_missing_font_has_one_behind_it(fontname, family):
    """A browser without the font takes one of its kind; lists are left as they are."""
    svg = rendered(f'digraph {{ a [label="b", fontname="{fontname}"] }}', "svg")
    assert f'font-family="{family}"' in svg.decode()
    xml.etree.ElementTree.fromstring(svg)


def test_lines_of_small_print_keep_apart():
    """A little more than Graphviz would leave, and nothing is in the file only for that."""
    run = Builder()
    with run.scope("Net"):
        run.op("getitem", run.input("x", (2, 4)), arguments=(("index", "3"), ("dim", "1")))
        made = run.op("conv", run.input("y", (4, 8)), arguments=(("stride", "2"),))
        run.op("tanh", made)
    picture = Svg().export(make_view(run.recording()), Style()).decode()
    found = xml.etree.ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")
    lines = [(line.text or "", float(line.get("y", "0"))) for line in found]
    assert all(text.strip() for text, _ in lines)
    places = dict(lines)
    assert 9.0 <= places["→ 2×4"] - places["stride 2"] <= 10.5
