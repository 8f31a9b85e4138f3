"""Beside the picture: modules and costs; and boxes that are of one type, or equal."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch

import torchrecorder
from tests.figures import linear, network
from tests.page.browser import Visit, Visiting
from tests.views.test_fold import stack
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder

pytestmark = pytest.mark.page


def deep(layers: int) -> Recording:
    """Many layers of a few operations each, of which no two folds are made."""
    run = Builder("Deep")
    with run.scope("Deep"):
        h = run.input()
        for layer in range(layers):
            with run.scope(f"layers.{layer}", f"Layer{layer % 7}"):
                h = run.op("add", h, run.parameter(f"layers.{layer}.w", (layer + 1,)))
    return run.recording()


def find(seen: Visit, path: str) -> int:
    """The item of a path."""
    return int(seen.page.evaluate("path => page.model.find(path)", path))


def rows(seen: Visit, place: str) -> list[str]:
    """What stands in the rows of a list that are in the document, from top to bottom."""
    found = seen.page.locator(f"#{place} .row").evaluate_all(
        "rows => rows.map(row => [parseFloat(row.style.top), row.innerText])"
    )
    return [text for _, text in sorted(found)]


def test_tree_table_and_picture_select_together(visit: Visiting) -> None:
    """A click in one is a selection in all."""
    seen = visit(network(), depth=1)
    seen.page.locator("#outline").click()
    assert any("body" in row for row in rows(seen, "tree"))
    seen.page.locator("#tree .row", has_text="body").first.click()
    body = find(seen, "body")
    assert seen.state("selected") == body
    assert seen.page.locator(f"#tree-{body}").get_attribute("aria-selected") == "true"
    seen.page.locator("#tab-costs").click()
    assert seen.page.locator(f"#cost-{body}").get_attribute("aria-selected") == "true"
    inner = find(seen, "body.0")
    seen.page.locator(f"#cost-{inner}").click()
    assert seen.state("selected") == inner and seen.box(inner).count() == 1
    seen.page.locator("#tab-tree").click()
    assert seen.page.locator(f"#tree-{inner}").get_attribute("aria-selected") == "true"
    seen.box(body).locator("text").first.click(force=True)
    assert seen.page.locator(f"#tree-{body}").get_attribute("aria-selected") == "true"


def test_the_tree_can_be_walked_by_keys(visit: Visiting) -> None:
    """Down and up, in and out; Enter expands the box in the picture."""
    seen = visit(network(), depth=1)
    seen.page.locator("#stage").focus()
    seen.page.keyboard.press("o")
    assert seen.page.evaluate("document.activeElement.id") == "tree"
    seen.page.keyboard.press("Home")
    while seen.state("selected") != find(seen, "body"):
        seen.page.keyboard.press("ArrowDown")
    assert seen.page.evaluate("document.activeElement.id") == "tree"
    seen.page.keyboard.press("Enter")
    assert seen.state(f"open.has({find(seen, 'body')})")
    seen.page.keyboard.press("ArrowRight")
    seen.page.keyboard.press("ArrowRight")
    assert seen.state("selected") == find(seen, "body.0")
    seen.page.keyboard.press("o")
    assert seen.page.locator("#side").is_hidden()


def test_siblings_of_a_fold_are_rows_of_the_tree(visit: Visiting) -> None:
    """A click on one shows it in the fold."""
    seen = visit(stack(6), hash="#side=tree")
    seen.page.locator("#tree .row .expander:not(.none)").last.click()
    assert sum("Block" in row for row in rows(seen, "tree")) == 7
    seen.page.locator("#tree .row", has_text="layers.4").last.click()
    seen.settle()
    assert "layers.4: Block" in seen.titles() and "layers.0: Block" not in seen.titles()


def test_costs_are_those_of_the_recording_in_order(visit: Visiting) -> None:
    """The largest first; a click on the title turns the order."""
    recording = deep(30)
    seen = visit(recording, hash="#side=costs")
    expected = [row.name for row in recording.top("parameters", 40)]
    head = seen.page.locator("#costs-head button", has_text="Params").first
    head.click()
    assert head.get_attribute("aria-sort") == "descending"
    names = [row.split()[0] for row in rows(seen, "costs")]
    assert names[0] == "Deep" and names[1:9] == expected[:8]
    head.click()
    assert head.get_attribute("aria-sort") == "ascending"
    names = [row.split()[0] for row in rows(seen, "costs")]
    assert names[:8] == expected[::-1][:8]
    seen.page.locator("#costs-kind").select_option("Types")
    head.click()
    sums: dict[str, int] = {}
    for row in recording.top("parameters", 40):
        kind = f"Layer{int(row.name.split('.')[1]) % 7}"
        sums[kind] = sums.get(kind, 0) + int(row.number)
    largest = max(sums, key=lambda kind: sums[kind])
    shown = [row.replace("\n", " ").replace("\t", " ") for row in rows(seen, "costs")]
    assert any(row.startswith(largest) and f"{sums[largest]:,}" in row for row in shown)


def test_weights_of_several_calls_count_once(visit: Visiting) -> None:
    """In the share of each call of the total, and in the row of a class."""
    model = torch.nn.Linear(4, 4)
    with torchrecorder.Recorder(model) as recorder:
        (model(torch.ones(1, 4)) + model(torch.ones(2, 4))).sum()
    seen = visit(recorder.recording, hash="#side=costs")
    weights = "page.model.data.annotations.find(({ key }) => key === 'parameters')"
    shares = seen.page.evaluate(f"page.model.all.map(item => page.model.shareOf({weights}, item))")
    assert [share for share in shares if share] == [1, 1]
    seen.page.locator("#costs-kind").select_option("Types")
    [row] = [row.split() for row in rows(seen, "costs") if row.startswith("Linear")]
    assert "20" in row and "40" not in row


def test_only_visible_rows_are_in_the_document(visit: Visiting) -> None:
    """However many there are; scrolling brings the others."""
    seen = visit(deep(900), hash="#side=tree", depth=0)
    seen.page.evaluate("page.actions.goTo(page.model.find('layers.700'))")
    seen.settle()
    assert any(row.startswith("layers.700") for row in rows(seen, "tree"))
    assert len(rows(seen, "tree")) < 60
    seen.page.locator("#tab-costs").click()
    assert 20 < len(rows(seen, "costs")) < 60


def test_equal_boxes_are_highlighted_together(visit: Visiting) -> None:
    """Those of which the same was recorded, in the picture and beside it; not all of their type."""
    run = Builder("Twice")
    with run.scope("Twice"):
        h = run.input()
        for number, name in enumerate(["a", "b", "c"]):
            with run.scope(name, "Linear", detail="4, 4" if number < 2 else "4, 5"):
                h = run.op("linear", h)
            h = run.op("relu", h) if number else h
    seen = visit(run.recording(), hash="#side=tree", depth=1, fold=False)
    a, b, c = (find(seen, name) for name in "abc")
    seen.page.evaluate(f"page.actions.goTo({a})")
    assert seen.page.evaluate(f"page.types.equalTo({a})") == [a, b]
    seen.settle()
    rings = seen.page.locator(".ring.equal")
    assert rings.count() == 1
    ring, box = rings.bounding_box(), seen.box(b).bounding_box()
    assert abs(ring["x"] - box["x"]) < 9 and abs(ring["y"] - box["y"]) < 9
    marked = seen.page.locator("#tree .row.equal")
    assert marked.count() == 1 and marked.get_attribute("id") == f"tree-{b}"
    text = seen.page.locator("#panel").inner_text()
    assert "Show all Linear ×3" in text and "1 of them equals this one" in text
    assert not seen.page.evaluate(f"page.types.areEqual({a}, {c})")


def test_all_of_a_type_are_shown(visit: Visiting) -> None:
    """What is around them is opened, everything else is faint, until that is cleared."""
    seen = visit(network(), depth=0)
    seen.page.evaluate("page.actions.highlightType('Linear')")
    seen.page.evaluate("page.stage.fit()")
    seen.settle()
    expected = seen.page.evaluate(
        "() => { const { model } = page, found = [];"
        " for (let item = 0; item < model.count; item++)"
        "   if (model.cls(item) === 'Linear' && !model.isFold(item)) found.push(item);"
        " return found; }"
    )
    lit = seen.page.locator(".box.emphasized").evaluate_all("boxes => boxes.map(box => box.id)")
    assert sorted(lit) == sorted(f"box-{item}" for item in expected) and len(lit) > 1
    assert seen.page.locator("#live").inner_text() == "all Linear highlighted"
    chip = seen.page.locator("#type")
    assert chip.text_content() == f"Linear ×{len(expected)} · Clear"
    chip.click()
    seen.settle()
    assert seen.page.locator(".box.emphasized").count() == 0 and chip.is_hidden()


def test_long_paths_in_costs_are_cut_in_front(visit: Visiting) -> None:
    """Their ends are what is different, and come before the types."""
    run = Builder("Deep")
    with run.scope("Deep"):
        x = run.input("x")
        with run.scope("encoder_of_the_whole_sequence", "Encoder"):
            with run.scope("the_block_with_many_attention_heads", "Block"):
                for name in ("query", "value"):
                    linear(run, name, x)
    seen = visit(run.recording(), hash="#side=costs")
    ends = seen.page.locator("#costs .row > .name").evaluate_all(
        "names => names.map(name => { const text = (name.querySelector('bdi') ?? name).firstChild;"
        " const range = document.createRange(), room = name.getBoundingClientRect();"
        " range.setStart(text, text.length - 4); range.setEnd(text, text.length);"
        " const { left, right } = range.getBoundingClientRect();"
        " return [range.toString(), room.left <= left && right <= room.right + 1]; })")
    assert ["uery", True] in ends and ["alue", True] in ends
    assert all(is_seen for _, is_seen in ends)


def test_paths_in_costs_are_whole_where_there_is_room(visit: Visiting) -> None:
    """Types are cut before them, and not a hair of a path."""
    run = Builder("Net")
    with run.scope("Net"):
        with run.scope("encoder", "EncoderOfSequencesWithPositions"):
            linear(run, "projection", run.input("x"))
    seen = visit(run.recording(), hash="#side=costs")
    widths = seen.page.locator("#costs .row > .name span").evaluate_all(
        "spans => spans.map(span => [span.firstChild, span].map(each =>"
        " each.getBoundingClientRect().width))")
    assert len(widths) == 3 and all(text <= room for text, room in widths)


def test_nothing_moves_under_the_pointer(visit: Visiting) -> None:
    """Buttons stay where they are while the pointer is over them, and can be clicked."""
    seen = visit(stack(3), hash="#scope=layers.1&side=tree")
    buttons = seen.page.locator("#panel button:enabled, #side button, .tools button")
    assert buttons.count() > 10
    for number in range(buttons.count()):
        button = buttons.nth(number)
        if button.is_visible():
            button.scroll_into_view_if_needed()
            before = button.bounding_box()
            x, y = before["x"] + before["width"] / 2, before["y"] + before["height"] / 2
            seen.page.mouse.move(x, y)
            assert button.bounding_box() == before, button.evaluate("each => each.outerHTML")
    seen.page.locator("#side-close").click()
    assert seen.page.locator("#side").is_hidden() and seen.state("side") is None


@pytest.mark.parametrize("width", [400, 700, 850, 1050, 1150, 1250])
def test_chips_cover_nothing(program: Any, tmp_path: Path, width: int) -> None:
    """They are in the bar, where they have a row of their own in narrow windows."""
    path = stack(3).render(tmp_path / "page.html")
    seen = Visit(program, viewport={"width": width, "height": 700}).open(path)
    seen.page.evaluate("page.actions.highlightType('Linear')")
    for item, side in ((-1, "null"), (0, "'tree'"), (0, "'costs'"), (0, "null")):
        seen.page.evaluate(f"page.state.set({{ side: {side} }})")
        seen.page.evaluate(f"page.actions.select({item})")
        seen.settle()
        chip, below = (seen.page.locator(each).bounding_box() for each in ("#type", ".under"))
        assert 0 <= chip["x"] <= chip["x"] + chip["width"] <= width
        assert chip["y"] + chip["height"] <= below["y"]
    assert seen.troubles == []
    seen.window.close()


def test_a_drawer_closes_once_a_row_is_chosen(program: Any, tmp_path: Path) -> None:
    """It would cover the box; the focus is in the picture then."""
    path = stack(3).render(tmp_path / "page.html")
    seen = Visit(program, viewport={"width": 700, "height": 700}).open(path, "#side=tree")
    seen.page.locator("#tree .row .expander:not(.none)").last.click()
    assert seen.state("side") == "tree"
    seen.page.locator("#tree .row").last.click()
    assert seen.state("side") is None and seen.state("selected") >= 0
    assert seen.page.evaluate("document.activeElement.id") == "stage"
    assert seen.troubles == []
    seen.window.close()


def test_a_new_tree_shows_where_the_picture_is(visit: Visiting) -> None:
    """Also if nothing is selected; then no row is."""
    seen = visit(deep(60), depth=2)
    seen.page.evaluate("page.actions.goTo(page.model.find('layers.40'))")
    seen.page.evaluate("page.actions.clearSelection()")
    seen.settle()
    seen.page.locator("#outline").click()
    shown = [int(row.split("\n")[0].removeprefix("layers.")) for row in rows(seen, "tree")
             if row.startswith("layers")]
    window = seen.page.locator("#tree").bounding_box()
    row = seen.page.locator(f"#tree-{find(seen, 'layers.40')}").bounding_box()
    assert 40 in shown and window["y"] <= row["y"] < window["y"] + window["height"]
    assert seen.page.locator("#tree [aria-selected=true]").count() == 0


def test_names_in_a_deep_tree_are_visible(visit: Visiting) -> None:
    """Levels are indented by less in it."""
    run = Builder("Deep")
    with contextlib.ExitStack() as levels:
        for level in range(25):
            levels.enter_context(run.scope(f"level{level}", "Wrap"))
        run.op("add", run.input())
    seen = visit(run.recording())
    seen.page.evaluate("page.actions.expandAll()")
    seen.page.evaluate("page.actions.goTo(page.model.all.findLast(page.types.isCall))")
    seen.page.locator("#outline").click()
    names = seen.page.locator("#tree .row b").evaluate_all(
        "names => names.map(name => [name.textContent, name.clientWidth])")
    assert len(names) > 20 and min(width for _, width in names) > 30


def tooltip(seen: Visit, item: int) -> list[str]:
    """The lines of the tooltip of a box."""
    place = seen.box(item).bounding_box()
    seen.page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    seen.page.locator("#tooltip").wait_for()
    return str(seen.page.locator("#tooltip").inner_text()).splitlines()


def test_a_tooltip_says_what_the_box_does_not(visit: Visiting) -> None:
    """Path, class and line of code; what is on the box only if it is too small to read."""
    model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU()))
    seen = visit(torchrecorder.record(model, torch.ones(2, 4)), depth=2)
    item = find(seen, "0.0")
    lines = tooltip(seen, item)
    assert lines[:3] == ["0: Linear", "0.0", "torch.nn.modules.linear.Linear"]
    assert "test_side_panel.py:" in lines[3] and "4 → 6" not in lines
    seen.page.mouse.move(2, 300)
    seen.page.evaluate("page.stage.zoom(0.3 / page.stage.view().k)")
    seen.settle()
    lines = tooltip(seen, item)
    assert "4 → 6" in lines and "test_side_panel.py:" in lines[-2]
