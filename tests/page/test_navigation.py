"""Ways through the page: back and forward, by keyboard, along lines, to a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.figures import linear, network
from tests.page.browser import Visit, Visiting
from tests.views.test_fold import stack
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder

pytestmark = pytest.mark.page


def fan(readers: int) -> Recording:
    """One module that many others read."""
    run = Builder("Fan")
    with run.scope("Fan"):
        x = linear(run, "first", run.input("x"))
        for number in range(readers):
            linear(run, f"reader{number}", x)
    return run.recording()


def settled(seen: Visit, condition: str) -> None:
    """Wait until something is true in the page."""
    seen.page.wait_for_function(condition)
    seen.settle()


def test_back_and_forward_go_through_what_was_opened(visit: Visiting) -> None:
    """To the same boxes, in the same place."""
    seen = visit(stack(6))
    start = seen.titles()
    fold = seen.page.evaluate("page.model.openable.find(page.model.isFold)")
    place = seen.page.evaluate("page.stage.view()")
    seen.double_click(fold)
    opened = seen.titles()
    assert opened != start
    seen.page.go_back()
    settled(seen, f"!page.state.get().open.has({fold})")
    assert seen.titles() == start
    seen.page.go_back()
    settled(seen, "page.state.get().selected < 0")
    assert seen.page.evaluate("page.stage.view()") == pytest.approx(place)
    seen.page.go_forward()
    seen.page.go_forward()
    settled(seen, f"page.state.get().open.has({fold})")
    assert seen.titles() == opened


def test_a_reload_shows_the_same(visit: Visiting) -> None:
    """All that matters is in the address."""
    seen = visit(stack(6))
    seen.page.evaluate("page.actions.expandAll()")
    seen.page.evaluate("page.actions.goTo(page.model.find('layers.4'))")
    seen.page.evaluate("page.actions.colorBy('parameters')")
    script = "(({ selected, color, open }) => [selected, color, [...open].sort()])"
    before = seen.page.evaluate(f"{script}(page.state.get())")
    seen.page.reload()
    seen.page.wait_for_selector("[role=treeitem]", state="attached")
    assert seen.page.evaluate(f"{script}(page.state.get())") == before


def test_a_link_to_a_tensor_leads_to_its_line(visit: Visiting) -> None:
    """However far it is from the beginning, also if it is in a closed box."""
    seen = visit(stack(40), depth=1, fold=False)
    seen.page.evaluate("page.actions.goTo(page.model.find('layers.30'))")
    tensor = seen.page.evaluate("page.model.inputs(page.state.get().selected)[0].tensor")
    for tensor in (tensor, tensor - 1):
        seen.page.goto("about:blank")
        seen.page.goto(f"{seen.requests[0]}#tensor={tensor}")
        seen.page.wait_for_selector("[role=treeitem]", state="attached")
        seen.settle()
        assert seen.page.locator("#panel").is_visible()
        ring = seen.page.locator(".ring").last.bounding_box()
        assert 0 < ring["y"] and ring["y"] + ring["height"] < 800


def test_boxes_of_a_type_are_in_the_address(visit: Visiting) -> None:
    """A link shows them, and back and forward clear and show them again."""
    seen = visit(network(), depth=2)
    chip, marked = seen.page.locator("#type"), seen.page.locator(".emphasized")
    seen.page.evaluate("page.actions.highlightType('Linear')")
    seen.settle()
    count = marked.count()
    assert count > 1 and seen.page.url.endswith("#type=Linear")
    seen.page.go_back()
    settled(seen, "page.state.get().type === null")
    assert marked.count() == 0 and chip.is_hidden()
    seen.page.go_forward()
    settled(seen, "page.state.get().type === 'Linear'")
    seen.page.reload()
    seen.page.wait_for_selector("[role=treeitem]", state="attached")
    assert marked.count() == count and "Linear" in chip.inner_text()


def test_the_panel_can_be_reached_and_left_by_keys(visit: Visiting) -> None:
    """Its links lead on, and Escape leads back with the box still selected."""
    seen = visit(network(), depth=2)
    seen.page.locator("#stage").focus()
    for key in ("Tab", "Tab", "p"):
        seen.page.keyboard.press(key)
    assert seen.page.evaluate("document.activeElement.tagName") == "H2"
    seen.page.locator("#panel .link:enabled").first.focus()
    before = seen.state("selected")
    seen.page.keyboard.press("Enter")
    after = seen.state("selected")
    assert after != before and after >= 0
    assert seen.page.evaluate("document.activeElement.tagName") == "H2"
    seen.page.keyboard.press("Escape")
    assert seen.page.evaluate("document.activeElement.id") == "stage"
    assert seen.state("selected") == after


def test_tab_goes_through_every_box_and_then_leaves(visit: Visiting) -> None:
    """No box is missed, and nobody is caught."""
    seen = visit(network(), depth=2)
    count = len(seen.titles())
    seen.page.locator("#stage").focus()
    met = set()
    for _ in range(count):
        seen.page.keyboard.press("Tab")
        met.add(seen.state("selected"))
    assert len(met) == count
    seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("document.activeElement.id") != "stage"


def test_tab_begins_with_what_is_in_sight(visit: Visiting) -> None:
    """The picture does not jump to its beginning, such as after a box is hidden; Home does that."""
    seen = visit(stack(30), depth=1, fold=False)
    seen.page.evaluate("page.actions.goTo(page.model.find('layers.20'))")
    seen.page.evaluate("page.actions.clearSelection()")
    seen.page.locator("#stage").focus()
    for keys in (["Tab"], ["h", "Tab"], ["h", "Shift+Tab"]):
        before = seen.page.evaluate("page.stage.view().y")
        for key in keys:
            seen.page.keyboard.press(key)
        seen.settle()
        item, y = seen.page.evaluate("[page.state.get().selected, page.stage.view().y]")
        height = seen.page.evaluate("page.stage.freeSize().height / page.stage.view().k")
        assert seen.page.evaluate(f"page.model.path({item})").startswith("layers.")
        assert abs(y - before) < height / 4
    seen.page.keyboard.press("Home")
    assert seen.state("selected") == 0


def test_escape_lets_tab_leave(visit: Visiting) -> None:
    """Long pictures need not be walked through."""
    seen = visit(network(), depth=2)
    seen.page.locator("#stage").focus()
    for key in ("Tab", "Escape", "Tab"):
        seen.page.keyboard.press(key)
    assert seen.page.evaluate("document.activeElement.id") != "stage"


def test_what_is_selected_is_announced_to_screen_readers(visit: Visiting) -> None:
    """Name, what stands on it, whether it is open, and how much is in it."""
    seen = visit(network(), depth=1)
    seen.page.evaluate("page.actions.goTo(page.model.find('body'))")
    text = seen.page.locator("#live").inner_text()
    assert text.startswith("body: Sequential, 32 params") and "closed, " in text
    active = seen.page.locator("#stage").get_attribute("aria-activedescendant")
    assert seen.page.locator(f"#{active}").get_attribute("aria-expanded") == "false"


def test_screen_readers_read_boxes_in_the_order_of_the_run(visit: Visiting) -> None:
    """What is in an open box follows it, whatever is drawn above what; one box is selected."""
    seen = visit(network(), depth=1)
    tools = seen.window.new_cdp_session(seen.page)
    tools.send("Accessibility.enable")
    for _ in range(2):
        seen.page.evaluate("page.actions.toggle(page.model.find('body'))")
        seen.settle()
        nodes = {row["nodeId"]: row for row in tools.send("Accessibility.getFullAXTree")["nodes"]}
        read, waiting = [], [next(iter(nodes))]
        while waiting:
            row = nodes.get(waiting.pop(), {})
            waiting += reversed(row.get("childIds", ()))
            if row.get("role", {}).get("value") == "treeitem":
                read.append(row["name"]["value"].split(",")[0])
        assert read == seen.page.evaluate(
            "page.stage.picture().boxes.map(({ item }) => item).sort((a, b) => a - b)"
            ".map(page.model.title)")
        assert seen.page.locator("#stage [aria-selected=true]").count() == 1


def test_a_click_on_a_line_selects_its_tensor(visit: Visiting) -> None:
    """The panel says who made it and who reads it."""
    seen = visit(network(), depth=2)
    x, y = seen.page.evaluate(
        "() => { const { stage } = page, view = stage.view();"
        " for (const { points } of stage.picture().lines) {"
        "   const [[ax, ay], [bx, by]] = points;"
        "   const [px, py] = camera.toScreen(view, (ax + bx) / 2, (ay + by) / 2);"
        "   const box = stage.boxAt(px, py);"
        "   if (!box || box.open) return [px, py]; } }"
    )
    stage = seen.page.locator("#stage").bounding_box()
    seen.page.mouse.click(stage["x"] + x, stage["y"] + y)
    assert seen.state("tensor") >= 0 and seen.state("selected") == -1
    panel = seen.page.locator("#panel")
    panel.wait_for()
    assert "Made by" in panel.inner_text() and "Read by" in panel.inner_text()
    assert seen.page.locator(".related").count() > 0


def test_colors_by_keyboard(visit: Visiting) -> None:
    """The menu opens on what is chosen, and closes to its button."""
    seen = visit(stack(3))
    seen.page.locator("#colors").focus()
    seen.page.keyboard.press("Enter")
    assert seen.page.evaluate("document.activeElement.textContent") == "Kind"
    seen.page.keyboard.press("ArrowDown")
    seen.page.keyboard.press("Enter")
    assert seen.state("color") == seen.page.evaluate("page.model.data.annotations[0].key")
    assert seen.page.locator("#legend").is_visible()
    assert seen.page.evaluate("document.activeElement.id") == "colors"


def test_only_what_is_near_the_window_is_in_the_document(visit: Visiting) -> None:
    """However much is open; and it is the right part."""
    run = Builder("Tall")
    with run.scope("Tall"):
        h = run.input()
        for _ in range(1500):
            h = run.op("add", h)
    seen = visit(run.recording())
    seen.page.evaluate("page.actions.expandAll()")
    seen.settle()
    for move in ("page.stage.zoom(6)", "page.stage.pan(0, -20000)", "page.stage.pan(0, -90)"):
        seen.page.evaluate(move)
        seen.settle()
        assert 0 < seen.page.evaluate("page.stage.scene.count()") < 200
        missing = seen.page.evaluate(
            "() => { const { stage } = page, area = camera.visibleArea(stage.view(), stage.size());"
            " return stage.picture().boxes.filter(box => camera.overlaps(box, area) &&"
            "   !document.getElementById(`box-${box.item}`)).length; }"
        )
        assert missing == 0


def test_every_box_is_drawn_where_the_layout_has_it(visit: Visiting) -> None:
    """After panning and zooming, too."""
    seen = visit(network(), depth=2)
    seen.page.evaluate("page.stage.zoom(1.3)")
    seen.page.evaluate("page.stage.pan(37, -21)")
    seen.settle()
    wrong = seen.page.evaluate(
        "() => { const { stage } = page, view = stage.view();"
        " const { left, top } = document.getElementById('stage').getBoundingClientRect();"
        " return stage.picture().boxes.filter(box => {"
        "   const found = document.getElementById(`box-${box.item}`)?.firstChild;"
        "   if (!found) return false;"
        "   const at = found.getBoundingClientRect();"
        "   const [x, y] = camera.toScreen(view, box.x, box.y);"
        "   return Math.abs(at.x + at.width / 2 - left - x - box.w * view.k / 2) > 4 ||"
        "     Math.abs(at.y + at.height / 2 - top - y - box.h * view.k / 2) > 4; }).length; }"
    )
    assert wrong == 0


def test_the_panel_does_not_cover_what_was_found(visit: Visiting) -> None:
    """Beside the picture or, in a narrow frame, below it."""
    seen = visit(stack(6))
    for width, height in ((1200, 800), (400, 500)):
        seen.page.set_viewport_size({"width": width, "height": height})
        seen.page.evaluate("page.actions.clearSelection()")
        seen.settle()
        seen.page.evaluate("page.actions.goTo(page.model.find('layers.4'))")
        seen.settle()
        item = seen.state("selected")
        box, panel = seen.box(item).bounding_box(), seen.page.locator("#panel").bounding_box()
        beside = box["x"] + box["width"] <= panel["x"] + 1
        above = box["y"] + box["height"] <= panel["y"] + 1
        assert beside or above
        assert box["x"] >= 0 and box["y"] >= 0


def test_the_system_may_turn_dark_meanwhile(visit: Visiting) -> None:
    """The picture and the page follow; a choice of one's own stays."""
    seen = visit(stack(3), color_by="parameters")
    fill = "document.querySelector('.boxes .box path').getAttribute('fill')"
    paper = "getComputedStyle(document.body).backgroundColor"
    light = seen.page.evaluate(f"[{fill}, {paper}]")
    seen.page.emulate_media(color_scheme="dark")
    seen.settle()
    dark = seen.page.evaluate(f"[{fill}, {paper}]")
    assert all(one != other for one, other in zip(light, dark))
    seen.page.locator("#theme").click()
    seen.settle()
    assert seen.page.evaluate(f"[{fill}, {paper}]") == light
    seen.page.emulate_media(color_scheme="light")
    seen.page.emulate_media(color_scheme="dark")
    seen.settle()
    assert seen.page.evaluate(f"[{fill}, {paper}]") == light


def test_the_panel_names_the_boxes_that_are_seen(visit: Visiting) -> None:
    """Neighbors in closed boxes are those boxes, each once; going to one opens nothing."""
    seen = visit(network(), depth=1)
    skip = seen.page.evaluate("page.model.find('skip')")
    seen.panel(seen.page.evaluate("page.model.find('body')"))
    boxes = seen.page.locator("#panel .link b")
    assert boxes.all_inner_texts() == ["x", "+"]
    before = seen.titles()
    seen.page.evaluate(f"page.actions.goTo({skip})")
    assert boxes.all_inner_texts() == ["x", "+"]
    seen.page.evaluate("page.actions.goTo(page.model.inputs(page.model.find('skip'))[0].item)")
    assert boxes.all_inner_texts() == ["body: Sequential", "skip: Identity"]
    boxes.first.click()
    seen.settle()
    assert seen.titles() == before
    assert seen.state("selected") == seen.page.evaluate("page.model.find('body')")
    seen.double_click(seen.state("selected"))
    seen.page.evaluate("page.actions.goTo(page.model.inputs(page.model.find('skip'))[0].item)")
    assert boxes.first.inner_text() == "0: Linear"


def test_many_tensors_of_one_neighbor_are_one_link(visit: Visiting) -> None:
    """With their number; of a few, each is named."""
    run = Builder("Wide")
    with run.scope("Wide"):
        x = run.input("x")
        with run.scope("made", "Split"):
            tensors = [run.op("chunk", x) for _ in range(7)]
        with run.scope("few", "Some"):
            run.op("add", *tensors[:2])
        with run.scope("many", "All"):
            run.op("cat", *tensors)
    seen = visit(run.recording(), depth=1)
    for name, texts in [("few", ["2×4 float32"] * 2), ("many", ["7 tensors"])]:
        seen.page.evaluate(f"page.actions.goTo(page.model.find('{name}'))")
        assert seen.page.locator("#panel .link small").all_inner_texts()[: len(texts)] == texts
        assert seen.page.locator("#panel .link b").all_inner_texts()[: len(texts)] == [
            "made: Split"] * len(texts)


def test_a_large_name_is_not_written_over_the_small_one(visit: Visiting) -> None:
    """Far away, an open box has the name in its corner once, at a size that can be read."""
    seen = visit(network(), depth=2)
    own = seen.page.locator("#box-1 text, #box-0 text").first
    assert own.is_visible()
    seen.page.evaluate("page.stage.zoom(0.35)")
    seen.page.wait_for_selector(".zoom-label", state="attached")
    on = seen.page.locator(".box.labeled")
    for number in range(on.count()):
        assert not on.nth(number).locator("text").first.is_visible()
    assert on.count()
    seen.page.evaluate("page.stage.zoom(3)")
    seen.settle()
    assert on.count() == 0 and own.is_visible()


@pytest.mark.parametrize("target", [
    "#breadcrumbs button", "#left-out", "#type", "#side-close", "#costs-head .number",
    "#panel .more",
])
def test_the_focus_is_never_lost(visit: Visiting, target: str) -> None:
    """Buttons that disappear hand it on, those that are made again keep it."""
    seen = visit(fan(20), depth=1, fold=False)
    seen.page.evaluate("page.actions.hide(5); page.actions.highlightType('Linear')")
    seen.page.evaluate("page.actions.goTo(page.model.find('first'))")
    seen.page.evaluate("page.state.set({ side: 'costs' })")
    seen.page.locator(target).first.focus()
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_timeout(150)
    assert seen.page.evaluate("document.activeElement !== document.body")


@pytest.mark.parametrize("hand", ["mouse", "finger"])
def test_the_ring_of_the_focus_is_for_keys(program: Any, tmp_path: Path, hand: str) -> None:
    """A click beside all boxes gives the focus to the picture, without a frame around all of it."""
    path = network().render(tmp_path / "page.html", depth=2)
    seen = Visit(program, has_touch=hand == "finger").open(path)
    click = seen.page.mouse.click if hand == "mouse" else seen.page.touchscreen.tap
    ring = "getComputedStyle(document.getElementById('stage')).boxShadow !== 'none'"
    click(40, 700)
    seen.settle()
    assert seen.page.evaluate("document.activeElement.id") == "stage"
    assert seen.state("selected") < 0 and not seen.page.evaluate(ring)
    seen.page.keyboard.press("Tab")
    assert seen.state("selected") >= 0
    seen.page.keyboard.press("Escape")
    assert seen.page.evaluate(ring)
    assert seen.troubles == []
    seen.window.close()
