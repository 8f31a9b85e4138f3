"""Pictures that are saved from a page: what is seen, highlighted and explained."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch

import torchrecorder
from tests.figures import network
from tests.page.browser import Visit, Visiting
from tests.views.test_fold import stack

pytestmark = pytest.mark.page


def saved(seen: Visit, tmp_path: Path) -> ElementTree.Element:
    """The whole picture as an SVG file."""
    seen.page.locator("#save").click()
    with seen.page.expect_download() as waiting:
        seen.page.get_by_role("menuitem", name="SVG").last.click()
    waiting.value.save_as(tmp_path / "saved.svg")
    return ElementTree.parse(tmp_path / "saved.svg").getroot()


def test_saves_what_is_seen(visit: Visiting, tmp_path: Path) -> None:
    """As an SVG file that stands by itself."""
    saved(visit(network()), tmp_path)
    text = (tmp_path / "saved.svg").read_text()
    assert "body: Sequential" in text and "<script" not in text


def test_what_is_highlighted_is_saved_as_seen(visit: Visiting, tmp_path: Path) -> None:
    """In the colors of the theme: lines and rings of the selection, and all boxes of a type."""
    seen = visit(network(), dark=True, depth=2)
    blue, orange, accent = seen.page.evaluate(
        "['--in', '--out', '--accent'].map(name =>"
        " getComputedStyle(document.documentElement).getPropertyValue(name))")
    seen.page.evaluate("page.actions.goTo(page.model.find('body.1'))")
    seen.settle()
    file = saved(seen, tmp_path)
    assert {blue, orange} <= {line.get("stroke") for line in file.iterfind("{*}path")}
    rings = [ring.get("stroke") for ring in file.iterfind("{*}rect") if ring.get("stroke")]
    assert rings.count(accent) == 1 and len(rings) == seen.page.locator(".ring").count()
    seen.page.evaluate("page.actions.highlightType('Linear')")
    seen.settle()
    boxes = [box for box in saved(seen, tmp_path).iterfind("{*}g")
             if box.find("{*}path") is not None]
    marked = [box for box in boxes if box.find("{*}path").get("stroke") == accent]
    assert len(marked) == seen.page.locator(".emphasized").count() > 0
    pale = [box for box in boxes if box.get("opacity")]
    assert len(pale) == seen.page.locator(".boxes .box:not(.emphasized)").count() > 0
    seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert seen.page.locator(".sheet g[opacity]").count() == len(pale)
    seen.page.evaluate("dispatchEvent(new Event('afterprint'))")


def test_a_highlighted_line_keeps_its_dashes(visit: Visiting, tmp_path: Path) -> None:
    """Such as one that a comparison says is removed; on the screen and in a file."""
    first, last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)
    before, after = (
        torchrecorder.record(torch.nn.Sequential(first, *between, last), torch.ones(1, 4))
        for between in ([], [torch.nn.LayerNorm(4)])
    )
    seen = visit(torchrecorder.compare(before, after), depth=1)
    dashed = seen.page.locator(".lines path[stroke-dasharray='4 3']")
    assert dashed.count() == 1
    seen.page.evaluate("page.actions.goTo(page.model.find('2'))")
    seen.settle()
    related = seen.page.locator(".related.in")
    dashes = [line.get_attribute("stroke-dasharray") for line in related.all()]
    assert sorted(dashes, key=str) == ["4 3", None] and dashed.count() == 0
    stroke = related.first.evaluate("line => getComputedStyle(line).getPropertyValue('--in')")
    lines = [line.get("stroke-dasharray") for line in saved(seen, tmp_path).iter()
             if line.get("stroke") == stroke and line.tag.endswith("path")]
    assert sorted(lines, key=str) == ["4 3", None]


def test_colors_are_explained_in_saved_pictures(visit: Visiting, tmp_path: Path) -> None:
    """The scale of a number, below the picture; without one there is nothing to explain."""
    plain = saved(visit(stack(3)), tmp_path)
    file = saved(visit(stack(3), color_by="parameters"), tmp_path)
    group = [item for item in file if item.tag.endswith("}g")][-1]
    texts = [text.text for text in group.iterfind("{*}text")]
    assert texts == ["Params", "0", "8", "16", "of the boxes shown (mean for ×N)"]
    assert "Params" not in [text.text for text in plain.iterfind("{*}g/{*}text")]
    [picture] = file.iterfind("{*}svg")
    bottom = float(picture.get("y", 0)) + float(picture.get("height", 0))
    top, end = group.get("transform", "").split()[1].strip(")"), file.get("height", "0pt")[:-2]
    assert bottom < float(top) < float(end)
