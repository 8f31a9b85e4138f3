"""The page in a real browser: clicks, keys, links, and nothing that it should not do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import torchrecorder
from tests.figures import linear, network, regions
from tests.page.browser import Visit, Visiting
from tests.page.test_data import Page, data_of
from tests.page.test_safety import HOSTILE
from tests.ranks.made import recorded
from tests.stepped import stepped
from tests.views.test_fold import stack
from torchrecorder.recording import Recording
from torchrecorder.style.figure import Figure, LegendEntry, Look
from torchrecorder.testing import Builder
from torchrecorder.views.view import View

pytestmark = pytest.mark.page


def failing() -> Recording:
    """A run that ended in an error."""
    run = Builder("Failing")
    with pytest.raises(RuntimeError), run.scope("Failing"):
        linear(run, "fine", run.input())
        run.op("matmul", run.input("y"))
        run.fail("ValueError", "shapes do not fit")
        raise RuntimeError
    return run.recording()


def hostile() -> Recording:
    """Everything in it is called what would run, were it not text."""
    run = Builder(HOSTILE)
    with run.scope(HOSTILE, "</title><script>alert(2)</script>"):
        h = run.input(HOSTILE)
        with run.scope('"><svg onload=alert(3)>', "{{ name }}", detail="</textarea>" + HOSTILE):
            run.op("<b>bold</b>", h, run.parameter("'\"<w>"))
    return run.recording()


def titles(recording: Recording, items: list[int]) -> list[str]:
    """What stands on some items."""
    page = Page(data_of(recording))
    return sorted(page.lines(page.items["label"][item])[0] for item in items)


@pytest.mark.parametrize("make", [network, regions, failing, hostile, stepped, lambda: stack(40)])
def test_opens_without_errors(visit: Visiting, make: Callable[[], Recording]) -> None:
    """No error, nothing against the policy, nothing fetched, light or dark."""
    for dark in (False, True):
        seen = visit(make(), dark=dark)
        seen.page.keyboard.press("9")
        seen.settle()


def test_an_empty_recording_has_a_notice(program: Any, tmp_path: Path) -> None:
    """Nothing to draw is no error."""
    path = Builder("Empty").recording().render(tmp_path / "page.html")
    seen = Visit(program)
    seen.page.goto(path.as_uri())
    assert seen.page.locator("#empty").is_visible() and seen.troubles == []
    assert not any(seen.page.locator(each).is_visible() for each in ("#find", "#save", "#corner"))
    seen.window.close()


def test_the_first_view_is_that_of_the_data(visit: Visiting) -> None:
    """Boxes of the open scopes, and nothing in closed ones."""
    recording = network()
    page = Page(data_of(recording, depth=1))
    shown = [
        item for item, around in enumerate(page.items["parent"])
        if around == -1 or around in page.data["open"]
    ]
    seen = visit(recording, depth=1)
    assert seen.titles() == titles(recording, shown)


def test_double_click_opens_and_closes(visit: Visiting) -> None:
    """In place: the rest stays."""
    seen = visit(network(), depth=1)
    body = Page(data_of(network())).find("body: Sequential")
    before = seen.titles()
    assert not seen.is_open(body)
    seen.double_click(body)
    assert seen.is_open(body) and "0: Linear" in seen.titles()
    seen.double_click(body)
    assert not seen.is_open(body) and seen.titles() == before


def test_the_box_stays_under_the_pointer(visit: Visiting) -> None:
    """What was clicked is found again without looking for it."""
    seen = visit(stack(6), depth=1, fold=False)
    item = Page(data_of(stack(6), fold=False)).find("layers.3: Block")
    seen.box(item).locator("text").first.hover(force=True)
    place = seen.box(item).locator("text").first.bounding_box()
    at = place["x"] + 5, place["y"] + 5
    seen.page.mouse.dblclick(*at)
    seen.settle()
    frame = seen.box(item).bounding_box()
    assert frame["x"] <= at[0] <= frame["x"] + frame["width"]
    assert frame["y"] <= at[1] <= frame["y"] + frame["height"]


def test_a_fold_opens_to_its_first_sibling(visit: Visiting) -> None:
    """Open too; all of them are shown when that is asked for."""
    seen = visit(stack(5))
    page = Page(data_of(stack(5)))
    fold = page.find("layers.0 … layers.4: Block  ×5")
    seen.double_click(fold)
    blocks = [title for title in seen.titles() if title.endswith(": Block")]
    assert blocks == ["layers.0: Block"] and seen.is_open(page.find("layers.0: Block"))
    seen.page.evaluate("page.actions.expandFolds()")
    seen.settle()
    assert sum(title.endswith(": Block") for title in seen.titles()) == 5


def test_keys_select_and_open(visit: Visiting) -> None:
    """Without a mouse: Tab to a box, Enter opens it, Escape lets go."""
    seen = visit(network(), depth=0)
    seen.page.locator("#stage").focus()
    for _ in range(10):
        seen.page.keyboard.press("Tab")
        if seen.state("selected") == 1:
            break
    assert seen.state("selected") == 1 and not seen.is_open(1)
    seen.page.keyboard.press("Enter")
    seen.settle()
    assert seen.is_open(1)
    seen.page.keyboard.press("Escape")
    assert seen.state("selected") == -1


def test_number_keys_open_levels(visit: Visiting) -> None:
    """x closes all."""
    seen = visit(network())
    seen.page.locator("#stage").focus()
    seen.page.keyboard.press("x")
    seen.settle()
    assert len(seen.titles()) == 3
    seen.page.keyboard.press("9")
    seen.settle()
    assert "relu" in seen.titles()


def test_search_leads_to_what_is_closed(visit: Visiting) -> None:
    """What is around the box found is opened."""
    seen = visit(network(), depth=0)
    seen.page.locator("#stage").focus()
    seen.page.keyboard.press("/")
    seen.page.keyboard.type("relu")
    seen.page.keyboard.press("Enter")
    seen.settle()
    page = Page(data_of(network()))
    found = seen.state("selected")
    assert "relu" in "".join(page.lines(page.items["label"][found])).lower()
    assert seen.box(found).count() == 1


def test_a_link_leads_to_a_scope(visit: Visiting) -> None:
    """Also into a fold, and the address says where one is."""
    seen = visit(stack(6), hash="#scope=layers.3")
    page = Page(data_of(stack(6)))
    item = page.items["id"].index("s8")
    assert page.box("layers.3: Block") == page.lines(page.items["label"][item])
    assert seen.state("selected") == item and seen.is_open(item)
    assert "scope=layers.3" in seen.page.url


def test_the_panel_shows_what_was_recorded(visit: Visiting) -> None:
    """Settings, parameters, and neighbors to go to."""
    seen = visit(network())
    item = Page(data_of(network())).find("0: Linear")
    text = seen.panel(item)
    assert "in_features=4, out_features=4, bias=False" in text and "weight" in text


def test_the_panel_shows_a_failure(visit: Visiting) -> None:
    """In the box in which it happened."""
    recording = failing()
    seen = visit(recording)
    failed = [n for n, each in enumerate(data_of(recording)["items"]["failed"]) if each]
    text = seen.panel(failed[-1])
    assert text.index("shapes do not fit") < min(map(text.index, ("Numbers", "Recorded")))
    assert text.count("shapes do not fit") == 1


def test_colors_have_a_legend(visit: Visiting) -> None:
    """By the annotation that was asked for."""
    seen = visit(stack(3), color_by="parameters")
    assert "Params" in seen.page.locator("#legend").inner_text()


def test_a_fold_has_the_color_of_its_siblings(visit: Visiting) -> None:
    """Its color is that of their mean, and the legend says so."""
    seen = visit(stack(3), color_by="parameters")
    fills = seen.page.evaluate(
        "() => { const model = page.model, number = model.data.annotations[0];"
        " const fold = model.data.items.fold.findIndex(Boolean);"
        " const all = [fold, ...model.children[fold + 1]];"
        " const palette = paint.palette(model, 'light', number, all);"
        " return [...all.map(item => palette.look(item, false).fill), number.key]; }"
    )
    assert fills.pop() == "parameters" and len(fills) == 4 and len(set(fills)) == 1
    assert "(mean for ×N)" in seen.page.locator("#legend").inner_text()


def test_a_fold_has_the_mean_of_numbers_that_do_not_add_up(visit: Visiting) -> None:
    """Its text and its color, and the legend says so."""
    linear_relu = (torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()) for _ in range(3))
    layers = torch.nn.Sequential(*linear_relu)
    recording = torchrecorder.record(layers, torch.rand(2, 4), stats=True)
    seen = visit(recording, color_by="activation_norm")
    text, values = seen.page.evaluate(
        "() => { const model = page.model;"
        " const number = model.data.annotations.find(one => one.key === 'activation_norm');"
        " const fold = model.data.items.fold.findIndex(Boolean);"
        " const all = [fold, ...model.children[fold + 1]];"
        " return [numbers.textOf(number, fold, model), all.map(item => number.values[item])]; }"
    )
    assert values[0] == pytest.approx(sum(values[1:]) / 3, rel=1e-3) and len({*values[1:]}) > 1
    assert text.endswith(" on average")
    assert "(mean for ×N)" in seen.page.locator("#legend").inner_text()


def test_the_numbers_of_a_scale_are_below_their_colors(visit: Visiting) -> None:
    """At both ends and in the middle, however wide they are and the note below."""
    seen = visit(stack(30), color_by="parameters", fold=False, depth=0)
    seen.page.locator("#legend p").evaluate("note => note.append(', of which there are many')")
    ramp, *ends = seen.page.locator("#legend").evaluate(
        "legend => [legend.querySelector('.ramp'), ...legend.querySelectorAll('.ends span')]"
        " .map(each => { const range = document.createRange(); range.selectNodeContents(each);"
        "   const whole = each.firstChild ? range : each;"
        "   const { left, right } = whole.getBoundingClientRect(); return [left, right]; })")
    middle = [sum(each) / 2 for each in (ramp, ends[1])]
    assert ends[0][0] == pytest.approx(ramp[0], abs=1)
    assert middle[1] == pytest.approx(middle[0], abs=1)
    assert ends[2][1] == pytest.approx(ramp[1], abs=1)


def test_the_legend_of_kinds_has_their_outlines(visit: Visiting) -> None:
    """What has a form of its own in the picture has it there."""
    seen = visit(stack(3), legend=True)
    drawn = seen.page.locator("#legend .entry path").evaluate_all(
        "paths => paths.map(path => path.getAttribute('d'))"
    )
    assert len(drawn) > 2 and len(set(drawn)) > 2


def test_a_row_of_the_legend_that_is_text_has_no_box(visit: Visiting) -> None:
    """As the totals of a comparison."""
    entry = LegendEntry("all in all", Look("transparent", "black", "black", outline="plain"))

    def finish(figure: Figure, view: View) -> Figure:
        return replace(figure, legend=(*figure.legend, entry))

    row = visit(stack(3), legend=True, finish=finish).page.locator("#legend .entry").last
    assert row.inner_text() == "all in all"
    assert row.locator("path").count() == 0


def test_names_are_shown_as_text(visit: Visiting) -> None:
    """Whatever they are; no element comes from them."""
    seen = visit(hostile())
    seen.page.keyboard.press("9")
    seen.settle()
    assert seen.page.title() == HOSTILE
    assert seen.page.locator("img").count() == 0
    assert "<script>" in seen.panel(1)
    assert any("onerror" in title or "…" in title for title in seen.titles())


def test_dark_follows_the_system(visit: Visiting) -> None:
    """Unless a theme was asked for."""
    def paper(seen: Visit) -> str:
        return str(seen.page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light, dark = paper(visit(network())), paper(visit(network(), dark=True))
    assert light != dark
    assert paper(visit(network(), theme="dark")) == dark


def test_a_large_page_is_quick(program: Any, tmp_path: Path) -> None:
    """Ten thousand ops: bounds that a slow machine keeps too; the benchmark measures."""
    run = Builder("Large")
    with run.scope("Large"):
        h = run.input()
        for layer in range(100):
            with run.scope(f"layers.{layer}", "Layer"):
                for _ in range(10):
                    with run.scope("block", "Block"):
                        for _ in range(10):
                            h = run.op("add", h)
    path = run.recording().render(tmp_path / "page.html")
    seen = Visit(program).open(path)
    paint = seen.page.evaluate("performance.getEntriesByType('paint')[0].startTime")
    took = seen.page.evaluate(
        "() => { const t = performance.now(); page.actions.expandLevels(2);"
        " page.stage.showBeginning(); return performance.now() - t; }"
    )
    assert seen.troubles == [] and paint < 5000 and took < 2500
    seen.window.close()


def test_the_path_to_a_lane_has_its_name(visit: Visiting) -> None:
    """As in its title, not as in dotted paths, which have no spaces."""
    run = torchrecorder.merge(recorded(lambda rank: torch.ones(2), world=2))
    seen = visit(run.recording)
    assert "ones" in seen.panel(1)
    seen.page.wait_for_function("document.querySelectorAll('#breadcrumbs button').length > 2")
    crumbs = seen.page.locator("#breadcrumbs button").all_inner_texts()
    assert crumbs == ["job", "ranks 0–1", "ones"]


class Listed(torch.nn.Module):
    """Layers in a list, which has no frame of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Bilinear(2, 2, 2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One after the other."""
        return self.layers[1](x, self.layers[0](x))  # type: ignore[no-any-return]


def test_the_path_to_a_module_in_a_list_has_the_name_of_the_list(visit: Visiting) -> None:
    """As its frame does."""
    seen = visit(torchrecorder.record(Listed(), torch.ones(1, 2)))
    seen.page.evaluate("""page.actions.select(
        [...Array(page.model.count).keys()].find(item => page.model.path(item) === "layers.1"))""")
    seen.page.wait_for_function("document.querySelectorAll('#breadcrumbs button').length > 1")
    crumbs = seen.page.locator("#breadcrumbs button").all_inner_texts()
    assert crumbs == ["Listed", "layers.1"]


def test_screen_readers_find_the_parts(visit: Visiting) -> None:
    """The bar, the picture and the panel, between which they can jump."""
    seen = visit(network())
    seen.page.evaluate("page.actions.select(0)")
    for role in ("banner", "main", "complementary"):
        assert seen.page.get_by_role(role).count() == 1
