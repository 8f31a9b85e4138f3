"""Whether text in the page can be read: its contrast, and what is cut or covered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.figures import linear
from tests.page.browser import Visit
from tests.views.test_fold import stack
from torchrecorder.testing import Builder

pytestmark = pytest.mark.page

FAINT = """() => {
  const numbers = text => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const over = (top, below, opacity = top[3] ?? 1) =>
    below.map((part, at) => opacity * top[at] + (1 - opacity) * part);
  const hex = rgb => "#" + rgb.map(part => Math.round(part).toString(16).padStart(2, "0")).join("");
  const covers = color => numbers(color).length === 3 || numbers(color)[3] > 0;
  function under(element) {
    const around = [];
    for (let at = element; at; at = at.parentElement) {
      around.unshift(getComputedStyle(at).backgroundColor);
    }
    return around.filter(covers).reduce((below, top) => over(numbers(top), below), [255, 255, 255]);
  }
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const element = node.parentElement, style = getComputedStyle(element);
    const isBox = element.matches(".box text");
    const isShown = element.checkVisibility() && (isBox || !element.closest("svg, script"));
    if (!isShown || !node.textContent.trim()) continue;
    let below = under(element);
    const face = isBox && getComputedStyle(element.closest(".box").querySelector("path")).fill;
    if (face && covers(face)) below = over(numbers(face), below);
    const ink = isBox ? over(numbers(style.fill), below, Number(style.fillOpacity))
      : over(numbers(style.color), below);
    const contrast = color.contrast(hex(ink), hex(below));
    if (contrast < 4.5) found.push(`${node.textContent.trim()}: ${contrast.toFixed(2)}`);
  }
  return found;
}"""
"""Texts in sight with less contrast than anybody can read (WCAG AA), as far as they have any."""


@pytest.fixture(params=["light", "dark"])
def seen(program: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """The page of blocks that repeat, in a theme."""
    path = stack(6).render(tmp_path / "page.html", depth=3)
    visit = Visit(program, dark=request.param == "dark").open(path)
    yield visit
    assert visit.troubles == []
    visit.window.close()


def faint(seen: Visit) -> list[str]:
    """Texts in sight that have too little contrast."""
    seen.settle()
    return list(seen.page.evaluate(FAINT))


def test_texts_of_bars_and_boxes_have_contrast(seen: Visit) -> None:
    """Also in the panel, the tree and the costs, with a row chosen in each."""
    assert faint(seen) == []
    seen.page.evaluate("page.actions.goTo(page.model.find('layers.0'))")
    for side in ("tree", "costs"):
        seen.page.evaluate(f"page.state.set({{ side: '{side}' }})")
        assert faint(seen) == []


def test_texts_in_dialogs_and_menus_have_contrast(seen: Visit) -> None:
    """The finder with hits and with its hint, the help, and a menu with titles."""
    seen.page.click("#find")
    assert faint(seen) == []
    seen.page.fill("#query", "l")
    assert faint(seen) == []
    seen.page.keyboard.press("Escape")
    for button in ("#help", "#save"):
        seen.page.click(button)
        assert faint(seen) == []
        seen.page.keyboard.press("Escape")


def test_texts_on_every_color_of_a_scale_have_contrast(seen: Visit) -> None:
    """Small print on boxes that are colored by a number, and the legend."""
    seen.page.evaluate("page.actions.expandAll()")
    for share in range(0, 101, 10):
        seen.page.evaluate(
            "share => { const annotation = page.model.data.annotations[0];"
            " annotation.sum = false; annotation.log = false;"
            " annotation.values = annotation.values.map((_, item) => item % 2 ? share : 50 * item);"
            " page.model.data.color_range = [0, 100]; page.model.data.color_by = annotation.key;"
            " page.actions.colorBy(null);"
            " page.actions.colorBy(annotation.key); }", share)
        seen.page.evaluate("page.stage.showBeginning()")
        assert faint(seen) == [], share


OUTSIDE = """() => [...document.querySelectorAll(
    ".breadcrumbs button, .chips button, .tools button")]
  .filter(button => button.checkVisibility()).filter(button => {
    const { left, right } = button.getBoundingClientRect(), around = button.closest("nav, div");
    const room = around.getBoundingClientRect();
    return left < room.left - 7 || right > room.right + 1 || right > innerWidth;
  }).map(button => button.textContent)"""
"""Buttons of the bar of which a part is cut off; names that end in dots are not."""


@pytest.mark.parametrize("width", [390, 700, 1050, 1250])
def test_the_bar_fits_into_every_window(program: Any, tmp_path: Path, width: int) -> None:
    """Long names end in dots; what ends a selection, and where a run failed, can be read."""
    name = "TransformerForSequenceClassificationWithPooling"
    run = Builder(name)
    with pytest.raises(RuntimeError), run.scope(name):
        x = run.input("x")
        for layer in ("encoder_of_images", "decoder_of_sequences"):
            with run.scope(layer, "Layer"):
                linear(run, "projection_of_queries", x)
        run.op("matmul", run.input("y"))
        run.fail("ValueError", "shapes do not fit")
        raise RuntimeError
    path = run.recording().render(tmp_path / "page.html")
    seen = Visit(program, viewport={"width": width, "height": 800}).open(path)
    for act in ("select(-1)", "isolate(page.model.find('decoder_of_sequences'))",
                "highlightType('Linear')", "hide(page.model.find('encoder_of_images'))"):
        seen.page.evaluate(f"page.actions.{act}")
        seen.settle()
        seen.page.wait_for_timeout(120)
        assert seen.page.evaluate(OUTSIDE) == []
    for chip in ("#left-out", "#type", "#failure"):
        assert seen.page.locator(chip).evaluate("chip => chip.scrollWidth <= chip.clientWidth")
    assert seen.troubles == []
    seen.window.close()


def test_the_chosen_entry_of_a_menu_has_a_ring(seen: Visit) -> None:
    """For those who walk by keys; its background differs too little."""
    seen.page.locator("#levels").focus()
    for key in ("Enter", "ArrowDown"):
        seen.page.keyboard.press(key)
        style = seen.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert style == "solid"


def test_targets_are_large_enough(seen: Visit) -> None:
    """At least 24 pixels either way (WCAG 2.5.8), in the panel and the costs as well."""
    seen.page.evaluate("page.actions.goTo(page.model.find('layers.0'))")
    seen.page.evaluate("page.state.set({ side: 'costs' })")
    small = seen.page.evaluate(
        "() => [...document.querySelectorAll('button, select')]"
        " .filter(each => each.checkVisibility()).map(each => [each, each.getBoundingClientRect()])"
        " .filter(([, { width, height }]) => width < 24 || height < 24)"
        " .map(([each, { width, height }]) => `${each.textContent} ${width} ${height}`)")
    assert small == []


def test_names_beside_small_boxes_end_before_the_panel(seen: Visit) -> None:
    """Far away, where they stand to the right of the picture; also once the panel appears later."""
    seen.page.set_viewport_size({"width": 900, "height": 800})
    for act in ("actions.expandAll()", "stage.fit()", "stage.zoom(0.4)", "stage.pan(230, 0)"):
        seen.page.evaluate(f"page.{act}")
    labels = seen.page.locator(".zoom-label")
    labels.first.wait_for(state="attached")
    seen.page.evaluate("page.actions.select(page.model.find('layers.1'), { by: 'pointer' })")
    seen.page.locator("#panel").wait_for()
    left = seen.page.evaluate("innerWidth - document.querySelector('#panel').offsetWidth")
    seen.settle()
    ends = [box["x"] + box["width"] for box in (
        labels.nth(number).bounding_box() for number in range(labels.count()))]
    assert any(left - 60 < end for end in ends) and all(end <= left for end in ends)


def test_no_corner_covers_what_is_selected(program: Any, tmp_path: Path) -> None:
    """In narrow windows the legend gives way to the panel; both would leave no place."""
    path = stack(6).render(tmp_path / "page.html", color_by="parameters", fold=False)
    seen = Visit(program, viewport={"width": 700, "height": 500}).open(path)
    assert seen.page.locator("#legend").is_visible()
    seen.page.evaluate("page.actions.expandAll()")
    seen.page.evaluate("page.stage.showBeginning()")
    seen.page.locator("#stage").focus()
    for _ in range(len(seen.page.evaluate("page.stage.picture().boxes"))):
        seen.page.keyboard.press("Tab")
        seen.settle()
        x, y, w, h = seen.box(seen.state("selected")).locator("text").first.bounding_box().values()
        assert seen.page.evaluate(
            "([x, y]) => document.elementFromPoint(x, y).closest('#stage') !== null",
            [x + w / 2, y + h / 2])
    assert seen.troubles == []
    seen.window.close()


def test_names_of_wide_pictures_stand_below_them(program: Any, tmp_path: Path) -> None:
    """In rows, each at the beginning of its box, where there is nothing to its right."""
    path = stack(16).render(tmp_path / "page.html", depth=1, direction="LR", fold=False)
    seen = Visit(program).open(path)
    seen.page.evaluate("page.actions.expandAll()")
    seen.page.evaluate("page.stage.fit()")
    labels = seen.page.locator(".zoom-label")
    labels.first.wait_for(state="attached")
    named = {label.text_content(): label.bounding_box() for label in labels.all()}
    frames = seen.page.evaluate(
        "() => Object.fromEntries(page.stage.picture().boxes.filter(box => box.open).map(box =>"
        " { const { x, y, width, height } = document.querySelector(`#box-${box.item} path`)"
        "   .getBoundingClientRect(); return [page.model.title(box.item), [x, y + height]]; }))")
    below = [title for title, place in named.items() if place["y"] > frames[title][1]]
    assert len(below) > 3
    for title in below:
        assert named[title]["x"] == pytest.approx(frames[title][0], abs=4)
    areas = [(at["x"], at["y"], at["x"] + at["width"]) for at in named.values()]
    for number, (left, top, right) in enumerate(areas):
        for x, y, end in areas[:number]:
            assert abs(top - y) > 10 or left >= end or x >= right
    assert seen.troubles == []
    seen.window.close()


def test_no_number_of_the_costs_is_cut(program: Any, tmp_path: Path) -> None:
    """Those of large models have ten digits and more."""
    run = Builder("Large")
    with run.scope("Large"):
        run.op("matmul", run.input(), run.parameter("weight", (500_000, 400_000)))
    path = run.recording().render(tmp_path / "page.html")
    seen = Visit(program).open(path, "#side=costs")
    cells = seen.page.locator("#costs .number")
    assert "200,000,000,000" in cells.all_inner_texts()
    assert cells.evaluate_all(
        "cells => cells.filter(cell => cell.scrollWidth > cell.clientWidth)") == []
    ends = seen.page.locator("#costs .row, #costs-head").evaluate_all(
        "rows => rows.map(row =>"
        " [...row.children].map(each => each.getBoundingClientRect().right))")
    assert len({tuple(map(round, each)) for each in ends}) == 1
    assert seen.troubles == []
    seen.window.close()


@pytest.mark.parametrize("width, height", [(1200, 800), (390, 844), (640, 360), (320, 256)])
def test_the_legend_can_be_closed(program: Any, tmp_path: Path, width: int, height: int) -> None:
    """In small windows, such as those of a large zoom, it is so at first; paper shows all of it."""
    path = stack(6).render(tmp_path / "page.html", color_by="parameters")
    seen = Visit(program, viewport={"width": width, "height": height}).open(path)
    title, ramp = seen.page.locator("#legend summary"), seen.page.locator("#legend .ramp")
    assert title.inner_text() == "Params" and ramp.is_visible() == (width > 1000)
    if ramp.is_visible():
        title.click()
    x, y, w, h = seen.page.locator("#legend").bounding_box().values()
    assert w < 150 and 24 <= h < 40 and x + w <= seen.page.locator(".zoom").bounding_box()["x"]
    seen.page.evaluate("page.actions.colorBy('parameter_bytes')")
    assert title.inner_text() == "Params size" and not ramp.is_visible()
    assert seen.page.evaluate("document.activeElement.localName") in ("summary", "body")
    seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert seen.page.locator(".sheet #legend").get_attribute("open") is not None
    seen.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not ramp.is_visible()
    title.focus()
    seen.page.keyboard.press("Enter")
    assert ramp.is_visible() and seen.page.evaluate("document.activeElement.localName") == "summary"
    assert seen.troubles == []
    seen.window.close()


def test_numbers_of_the_legend_stand_on_one_line(seen: Visit) -> None:
    """However long they are."""
    seen.page.evaluate("page.actions.colorBy('parameters')")
    ends = seen.page.locator("#legend .ends span")
    ends.last.evaluate("end => { end.textContent = '98.8 MFLOP'; }")
    ends.nth(1).evaluate("middle => { middle.textContent = '49.4 MFLOP'; }")
    assert ends.last.bounding_box()["height"] < 24
    seen.page.set_viewport_size({"width": 340, "height": 600})
    top = seen.page.locator(".zoom").bounding_box()["y"]
    legend = seen.page.locator("#legend").bounding_box()
    assert legend["y"] + legend["height"] <= top and legend["x"] + legend["width"] <= 340


def test_forced_colors_leave_what_colors_say(program: Any, tmp_path: Path) -> None:
    """The cross that closes, the row that is selected, and the color of each kind."""
    path = stack(6).render(tmp_path / "page.html", depth=3)
    seen = Visit(program, forced_colors="active").open(path, "#scope=layers.0&side=tree")
    style = ("([name, part, key]) => getComputedStyle(document.querySelector(name), part)[key]")
    panel = seen.page.evaluate(style, ["#panel", None, "backgroundColor"])
    assert seen.page.evaluate(style, ["#panel .close", "::before", "backgroundColor"]) != panel
    assert seen.page.evaluate(
        style, ["#tree [aria-selected=true]", None, "outlineStyle"]) == "solid"
    assert seen.page.evaluate(style, ["#tree .dot", None, "backgroundColor"]) != panel
    assert seen.troubles == []
    seen.window.close()
