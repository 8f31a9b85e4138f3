"""The legend of a comparison: the differences that are drawn, and no others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from torchrecorder import record
from torchrecorder.comparison.compare import compare
from torchrecorder.recording import Recording


def net(*more: nn.Module, frozen: bool = False) -> Recording:
    """A module in which *more* follows a linear layer, before an activation."""
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4), *more, nn.Tanh()))
    return record(model.requires_grad_(not frozen), torch.ones(2, 4))


def listed(before: Recording, after: Recording, path: Path, **options: Any) -> list[str]:
    """The texts of the legend, without totals of numbers."""
    drawn = compare(before, after).render(path, **options).read_text(encoding="utf-8")
    if path.suffix == ".html":
        data = json.loads(drawn.partition('id="data">')[2].partition("</script>")[0])
        found = [data["strings"][text] for text, _ in data["legend"]]
    else:
        found = re.findall(r'"legend_\d+" \[.*label=<([^>]+)>', drawn)
    return [text for text in found if ":" not in text]


@pytest.mark.parametrize("suffix", ["dot", "html"])
def test_without_a_color_the_legend_says_what_differs(suffix: str, tmp_path: Path) -> None:
    """Nothing, or what has a text only."""
    path = tmp_path / f"net.{suffix}"
    assert listed(net(), net(), path) == ["no difference"]
    assert listed(net(), net(frozen=True), path) == ["2 frozen"]


def test_the_legend_has_the_colors_of_the_figure(tmp_path: Path) -> None:
    """A closed module is different if something in it is added; a page has both."""
    pair = net(), net(nn.ReLU())
    assert listed(*pair, tmp_path / "net.dot", depth=9) == ["added", "removed"]
    assert listed(*pair, tmp_path / "net.dot", depth=1) == ["different"]
    assert listed(*pair, tmp_path / "net.html") == ["added", "removed", "different"]
    wide = net(nn.Softplus()), net(nn.Softplus(2))
    assert listed(*wide, tmp_path / "net.html") == ["different"]
    own: dict[str, Any] = {"legend": True, "colors": {"0.0": "#caffbf"}, "rename": {"0.0": "added"}}
    texts = listed(*wide, tmp_path / "net.html", **own)
    assert texts[-2:] == ["added", "different"] and texts.count("added") == 1


def test_the_legend_of_a_page_is_the_same_with_numbers_as_colors(tmp_path: Path) -> None:
    """Kinds, then differences, then totals: the page has a scale of its own for numbers."""
    path = tmp_path / "net.html"
    pair = net(), net(nn.ReLU())
    total = "Output size: 64 B → 96 B (+50 %)"
    expected = ["input", "output", "weights", "activation", "added", "removed", "different", total]
    for options in ({}, {"color_by": "parameters"}):
        drawn = compare(*pair).render(path, legend=True, **options).read_text(encoding="utf-8")
        data = json.loads(drawn.partition('id="data">')[2].partition("</script>")[0])
        assert [data["strings"][text] for text, _ in data["legend"]] == expected
