"""Paths of data between two boxes: which there are, how they are chosen, shown, linked and left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import torchrecorder
from tests.figures import linear, network
from tests.page.browser import Visit, Visiting
from tests.page.test_navigation import settled
from tests.page.test_saved_pictures import saved
from tests.views.test_fold import block, stack
from torchrecorder.errors import InvalidArgument
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder

pytestmark = pytest.mark.page


def branches() -> Recording:
    """Two branches of an encoder that meet, and a head that reads only one of them."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        with run.scope("encoder", "Encoder"):
            left, right = linear(run, "left", x), linear(run, "right", x)
            both = run.op("add", left, run.op("relu", right))
        run.op("mul", both, both)
        linear(run, "head", left)
    return run.recording()


def dense(number: int) -> Recording:
    """So many equal layers in a row; a sum reads each of them."""
    run = Builder("Dense")
    with run.scope("Dense"):
        h = run.input("x")
        layers = [h := block(run, f"layers.{place}", h) for place in range(number)]
        run.op("cat", *layers)
    return run.recording()


class Halves(torch.nn.Module):
    """Gives a tensor, and continues with what is made of it elsewhere."""

    def forward(self, x: torch.Tensor) -> Iterator[torch.Tensor]:
        given = yield x.relu()
        yield given.tanh()


class Between(torch.nn.Module):
    """Computes between the two halves of a module, with its own input or without."""

    def __init__(self, with_input: bool) -> None:
        super().__init__()
        self.halves, self.with_input = Halves(), with_input

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        halves = self.halves(x)
        y = next(halves)
        return halves.send(y * x if self.with_input else y * 2).exp()


def halved(with_input: bool) -> Recording:
    """A module that runs in two parts, with an operation between them."""
    return torchrecorder.record(Between(with_input), torch.ones(3))


def found(seen: Visit, *paths: str) -> list[int]:
    """The items of paths."""
    return [int(seen.page.evaluate("path => page.model.find(path)", path)) for path in paths]


def choose(seen: Visit, one: int, other: int) -> None:
    """Click one box, and another one with Shift."""
    seen.panel(one)
    seen.box(other).locator("text").first.click(force=True, modifiers=["Shift"])
    seen.settle()


def emphasized(seen: Visit) -> set[int]:
    """The boxes that are not pale."""
    ids = seen.page.locator(".box.emphasized").evaluate_all("boxes => boxes.map(box => box.id)")
    return {int(each.removeprefix("box-")) for each in ids}


@pytest.mark.parametrize("make", [
    network, branches, partial(stack, 4), partial(halved, True), partial(halved, False),
])
def test_a_page_finds_the_paths_that_a_recording_has(
    visit: Visiting, make: Callable[[], Recording]
) -> None:
    """Between all pairs of modules and operations, in the direction in which there are any."""
    recording = make()
    seen = visit(recording)
    drawn, on_paths = seen.page.evaluate(
        "() => { const { model, paths } = page, { id } = model.data.items, found = [];"
        " const all = model.all.filter(item => !model.isFold(item) &&"
        "   model.kind(item) !== 'output');"
        " const ops = all.filter(item => model.kind(item) === 'op');"
        " for (const from of all) for (const to of all) { if (from === to) continue;"
        "   const now = { from, to }, { has, exist } = paths.of(now);"
        "   found.push([id[from], id[to], exist ? ops.filter(has).map(op => id[op]) : [],"
        "     paths.text(now)]); } return [ops.map(op => id[op]), found]; }"
    )
    assert len(on_paths) > 20
    for one, other, ops, text in on_paths:
        try:
            ways = [recording.paths(one, other), recording.paths(other, one)]
        except InvalidArgument as error:
            assert ops == [] and ("is in" in text) == ("share" in str(error))
            continue
        expected = {each for way in ways for each in way.through if each in drawn}
        assert set(ops) == expected
        assert text.startswith("Paths" if any(way.total for way in ways) else "No path")


@pytest.mark.parametrize("siblings", ["new Map()", "openItems.allSiblings(page.model)"])
def test_lines_lead_from_one_end_to_the_other(deep: Any, siblings: str) -> None:
    """Each box on a path has lines in and out, through all frames, also if a fold shows one
    sibling for all."""
    wrong, count = deep(
        "() => { const { model, paths, state, stage } = page, wrong = []; let count = 0;"
        f" const now = {{ ...state.get(), open: openItems.all(model), siblings: {siblings} }};"
        " const { boxes, lines } = stage.layout.place(now.open, layoutInputs.of(model, now));"
        " const closed = boxes.filter(box => !box.open).map(box => box.item);"
        " for (const from of closed) for (const to of closed) { if (from >= to) continue;"
        "   const onPaths = paths.of({ from, to }), lit = lines.filter(onPaths.line);"
        "   if (!onPaths.exist) { if (lit.length) wrong.push([from, to]); continue; }"
        "   count++;"
        "   const tails = new Set(lit.map(line => line.tail));"
        "   const heads = new Set(lit.map(line => line.head));"
        "   const passed = [...tails, ...heads].filter(item => item >= 0 && now.open.has(item));"
        "   for (const item of closed) if ("
        "     onPaths.has(item) !== (tails.has(item) || heads.has(item))"
        "     || (onPaths.has(item) && item !== to && !tails.has(item))"
        "     || (onPaths.has(item) && item !== from && !heads.has(item)))"
        "     wrong.push([from, to, item]);"
        "   for (const item of passed) if (!model.within(from, item) && !model.within(to, item) &&"
        "     !(lit.some(line => line.enters && line.scope === item) &&"
        "       lit.some(line => line.exits && line.scope === item)))"
        "     wrong.push([from, to, item]); }"
        " return [wrong, count]; }"
    )
    assert count > 10 and wrong == []


def test_a_line_to_other_siblings_is_on_no_path_inside_one(visit: Visiting) -> None:
    """It is drawn as leaving the fold that shows one sibling for all."""
    run = Builder("Net")
    with run.scope("Net"):
        h = state = run.input("x")
        for place in range(4):
            with run.scope(f"layers.{place}", "Layer"):
                state = run.op("mul", h, state)
                h = run.op("add", state, h)
        run.op("exp", h)
    seen = visit(run.recording(), depth=9)
    seen.page.evaluate("page.actions.expandAll(); page.state.set({ siblings: new Map() })")
    lit = seen.page.evaluate(
        "() => { const { model, paths, stage } = page;"
        " const first = op => model.all.find(item => model.op(item) === op);"
        " const from = first('mul'), to = first('add');"
        " return stage.picture().lines.filter(paths.of({ from, to }).line)"
        "   .map(line => [line.tail === from, line.head === to]); }")
    assert lit == [[True, True]]


@pytest.mark.parametrize("make, one, other, lines", [
    (branches, "left", "head", ["left out of encoder", "encoder head"]),
    (branches, "left", "add", ["left add"]),
    (branches, "right", "add", ["right relu", "relu add"]),
    (partial(dense, 3), "layers.0", "layers.1", ["layers.0 layers.1"]),
    (partial(halved, True), "x", "halves", [
        "x Between", "Between into halves", "Between into mul", "mul halves", "halves into relu",
        "halves into tanh",
    ]),
])
def test_a_line_is_on_a_path_only_where_its_reader_is(
    visit: Visiting, make: Callable[[], Recording], one: str, other: str, lines: list[str]
) -> None:
    """Of a tensor that several boxes read, the other lines are pale."""
    seen = visit(make(), depth=2)
    lit = seen.page.evaluate(
        "([one, other]) => { const { model, names, paths, state, stage } = page;"
        " const named = name => model.all.find(item => names.short(item) === name);"
        " const siblings = openItems.allSiblings(model);"
        " state.set({ siblings, open: new Set([...state.get().open, ...siblings.keys()]) });"
        " const { line } = paths.of({ from: named(one), to: named(other) });"
        " return stage.picture().lines.filter(line).map(({ tail, head, enters, exits }) =>"
        "   [names.short(tail), enters ? 'into' : exits ? 'out of' : '', names.short(head)]); }",
        [one, other])
    assert sorted(" ".join(filter(None, line)) for line in lit) == sorted(lines)


def test_shift_click_shows_paths_until_escape(visit: Visiting) -> None:
    """The rest is pale; the selection stays, and may change meanwhile."""
    seen = visit(branches(), depth=2)
    right, left, head = found(seen, "encoder.right", "encoder.left", "head")
    start = seen.page.url
    add, mul = seen.page.evaluate(
        "['add', 'mul'].map(op => page.model.all.find(item => page.model.op(item) === op))")
    choose(seen, right, mul)
    relu = seen.page.evaluate("page.model.all.find(item => page.model.op(item) === 'relu')")
    assert emphasized(seen) == {right, relu, add, mul}
    assert seen.page.locator(".related.path").count() == 1
    assert seen.page.locator(".ring.selected").count() == 2
    assert seen.state("selected") == right and "right" in seen.panel(right)
    seen.panel(left)
    assert emphasized(seen) == {right, relu, add, mul}, "another box can be read about"
    assert seen.page.locator(".related:not(.path), .ring:not(.selected)").count() == 0
    chip = seen.page.locator("#paths")
    assert chip.text_content() == "Paths between encoder.right and mul · Clear"
    seen.page.evaluate(f"page.actions.showPathsTo({left})")
    assert seen.state("to") == mul, "a box has no paths to itself"
    seen.page.keyboard.press("Escape")
    seen.settle()
    assert emphasized(seen) == set() and chip.is_hidden() and seen.page.url == start
    assert seen.page.locator(".related, .ring").count() == 0
    choose(seen, head, left)
    assert emphasized(seen) == {left, head}, "against the flow, too"
    chip.click()
    seen.settle()
    assert emphasized(seen) == set() and seen.state("selected") == head


@pytest.mark.parametrize("one, other, text", [
    ("encoder.right", "head", "No path between encoder.right and head"),
    ("encoder.right", "encoder.left", "No path between right and left"),
    ("encoder", "encoder.left", "No path: encoder.left is in encoder"),
    ("encoder.left", "encoder", "No path: encoder.left is in encoder"),
])
def test_a_page_says_if_there_is_no_path(
    visit: Visiting, one: str, other: str, text: str
) -> None:
    """In its bar, and to screen readers; only the two boxes are not pale."""
    seen = visit(branches(), depth=2)
    items = found(seen, one, other)
    choose(seen, *items)
    assert seen.page.locator("#paths").text_content() == f"{text} · Clear"
    assert seen.page.locator("#live").inner_text() == text
    assert emphasized(seen) == {item for item in items if not seen.is_open(item)}
    assert seen.page.locator(".related").count() == 0


def test_paths_are_in_the_address(visit: Visiting) -> None:
    """A link shows them, and back and forward clear and show them again."""
    seen = visit(branches(), depth=2)
    left, head = found(seen, "encoder.left", "head")
    choose(seen, left, head)
    assert "from=encoder.left&to=head" in seen.page.url
    seen.page.go_back()
    settled(seen, "page.state.get().to < 0")
    assert emphasized(seen) == set() and seen.state("selected") == left
    seen.page.go_forward()
    settled(seen, "page.state.get().to >= 0")
    seen.page.reload()
    seen.page.wait_for_selector("[role=treeitem]", state="attached")
    assert emphasized(seen) == {left, head}


@pytest.mark.parametrize("hash", ["#from=layers.1.fc&to=layers.3", "#scope=layers.1"])
def test_both_ends_of_paths_come_into_sight(visit: Visiting, hash: str) -> None:
    """Also if they are in two siblings of a fold: it shows all. By a link, or with Find."""
    seen = visit(stack(5), hash)
    [to] = found(seen, "layers.3")
    if "scope" in hash:
        seen.page.locator("#stage").focus()
        seen.page.keyboard.press("/")
        seen.page.keyboard.type("layers.3")
        seen.page.keyboard.press("Shift+Enter")
        seen.settle()
    ends = [seen.state("from"), seen.state("to")]
    assert ends == [*found(seen, hash.split("=")[1].split("&")[0]), to]
    boxes = seen.page.evaluate("page.stage.picture().boxes.map(box => box.item)")
    assert {*ends, *found(seen, "layers.2")} <= set(boxes)
    again = visit(stack(5), "#" + seen.page.url.split("#")[1])
    assert [again.state("from"), again.state("to")] == ends
    assert again.page.evaluate("page.stage.picture().boxes.map(box => box.item)") == boxes


def test_a_link_to_paths_leads_to_their_first_box(visit: Visiting) -> None:
    """However far it is from the beginning."""
    seen = visit(stack(40), "#from=layers.30&to=layers.32", fold=False)
    ring = seen.page.locator(".ring").first.bounding_box()
    assert 0 < ring["y"] and ring["y"] + ring["height"] < 800


def test_the_menu_of_a_box_leads_from_the_one_selected_before(visit: Visiting) -> None:
    """For fingers, which have no Shift."""
    seen = visit(branches(), depth=2)
    left, head = found(seen, "encoder.left", "head")
    entry = seen.page.locator(".menu button", has_text="Paths from left")
    seen.panel(left)
    seen.box(left).locator("text").first.click(force=True, button="right")
    assert entry.count() == 0
    seen.page.keyboard.press("Escape")
    seen.box(head).locator("text").first.click(force=True, button="right")
    entry.click()
    seen.settle()
    assert emphasized(seen) == {left, head} and seen.state("selected") == head


def test_paths_are_saved_and_printed_as_seen(visit: Visiting, tmp_path: Path) -> None:
    """Lines in color, other boxes pale; printed without the ring of a selection elsewhere."""
    seen = visit(branches(), depth=2)
    left, head, right = found(seen, "encoder.left", "head", "encoder.right")
    accent = seen.page.evaluate(
        "getComputedStyle(document.documentElement).getPropertyValue('--accent')")
    choose(seen, left, head)
    seen.panel(right)
    file = saved(seen, tmp_path)
    assert [line.get("stroke") for line in file.iterfind("{*}path")].count(accent) == 2
    pale = seen.page.locator(".boxes .box:not(.emphasized)").count()
    assert len([box for box in file.iterfind("{*}g") if box.get("opacity")]) == pale > 0
    assert len([ring for ring in file.iterfind("{*}rect") if ring.get("stroke")]) == 3
    seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert seen.page.locator(".sheet g[opacity]").count() == pale
    assert seen.page.locator(f".sheet svg > path[stroke='{accent}']").count() == 2
    assert seen.page.locator(".sheet svg > rect[stroke]").count() == 2
    seen.page.evaluate("dispatchEvent(new Event('afterprint'))")
