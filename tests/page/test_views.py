"""What of the picture the window shows: at first, and after a box opens or the flow turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.figures import network
from tests.page.browser import Visit, Visiting
from tests.views.test_fold import stack
from torchrecorder.events import ValueId
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder

pytestmark = pytest.mark.page

CRUMBS = "#breadcrumbs button"


def nested(depth: int, ops: int, before: int = 8) -> Recording:
    """Operations, then modules in modules with so many operations in the innermost."""
    run = Builder("Net")

    def inside(level: int, h: ValueId) -> ValueId:
        if level == depth:
            for _ in range(ops):
                h = run.op("add", h)
            return h
        with run.scope("inner", "Inner"):
            return run.op("mul", inside(level + 1, h))

    with run.scope("Net"):
        h = run.input()
        for _ in range(before):
            h = run.op("neg", h)
        inside(0, h)
    return run.recording()


def frame(seen: Visit, item: int) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a box, in pixels of the stage."""
    left, top, right, bottom = seen.page.evaluate(
        "item => { const { stage } = page, box = stage.frame(item), view = stage.view();"
        " return [...camera.toScreen(view, box.x, box.y),"
        "   ...camera.toScreen(view, box.x + box.w, box.y + box.h)]; }", item)
    return left, top, right, bottom


def find(seen: Visit, path: str) -> int:
    """The item of a path."""
    return int(seen.page.evaluate("path => page.model.find(path)", path))


def test_fit_shows_all_however_tall(visit: Visiting) -> None:
    """Also what is a thread then."""
    seen = visit(nested(1, 900))
    seen.page.evaluate("page.actions.expandAll()")
    seen.page.evaluate("page.stage.zoom(2)")
    seen.page.locator("#stage").focus()
    seen.page.keyboard.press("f")
    seen.settle()
    inside = seen.page.evaluate(
        "(() => { const { stage } = page, { width, height } = stage.picture();"
        " const [x, y] = camera.toScreen(stage.view(), 0, 0), { k } = stage.view();"
        " return [x, y, stage.size().width - x - width * k, stage.size().height - y - height * k];"
        " })()")
    assert min(inside) >= 0


@pytest.mark.parametrize("ops, fits", [(3, True), (60, False)])
def test_what_opens_near_the_edge_comes_into_sight(
    visit: Visiting, ops: int, fits: bool
) -> None:
    """All of it if there is space, otherwise its beginning, and no more than needed."""
    seen = visit(nested(1, ops), depth=1, fold=False)
    item = find(seen, "inner")
    below = seen.page.evaluate("page.stage.freeSize().height") - frame(seen, item)[1] - 25
    seen.page.evaluate(f"page.stage.pan(0, {below})")
    seen.settle()
    seen.double_click(item)
    seen.page.evaluate("page.state.set({ selected: -1 })")
    _, top, _, bottom = frame(seen, item)
    height = seen.page.evaluate("page.stage.freeSize().height")
    assert 0 < top and (bottom - top < height) == fits
    if fits:
        assert height - 40 < bottom < height
    else:
        assert top < 40


@pytest.mark.parametrize("height", range(400, 901, 100))
def test_the_first_view_can_be_read(program: Any, tmp_path: Path, height: int) -> None:
    """All of it only if its small text has 8 pixels then."""
    path = network().render(tmp_path / "page.html", depth=2)
    seen = Visit(program, viewport={"width": 900, "height": height}).open(path)
    shown, all_of_it, small = seen.page.evaluate(
        "[page.stage.view().k, camera.fitted({ x: 0, y: 0, w: page.stage.picture().width,"
        " h: page.stage.picture().height }, page.stage.freeSize()).k,"
        " shapes.fontSize(2, page.model.data.fontsize)]")
    assert shown == all_of_it if all_of_it * small >= 8 else shown * small >= 8
    seen.window.close()


def test_a_turned_picture_shows_the_same_box_at_the_same_scale(visit: Visiting) -> None:
    """The selected one in the middle, or the one that was there; at first, the beginning again."""
    seen = visit(stack(6), depth=1)
    turn = "page.actions.setDirection(page.state.get().direction === 'TB' ? 'LR' : 'TB')"
    seen.page.evaluate(turn)
    assert min(frame(seen, 0)) > 0
    item = find(seen, "layers.4")
    seen.page.evaluate(f"page.actions.goTo({item})")
    seen.page.evaluate("page.stage.zoom(0.9)")
    seen.settle()
    for select in (True, False):
        if not select:
            seen.page.evaluate("page.actions.clearSelection()")
        scale = seen.page.evaluate("page.stage.view().k")
        seen.page.evaluate(turn)
        seen.settle()
        left, top, right, bottom = frame(seen, item)
        room = seen.page.evaluate("page.stage.freeSize()")
        assert seen.page.evaluate("page.stage.view().k") == pytest.approx(scale)
        assert abs((left + right - room["width"]) / 2) < 130
        assert abs((top + bottom - room["height"]) / 2) < 130


def test_at_first_the_path_is_that_of_the_whole(visit: Visiting) -> None:
    """Then of what is selected, or of what is around the window."""
    seen = visit(nested(3, 60, before=0), fold=False)
    seen.page.evaluate("page.actions.expandAll()")
    seen.page.evaluate("page.stage.showBeginning()")
    seen.page.reload()
    seen.page.wait_for_timeout(150)
    assert seen.page.locator(CRUMBS).all_inner_texts() == ["Net"]
    seen.page.evaluate(f"page.actions.select({find(seen, 'inner')})")
    assert seen.page.locator(CRUMBS).all_inner_texts() == ["Net", "inner"]
    seen.page.evaluate("page.actions.clearSelection(); page.stage.pan(0, -900)")
    seen.page.wait_for_timeout(150)
    assert seen.page.locator(CRUMBS).all_inner_texts() == ["Net", "inner", "inner", "inner"]


@pytest.mark.parametrize("width, texts", [
    (1200, ["Network of many names", "body", "of all layers", "the middle", "the end"]),
    (640, ["Network of many names", "…", "the end"]),
    (390, ["…", "the end"]),
])
def test_a_path_without_space_has_its_end(
    program: Any, tmp_path: Path, width: int, texts: list[str]
) -> None:
    """Those that are left out are in a menu."""
    run = Builder("Network of many names")
    with run.scope("Network of many names"), run.scope("body", "Body"):
        with run.scope("of all layers", "Layers"), run.scope("the middle", "Middle"):
            with run.scope("the end", "End"):
                run.op("add", run.input())
    path = run.recording().render(tmp_path / "page.html")
    seen = Visit(program, viewport={"width": width, "height": 700}).open(path)
    item = find(seen, "body.of all layers.the middle.the end")
    seen.page.evaluate(f"page.actions.goTo({item})")
    crumbs = seen.page.locator(CRUMBS)
    crumbs.nth(1).wait_for()
    assert crumbs.all_inner_texts() == texts
    assert crumbs.evaluate_all("all => all.every(each => each.scrollWidth <= each.clientWidth)")
    if "…" in texts:
        crumbs.get_by_text("…").click()
        seen.page.locator(".menu button", has_text="the middle").click()
        assert seen.state("selected") == find(seen, "body.of all layers.the middle")
    assert seen.troubles == []
    seen.window.close()


def test_back_closes_a_menu(visit: Visiting) -> None:
    """It belongs to what was shown."""
    seen = visit(stack(4))
    seen.page.evaluate("page.actions.goTo(page.model.find('layers.1'))")
    seen.page.locator("#stage").focus()
    seen.page.keyboard.press("s")
    seen.page.locator(".menu").wait_for()
    seen.page.go_back()
    seen.page.wait_for_function("page.state.get().selected < 0")
    assert seen.page.locator(".menu").count() == 0
    assert seen.page.evaluate("document.activeElement.id") == "stage"


@pytest.mark.parametrize("count, moves", [(40, True), (1600, False)])
def test_very_many_boxes_do_not_move(
    program: Any, tmp_path: Path, count: int, moves: bool
) -> None:
    """When a box with all of them in sight closes: each picture between would take too long."""
    run = Builder("Wide")
    with run.scope("Wide"), run.scope("inner", "Inner"):
        x = run.input()
        for _ in range(count):
            run.op("add", x)
    path = run.recording().render(tmp_path / "page.html", depth=9, fold=False)
    seen = Visit(program, reduced_motion="no-preference").open(path)
    assert seen.page.evaluate("page.stage.picture().boxes.length") > count
    moved = seen.page.evaluate(
        "async () => { page.stage.fit();"
        " while (page.stage.isMoving()) await new Promise(requestAnimationFrame);"
        " page.actions.collapseAll(); return page.stage.isMoving(); }")
    assert moved == moves
    assert seen.troubles == []
    seen.window.close()


@pytest.mark.parametrize("ops", [6, 60])
def test_colors_leave_in_sight_what_was(visit: Visiting, ops: int) -> None:
    """All of a picture of which all was visible, and the beginning of one that is at it."""
    seen = visit(nested(0, 0, before=ops), fold=False)
    whole = (
        "camera.contains(camera.visibleArea(page.stage.view(), page.stage.freeSize()),"
        " { x: 0, y: 0, w: page.stage.picture().width, h: page.stage.picture().height })"
    )
    for key in ("output_bytes", None, "output_bytes"):
        height = seen.page.evaluate("page.stage.picture().height")
        seen.page.evaluate("key => page.actions.colorBy(key)", key)
        seen.settle()
        assert seen.page.evaluate("page.stage.picture().height") != height
        assert seen.page.evaluate(whole) == (ops == 6)
        assert frame(seen, 0)[1] > 0


def test_a_line_that_was_clicked_is_beside_the_panel(program: Any, tmp_path: Path) -> None:
    """Where it was clicked."""
    path = network().render(tmp_path / "page.html", depth=2)
    seen = Visit(program, viewport={"width": 600, "height": 420}).open(path)
    line = "page.stage.picture().lines.find(({ tail }) => tail === 0)"
    _, (x, y) = seen.page.evaluate(f"{line}.points.slice(0, 2)")
    px, py = seen.page.evaluate(f"camera.toScreen(page.stage.view(), {x}, {y - 6})")
    box = seen.page.locator("#stage").bounding_box()
    assert box is not None
    seen.page.mouse.click(box["x"] + px, box["y"] + py)
    seen.page.locator("#panel").wait_for()
    seen.settle()
    assert seen.state("tensor") >= 0
    now, width = seen.page.evaluate(
        f"[camera.toScreen(page.stage.view(), {x}, {y})[0], page.stage.freeSize().width]")
    assert px > width > now > 0
    assert seen.troubles == []
    seen.window.close()
