"""What the data of a page says of each item and tensor, one fact each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn

import torchrecorder
from tests.figures import linear, network, regions
from tests.graph.test_consistency import changed
from tests.page.test_data import Page, data_of
from tests.views.test_fold import stack
from torchrecorder.annotations.annotation import Annotation
from torchrecorder.export.page_data import numbers
from torchrecorder.recording import Recording
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder


def column(page: Page, name: str) -> dict[str, Any]:
    """What a column says of each item, by its id."""
    found = zip(page.items["id"], page.items[name])
    written = name in ("kind", "cls", "op", "path", "source")
    return {item: page.data["strings"][row] if written else row for item, row in found}


def tensors(page: Page, name: str) -> dict[str, list[Any]]:
    """What a column says of the tensors that leave an item, by its id."""
    rows: dict[str, list[Any]] = {}
    for maker, row in zip(page.data["tensors"]["producer"], page.data["tensors"][name]):
        rows.setdefault(page.items["id"][maker], []).append(row)
    return rows


def test_kinds() -> None:
    """Of boxes, open scopes, regions, folds, and what stands at the ends."""
    kinds = column(Page(data_of(regions())), "kind")
    assert (kinds["s0"], kinds["s2"], kinds["o0"]) == ("module", "region", "op")
    assert (kinds["v0"], kinds["out:0"]) == ("input", "output")
    page = Page(data_of(stack(3)))
    kinds, folds = column(page, "kind"), column(page, "fold")
    assert kinds["fold:s2"] == "fold" and kinds["s2"] == kinds["s0"] == "module"
    assert [item for item, fold in folds.items() if fold] == ["fold:s2"]


def test_classes_names_and_calls() -> None:
    """Classes of scopes, names of ops, which call it is, where it failed."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input("x")
        for _ in range(2):
            h = run.op("relu", linear(run, "fc", h))
    recording = changed(run.recording(), "ops", "o2", failed=True)
    page = Page(data_of(changed(recording, "scopes", "s2", failed=True), fold=False))
    classes, ops = column(page, "cls"), column(page, "op")
    assert (classes["s1"], ops["s1"], classes["o0"], ops["o0"]) == ("Linear", "", "", "linear")
    calls, failed = column(page, "call"), column(page, "failed")
    assert (calls["s1"], calls["s2"], calls["o0"]) == (0, 1, 0)
    assert {item for item, there in failed.items() if there} == {"s2", "o2"}
    sources = column(page, "source")
    assert sources["o0"] == "net.py:12 in forward" and sources["s1"] == sources["v0"] == ""


def test_paths() -> None:
    """Of scopes their own, of folds that of all in them, of all else that of the scope around."""
    page = Page(data_of(stack(3)))
    paths, parents = column(page, "path"), column(page, "parent")
    ids = page.items["id"]
    assert paths["s0"] == "" and paths["s2"] == "layers.0"
    assert paths["fold:s2"] == "layers.0 … layers.2"
    for item, around in parents.items():
        if item.startswith("o") and around >= 0 and not item.startswith("out"):
            assert paths[item] == paths[ids[around]]


def test_tensors_show_what_they_are() -> None:
    """Shape and type, the argument that reads them, and facts."""
    run = Builder("Net")
    with run.scope("Net"):
        x, mask = run.input("x", (2, 3)), run.input("mask", (2,), "bool")
        run.op("where", x, mask, slots=("condition", "1"))
    page = Page(data_of(run.recording()))
    strings, facts = page.data["strings"], page.data["facts"]
    texts = {item: [strings[row] for row in rows] for item, rows in tensors(page, "text").items()}
    assert texts == {"v0": ["2×3 float32"], "v1": ["[2] bool"], "o0": ["2×4 float32"]}
    slots = {item: [[strings[slot] for slot in row] for row in rows]
             for item, rows in tensors(page, "slots").items()}
    assert slots["v0"] == [["condition"]] and slots["v1"] == [[""]]
    facts_of = {item: [[(strings[a], strings[b]) for a, b in facts[row]] for row in rows]
                for item, rows in tensors(page, "facts").items()}
    assert facts_of["v0"] == [[("tensor", "2×3 float32 on cpu")]]


def attention() -> Recording:
    """A module that takes query, key and value, of which two are one."""
    run = Builder("Net")
    with run.scope("Net"):
        q, k = run.op("q", run.input("x")), run.op("k", run.input("y"))
        with run.scope("attention", "Attention"):
            run.op("attend", run.op("scaled", q), k, k, slots=("query", "key", "value"))
    recording = run.recording()
    scope = next(scope for scope in recording.scopes.values() if scope.cls == "Attention")
    first, second = scope.inputs
    named = (first._replace(name="query"), second._replace(name="key"),
             second._replace(name="value"))
    return changed(recording, "scopes", scope.id, inputs=named)


def test_marks_at_what_is_closed() -> None:
    """Each tensor by the argument of the module that takes it; none into what takes no roles."""
    page = Page(data_of(attention(), depth=1))
    strings, ids = page.data["strings"], page.items["id"]
    producer = page.data["tensors"]["producer"]
    closed = {
        (ids[item], ids[producer[row]], strings[text], place)
        for item, row, text, place in page.data["closed_marks"]
    }
    assert closed == {("s1", "o0", "q", 0), ("s1", "o1", "key = value", -1)}
    inside = {(ids[producer[row]], strings[text]) for row, _, text, _ in page.data["marks"]}
    assert inside == {("o1", "key = value")}
    plain = data_of(network())
    assert plain["closed_marks"] == plain["marks"] == []


def test_marks_are_at_each_of_the_siblings_of_a_fold() -> None:
    """Not at the fold, into which tensors of several go."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.op("neg", run.input("x"))
        for number in range(4):
            with run.scope(f"a{number}", "Attention"):
                y = run.op("key", x)
                x = run.op("attend", x, y, slots=("query", "key"))
    recording = run.recording()
    for name, scope in recording.scopes.items():
        if scope.cls == "Attention":
            pair = scope.inputs[0]._replace(name="query"), scope.inputs[0]._replace(name="key")
            recording = changed(recording, "scopes", name, inputs=pair)
    page = Page(data_of(recording, depth=1))
    marked = {item for item, *_ in page.data["closed_marks"]}
    assert sum(page.items["fold"]) == 1
    assert [page.items["id"][item] for item in sorted(marked)] == ["s1", "s2", "s3", "s4"]
    assert not any(page.items["fold"][item] for item in marked)


def mine(merge: Any = None, **found: float) -> dict[str, Any]:
    """A column of numbers of one's own."""
    own = Annotation("mine", "Mine", "", lambda _: found, merge, lambda number: f"{number:g}")
    page = Page(data_of(network(), Style(numbers=(own,)), fold=False))
    entry = next(each for each in page.data["annotations"] if each["key"] == "mine")
    return dict(zip(page.items["id"], entry["values"]))


@pytest.mark.parametrize(
    ("merge", "both"), [(None, None), (max, 2.5), (sum, 4.0), (lambda found: None, None)]
)
def test_numbers_of_what_is_around(merge: Any, both: float | None) -> None:
    """One alone is that of all around it; of several what joins them, if that is something."""
    found = mine(merge, o0=1.5, o1=2.5)
    assert (found["o0"], found["s2"], found["o1"]) == (1.5, 1.5, 2.5)
    assert (found["s1"], found["s0"]) == (both, both)


def test_numbers_are_short() -> None:
    """Whole ones in full, others in four digits; what is not finite is left out."""
    found = mine(max, o0=1.23456, o1=123456.0, o2=float("inf"), o4=-0.000123456)
    assert found["o0"] == 1.235 and found["o1"] == 123456 and found["o4"] == -0.0001235
    assert isinstance(found["o1"], int) and found["o2"] is found["s0"] is None


@pytest.mark.parametrize("at_once", [1, 4, 1000])
def test_a_fold_has_the_mean_of_what_is_not_added(at_once: int) -> None:
    """However many places are looked at together."""
    recording = stack(3)
    made = {out: op.index for op in recording.ops.values() for out in op.outputs}
    own = Annotation("mine", "Mine", "", lambda _: made, None, str)
    with mock.patch.object(numbers, "AT_ONCE", at_once):
        page = Page(data_of(recording, Style(numbers=(own,))))
    entry = next(each for each in page.data["annotations"] if each["key"] == "mine")
    [fold] = entry["means"]
    inside = [n for n, parent in enumerate(page.items["parent"]) if parent == fold]
    found = [entry["values"][each] for each in inside]
    assert page.items["fold"][fold] and len({*found}) == 3
    assert entry["values"][fold] == sum(found) / 3


def test_a_weight_counts_once_in_each_place() -> None:
    """Also where it is tied: in both modules, and once around them."""
    recording = network()
    first, second = (module for module in recording.modules.values() if module.parameters)
    tied = changed(recording, "modules", second.id, parameters=first.parameters)
    values = {key: value for key, value in tied.values.items()
              if key != second.parameters[0].value}
    reads = tied.ops["o2"].inputs[:1]
    page = Page(data_of(changed(replace(tied, values=values), "ops", "o2", inputs=reads)))
    assert [page.number("parameters", title) for title in ("0: Linear", "2: Linear")] == [16, 16]
    assert page.number("parameters", "body: Sequential") == page.number("parameters", "Net") == 16


def test_a_weight_of_several_calls_counts_once_in_totals() -> None:
    """Of two calls of one module side by side, and of the calls of its class."""
    model = nn.Linear(4, 4, bias=False)
    with torchrecorder.Recorder(model) as recorder:
        model(torch.ones(1, 4)), model(torch.ones(2, 4))
    page = Page(data_of(recorder.recording, fold=False))
    weights = next(one for one in page.data["annotations"] if one["key"] == "parameters")
    strings = page.data["strings"]
    assert [number for number in weights["values"] if number] == [16, 16]
    assert weights["total"] == 16
    assert [(strings[cls], number) for cls, number in weights["classes"]] == [("Linear", 16)]
    made = next(one for one in page.data["annotations"] if one["key"] == "output_bytes")
    outer = zip(made["values"], page.items["parent"])
    assert made["total"] == sum(number or 0 for number, parent in outer if parent < 0)
    assert made["classes"] == []


def test_repeats_of_a_backward_view_are_no_loops() -> None:
    """What leads from one sibling to the next there are gradients, into grad nodes."""
    model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(6)))
    page = Page(data_of(torchrecorder.record(model, torch.rand(2, 4)), view="backward"))
    assert max(page.items["count"]) > 1 and page.data["loops"] == []


def test_places_of_a_backward_view_have_the_norms_of_gradients() -> None:
    """Modules those of their outputs, as in the forward view; nodes those that they receive."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    recording = torchrecorder.record(model, torch.rand(2, 4), backward=True, stats=True)
    ahead, back = (Page(data_of(recording, view=view)) for view in ("forward", "backward"))
    norms, received = (
        [page.number("gradient_norm", title) for title in ("0: Linear", "1: Tanh", "2: Linear")]
        for page in (ahead, back)
    )
    assert None not in norms and received == norms
    assert back.number("gradient_norm", "TanhBackward0") == norms[1]
