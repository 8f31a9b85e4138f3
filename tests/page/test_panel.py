"""The panel: what a box is comes first, and long lists are short at first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import torchrecorder
from tests.page.browser import Visit, Visiting
from tests.views.test_fold import stack
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder

pytestmark = pytest.mark.page

AMOUNTS = "#panel .amount span"


def measured() -> Recording:
    """A module with more numbers than are shown at first."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    return torchrecorder.record(model, torch.ones(2, 4), stats=True)


def select(seen: Visit, path: str) -> None:
    """Shows the panel of a module."""
    seen.page.evaluate("path => page.actions.goTo(page.model.find(path))", path)
    seen.page.locator("#panel").wait_for()


def sections(seen: Visit) -> list[str]:
    """The titles in the panel."""
    return list(seen.page.locator("#panel h3").all_inner_texts())


def test_a_panel_begins_with_what_the_box_is(visit: Visiting) -> None:
    """Settings and shapes, then the line of code; neighbors; and numbers at last."""
    seen = visit(measured())
    select(seen, "0")
    assert sections(seen) == ["Recorded", "Source", "Reads", "Read by", "Numbers"]


def test_the_most_important_numbers_are_shown(visit: Visiting) -> None:
    """The others on demand, and then for all boxes."""
    seen = visit(measured())
    select(seen, "0")
    assert seen.page.locator(AMOUNTS).all_inner_texts()[:2] == ["Time", "Params"]
    assert seen.page.locator(AMOUNTS).count() == 6
    more = seen.page.locator("#panel .amounts .more")
    count = 6 + int(more.inner_text().split()[0])
    more.focus()
    seen.page.keyboard.press("Enter")
    assert seen.page.locator(AMOUNTS).count() == count > 10
    assert seen.page.evaluate("document.activeElement.className") == "amount"
    select(seen, "1")
    assert seen.page.locator(AMOUNTS).count() > 6


def test_the_number_that_colors_the_boxes_is_shown(visit: Visiting) -> None:
    """However far down it is."""
    seen = visit(measured())
    last = seen.page.evaluate("numbers.ranked(page.model.data.annotations).findLast("
                              "each => numbers.textOf(each, page.model.find('0'), page.model))")
    seen.page.evaluate("key => page.actions.colorBy(key)", last["key"])
    select(seen, "0")
    assert last["title"] in seen.page.locator(AMOUNTS).all_inner_texts()


def test_many_facts_are_shortened(visit: Visiting) -> None:
    """A button shows all of them, once each and in their order."""
    run = Builder("Net")
    with run.scope("Net"), run.scope("join", "Join"):
        run.op("cat", *(run.input(f"x{number}", (number + 1,)) for number in range(40)))
    seen = visit(run.recording(), depth=2)
    seen.page.evaluate("page.actions.goTo(page.model.all.find(item =>"
                       " page.model.op(item) === 'cat'))")
    facts = seen.page.locator("#panel .facts dd")
    assert facts.count() == 16
    seen.page.locator("#panel .facts .more").click()
    shapes = [text.split()[0] for text in facts.all_inner_texts() if text.startswith("[")]
    assert shapes[:40] == [f"[{number + 1}]" for number in range(40)]


def test_changes_come_before_all_else(program: Any, tmp_path: Path) -> None:
    """Those of the box, and those of what is in it, to which a click leads."""
    before = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()))
    after = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()))
    one, other = (torchrecorder.record(each, torch.ones(2, 4)) for each in (before, after))
    path = torchrecorder.compare(one, other).render(tmp_path / "both.html")
    seen = Visit(program).open(path)
    select(seen, "0")
    assert sections(seen)[0] == "Notes"
    link = seen.page.locator("#panel section").first.locator(".link")
    assert link.locator("b").all_inner_texts() == ["1: Tanh"]
    assert "ReLU → Tanh" in link.inner_text()
    link.click()
    assert seen.state("selected") == seen.page.evaluate("page.model.find('0.1')")
    assert sections(seen)[0] == "Notes" and link.count() == 0
    assert "ReLU → Tanh" in seen.page.locator("#panel .note").inner_text()
    assert seen.troubles == []
    seen.window.close()


def test_the_path_of_a_module_can_be_copied(visit: Visiting) -> None:
    """For `get_submodule`; that of a fold is none."""
    seen = visit(stack(6), depth=1)
    seen.page.evaluate(
        "document.addEventListener('copy', event => { window.copied = event.target.value; })")
    copy = seen.page.get_by_label("Copy the path")
    select(seen, "layers.1.fc")
    copy.click()
    assert seen.page.evaluate("copied") == "layers.1.fc"
    assert copy.inner_text() == "Copied"
    assert copy.evaluate("button => button === document.activeElement")
    seen.page.evaluate("page.actions.goTo(page.model.all.find(page.model.isFold))")
    assert seen.page.locator("#panel .path").count() == 1 and copy.count() == 0
