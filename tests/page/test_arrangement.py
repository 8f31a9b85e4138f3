"""What is shown in the page: hidden and isolated boxes, other directions."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.figures import network
from tests.page.browser import Visit, Visiting
from tests.page.test_layout import as_data, forest
from tests.views.test_fold import stack
from torchrecorder.layout.layered import place, plan
from torchrecorder.testing import Builder

pytestmark = pytest.mark.page

SHOWN = (
    "([data, open, how]) => { const given = { ...how, hidden: new Set(how.hidden) };"
    " const { width, height, boxes, lines } = createLayout(data).place(new Set(open), given);"
    " return { width, height, boxes, lines: lines.map(line => ({ tail: line.tail, head: line.head,"
    "   enters: line.enters, exits: line.exits, scope: line.scope, points: line.points })) }; }"
)


def fold_of(seen: Visit) -> int:
    """The first fold of a page."""
    return int(seen.page.evaluate("page.model.openable.find(page.model.isFold)"))


def is_inside(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether a box lies in another."""
    return bool(
        other["x"] - 0.01 <= one["x"] and one["x"] + one["w"] <= other["x"] + other["w"] + 0.01
        and other["y"] - 0.01 <= one["y"] and one["y"] + one["h"] <= other["y"] + other["h"] + 0.01
    )


def is_apart(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two boxes do not meet."""
    return bool(
        one["x"] + one["w"] <= other["x"] + 0.01 or other["x"] + other["w"] <= one["x"] + 0.01
        or one["y"] + one["h"] <= other["y"] + 0.01 or other["y"] + other["h"] <= one["y"] + 0.01
    )


def is_at(box: dict[str, Any], x: float, y: float) -> bool:
    """Whether a point is on the border of a box."""
    aside = max(box["x"] - x, x - box["x"] - box["w"], box["y"] - y, y - box["y"] - box["h"])
    return abs(aside) < 0.02


def assert_drawn_well(shown: dict[str, Any], parent: list[int]) -> None:
    """No boxes meet but those in each other, and lines begin and end at their boxes."""
    boxes = {box["item"]: box for box in shown["boxes"]}
    inside: dict[int, list[int]] = {}
    for item in boxes:
        inside.setdefault(parent[item], []).append(item)
        if parent[item] in boxes:
            assert is_inside(boxes[item], boxes[parent[item]])
    for items in inside.values():
        for seat, item in enumerate(items):
            assert all(is_apart(boxes[item], boxes[other]) for other in items[seat + 1 :])
    for line in shown["lines"]:
        if line.get("loop"):
            continue
        if line["tail"] in boxes:
            assert is_at(boxes[line["tail"]], *line["points"][0])
        if line["head"] in boxes:
            assert is_at(boxes[line["head"]], *line["points"][-1])


@pytest.mark.parametrize("direction", ["TB", "LR", "BT", "RL"])
def test_another_direction_keeps_rows_and_sizes(flat: Any, direction: str) -> None:
    """A page laid out for one direction and turned has the rows of one laid out for the other."""
    items, links = forest(7, 60)
    first = "LR" if direction in ("TB", "BT") else "TB"
    given, own = plan(items, links, first), plan(items, links, direction)  # type: ignore[arg-type]
    can = [number for number, item in enumerate(items) if item.header is not None]
    parent = [item.parent for item in items]
    shown = flat(SHOWN, [as_data(given), can, {"direction": direction, "hidden": []}])
    assert_drawn_well(shown, parent)
    expected = {box.item: box for box in place(own, can).boxes}
    axis, size = ("x", "w") if direction in ("LR", "RL") else ("y", "h")
    found = {box["item"]: box for box in shown["boxes"]}
    for item, box in found.items():
        if item not in can:
            assert [box["w"], box["h"]] == pytest.approx([items[item].width, items[item].height])
    for item in found:
        for other in found:
            if parent[item] != parent[other] or item in can or other in can:
                continue
            wanted = [getattr(expected[each], axis) for each in (item, other)]
            high = [getattr(expected[each], "height" if axis == "y" else "width")
                    for each in (item, other)]
            if wanted[0] + high[0] < wanted[1]:  # in another row
                assert found[item][axis] + found[item][size] < found[other][axis] + 0.01


@pytest.mark.parametrize("direction", ["TB", "RL"])
def test_hidden_boxes_are_dots_on_their_lines(flat: Any, direction: str) -> None:
    """Nothing else is missing, and nothing meets; also beside room for numbers."""
    items, links = forest(11, 60)
    planned = plan(items, links, "TB")
    chance = random.Random(4)
    hidden = [number for number in range(len(items)) if chance.random() < 0.2]
    can = [number for number, item in enumerate(items) if item.header is not None]
    parent = [item.parent for item in items]
    shown = flat(SHOWN, [as_data(planned), can, {"direction": direction, "hidden": hidden}])
    assert_drawn_well(shown, parent)
    assert all(
        box["w"] == box["h"] == 8 for box in shown["boxes"] if box["item"] in hidden
    )
    gone = set(hidden)
    for item, around in enumerate(parent):
        if around in gone:
            gone.add(item)
    inside_hidden = {item for item in gone if parent[item] in gone}
    assert {box["item"] for box in shown["boxes"]} == set(range(len(items))) - inside_hidden


def test_a_hidden_box_is_passed_by_its_lines(visit: Visiting) -> None:
    """Without an arrowhead at it; a double-click brings it back."""
    seen = visit(network(), depth=2)
    before = seen.page.evaluate("page.stage.picture().lines.length")
    item = seen.page.evaluate("page.model.find('body.0')")
    seen.page.evaluate(f"page.actions.hide({item})")
    seen.settle()
    lines = "page.stage.picture().lines"
    assert seen.page.evaluate(f"{lines}.length") == before
    tips = seen.page.evaluate(f"{lines}.filter(line => line.head === {item} && line.arrowhead)")
    assert tips == []
    assert seen.box(item).locator("circle").count() == 1 and "hidden" in seen.page.url
    chip = seen.page.locator("#left-out")
    assert chip.text_content() == "1 hidden · Show all"
    place = seen.box(item).locator("circle").bounding_box()
    seen.page.mouse.dblclick(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    seen.settle()
    assert seen.box(item).locator("circle").count() == 0 and chip.is_hidden()


def test_a_box_is_isolated_and_hidden_from_its_menu(visit: Visiting) -> None:
    """With the right mouse button; Show all brings everything back."""
    seen = visit(network(), depth=1)
    start, body = seen.titles(), seen.page.evaluate("page.model.find('body')")
    title = seen.box(body).locator("text").first

    def choose(name: str) -> None:
        title.click(button="right", force=True)
        seen.page.get_by_role("menuitem", name=name).click()
        seen.settle()

    choose("Isolate")
    within = seen.page.evaluate(f"page.model.children[{body + 1}].length")
    assert len(seen.titles()) == within + 1 and "isolated=body" in seen.page.url
    assert seen.page.locator("#left-out").text_content() == "Isolated: body: Sequential · Show all"
    seen.page.locator("#left-out").click()
    seen.settle()
    seen.page.evaluate(f"page.actions.toggle({body})")
    seen.settle()
    assert seen.titles() == start
    choose("Hide")
    assert seen.state("hidden.has(page.model.find('body'))")
    seen.page.evaluate("page.actions.goTo(page.model.find('body.0'))")
    seen.settle()
    assert not seen.state("hidden.size") and "0: Linear" in seen.titles()


@pytest.mark.parametrize("key", ["Enter", "x", "1", "h"])
def test_an_isolated_box_stays_open(visit: Visiting, key: str) -> None:
    """There would be nothing else to see; its panel does not offer to close or hide it."""
    seen = visit(stack(3), depth=1, fold=False)
    item = seen.page.evaluate("page.model.find('layers.1')")
    seen.page.evaluate(f"page.actions.isolate({item})")
    seen.page.evaluate(f"page.actions.select({item})")
    assert seen.page.locator("#panel .action").all_inner_texts() == ["Zoom to it"]
    seen.page.locator("#stage").focus()
    seen.page.keyboard.press(key)
    assert seen.is_open(item) and seen.state(f"open.has({item})")
    assert not seen.state("hidden.size")


def test_the_menu_of_a_box_opens_by_keys(visit: Visiting) -> None:
    """And gives the focus back to the picture."""
    seen = visit(network(), depth=1)
    seen.page.evaluate("page.actions.goTo(page.model.find('body'))")
    seen.page.locator("#stage").focus()
    seen.page.keyboard.press("m")
    assert seen.page.evaluate("document.activeElement.textContent").startswith("Expand")
    seen.page.keyboard.press("Escape")
    assert seen.page.evaluate("document.activeElement.id") == "stage"
    seen.page.keyboard.press("h")
    assert seen.state("hidden.size") == 1


def test_what_is_arranged_is_in_the_link(visit: Visiting) -> None:
    """A reload shows the same."""
    seen = visit(stack(6))
    fold = fold_of(seen)
    seen.page.evaluate(f"page.actions.toggle({fold})")
    seen.page.evaluate(f"page.actions.showSibling({fold}, page.model.find('layers.2'))")
    seen.page.evaluate("page.actions.hide(page.model.find('stem'))")
    seen.page.evaluate("page.actions.setDirection('LR')")
    seen.page.locator("#outline").click()
    script = (
        "(({ open, hidden, siblings, direction, side }) => [[...open].sort(), [...hidden],"
        " [...siblings], direction, side])(page.state.get())"
    )
    before, titles = seen.page.evaluate(script), seen.titles()
    seen.page.reload()
    seen.page.wait_for_selector("[role=treeitem]", state="attached")
    assert seen.page.evaluate(script) == before and seen.titles() == titles
    assert before[3:] == ["LR", "tree"] and len(before[1]) == 1


def test_the_direction_is_chosen_from_a_menu(visit: Visiting) -> None:
    """The picture is then wide instead of high; Reset goes back."""
    seen = visit(stack(6))
    size = "(({ width, height }) => [width, height])(page.stage.picture())"
    wide, high = seen.page.evaluate(size)
    assert high > wide
    seen.page.locator("#direction").click()
    seen.page.get_by_role("menuitemradio", name="Left to right").click()
    turned = seen.page.evaluate(size)
    assert turned[0] > turned[1]
    seen.page.evaluate("page.actions.reset()")
    assert seen.page.evaluate(size) == [wide, high]


def test_numbers_stand_on_boxes_and_frames_with_their_share(visit: Visiting) -> None:
    """Those of the recording; the scale begins at 0."""
    recording = stack(3)
    seen = visit(recording, color_by="parameters", depth=2, fold=False)
    seen.page.evaluate("page.stage.fit()")
    seen.settle()
    owners = {row.name: int(row.number) for row in recording.top("parameters", 50)}
    total = sum(owners.values())
    frames = {name.removesuffix(".fc"): number for name, number in owners.items()}
    for path, number in [*owners.items(), *frames.items()]:
        item = seen.page.evaluate("path => page.model.find(path)", path)
        texts = seen.box(item).locator("text").evaluate_all(
            "texts => texts.map(text => text.textContent)"
        )
        amount, share = texts[-1].split(" · ")
        assert amount == f"{number:,}"
        assert float(share.split()[0]) == pytest.approx(100 * number / total, rel=0.05)
    assert len(owners) == 5 and seen.is_open(seen.page.evaluate("page.model.find('layers.1')"))
    plain = seen.page.evaluate("page.model.find('x')")
    assert not any("%" in text for text in seen.box(plain).locator("text").all_text_contents())
    assert seen.page.locator("#legend .ends span").first.inner_text() == "0"


def test_boxes_are_as_wide_as_the_texts_of_their_numbers(visit: Visiting) -> None:
    """Those of communication name both passes."""
    seen = visit(stack(3), color_by="parameters", depth=2, fold=False)
    seen.page.evaluate(
        "() => { const { data } = page.model, [number] = data.annotations;"
        " const none = data.strings.push('', '68.9 kB forward, 68.9 kB backward') - 2;"
        " number.texts = number.values.map(value => none + Number(value !== null));"
        " page.actions.colorBy(null); page.actions.colorBy(number.key); }")
    seen.settle()
    widths = seen.page.locator(".boxes .box").evaluate_all(
        "boxes => boxes.map(box => [box, ...box.querySelectorAll('text')]"
        " .map(each => (each.querySelector?.('path') ?? each).getBBox().width))")
    assert len(widths) > 3 and all(max(texts) <= box for box, *texts in widths)


def test_no_line_of_a_hidden_box_runs_through_others(visit: Visiting) -> None:
    """Also of one beside several: its dot keeps the way past them free."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input()
        with run.scope("tokens", "Embedding"):
            h = run.op("embedding", x)
        at = run.op("arange")
        for _ in range(2):
            at = run.op("add", at)
        with run.scope("positions", "A long name of a class of positions"):
            at = run.op("embedding", at)
        run.returns(run.op("relu", run.op("add", h, at)))
    seen = visit(run.recording(), depth=1)
    tokens, positions = (seen.page.evaluate(f"page.model.find('{name}')")
                         for name in ("tokens", "positions"))
    for act in ("", f"page.actions.hide({tokens})"):
        seen.page.evaluate(act)
        box = seen.page.evaluate(f"page.stage.frame({positions})")
        lines = seen.page.evaluate("page.stage.picture().lines.map(({ tail, points }) =>"
                                   f" tail === {tokens} ? points : []).filter(each => each.length)")
        assert lines
        for (ax, ay), (bx, by) in (pair for points in lines for pair in zip(points, points[1:])):
            beside = max(ax, bx) < box["x"] or min(ax, bx) > box["x"] + box["w"]
            assert beside or max(ay, by) < box["y"] or min(ay, by) > box["y"] + box["h"]
