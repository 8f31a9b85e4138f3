"""Mermaid: what GitHub draws, within its limits."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given, settings

from tests.figures import linear, network
from tests.random_recordings import recordings
from torchrecorder.errors import InvalidArgument
from torchrecorder.export.mermaid import Mermaid, escaped, mermaid
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Figure, Group, Line, Look, Shape, Text
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.collapse import Collapse
from torchrecorder.views.pipeline import ViewOptions, make_view


def blocks(count: int, layers: int = 4) -> Recording:
    """A model of *count* blocks of a few layers, one after the other."""
    run = Builder("Stack")
    with run.scope("Stack"):
        x = run.input("x")
        for block in range(count):
            with run.scope(f"block{block}", f"Block{block}"):
                for layer in range(layers):
                    x = linear(run, f"fc{layer}", x)
    return run.recording()


def deep(levels: int) -> Recording:
    """Scopes in scopes, each with an op of its own."""
    run = Builder("Deep")
    x = run.input("x")
    with contextlib.ExitStack() as scopes:
        for level in range(levels):
            scopes.enter_context(run.scope(f"l{level}", "Wrap"))
            x = run.op("relu", x)
    return run.recording()


def lines(text: str) -> int:
    """How many arrows a flowchart has."""
    return len(re.findall(r"-->|-\.->", text))


def test_small_views_stay_open() -> None:
    """A view that fits is drawn as it is."""
    view = make_view(network(), ViewOptions(depth=3))
    text = Mermaid().export(view, Style())
    assert "%%" not in text
    assert lines(text) == len(view.arrows)
    assert text.count("subgraph") == len(view.clusters) == text.count(" end\n")


def test_too_many_arrows() -> None:
    """A view with too many arrows is closed, the deepest scopes first, and says so."""
    recording = blocks(8)
    view = make_view(recording, ViewOptions(depth=9, fold=False))
    text = Mermaid(most_lines=20).export(view, Style())
    assert 0 < lines(text) <= 20
    assert "closed to depth 1" in text
    assert text.count("Block7") == 1


def test_no_more_is_closed_than_must_be() -> None:
    """Of the depths that fit the deepest is drawn, for any number of arrows allowed."""
    view = make_view(deep(9), ViewOptions(depth=20))
    arrows = [len(Collapse(depth)(view).arrows) for depth in range(9)]
    assert arrows == sorted(set(arrows))
    for allowed in range(arrows[0], arrows[-1]):
        depth = max(depth for depth in range(9) if arrows[depth] <= allowed)
        text = Mermaid(most_lines=allowed).export(view, Style())
        assert f"closed to depth {depth}," in text
        assert lines(text) == arrows[depth]
    assert "closed" not in Mermaid(most_lines=arrows[-1]).export(view, Style())
    with pytest.raises(InvalidArgument, match=f"still {arrows[0]} arrows"):
        Mermaid(most_lines=arrows[0] - 1).export(view, Style())


def test_no_arrow_at_all_may_be_allowed() -> None:
    """One box needs none."""
    run = Builder("Net")
    run.op("rand")
    assert lines(Mermaid(most_lines=0).export(make_view(run.recording()), Style())) == 0


def test_too_many_characters() -> None:
    """The same for too many characters, counted as JavaScript does."""
    recording = blocks(8)
    view = make_view(recording, ViewOptions(depth=9, fold=False))
    full = Mermaid(most_text=10**9).export(view, Style())
    text = Mermaid(most_text=3000).export(view, Style())
    assert len(text) <= 3000 < len(full)
    run = Builder("Net")
    with run.scope("Net \U0001f600"):
        run.op("relu", run.input("x"))
    named = make_view(run.recording(), ViewOptions(depth=0))
    shown = Mermaid().export(named, Style())
    size = len(shown.encode("utf-16-le")) // 2
    assert size == len(shown) + shown.count("\U0001f600") > len(shown)
    assert Mermaid(most_text=size).export(named, Style()) == shown
    with pytest.raises(InvalidArgument, match=f"in {size:,} characters"):
        Mermaid(most_text=size - 1).export(named, Style())


def test_never_fits() -> None:
    """A model with too many inputs says what to write instead."""
    run = Builder("Wide")
    with run.scope("Wide"):
        run.op("cat", *(run.input(f"x{i}th") for i in range(600)))
    view = make_view(run.recording())
    with pytest.raises(InvalidArgument, match=r"still 601 arrows .* at most 499 .*\.svg or \.html"):
        Mermaid().export(view, Style())


def test_deep_models_are_searched_quickly() -> None:
    """The depth that fits is found by halving, not by trying each."""
    view = make_view(deep(200), ViewOptions(depth=400))
    text = Mermaid(most_lines=50).export(view, Style())
    assert lines(text) == 50


@settings(max_examples=30, deadline=None)
@given(recordings())
def test_any_recording(recording: Recording) -> None:
    """What stands between quotes has no quote, whatever the names."""
    text = Mermaid().export(make_view(recording, ViewOptions(depth=9)), Style())
    for line in text.splitlines():
        assert line.count('"') in (0, 2)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('say "x"', "say #34;x#34;"),
        ("a<b>&c", "a#60;b#62;#38;c"),
        ("#1", "#35;1"),
        ("__add__", "#95;#95;add#95;#95;"),
        ("`code`", "#96;code#96;"),
        ("two\nlines", "two<br/>lines"),
        ("nul\x00", "nul"),
        ("(1, 2)", "(1, 2)"),
    ],
)
def test_escaped(text: str, shown: str) -> None:
    """Nothing in a name is read as Markdown, HTML or the end of the label."""
    assert escaped(text) == shown


def test_looks_are_classes() -> None:
    """Boxes that look alike share a class; dashes and widths are kept."""
    plain = Look("#ffffff", "#000000", "#111111")
    dashed = Look("#ffffff", "#000000", "#111111", "box", "dashed", 2.0)
    shapes = tuple(
        Shape(str(i), None, (Text(f"b{i}", "title"),), look)
        for i, look in enumerate((plain, plain, dashed))
    )
    figure = Figure("n", shapes, (), (Line("0", "1", "2×3", plain), Line("1", "2", "", dashed)))
    assert mermaid(figure) == (
        "flowchart TB\n"
        '    n0("b0"):::k0\n'
        '    n1("b1"):::k0\n'
        '    n2["b2"]:::k1\n'
        '    n0 -->|"2×3"| n1\n'
        "    n1 -.-> n2\n"
        "    classDef k0 fill:#ffffff,stroke:#000000,color:#111111\n"
        "    classDef k1 fill:#ffffff,stroke:#000000,color:#111111,stroke-width:2px,"
        "stroke-dasharray:5 3\n"
        "    linkStyle default stroke:#000000\n"
    )


def test_nested_groups() -> None:
    """A group holds its groups and boxes, each once and in order, and looks like its class."""
    look = Look("#ffffff", "#000000", "#111111")
    dotted = Look("#eeeeee", "#000000", "#111111", "rounded", "dotted")
    groups = (
        Group("outer", None, (Text("Outer", "title"),), look),
        Group("inner", "outer", (Text("Inner", "title"),), look),
        Group("other", None, (Text("Other", "title"),), dotted),
    )
    shapes = tuple(
        Shape(name, group, (Text(name, "title"),), look)
        for name, group in (("a", "inner"), ("b", "outer"), ("c", None), ("d", "inner"))
    )
    text = mermaid(Figure("n", shapes, groups, ()))
    assert text.split("flowchart TB\n")[1] == (
        '    subgraph g0["Outer"]\n'
        '        subgraph g1["Inner"]\n'
        '            n0("a"):::k0\n'
        '            n3("d"):::k0\n'
        "        end\n"
        '        n1("b"):::k0\n'
        "    end\n"
        '    subgraph g2["Other"]\n'
        "    end\n"
        '    n2("c"):::k0\n'
        "    classDef k0 fill:#ffffff,stroke:#000000,color:#111111\n"
        "    classDef k1 fill:#eeeeee,stroke:#000000,color:#111111,stroke-dasharray:2 2\n"
        "    class g0,g1 k0\n"
        "    class g2 k1\n"
    )


def test_direction() -> None:
    """The figure's direction is the flowchart's."""
    figure = draw(make_view(network()), Style(direction="LR"))
    assert "flowchart LR" in mermaid(figure)


def test_a_box_without_words_is_a_box() -> None:
    """Mermaid takes no empty label."""
    look = Look("#ffffff", "#000000", "#000000", "box")
    figure = Figure("f", (Shape("a", None, (), look), Shape("b", None, (Text(""),), look)), (), ())
    assert mermaid(figure).count('[" "]') == 2


def test_a_shape_that_only_graphviz_has_is_a_box() -> None:
    """As in an SVG."""
    look = Look("#ffffff", "#000000", "#000000", "diamond")
    figure = Figure("f", (Shape("a", None, (Text("a"),), look),), (), ())
    assert '["a"]' in mermaid(figure)
