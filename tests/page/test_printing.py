"""The page on paper: all that is open, on as many sheets as can be read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

from tests.page.browser import Visit, Visiting
from tests.views.test_fold import stack

pytestmark = pytest.mark.page

TITLES = """() => [...new Set(page.stage.picture().boxes.filter(box => !box.open)
  .map(box => page.model.title(box.item)))]"""


def printed(seen: Visit) -> list[str]:
    """The text on each sheet of paper."""
    sheets = PdfReader(BytesIO(seen.page.pdf())).pages
    return [" ".join(sheet.extract_text().split()) for sheet in sheets]


def test_all_that_is_open_is_on_one_sheet(visit: Visiting) -> None:
    """Whatever of it is in the window, and without the bars around it."""
    seen = visit(stack(6))
    seen.page.evaluate("for (let times = 0; times < 9; times++) page.stage.zoom(1.25)")
    seen.settle()
    [sheet] = printed(seen)
    titles = seen.page.evaluate(TITLES)
    assert len(titles) > 2
    assert [title for title in titles if " ".join(title.split()) not in sheet] == []
    assert "Expand" not in sheet


def test_what_is_long_goes_on_several_sheets(visit: Visiting) -> None:
    """Each closed box is whole on one of them."""
    seen = visit(stack(12))
    seen.page.evaluate("page.actions.expandAll()")
    assert 1 < len(printed(seen)) < 12
    closed = "page.stage.picture().boxes.filter(box => !box.open)"
    ends = ".map(({ y, h }) => [y, y + h])"
    areas = seen.page.evaluate(f"printing.sheets(page.stage.picture()).areas{ends}")
    assert all(one[1] == other[0] for one, other in zip(areas, areas[1:]))
    for top, bottom in seen.page.evaluate(closed + ends):
        assert any(begin <= top and bottom <= end for begin, end in areas)


def test_a_box_higher_than_a_sheet_is_cut(visit: Visiting) -> None:
    """Sheets are at least half full, so that there is an end to them."""
    seen = visit(stack(2))
    assert seen.page.evaluate("printing.cut([{ y: 0, h: 1000 }], 0, 700)") == 700
    assert seen.page.evaluate("printing.cut([{ y: 650, h: 100 }], 0, 700)") == 644
    two = "[{ y: 650, h: 100 }, { y: 600, h: 48 }]"
    assert seen.page.evaluate(f"printing.cut({two}, 0, 700)") == 594


@pytest.fixture
def dark(program: Any, tmp_path: Path) -> Iterator[Visit]:
    """A page in a dark window."""
    path = stack(3).render(tmp_path / "page.html", color_by="parameters")
    seen = Visit(program, dark=True).open(path)
    yield seen
    assert seen.troubles == []
    seen.window.close()


def test_paper_is_light_and_has_the_legend(dark: Visit) -> None:
    """Afterwards the page is as before, with its legend in its corner."""
    [sheet] = printed(dark)
    assert "of the boxes shown" in sheet
    dark.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert dark.page.evaluate("document.documentElement.dataset.theme") == "light"
    paper = dark.page.evaluate("page.model.data.themes.light.paper")
    assert dark.page.locator(".sheet svg > rect").first.get_attribute("fill") == paper
    dark.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert dark.page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert dark.page.locator(".corner.left #legend").is_visible()
    assert dark.page.locator(".sheet").count() == 0


@pytest.mark.parametrize("count", [2, 9, 14, 40])
def test_each_sheet_is_one_page(program: Any, tmp_path: Path, count: int) -> None:
    """Also one that is a little too long for the paper, and has the legend below it."""
    path = stack(count).render(
        tmp_path / "page.html", color_by="parameters", fold=False, depth=1)
    seen = Visit(program).open(path)
    sheets = seen.page.evaluate("printing.sheets(page.stage.picture()).areas.length")
    for paper in ("A4", "Letter"):
        pdf = seen.page.pdf(format=paper, prefer_css_page_size=True)
        assert len(re.findall(rb"/Type /Page\b", pdf)) == sheets
    assert seen.troubles == []
    seen.window.close()
