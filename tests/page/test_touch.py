"""Fingers on the page: taps, and one that rests or moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.figures import network
from tests.page.browser import Visit
from tests.page.test_navigation import settled

pytestmark = pytest.mark.page


def touch(seen: Visit, x: float, y: float, wait: int) -> None:
    """Put a finger down, and lift it after some milliseconds."""
    wire = seen.window.new_cdp_session(seen.page)
    finger = {"x": x, "y": y}
    wire.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [finger]})
    seen.page.wait_for_timeout(wait)
    wire.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_touch_opens_boxes_and_menus(program: Any, tmp_path: Path) -> None:
    """Two taps nearby open a box, and a finger that rests brings the menu of the box below it."""
    path = network().render(tmp_path / "page.html", depth=1)
    seen = Visit(program, has_touch=True, viewport={"width": 390, "height": 844}).open(path)
    item = seen.page.evaluate("page.model.find('body')")
    place = seen.box(item).bounding_box()
    x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
    touch(seen, x, y, 700)
    menu = seen.page.locator(".menu")
    assert menu.locator(".menu-title").first.inner_text() == "body: Sequential"
    assert seen.state("selected") == item and not seen.is_open(item)
    seen.page.keyboard.press("Escape")
    touch(seen, x - 8, y, 20)
    touch(seen, x + 8, y + 4, 20)
    settled(seen, f"page.state.get().open.has({item})")
    assert seen.troubles == []
    seen.window.close()


def test_a_finger_that_is_lifted_chooses_nothing(program: Any, tmp_path: Path) -> None:
    """From the menu that it brought; at the end of the window, the menu is below the finger."""
    path = network().render(tmp_path / "page.html", depth=1)
    seen = Visit(program, has_touch=True, viewport={"width": 390, "height": 600}).open(path)
    touch(seen, 200, 560, 700)
    seen.page.wait_for_timeout(100)
    menu = seen.page.locator(".menu")
    x, y, w, h = menu.bounding_box().values()
    assert x <= 200 <= x + w and y <= 560 <= y + h and seen.page.evaluate(
        "document.elementFromPoint(200, 560).closest('button') !== null")
    touch(seen, 200, 560, 20)
    assert menu.count() == 0
    assert seen.troubles == []
    seen.window.close()


def test_a_finger_that_moves_opens_no_menu(program: Any, tmp_path: Path) -> None:
    """It moves the picture."""
    path = network().render(tmp_path / "page.html", depth=1)
    seen = Visit(program, has_touch=True).open(path)
    wire = seen.window.new_cdp_session(seen.page)
    before = seen.page.evaluate("page.stage.view().y")
    for kind, points in [("touchStart", [(600, 400)]), ("touchMove", [(600, 340)]),
                         ("touchMove", [(600, 300)])]:
        wire.send("Input.dispatchTouchEvent",
                  {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]})
    seen.page.wait_for_timeout(700)
    wire.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert seen.page.locator(".menu").count() == 0
    assert seen.page.evaluate("page.stage.view().y") > before
    seen.window.close()
