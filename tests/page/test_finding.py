"""How the page finds what is asked for: links, levels, search, keys, neighbors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.page.browser import Visiting
from torchrecorder.testing import Builder

pytestmark = pytest.mark.page


@pytest.mark.parametrize("list, text", [
    ([], ""), ([0], "0"), ([0, 1, 2, 5], "0-2,5"), ([34, 35, 36, 40], "y-10,14"),
])
def test_ranges_in_links(flat: Any, list: list[int], text: str) -> None:
    """Short, and read back as they were."""
    assert flat("link.ranges", list) == text
    assert flat("text => link.fromRanges(text, 1000)", text) == list


@pytest.mark.parametrize("hash", [
    "", "#", "#scope=", "#scope=no.such.thing", "#open=zzzzz-zzzzzz", "#open=%E0%A4%A", "#scope=%",
    "#tensor=-1&open=",
    "#direction=up&siblings=zz.9,.,0.all&hidden=zz-zzz&isolated=no&side=x",
    "#color=__proto__", "#tensor=99999999", "#open=5-2,,-", "#a=b=c&&=",
    "#type=__proto__", "#type=", "#from=layers.1", "#to=layers.1", "#from=layers.1&to=no",
    "#from=layers.1&to=layers.1",
])
def test_any_link_leads_somewhere(deep: Any, hash: str) -> None:
    """What it says wrong is as if it had not been said."""
    state = deep("hash => { const s = link.decode(page.model, hash);"
                 " return { ...s, open: [...s.open] }; }", hash)
    count = deep("page.model.count")
    assert state["selected"] == -1 and state["tensor"] == -1 and state["color"] is None
    assert state["type"] is None and state["from"] == -1 and state["to"] == -1
    assert all(0 <= item < count for item in state["open"])
    assert state["direction"] == "TB" and state["root"] == -1 and state["side"] is None


def test_links_keep_the_state(deep: Any) -> None:
    """For every box selected, and with all, some or nothing open."""
    wrong = deep(
        "() => { const { model } = page, opens = [new Set(), new Set(model.data.open),"
        "   openItems.all(model), new Set(model.openable.filter((_, at) => at % 2))];"
        " const keys = [null, ...model.data.annotations.map(each => each.key)];"
        " const first = layoutInputs.initial(model), wrong = []; for (const open of opens)"
        " for (let item = -1; item < model.count; item++)"
        " { const color = keys[(item + 1) % keys.length];"
        "   const said = link.encode(model,"
        "     { ...first, open, selected: item, tensor: -1, color });"
        "   const read = link.decode(model, '#' + said);"
        "   if (read.selected !== item || read.color !== color ||"
        "     !openItems.areEqualSets(read.open, open))"
        "     wrong.push(said); } return wrong; }"
    )
    assert wrong == []


def test_a_short_link_opens_what_is_around(deep: Any) -> None:
    """``#scope=layers.3`` alone: the fold around it, and itself."""
    shown = deep(
        "() => { const found = link.decode(page.model, '#scope=layers.3');"
        " const { selected, open } = found;"
        " return [page.model.title(selected),"
        "   openItems.isRevealed(page.model, open, selected),"
        "   open.has(selected), link.encode(page.model, found)]; }"
    )
    assert shown == ["layers.3: Block", True, True, "scope=layers.3"]


def test_folds_are_no_level(deep: Any) -> None:
    """Levels leave them as they are; they open and close together."""
    counts = deep(
        "() => { const { model } = page, folds = openItems.folds(model);"
        " const has = open => folds.filter(item => open.has(item)).length;"
        " const all = openItems.withFolds(model, new Set());"
        " return [folds.length, has(openItems.toLevel(model, new Set(), 9)), has(all),"
        "   has(openItems.toLevel(model, all, 1)), has(openItems.withoutFolds(model, all))]; }"
    )
    assert counts == [1, 0, 1, 1, 0]


def test_modules_are_found_before_what_is_in_them(deep: Any) -> None:
    """An operation has the path of its module; who looks for the module means the module."""
    kinds = deep(
        "() => { const { model } = page;"
        " return search.find(search.index(model), 'linear').hits"
        "   .map(({ item }) => model.kind(item)); }"
    )
    named = deep(
        "() => { const { model } = page;"
        " return search.find(search.index(model), 'layers.3').hits"
        "   .map(({ item }) => [model.kind(item), model.path(item)]); }"
    )
    assert kinds and named[0] == ["module", "layers.3"]
    inside = [kind for kind, path in named if path.startswith("layers.3")]
    assert inside == sorted(inside, key=lambda kind: kind != "module")


def test_what_can_be_seen(deep: Any) -> None:
    """The boxes that are drawn, each once."""
    same = deep(
        "() => { const { model, stage } = page, open = openItems.all(model);"
        " const seen = openItems.visible(model, open);"
        " const drawn = stage.layout.place(open).boxes.map(box => box.item);"
        " return [seen.length, new Set(seen).size,"
        "   drawn.filter(item => seen.includes(item)).length]; }"
    )
    assert same[0] == same[1] == same[2] == deep("page.model.count")


def test_search_puts_names_before_what_is_in_them(deep: Any) -> None:
    """Whole names first, in the order of the run; every word counts."""
    find = ("query => { const found = search.find(search.index(page.model), query);"
            " return found.hits.map(each => each.title); }")
    assert deep(find, "layers.3")[0] == "layers.3: Block"
    assert deep(find, "BLOCK layers.4")[0] == "layers.4: Block"
    assert deep(find, "block nonsense") == [] and deep(find, "  ") == []


def test_search_finds_what_draws_random_numbers(visit: Visiting) -> None:
    """Its hit says so; the line of code is shown for other words."""
    build = Builder("Net")
    with build.scope("", "Net"):
        build.op("relu", build.op("dropout", build.input(), random=True))
    evaluate = visit(build.recording(), depth=9).page.evaluate
    find = "query => { const { model } = page; return search.find(search.index(model), query)"
    show = ".hits.map(hit => [model.op(hit.item), search.reason(model, hit, query)]); }"
    assert evaluate(find + show, "random") == [["dropout", "random numbers"]]
    assert [reason for _, reason in evaluate(find + show, "net.py")][:1] != ["random numbers"]


def test_search_reads_shapes_in_usual_spellings(flat: Any) -> None:
    """An x is as good as a multiplication sign, and other words keep theirs."""
    assert flat("search.queryWords('1 x 64x56 MaxPool2d box')") == ["1×64×56", "maxpool2d", "box"]
    assert flat("search.find(search.index(page.model), '2x4').count") > 1


BOXES = [
    {"item": 0, "x": 0, "y": 0, "w": 300, "h": 400, "open": True},
    {"item": 1, "x": 100, "y": 30, "w": 100, "h": 40},
    {"item": 2, "x": 20, "y": 120, "w": 100, "h": 40},
    {"item": 3, "x": 180, "y": 120, "w": 100, "h": 40},
    {"item": 4, "x": 100, "y": 420, "w": 100, "h": 40},
]


@pytest.mark.parametrize("item, way, goal", [
    (0, (0, 1), 1), (1, (0, 1), 2), (2, (1, 0), 3), (3, (-1, 0), 2), (3, (0, 1), 4),
    (4, (0, -1), 3), (1, (0, -1), 0), (0, (0, -1), None),
])
def test_arrows_lead_to_the_box_that_way(
    flat: Any, item: int, way: tuple[int, int], goal: int | None
) -> None:
    """An open box is where its title is."""
    found = flat("([boxes, item, [dx, dy]]) => keyNavigation.toward(boxes, item, dx, dy)",
                 [BOXES, item, list(way)])
    assert found in ((goal,) if goal != 2 and goal != 3 else (2, 3))


@pytest.mark.parametrize("item, step, goal", [
    (-1, 1, 0), (-1, -1, 4), (0, 1, 1), (4, 1, None), (0, -1, None),
])
def test_tab_follows_the_run(flat: Any, item: int, step: int, goal: int | None) -> None:
    """And leaves the picture past its ends."""
    assert flat("([boxes, item, step]) => keyNavigation.next(boxes, item, step)",
                [BOXES[::-1], item, step]) == goal


def test_lines_between_a_box_and_its_neighbors_are_highlighted(deep: Any) -> None:
    """From each box, the lines that lead out end at what reads it; those in come from what
    feeds it; with anything open."""
    wrong = deep(
        "() => { const { model, stage } = page, wrong = [];"
        " const opens = [new Set(model.data.open), openItems.all(model)];"
        " for (const open of opens) { const { lines } = stage.layout.place(open);"
        "  for (const item of openItems.visible(model, open)) {"
        "   const test = relations.ofItem(model, item);"
        "   const near = relations.neighbors(model,"
        "     { open, siblings: openItems.allSiblings(model) }, item);"
        "   const heads = new Set(), tails = new Set();"
        "   for (const line of lines) { const way = test(line);"
        "     if (way === 'out') heads.add(line.head); if (way === 'in') tails.add(line.tail); }"
        "   for (const [other, way] of near)"
        "     if (!(way === 'out' ? heads : tails).has(other)) wrong.push([item, other, way]);"
        " } } return wrong; }"
    )
    assert wrong == []


def test_the_whole_has_no_lines_in_or_out_but_its_own(flat: Any) -> None:
    """The outermost box reads the input and gives the output, nothing else."""
    names = flat(
        "() => { const { model } = page, top = model.openable[0];"
        " return [model.inputs(top), model.outputs(top)].map(list =>"
        "   list.map(each => model.kind(each.item))); }"
    )
    assert names == [["input"], ["output"]]
