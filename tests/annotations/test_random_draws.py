"""Where operations that draw random numbers are listed, counted and found."""

from __future__ import annotations

import pytest

from torchrecorder.graph.codec import decode, encode
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view


def noisy(random: bool = True) -> Recording:
    """Two drawn masks in a block, and noise after it."""
    build = Builder("Net")
    with build.scope("", "Net"):
        x = build.input()
        with build.scope("block", "Block"):
            x = build.op("dropout", build.op("dropout", x, random=random), random=random)
            x = build.op("relu", x)
        x = build.op("add", x, build.op("rand", random=random))
    return build.recording()


def test_they_are_found_by_one_name() -> None:
    """Which finds nothing where none draws."""
    assert [part.name for part in noisy().find("random")] == ["dropout", "dropout", "rand"]
    assert noisy(random=False).find("random") == []


def test_modules_have_their_number() -> None:
    """In rankings and tables."""
    rows = [(row.name, row.number) for row in noisy().top("random_draws")]
    assert rows == [("block", 2), ("", 1)]
    assert "random_draws" not in noisy(random=False).annotations


def test_the_summary_names_the_functions() -> None:
    """With the number of their calls; without any, it has no such note."""
    assert "Note: random numbers drawn by dropout ×2, rand" in noisy().summary().splitlines()
    assert "random" not in noisy(random=False).summary()


def test_what_is_recomputed_draws_nothing_new() -> None:
    """A checkpoint restores the generator."""
    build = Builder("Net")
    with build.scope("", "Net"):
        x = build.op("dropout", build.input(), random=True)
    with build.scope("", "Net", recompute=True):
        build.op("dropout", x, random=True)
    recording = build.recording()
    assert len(recording.find("random")) == 2
    assert recording.annotations["random_draws"].total() == 1


def test_tooltips_of_boxes() -> None:
    """A box says it in its tooltip, and not on its face."""
    figure = draw(make_view(noisy(), ViewOptions(depth=9)))
    drawing = ["draws random numbers" in shape.tooltip for shape in figure.shapes]
    assert sum(drawing) == 3
    assert not any("random" in text.text for shape in figure.shapes for text in shape.label)


def test_files_keep_it() -> None:
    """Older files have no such column: then none is known to draw."""
    data = encode(noisy())
    assert decode(data, Recording) == noisy()
    del data["ops"]["random"]
    assert decode(data, Recording) == noisy(random=False)


@pytest.mark.parametrize("most, steps", [(1, "01"), (2, "012"), (4, "01234"), (8, "02468")])
def test_the_legend_has_no_number_twice(most: int, steps: str) -> None:
    """Small counts have fewer colors."""
    build = Builder("Net")
    with build.scope("", "Net"):
        x = build.input()
        with build.scope("quiet", "Block"):
            x = build.op("relu", x)
        with build.scope("noisy", "Block"):
            for number in range(9):
                x = build.op("relu", x, random=number < most)
    view = make_view(build.recording(), ViewOptions(depth=1))
    entries = draw(view, Style(color_by="random_draws")).legend
    assert "".join(entry.text for entry in entries[1:]) == steps


@pytest.mark.parametrize("random", [True, False])
def test_graphs_have_it(random: bool) -> None:
    """As an attribute of operations."""
    graph = noisy(random).to_networkx()
    assert graph.nodes["o0"]["random"] is random
