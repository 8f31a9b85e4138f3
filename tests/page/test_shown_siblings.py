"""Which sibling of a fold the page shows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.page.browser import Visiting
from tests.page.test_arrangement import assert_drawn_well, fold_of, is_apart, is_inside
from tests.views.test_fold import stack
from tests.views.test_similar import stages
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder

pytestmark = pytest.mark.page


def recurrent(rounds: int) -> Recording:
    """A cell with two states, called again and again, that reads one input beside them."""
    run = Builder("Recurrent")
    with run.scope("Recurrent"):
        x, h, c = run.input(), run.op("zeros"), run.op("ones")
        for _ in range(rounds):
            with run.scope("cell", "Cell"):  # one module, called again
                gate = run.op("sigmoid", run.op("add", x, h))
                c = run.op("mul", c, gate)
                h = run.op("tanh", c)
        run.op("add", h, c)
    return run.recording()


@pytest.mark.parametrize("make", [lambda: stack(6), lambda: recurrent(5)])
def test_lines_of_a_sibling_are_what_it_reads_and_makes(
    visit: Visiting, make: Callable[[], Recording]
) -> None:
    """For each of them: whatever crosses the border of the fold beside it, in both directions."""
    seen = visit(make())
    fold = fold_of(seen)
    seen.page.evaluate(f"page.actions.toggle({fold})")
    members = seen.page.evaluate(f"page.model.children[{fold} + 1]")
    for member in members:
        seen.page.evaluate(f"page.actions.showSibling({fold}, {member})")
        shown = seen.page.evaluate(
            f"page.stage.picture().boxes.map(box => box.item).filter(item =>"
            f" page.model.parent(item) === {fold})"
        )
        assert shown == [member]
        reads, makes, drawn_in, drawn_out = seen.page.evaluate(
            f"(() => {{ const {{ model, stage }} = page, lines = stage.picture().lines"
            f"   .filter(line => line.scope === {fold});"
            f" return [model.inputs({member}).map(each => each.tensor),"
            f"  [...new Set(model.outputs({member}).map(each => each.tensor))],"
            f"  lines.filter(line => line.enters).map(line => line.tensor),"
            f"  lines.filter(line => line.exits).map(line => line.tensor)]; }})()"
        )
        assert sorted(drawn_in) == sorted(reads) and len(reads) > 0
        assert sorted(set(drawn_out)) == sorted(makes) and len(makes) > 0
        parent = seen.page.evaluate("page.model.data.items.parent")
        picture = seen.page.evaluate(
            "(({ boxes, lines }) => ({ boxes, lines: lines.map(line => line.toJSON()) }))"
            "(page.stage.picture())"
        )
        assert_drawn_well(picture, parent)


def test_lines_go_on_into_the_sibling_that_is_shown(visit: Visiting) -> None:
    """What enters a fold goes on inside, and has its arrowhead there."""
    seen = visit(recurrent(5))
    fold = fold_of(seen)
    seen.page.evaluate(f"page.actions.toggle({fold})")
    tips = seen.page.evaluate(
        f"page.stage.picture().lines.filter(line => line.head === {fold})"
        ".filter(line => !line.exits && !line.loop).map(line => Boolean(line.arrowhead))"
    )
    assert tips == [False, False, False]


def test_a_loop_has_a_dashed_line_back(visit: Visiting) -> None:
    """Inside of its fold, beside the round that is shown; layers that feed each other have none."""
    for recording, expected in ((recurrent(5), 1), (stack(6), 0)):
        seen = visit(recording)
        fold = fold_of(seen)
        back = "page.stage.picture().lines.filter(line => line.loop)"
        assert seen.page.evaluate(f"{back}.length") == 0
        seen.page.evaluate(f"page.actions.toggle({fold})")
        lines = seen.page.evaluate(f"{back}.map(line => line.toJSON())")
        assert len(lines) == expected
        boxes = {
            box["item"]: box for box in seen.page.evaluate("page.stage.picture().boxes")
        }
        for line in lines:
            ends = [{"x": x, "y": y, "w": 0, "h": 0} for x, y in line["points"]]
            assert line["arrowhead"] and all(is_inside(end, boxes[fold]) for end in ends)
            assert line["points"][0][1] > line["points"][-1][1]
            inner = [box for item, box in boxes.items() if item > fold]
            inner = [box for box in inner if is_inside(box, boxes[fold])]
            assert inner and all(is_apart(end, box) for end in ends for box in inner)
            made_in = seen.page.evaluate(
                f"page.model.data.tensors.producer[{line['tensor']}]"
            )
            assert seen.page.evaluate(f"page.model.within({made_in}, {fold})")
        seen.page.evaluate("page.actions.expandFolds()")
        assert seen.page.evaluate(f"{back}.length") == 0


def test_siblings_are_chosen_in_the_corner_of_the_fold(visit: Visiting) -> None:
    """From a list, by keys, and in the panel; what was open in one is open in the next."""
    seen = visit(stack(6))
    fold = fold_of(seen)
    seen.double_click(fold)
    first = seen.page.evaluate(f"page.model.children[{fold} + 1][0]")
    label = seen.box(fold).locator("text.siblings")
    assert label.inner_html().startswith("1 of 6")
    place = label.bounding_box()
    seen.page.mouse.click(place["x"] + 5, place["y"] + place["height"] / 2)
    seen.page.get_by_role("menuitemradio", name="layers.3: Block").click()
    seen.settle()
    assert "layers.3: Block" in seen.titles() and "layers.0: Block" not in seen.titles()
    shown = seen.page.evaluate("page.model.find('layers.3')")
    assert shown != first and seen.is_open(shown)
    assert label.inner_html().startswith("4 of 6") and "siblings=" in seen.page.url
    seen.page.locator("#stage").focus()
    seen.page.keyboard.press("]")
    seen.settle()
    assert "layers.4: Block" in seen.titles()
    seen.page.evaluate(f"page.actions.select({fold})")
    seen.page.locator("#panel select").select_option(label="All 6")
    shown = seen.page.evaluate("page.stage.picture().boxes.map(box => page.model.title(box.item))")
    assert sum(title.endswith(": Block") for title in shown) == 6


@pytest.mark.parametrize("direction", ["TB", "LR", "BT"])
def test_the_corner_of_a_fold_stays_in_its_place(visit: Visiting, direction: str) -> None:
    """Where another of its siblings, which has another size, is chosen."""
    seen = visit(stages(1, 4), fold="similar", direction=direction)
    fold = fold_of(seen)
    first, other = seen.page.evaluate(f"page.model.children[{fold} + 1]")
    places, sizes = [], set()
    show = f"showSibling({fold}, "
    for act in (f"{show}{first})", f"toggle({first})", f"{show}{other})", f"{show}{first})"):
        seen.page.evaluate(f"page.actions.{act}")
        *corner, width, height = seen.page.evaluate(
            "(({ x, y, k }, box) => [(box.x - x) * k, (box.y - y) * k, box.w, box.h])"
            f"(page.stage.view(), page.stage.frame({fold}))")
        places.append(corner)
        sizes.add((width, height))
    assert len(sizes) == 3
    assert places[2] == pytest.approx(places[1]) and places[3] == pytest.approx(places[1])
