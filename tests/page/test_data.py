"""The data of the page: what stands on boxes, what flows, what is known."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from tests.figures import linear, network, regions
from tests.random_recordings import recordings
from tests.stepped import stepped
from tests.views.test_fold import block, stack
from tests.views.test_similar import stages
from torchrecorder.annotations.annotation import Annotation
from torchrecorder.comparison.compare import compare
from torchrecorder.comparison.overlay import overlay
from torchrecorder.events import Statistics
from torchrecorder.export.html import embedded
from torchrecorder.export.page_data.data import page_data
from torchrecorder.layout.layered import Item, Link, place, plan
from torchrecorder.recording import Recording
from torchrecorder.style.diff_colors import DiffColors
from torchrecorder.style.style import RULES, Style
from torchrecorder.style.themes import DARK, PRINT
from torchrecorder.testing import Builder
from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.page_view import page_view
from torchrecorder.views.pipeline import ViewOptions


def data_of(recording: Recording, style: Style = Style(), **options: Any) -> dict[str, Any]:
    """What a page with these options holds."""
    return page_data(page_view(recording, ViewOptions(**options)), style)


class Page:
    """Reads the data of a page by what people call things."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.items = data["items"]

    def lines(self, label: int) -> list[str]:
        """The texts of a label."""
        return [self.data["strings"][text] for text, _ in self.data["labels"][label]]

    def find(self, title: str) -> int:
        """The first item that is called so."""
        labels = enumerate(self.items["label"])
        return next(item for item, label in labels if self.lines(label)[0] == title)

    def box(self, title: str) -> list[str]:
        """What stands on a closed box."""
        return self.lines(self.items["label"][self.find(title)])

    def facts(self, title: str) -> dict[str, str]:
        """What is known of an item; of equal titles the last."""
        strings = self.data["strings"]
        rows = self.data["facts"][self.items["facts"][self.find(title)]]
        return {strings[name]: strings[text] for name, text in rows}

    def number(self, key: str, title: str) -> float | None:
        """The number of an item in one annotation."""
        column = next(each for each in self.data["annotations"] if each["key"] == key)
        return column["values"][self.find(title)]  # type: ignore[no-any-return]


def test_columns_are_all_of_one_length() -> None:
    """One entry for each item, and one for each tensor."""
    data = data_of(stack(3))
    assert len({len(column) for column in data["items"].values()}) == 1
    assert len({len(column) for column in data["tensors"].values()}) == 1
    assert {len(each["values"]) for each in data["annotations"]} == {len(data["items"]["id"])}


def test_closed_box_has_the_texts_of_a_figure() -> None:
    """Title, weights, and the shape that it gives out."""
    page = Page(data_of(network()))
    assert page.box("body: Sequential") == ["body: Sequential", "32 params", "→ 2×4"]
    assert page.box("0: Linear") == ["0: Linear", "4 → 4, no bias", "16 params", "→ 2×4"]


def test_fold_is_a_box_with_a_count() -> None:
    """Its title has the range of names; open, it has that in its corner."""
    page = Page(data_of(stack(12)))
    fold = page.find("layers.0 … layers.11: Block  ×12")
    assert page.items["fold"][fold] == 1 and page.items["count"][fold] == 12
    assert page.items["id"][fold] == "fold:s2"
    assert page.lines(page.items["label"][fold])[1:] == ["12 × 16 params", "→ 2×4"]
    assert page.lines(page.items["header"][fold]) == ["layers.0 … layers.11:", "Block  ×12"]
    inside = [item for item, around in enumerate(page.items["parent"]) if around == fold]
    assert len(inside) == 12


def test_what_can_be_opened_has_a_header_and_a_template() -> None:
    """And nothing else has."""
    items = data_of(stack(3))["items"]
    can = [header >= 0 for header in items["header"]]
    assert can == [size is not None for size in items["header_size"]]
    assert can == [number >= 0 for number in items["template"]]
    assert can == [look >= 0 for look in items["open_look"]]
    assert can == [item in items["parent"] for item in range(len(can))]


def test_layout_is_that_of_its_parts() -> None:
    """The templates are those that `layout.nested` makes of sizes and links."""
    data = data_of(network())
    assert len(data["templates"]) == len(set(data["items"]["template"]) - {-1}) + 1
    assert data["root"] not in data["items"]["template"]
    scopes = [number for number in data["items"]["template"] if number >= 0]
    assert all(
        len(data["carried"][item + 1]) == len(data["templates"][number]["trunks"])
        for item, number in enumerate(data["items"]["template"]) if number >= 0
    )
    assert len(scopes) == 5


def test_tensors_have_their_maker_and_readers() -> None:
    """An input that two boxes read is one tensor with two readers."""
    page = Page(data_of(network()))
    tensors = page.data["tensors"]
    source_item = page.items["id"].index("v0")
    row = tensors["producer"].index(source_item)
    readers = [page.items["id"][item] for item in tensors["consumers"][row]]
    assert len(readers) == 2 and "out:0" not in readers
    assert page.data["strings"][tensors["text"][row]] == "2×4 float32"


def test_facts_hold_what_was_recorded() -> None:
    """Class, settings, mode, tensors, parameters, autograd."""
    page = Page(data_of(network()))
    scope, op = page.facts("0: Linear"), page.facts("linear")
    assert scope["settings"] == "in_features=4, out_features=4, bias=False"
    assert scope["mode"] in ("training", "evaluation")
    assert scope["out"].startswith("2×4 float32 on cpu")
    assert scope["parameter weight"].startswith("4×4 float32 on cpu")
    assert op["autograd"] == "TBackward0, MmBackward0"


def test_facts_of_equal_things_are_kept_once() -> None:
    """Eleven equal blocks have one list of facts; the first reads what needs no gradient."""
    page = Page(data_of(stack(12)))
    blocks = [item for item, cls in enumerate(page.items["cls"])
              if page.data["strings"][cls] == "Block" and not page.items["fold"][item]]
    assert len(blocks) == 12
    assert len({page.items["facts"][item] for item in blocks[1:]}) == 1


def test_numbers_add_up_in_what_is_around() -> None:
    """The weights of a scope are those of all in it."""
    page = Page(data_of(stack(3)))
    assert page.number("parameters", "Stack") == 80
    assert page.number("parameters", "layers.0 … layers.2: Block  ×3") == 48
    assert page.number("parameters", "stem: Stem") == 16
    assert page.number("parameters", "add") is None


def test_nan_and_infinity_are_reported_by_pass() -> None:
    """The panel says of which pass they are, as figures do; colors go by the sum."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.op("log", run.input("x"), grads=("LogBackward0",))
        run.op("neg", x, grads=("NegBackward0",))
    bad = {"v1": (-1, 3), "v2": (-1, 0), "g0": (0, 2), "g1": (0, 0)}
    taken = [
        Statistics(node, 0, pass_, 8, 0.0, 1.0, -1.0, 1.0, 1.0, 0, nans, 0)
        for node, (pass_, nans) in bad.items()
    ]
    data = data_of(replace(run.recording(), statistics=tuple(taken)))
    column = next(each for each in data["annotations"] if each["key"] == "not_finite")
    page = Page(data)
    values = {
        title: data["strings"][column["texts"][page.find(title)]] for title in ("log", "neg", "Net")
    }
    assert values == {
        "log": "3 forward, 2 backward", "neg": "0", "Net": "3 forward, 2 backward"
    }
    assert column["format"] == "exact" and column["values"][page.find("log")] == 5


def test_an_annotation_of_the_users_own() -> None:
    """Comes with the texts that it prints, and colors the page at first."""
    mine = Annotation(
        "mine", "Mine", "", lambda rec: {op: 1.5 for op in rec.ops}, None, lambda n: f"{n} of it"
    )
    data = data_of(network(), Style(color_by=mine, color_range=(0.0, 2.0)))
    column = next(each for each in data["annotations"] if each["key"] == "mine")
    assert column["format"] == "text"
    texts = {data["strings"][text] for text in column["texts"] if text >= 0}
    assert texts == {"1.5 of it"}
    assert data["color_by"] == "mine" and data["color_range"] == (0.0, 2.0)


@pytest.mark.parametrize("style, expected", [
    (Style(), ("auto", "#ffffff", "#15181d")),
    (Style(theme=DARK), ("dark", "#ffffff", "#15181d")),
    (Style(theme=PRINT), ("light", "#ffffff", "#ffffff")),
    (Style(background="#ffeedd"), ("auto", "#ffeedd", "#15181d")),
])
def test_themes(style: Style, expected: tuple[str, ...]) -> None:
    """Ours come in two, for light and dark; others are kept as they are."""
    data = data_of(network(), style)
    papers = (data["themes"][name]["paper"] for name in ("light", "dark"))
    assert (data["theme"], *papers) == expected


def test_looks_follow_the_users_rules() -> None:
    """In both themes, closed and open."""
    def rule(box: Any, view: Any, theme: Any) -> Any:
        return theme.looks["failed"] if box.id == "s1" else None

    page = Page(data_of(network(), Style(rules=(rule, *RULES))))
    look = page.data["looks"][page.items["look"][page.items["id"].index("s1")]]
    assert look["light"]["outline"] == look["dark"]["outline"] == "octagon"
    assert look["light"]["fill"] != look["dark"]["fill"]


def test_backward_view_can_be_opened_too() -> None:
    """Grad nodes in the scopes whose forward made them."""
    page = Page(data_of(stepped(), view="backward"))
    assert {"g4", "g3", "g1"} <= set(page.items["id"])
    assert page.facts("MmBackward0")["autograd"]


def test_regions_are_places_too() -> None:
    """A no_grad block can be opened; its kind says what it is."""
    page = Page(data_of(regions()))
    region = page.find("no_grad")
    assert page.data["strings"][page.items["kind"][region]] == "region"
    assert page.items["template"][region] >= 0


def test_the_plan_places_all() -> None:
    """What is written in the data is enough to place every item."""
    data = data_of(stack(4))
    items = data["items"]
    sizes = [(29.0, 21.0)] * len(items["id"])
    given = [
        Item(str(n), parent, *sizes[n], header=size and tuple(size[:2]))
        for n, (parent, size) in enumerate(zip(items["parent"], items["header_size"]))
    ]
    tensors = data["tensors"]
    links = [
        Link(maker, reader, str(row))
        for row, (maker, readers) in enumerate(zip(tensors["producer"], tensors["consumers"]))
        for reader in readers
    ]
    picture = place(plan(given, links))
    assert {box.item for box in picture.boxes} == set(range(len(given)))


def test_failed_run_is_reported() -> None:
    """In the item in which it happened, around it, and about the run."""
    run = Builder("Failing")
    with pytest.raises(RuntimeError), run.scope("Failing"):
        block(run, "fine", run.input())
        run.fail("ValueError", "shapes do not fit")
        raise RuntimeError
    data = data_of(run.recording())
    page = Page(data)
    rows = [page.data["strings"][text] for _, text in data["about"]]
    assert "ValueError at net.py:14: shapes do not fit" in rows


def test_loops_are_folds_of_blocks() -> None:
    """Closed, open, and each of their turns."""
    run = Builder("Loop")
    with run.scope("Loop"):
        h = run.input()
        for _ in range(12):
            h = run.op("sin", run.op("cos", h))
    page = Page(data_of(run.recording()))
    fold = page.find("loop  ×12")
    assert page.items["count"][fold] == 12 and page.lines(page.items["header"][fold]) == [
        "loop  ×12", "carried over: 2×4"
    ]
    assert page.box("loop  ×12")[1] == "carried over: 2×4" and page.data["loops"] == [fold]
    turn = page.items["parent"].index(fold)
    assert page.lines(page.items["label"][turn]) == ["cos, sin", "→ 2×4"]
    assert page.number("output_bytes", "loop  ×12") == 12 * 2 * 32


def test_a_comparison_shows_what_changed() -> None:
    """In the rows of each thing that differs; nothing of what stayed."""
    found = compare(network(), _resized())
    laid = overlay(found.matching, found.changes)
    style = DiffColors(
        {node: kind.value for node, kind in laid.marks.items()},
        laid.removed,
        laid.added,
        laid.notes,
    ).style(Style())
    page = Page(data_of(laid.recording, style, fold=False))
    assert page.facts("0: Linear")["note"] == "changed: out_features: 4 → 8"
    assert "note" not in page.facts("2: Linear")
    assert [page.data["strings"][text] for text, _ in page.data["legend"]] == ["different"]


def test_the_legend_is_of_what_is_closed_too() -> None:
    """Modules that can be opened are marked, and their families in the outline of modules."""
    data = data_of(stack(3), Style(legend=True), depth=1)
    outlines = {
        data["strings"][text]: data["looks"][look]["light"]["outline"]
        for text, look in data["legend"]
    }
    assert outlines["module"] == outlines["weights"] == "box"
    assert outlines["input"] == "parallelogram"


def _resized() -> Recording:
    """The network, its first layer set up in another way."""
    recording = network()
    modules = {
        name: each.replace(detail="in_features=4, out_features=8, bias=False")
        if each.names == ("body.0",)
        else each
        for name, each in recording.modules.items()
    }
    return replace(recording, modules=modules)


@settings(max_examples=60, deadline=None)
@given(recordings())
def test_any_recording_has_a_page(recording: Recording) -> None:
    """Places come after what is around them; lines join leaves; what is open can be."""
    for options in ({}, {"fold": False, "parameters": True}, {"view": "backward"}):
        if "view" in options and not recording.grad_nodes:
            continue
        data = json.loads(embedded(data_of(recording, **options)))
        items, tensors = data["items"], data["tensors"]
        count = len(items["id"])
        assert len(set(items["id"])) == count
        assert all(around < item for item, around in enumerate(items["parent"]))
        ends = {*tensors["producer"], *(item for row in tensors["consumers"] for item in row)}
        assert all(items["header"][item] < 0 for item in ends)
        assert all(items["header"][item] >= 0 for item in data["open"])
        folds = [items["id"][item] for item in data["open"] if items["fold"][item]]
        assert all(map(is_block, folds)) and (recording.backward_runs or not folds)


def test_a_fold_of_siblings_that_differ_shows_in_what() -> None:
    """On its box, and in the panel for each; it opens to all of them."""
    page = Page(data_of(stages(1, 2), depth=1, fold="similar"))
    title = "layer1, layer2: Sequential  ×2"
    assert page.box(title)[2:5] == ["Block ×1, 2", "channels 16, 32", "size 32×32, 16×16"]
    assert page.facts(title)["layer2"] == "Block ×2, channels 32, size 16×16, 18.4 k params"
    around = page.find(title)
    inside = [item for item, parent in enumerate(page.items["parent"]) if parent == around]
    titles = [page.lines(page.items["label"][item])[0] for item in inside]
    assert titles == ["layer1: Sequential", "layer2: Sequential"]


def collected(number: int) -> Recording:
    """Layers whose results one op reads together, as a dense head does."""
    run = Builder("Collected")
    with run.scope("Collected"):
        h, made = run.input(), []
        for layer in range(number):
            made.append(h := block(run, f"layers.{layer}", h))
        linear(run, "head", run.op("cat", *made))
    return run.recording()


def test_what_a_fold_gives_to_one_box_is_one_line() -> None:
    """Outside of it; inside each sibling has its own, and the panel tells them apart."""
    data = data_of(collected(12), depth=1)
    page = Page(data)
    fold, cat = page.find("layers.0 … layers.11: Block  ×12"), page.find("cat")
    (members,), row = data["tensor_trunks"], len(data["tensors"]["text"]) - 1
    assert len(members) == 12 and row not in members
    assert data["strings"][data["tensors"]["text"][row]] == "12 tensors of 2×4 float32"
    assert (data["tensors"]["producer"][row], data["tensors"]["consumers"][row]) == (fold, [cat])
    around = page.items["parent"][fold]
    assert data["carried"][around + 1].count(row) == 1
    assert not set(members) & set(data["carried"][around + 1])
    assert set(members) <= set(data["carried"][fold + 1])


def test_what_several_boxes_read_is_not_joined_with_the_rest() -> None:
    """A layer whose result goes to another box too keeps its line."""
    run = Builder()
    with run.scope("Net"):
        h, made = run.input(), []
        for layer in range(4):
            made.append(h := block(run, str(layer), h))
        linear(run, "head", run.op("cat", *made))
        run.op("neg", made[3])
    data = data_of(run.recording(), depth=1)
    assert [len(members) for members in data["tensor_trunks"]] == [3]
