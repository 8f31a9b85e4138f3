"""Colors and other values that Graphviz takes, and what is said where it takes none."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Any

import pytest
from pypdf import PdfReader

from torchrecorder import figure, make_dot
from torchrecorder.errors import InvalidArgument, NothingFound
from torchrecorder.export import by_suffix
from torchrecorder.layout import engine
from torchrecorder.options import drawing
from torchrecorder.style.attributes import SHAPES
from torchrecorder.style.color import listed, rgb, solid
from torchrecorder.style.color_names import NAMES, SCHEMES
from torchrecorder.style.figure import Look
from torchrecorder.style.style import Style
from torchrecorder.style.themes import LIGHT
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import make_view


def _fills(colors: list[str]) -> list[str]:
    """What Graphviz fills nodes with."""
    nodes = "".join(
        f'n{number} [style=filled, label="", fillcolor="{color}"];'
        for number, color in enumerate(colors)
    )
    text = engine.run(f"digraph {{ {nodes} }}", "xdot").decode()
    found = re.findall(r"\bn\d+\s*\[_draw_=\"[^\"]*?C \d+ -(#\w+)", text)
    assert len(found) == len(colors)
    return found


def test_the_names_are_those_of_graphviz() -> None:
    """And each is the color that Graphviz draws."""
    names = list(NAMES)
    assert len(names) > 650
    assert _fills(names) == list(NAMES.values())


def test_the_schemes_are_those_of_graphviz() -> None:
    """The last color of each is another one than that behind it, which is black."""
    last = [f"/{name}/{size}" for name, size in SCHEMES.items() if name != "greys9"]
    behind = [f"/{name}/{size + 1}" for name, size in SCHEMES.items()]
    assert "#000000" not in _fills(last)
    assert set(_fills(behind)) == {"#000000"}
    assert all(solid(each) == each for each in last)
    assert not any(map(solid, behind))


def test_the_shapes_are_those_of_graphviz() -> None:
    """Others are drawn as a box, as four of these are, and one that needs a file."""
    names = ["blob", *SHAPES]
    jobs = [engine.Job(f"digraph {{ n [shape={each}] }}", "xdot") for each in names]
    drawn = [
        text.decode().replace(f"shape={name}", "")
        for name, text in zip(names, engine.run_many(jobs))
    ]
    alike = {name for name, text in zip(SHAPES, drawn[1:]) if text == drawn[0]}
    assert alike <= {"box", "rect", "rectangle", "polygon", "epsf"}


@pytest.mark.parametrize(
    ("text", "color"),
    [
        ("#f80", "#ff8800"),
        ("#F808", "#ff880088"),
        ("0.5 0.2 0.9", "#b7e5e5"),
        ("none", "transparent"),
        ("//red", "//red"),
        ("light blue", None),
        ("red ", None),
        ("#12345", None),
        ("/blues9/10", None),
        ("1.0 1. 1", "#ff0000"),
        ("0.5 1.5 1", None),
        ("/nothing9/1", None),
        ("", None),
    ],
)
def test_a_color_can_be_written_in_many_ways(text: str, color: str | None) -> None:
    """Those that only Graphviz knows stay as they are; what is none is none."""
    assert solid(text) == color


def test_colors_stand_in_lists() -> None:
    """With the share that each has; one that is no color spoils the list."""
    assert listed("red;0.3:#00f8:blue") == "red;0.3:#0000ff88:blue"
    assert listed("red;0.3") is None
    assert listed("red:blurple") is None
    assert listed("3", "blues9") == "3"
    assert rgb("steelblue") == (0x46, 0x82, 0xB4)


WRONG: dict[str, dict[str, Any]] = {
    "background must be a color .*, not 'nocolour'": {"background": "nocolour"},
    "'blurple'; did you mean 'purple'": {"fillcolor": "blurple"},
    "edge_attributes: color must be": {"edge_attributes": {"color": "red:blu"}},
    "the scheme 'blues9'": {"node_attributes": {"colorscheme": "blues9", "fillcolor": "10"}},
    "rankdir must be 'TB', 'LR', 'BT' or 'RL', not 'XX'": {"attributes": {"rankdir": "XX"}},
    "shape must .*, not 'elipse'; did you mean 'ellipse'": {"shape": "elipse"},
    "style must be one of .*; did you mean 'dashed'": {"node_attributes": {"style": "dased"}},
    "arrowhead must be .*; did you mean 'normal'": {"arrowhead": "nromal"},
    "splines must be": {"splines": "curvy"},
    "ratio must be .*, or a number, not .wide": {"ratio": "wide"},
    "constraint must be true or false": {"constraint": "maybe"},
    "colorscheme must be .*; did you mean 'blues9'": {"colorscheme": "blues"},
}


@pytest.mark.parametrize("said", WRONG)
def test_what_graphviz_cannot_read_is_refused(said: str) -> None:
    """It would draw black, a box, or nothing, and not say so."""
    with pytest.raises(InvalidArgument, match=said):
        drawing(**WRONG[said])


def test_what_graphviz_reads_is_taken() -> None:
    """In all the spellings of its manual, on every node and edge; and it does read it."""
    graph = {"splines": True, "ratio": 0.5, "concentrate": "yes", "label": "any text"}
    node = {"style": "filled, setlinewidth(2)", "fixedsize": "shape"}
    edge = {"arrowhead": "olboxnormal", "arrowtail": "open", "color": "red:blue"}
    text = make_dot(
        _run(), attributes=graph, node_attributes=node, edge_attributes=edge, fillcolor="/blues9/3"
    ).source
    for name, value in {**graph, **edge}.items():
        assert text.count(f'{name}="{value}"') == 1
    for name, value in {**node, "fillcolor": "/blues9/3"}.items():
        assert text.count(f'{name}="{value}"') == 3
    (fill,) = _fills(["/blues9/3"])
    assert engine.run(text, "xdot").decode().count(f"C 7 -{fill}") == 3


def _run() -> Any:
    run = Builder("Net")
    with run.scope("Net"):
        run.op("relu", run.input("x"))
    return run.recording()


def test_rules_themes_and_stylers_raise_the_same_errors() -> None:
    """Whoever makes a look."""
    with pytest.raises(InvalidArgument, match="fill must be a color .*'blurple'"):
        figure(_run(), rules=(lambda box, view, theme: Look("blurple", "black", "black"),))
    with pytest.raises(InvalidArgument, match="attributes: fillcolor must be a color"):
        Look("#ffffff", "black", "black", attributes={"fillcolor": "nocolour"})
    with pytest.raises(InvalidArgument, match="did you mean 'octagon'"):
        Look("#ffffff", "black", "black", outline="octogon")  # type: ignore[arg-type]
    for wrong in ({"fill": ["red"]}, {"width": "wide"}, {"dash": "dotty"}):
        with pytest.raises(InvalidArgument, match=f"^{next(iter(wrong))} must be"):
            replace(LIGHT.line, **wrong)
    with pytest.raises(InvalidArgument, match="paper must be a color"):
        replace(LIGHT, paper="papyrus")
    with pytest.raises(InvalidArgument, match="heat must be a color"):
        replace(LIGHT, heat=("white", "hot"))


def test_what_is_equal_to_a_valid_value_may_still_be_wrong() -> None:
    """True equals 1.0, which was checked before, and is no width."""
    assert replace(LIGHT.line, width=1.0).width == 1
    with pytest.raises(InvalidArgument, match="^width must be .*, not True"):
        replace(LIGHT.line, width=True)


def test_an_attribute_that_graphviz_does_not_have_is_warned_of() -> None:
    """Of a rule or a styler; scripts for torchrecorder 1.x run on."""
    with pytest.warns(NothingFound, match="no attribute 'fillcolour'; did you mean 'fillcolor'"):
        Look("#ffffff", "black", "black", attributes={"fillcolour": "red"})


def test_a_rule_may_give_short_colors_and_names() -> None:
    """They are mixed as others are."""
    look = Look("#fff", "navy", "black")
    for suffix in (".svg", ".html", ".dot"):
        style = Style(rules=(lambda box, view, theme: look,))
        assert by_suffix(f"x{suffix}").export(make_view(_run()), style)


def test_the_paper_has_the_color_of_its_name_everywhere() -> None:
    """A browser's green is another one than that of X11; a PDF has numbers only."""
    style = Style(background="green", width="80mm")
    view = make_view(_run())
    for suffix in (".svg", ".html"):
        drawn = by_suffix(f"x{suffix}").export(view, style)
        assert "#00ff00" in (drawn if isinstance(drawn, str) else drawn.decode())
    pdf = by_suffix("x.pdf").export(view, style)
    page = PdfReader(io.BytesIO(pdf)).pages[0]  # type: ignore[arg-type]
    assert b"0.0000 1.0000 0.0000 rg" in page.get_contents().get_data()
