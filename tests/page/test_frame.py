"""The page in the frame of a notebook: its colors, the wheel, and what stands behind it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.figures import network
from tests.page.browser import Visit
from tests.page.test_data import Page, data_of
from torchrecorder.display import framed

pytestmark = pytest.mark.page

Opening = Callable[..., Visit]

BELOW = '<p style="height:3000px">and so on</p>'


@pytest.fixture
def notebook(program: Any, tmp_path: Path) -> Iterator[Opening]:
    """Opens a page with a recording's output in it, as notebooks put it into theirs."""
    visits = []

    def open_notebook(body: str = "<body>", scheme: str = "null", change: Any = str) -> Visit:
        page = network().render(tmp_path / "page.html", depth=1).read_text()
        svg = network().render(tmp_path / "page.svg", depth=1).read_text()
        path = tmp_path / "notebook.html"
        path.write_text(f"<!doctype html>{body}{change(framed(page, 'Net', svg))}{BELOW}")
        visits.append(Visit(program))
        visits[-1].page.emulate_media(color_scheme=scheme)
        visits[-1].page.goto(path.as_uri())
        return visits[-1]

    yield open_notebook
    for each in visits:
        assert each.troubles == []
        each.window.close()


def _inside(seen: Visit) -> Any:
    """The document in the frame, once it has drawn."""
    seen.page.frame_locator("iframe").locator("[role=treeitem]").first.wait_for()
    return seen.page.frames[1]


def _until(frame: Any, condition: str) -> None:
    """Wait for it from outside: the page forbids what Playwright would wait with inside."""
    deadline = time.monotonic() + 20
    while not frame.evaluate(condition):
        assert time.monotonic() < deadline, condition
        frame.wait_for_timeout(20)


def test_works_where_there_is_no_address_nor_storage(notebook: Opening) -> None:
    """Boxes open in the frame."""
    frame = _inside(notebook())
    body = Page(data_of(network())).find("body: Sequential")
    frame.locator(f"#box-{body} text").first.dblclick(force=True)
    frame.locator("text=0: Linear").first.wait_for()


def test_a_sandboxed_frame_can_copy(notebook: Opening) -> None:
    """Without an error in the console."""
    frame = _inside(notebook())
    frame.evaluate("page.actions.select(page.model.find('body'))")
    copy = frame.get_by_label("Copy the path")
    copy.click()
    path = "document.querySelector('[aria-label=\"Copy the path\"]')"
    _until(frame, f"{path}.innerText === 'Copied' && document.activeElement === {path}")


@pytest.mark.parametrize(
    ("body", "theme"),
    [
        ("<body>", "light"),
        ('<body style="color-scheme: dark">', "dark"),
        ('<body class="vscode-dark">', "dark"),
        ('<body style="color-scheme: dark" class="vscode-light">', "light"),
        ('<body class="vscode-high-contrast">', "dark"),
        ('<body class="vscode-high-contrast vscode-high-contrast-light">', "light"),
        ('<body data-jp-theme-light="false">', "dark"),
        ('<html theme="dark"><body>', "dark"),
    ],
)
def test_has_the_colors_of_the_notebook(notebook: Opening, body: str, theme: str) -> None:
    """Whatever a notebook says them with: the frame's own color scheme is what the page asks."""
    assert _inside(notebook(body)).evaluate("document.documentElement.dataset.theme") == theme


def test_follows_the_notebook_when_it_turns_dark(notebook: Opening) -> None:
    """Without being made anew."""
    seen = notebook('<body data-jp-theme-light="true">')
    frame = _inside(seen)
    seen.page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    frame.evaluate("page.stage.requestDraw()")
    _until(frame, "document.documentElement.dataset.theme === 'dark'")
    paper = "getComputedStyle(document.body).backgroundColor"
    _until(frame, f"{paper} === 'rgb(21, 24, 29)'")


def test_the_wheel_scrolls_the_notebook_until_a_click(notebook: Opening) -> None:
    """Who scrolls past a picture does not get caught in it."""
    seen = notebook()
    frame, scrolled = _inside(seen), "() => window.scrollY"
    before = frame.evaluate("page.stage.view().y")
    seen.page.mouse.move(600, 300)
    seen.page.mouse.wheel(0, 120)
    seen.page.wait_for_function("window.scrollY > 0")
    assert frame.evaluate("page.stage.view().y") == before
    at = seen.page.evaluate(scrolled)
    seen.page.mouse.click(30, 300)
    seen.page.mouse.wheel(0, 40)
    _until(frame, f"page.stage.view().y > {before}")
    assert seen.page.evaluate(scrolled) == at


def test_the_wheel_zooms_where_nothing_else_scrolls(notebook: Opening) -> None:
    """Some programs scroll by scripts of their own, which hear nothing from frames."""
    seen = notebook('<body style="overflow:hidden;height:700px">')
    frame = _inside(seen)
    before = frame.evaluate("page.stage.view().y")
    seen.page.mouse.move(600, 300)
    seen.page.mouse.wheel(0, 40)
    seen.page.wait_for_timeout(400)
    seen.page.mouse.wheel(0, 40)
    _until(frame, f"page.stage.view().y > {before}")


def test_the_figure_is_seen_at_its_size_where_frames_are_stripped(notebook: Opening) -> None:
    """And can be scrolled, if what is left has a height."""
    seen = notebook(change=lambda text: text[: text.index("<iframe")] + "</div>")
    image = seen.page.locator("img").evaluate("each => [each.width, each.naturalWidth]")
    assert image[0] == image[1] > 0
