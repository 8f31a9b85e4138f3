"""A real browser for the tests of the page, and short ways to do in it what people do."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@contextmanager
def browser() -> Iterator[Any]:
    """Headless Chromium; the test is skipped where it or Playwright is missing."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as tools:
        found = tools.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield found
        found.close()


class Visit:
    """One page in a window of its own, and all that it complained of or asked for.

    Attributes:
        page: Playwright's page.
        troubles: Errors, also those of the page's policy.
        requests: Everything that was fetched.
    """

    def __init__(self, program: Any, dark: bool = False, **window: Any) -> None:
        usual = {
            "viewport": {"width": 1200, "height": 800},
            "color_scheme": "dark" if dark else "light",
            "reduced_motion": "reduce",
        }
        self.window = program.new_context(**{**usual, **window})
        self.page = self.window.new_page()
        self.troubles: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", self._on_console)
        self.page.on("dialog", self._asked)
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.troubles.append(message.text)

    def _asked(self, dialog: Any) -> None:
        self.troubles.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, path: Path, hash: str = "") -> Visit:
        """Load a file, and wait until it has drawn."""
        self.page.goto(path.as_uri() + hash)
        self.page.wait_for_selector("[role=treeitem]", state="attached")
        return self

    def titles(self) -> list[str]:
        """The first line of every box that is drawn, in no order that matters."""
        found = self.page.locator("[role=treeitem]").evaluate_all(
            "boxes => boxes.map(box => box.querySelector('text')?.textContent ?? '')"
        )
        return sorted(found)

    def box(self, item: int) -> Any:
        """The element of an item."""
        return self.page.locator(f"#box-{item}")

    def double_click(self, item: int) -> None:
        """On the title of a box."""
        self.box(item).locator("text").first.dblclick(force=True)
        self.settle()

    def panel(self, item: int) -> str:
        """What the panel says after a click on the title of a box."""
        self.box(item).locator("text").first.click(force=True)
        panel = self.page.locator("#panel")
        panel.wait_for()
        return str(panel.inner_text())

    def settle(self) -> None:
        """Wait for two frames."""
        self.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def is_open(self, item: int) -> bool:
        """Whether a box shows what is in it."""
        return bool(self.box(item).get_attribute("aria-expanded") == "true")

    def state(self, name: str) -> Any:
        """Part of the page's own state."""
        return self.page.evaluate(f"page.state.get().{name}")


Visiting = Callable[..., Visit]
"""Opens the page of a recording, which is rendered with any options."""
