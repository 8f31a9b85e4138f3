"""Mermaid: what GitHub draws, within its limits."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings

from tests.figures import linear, network
from tests.random_recordings import recordings
from torchrecorder.errors import InvalidArgument
from torchrecorder.export.mermaid import Mermaid, escaped, mermaid
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Figure, Line, Look, Shape, Text
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.plan import ViewOptions, make_view


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


def test_too_many_characters() -> None:
    """The same for too many characters, counted as JavaScript does."""
    recording = blocks(8)
    view = make_view(recording, ViewOptions(depth=9, fold=False))
    full = Mermaid(most_text=10**9).export(view, Style())
    text = Mermaid(most_text=3000).export(view, Style())
    assert len(text) <= 3000 < len(full)
    wide = blocks(1)
    size = len(Mermaid().export(make_view(wide), Style()))
    assert Mermaid(most_text=size).export(make_view(wide), Style())


def test_never_fits() -> None:
    """A model with too many inputs says what to write instead."""
    run = Builder("Wide")
    with run.scope("Wide"):
        run.op("cat", *(run.input(f"x{i}") for i in range(600)))
    view = make_view(run.recording())
    with pytest.raises(InvalidArgument, match=r"still 601 arrows .* at most 499 .*\.svg or \.html"):
        Mermaid().export(view, Style())


def test_deep_models_are_searched_quickly() -> None:
    """The depth that fits is found by halving, not by trying each."""
    run = Builder("Deep")
    x = run.input("x")
    scopes = [run.scope(f"l{level}", "Wrap") for level in range(200)]
    for scope in scopes:
        scope.__enter__()
        x = run.op("relu", x)
    for scope in reversed(scopes):
        scope.__exit__(None, None, None)
    view = make_view(run.recording(), ViewOptions(depth=400))
    text = Mermaid(most_lines=50).export(view, Style())
    assert lines(text) <= 50


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


def test_direction() -> None:
    """The figure's direction is the flowchart's."""
    figure = draw(make_view(network()), Style(direction="LR"))
    assert "flowchart LR" in mermaid(figure)
