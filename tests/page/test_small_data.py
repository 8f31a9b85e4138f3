"""Single facts of the data of a page, in recordings of a few ops."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from tests.figures import network
from tests.page.test_data import Page, data_of
from tests.page.test_equal import tree_of
from torchrecorder.comparison.compare import compare
from torchrecorder.comparison.overlay import overlay
from torchrecorder.events import GRADIENT_MESSAGE, ModuleId, ScopeKind, Slot, ValueId
from torchrecorder.export.html import embedded
from torchrecorder.export.page_data.box_appearance import TreeAppearance, hidden_updates
from torchrecorder.export.page_data.columns import Columns
from torchrecorder.export.page_data.equal import representatives
from torchrecorder.export.page_data.facts import Facts
from torchrecorder.export.page_data.tensors import TensorColumns
from torchrecorder.graph.nodes import Module
from torchrecorder.recording import Recording
from torchrecorder.style import draw
from torchrecorder.style.captions import Captions
from torchrecorder.style.figure import Figure
from torchrecorder.style.style import Style
from torchrecorder.style.unread import unread
from torchrecorder.testing import Builder
from torchrecorder.views.bundles import FlowClassifier
from torchrecorder.views.tree import Tree
from torchrecorder.views.view import View


def test_texts_of_both_themes_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of each box and frame are the same in all colors, and nobody reads tooltips."""
    made = list[object]()

    def noted(module: object, name: str) -> None:
        kept = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *given: (made.append((name, given[-1])), kept(*given))[1]
        )

    noted(Captions, "box")
    noted(Captions, "cluster")
    for tooltip in ("tooltip", "scope_tooltip", "full_name"):
        noted(Captions, tooltip)
    noted(draw, "line_tooltip")
    noted(draw, "argument_marks")
    looks = [look for look in data_of(network(), fold=False)["looks"]]
    assert any(look["light"] != look["dark"] for look in looks)
    assert {name for name, _ in made} == {"box", "cluster"}
    assert all(one != other for place, one in enumerate(made) for other in made[:place])


def tensor_look(data: dict[str, Any], producer: str) -> Any:
    """The look of the lines of what an item gives; None if it is the usual one."""
    item = data["items"]["id"].index(producer)
    look = data["tensors"]["look"][data["tensors"]["producer"].index(item)]
    if isinstance(look, list):
        return [data["looks"][each]["light"] if each >= 0 else None for each in look]
    return data["looks"][look]["light"] if look >= 0 else None


def test_lines_that_a_style_paints_are_painted() -> None:
    """The usual look is not written; lines of one tensor to several readers may differ."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.op("neg", run.input("x"))
        run.op("add", run.op("a", x), run.op("b", x))
    recording = run.recording()

    def painted(*tails: str, heads: str = "o1 o2 o3 out:0") -> Any:
        def red(figure: Figure, view: View) -> Figure:
            return replace(figure, lines=tuple(
                replace(line, look=replace(line.look, stroke="#ff0000"))
                if line.tail in tails and line.head in heads else line
                for line in figure.lines
            ))

        data = data_of(recording, Style(finish=red))
        looks = [tensor_look(data, op) for op in ("o0", "o1")]
        return [
            [each and each["stroke"] for each in look] if isinstance(look, list)
            else look and look["stroke"] for look in looks
        ]

    assert painted() == [None, None]
    assert painted("o0") == ["#ff0000", None] and painted("o1") == [None, "#ff0000"]
    assert painted("o0", heads="o1") == [["#ff0000", None], None]
    assert painted("o0", heads="o2") == [[None, "#ff0000"], None]


@pytest.mark.parametrize(
    ("readers", "dash"), [("mm", "dashed"), ("m", "dashed"), ("", None), ("mr", None), ("rm", None)]
)
def test_gradients_that_are_sent_are_dashed(readers: str, dash: str | None) -> None:
    """Where nothing else reads them."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.op("neg", run.input("x"))
        for reader in readers or "r":
            run.op("recv", x, slots=(GRADIENT_MESSAGE if reader == "m" else "input",))
    look = tensor_look(data_of(run.recording()), "o0")
    assert (look and look["dash"]) == dash


def test_what_siblings_give_to_several_boxes_is_several_lines() -> None:
    """Also if these stand in one module, which is no fold."""
    run = Builder("Net")
    with run.scope("Net"):
        x, made = run.input("x"), []
        for number in range(4):
            with run.scope(f"b{number}", "Block"):
                made.append(run.op("relu", x))
        with run.scope("head", "Head"):
            for number, result in enumerate(made):
                run.op(f"f{number}", result)
    data = data_of(run.recording(), fold="similar")
    assert sum(data["items"]["fold"]) == 1 and data["tensor_trunks"] == []


def test_what_one_box_gives_another_is_one_link() -> None:
    """Six tensors that go the same way are one line; three are lines of their own."""
    for outputs, lines in ((6, 1), (3, 3)):
        run = Builder("Net")
        with run.scope("Net"):
            first = run.op("split", run.input("x"), outputs=outputs)
            start = int(first[1:])
            run.op("cat", *(ValueId(f"v{start + number}") for number in range(outputs)))
        tree = tree_of(run.recording())
        drawn = TreeAppearance(tree, Style())
        tensors = TensorColumns(drawn, Columns(tree, Facts(tree.view, {}, False), drawn.equal))
        assert len(tensors.trunks) == (lines == 1)
        heads = [(link.tail, link.head) for link in tensors.links()]
        assert heads.count((place_of(tree, "o0"), place_of(tree, "o1"))) == lines


def place_of(tree: Tree, item: str) -> int:
    """The number of a place."""
    return [place.id for place in tree.places].index(item)


def spare(recording: Recording, *values: ValueId) -> Recording:
    """*recording* with a module inside its first one that was never called."""
    slots = tuple(Slot(f"w{number}", value) for number, value in enumerate(values))
    module = Module(ModuleId("m9"), ("spare",), "Spare", "", "", slots, (), True, ())
    modules = MappingProxyType({**recording.modules, module.id: module})
    return replace(recording, modules=modules)


def test_weights_of_what_was_never_called_count_around_it() -> None:
    """In the modules around it, and nowhere else."""
    run = Builder("Net")
    with run.scope("Net"):
        with run.scope("fc", "Linear"):
            x = run.op("linear", run.input("x"), run.parameter("weight"))
        left = run.parameter("left", (3,))
        run.op("relu", x)
    recording = run.recording()
    modules = {name: module.replace(parameters=tuple(
        slot for slot in module.parameters if slot.value != left
    )) for name, module in recording.modules.items()}
    page = Page(data_of(spare(replace(recording, modules=MappingProxyType(modules)), left)))
    assert page.number("parameters", "Net") == 19
    assert page.number("parameters", "fc: Linear") == 16


@pytest.mark.parametrize(("calls", "equal"), [(1, True), (2, False), (3, False)])
def test_modules_that_are_called_again_are_like_no_other(calls: int, equal: bool) -> None:
    """Their weights are those of another call."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.op("neg", run.input("x"))
        for _ in range(calls):
            for name in ("one", "other"):
                with run.scope(name, "Linear"):
                    x = run.op("linear", x, run.parameter("weight"))
                x = run.op("neg", x)
    tree = tree_of(run.recording(), fold=False)
    keys = representatives(tree, Style(), FlowClassifier(tree.view).all(), unread(tree.view))
    assert (keys[place_of(tree, "s1")] == keys[place_of(tree, "s2")]) == equal


@pytest.mark.parametrize("closed", [(), "Block"])
def test_outputs_that_are_read_again_are_told_apart(closed: Any) -> None:
    """Of two blocks, open or closed, from which others read tensors that are no results."""
    def equal(*reads: str) -> bool:
        run = Builder("Net")
        with run.scope("Net"):
            x, made = run.input("x"), []
            for number, read in enumerate(reads):
                with run.scope(f"b{number}", "Block"):
                    first = run.op("split", x, outputs=2)
                    run.returns(run.op("neg", x))
                both = {"a": first, "b": ValueId(f"v{int(first[1:]) + 1}")}
                made += [run.op("neg", both[each]) for each in read]
            run.op("cat", *made)
        tree = tree_of(run.recording(), fold=False, closed=closed)
        keys = representatives(tree, Style(), FlowClassifier(tree.view).all(), unread(tree.view))
        return keys[place_of(tree, "s1")] == keys[place_of(tree, "s2")]

    assert equal("aab", "aab") and equal("ab", "ab")
    assert not equal("aab", "aaa") and not equal("ab", "aa") and not equal("aab", "abb")


def test_names_that_no_file_can_hold_are_written_as_escapes() -> None:
    """Half of a pair of surrogates; what JSON has no number for is refused."""
    assert embedded({"name": "\ud800</script>"}) == '{"name":"\\ud800\\u003c/script\\u003e"}'
    assert embedded({"name": "ü<"}) == '{"name":"ü\\u003c"}'
    with pytest.raises(ValueError):
        embedded({"name": "\ud800", "number": float("nan")})


def counted_twice(*, region: bool = False, plain: bool = True) -> Recording:
    """A module, called twice, that counts its calls in an op that has no box, in a *region* with
    another one."""
    run = Builder("Net")
    with run.scope("Net"):
        x, count = run.input("x"), None
        for _ in range(2):
            with run.scope("norm", "Norm"):
                kept = run.buffer("count")
                x = run.op("batch_norm", x) if plain else x
                with run.scope("no_grad", kind=ScopeKind.NO_GRAD) if region else nullcontext():
                    x = run.op("abs", x) if region else x
                    count = run.op("add_", count or kept, writes=count or kept)
                run.returns(*([x] if plain else []))
        run.op("neg", x)
    return run.recording()


@pytest.mark.parametrize(("region", "ends"), [(False, ("s1", "s2")), (True, ("s2", "s4"))])
def test_a_hidden_update_goes_from_the_scope_around_it(region: bool, ends: tuple[str, str]) -> None:
    """The innermost that is drawn, region or module, to that of the other op."""
    tree = tree_of(counted_twice(region=region), fold=False)
    (update,) = hidden_updates(tree)
    ids = [place.id for place in tree.places]
    assert (ids[update.tail], ids[update.head]) == ends
    assert update.around == update.tail and update.slot == "0"


def test_modules_that_are_hidden_have_no_hidden_updates() -> None:
    """What is not drawn takes nothing from what is."""
    assert hidden_updates(tree_of(counted_twice(), fold=False, hide="norm")) == ()


def test_modules_that_stay_closed_have_no_hidden_updates() -> None:
    """They have boxes, and the arrows between these carry the buffer."""
    tree = tree_of(counted_twice(), fold=False, closed="Norm")
    assert hidden_updates(tree) == () and "s1" in tree.view.boxes
    assert any((arrow.tail, arrow.head) == ("s1", "s2") for arrow in tree.view.arrows)


def test_a_chain_is_no_loop_where_another_module_runs_again() -> None:
    """Its fold carries nothing over."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input("x")
        for before, number in (("cell", 1), ("layers", 3), ("cell", 1)):
            for place in range(number):
                with run.scope(f"{before}.{place}", "Block"):
                    h = run.op("sin", run.op("cos", h))
            h = run.op("exp", h)
    page = Page(data_of(run.recording()))
    assert 1 in page.items["fold"] and page.data["loops"] == []
    texts = [line for label in page.items["label"] for line in page.lines(label)]
    assert not any("carried over" in line for line in texts)


def _added(reads_second: bool) -> Recording:
    """A sum of the first of three results and another one."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        first, second = run.op("sin", x), run.op("cos", x)
        third = run.op("tanh", first)
        run.op("add", first, second if reads_second else third)
        run.op("exp", second)
        run.op("log", third)
    return run.recording()


def test_reads_of_the_first_of_two_runs() -> None:
    """The tensor and which of its readers, without what both read."""
    found = compare(_added(True), _added(False))
    data = data_of(overlay(found.matching, found.changes).recording, fold=False)
    ((row, reader),) = data["former_reads"]
    tensors, ids = data["tensors"], data["items"]["id"]
    ends = tensors["producer"][row], tensors["consumers"][row][reader]
    assert [ids[end] for end in ends] == ["o1", "o3"]


@pytest.mark.parametrize(("fact", "failed"), [("ended", 2), ("caught", 1), ("running", 3)])
def test_how_an_operation_failed(fact: str, failed: int) -> None:
    """By an error that ended the run, or not; or it was running when the run was saved."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("exp", run.op("sin", run.input("x")))
        run.fail()
    recording = run.recording()
    name, op = [*recording.ops.items()][-1]
    recording = replace(recording, ops={**recording.ops, name: op.replace(failed=True)})
    facts = recording.run if fact == "ended" else replace(recording.run, failure=None)
    running = frozenset([name]) if fact == "running" else frozenset()
    data = data_of(replace(recording, run=replace(facts, running=running)))
    found = dict(zip(data["items"]["id"], data["items"]["failed"]))
    assert found["o1"] == failed and found["o0"] == 0


@pytest.mark.parametrize(("name", "sizes"), [("fc", 1), ("a_very_long_name_of_a_module", 2)])
def test_a_title_in_two_lines_has_the_size_of_one_line_too(name: str, sizes: int) -> None:
    """For where there is room."""
    run = Builder("Net")
    with run.scope("Net"), run.scope(name, "Linear"):
        run.op("exp", run.op("sin", run.input("x")))
    tree = tree_of(run.recording())
    drawn = TreeAppearance(tree, Style()).appearances()
    found = dict(zip((place.id for place in tree.places), drawn))
    assert len(found["s1"].header_sizes) == sizes == len(found["s1"].header)
