"""Edges of folds: how many there are, where blocks begin, and what closes with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from types import MappingProxyType

import pytest

from tests.figures import arrows, boxes, linear, view_of
from torchrecorder.events import ScopeKind, SourceLine, ValueId
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder
from torchrecorder.views.bundles import FlowKind, bundles
from torchrecorder.views.fold.blocks import repeated
from torchrecorder.views.pipeline import ViewOptions, plan
from torchrecorder.views.tree import Tree


def doubling(times: int) -> Recording:
    """Blocks in a chain; each reads what its layer gives twice."""
    run = Builder()
    with run.scope("Net"):
        h = run.input()
        for place in range(times):
            with run.scope(f"layers.{place}", "Block"):
                h = linear(run, "fc", h)
                h = run.op("mul", h, h)
    return run.recording()


def tapped(in_a_row: bool, *taps: int) -> Recording:
    """Four blocks in a row, or beside each other, of which some have one more reader."""
    run = Builder()
    with run.scope("Net"):
        h, seen = run.input(), list[ValueId]()
        for place in range(4):
            with run.scope(str(place), "Block"):
                found = linear(run, "fc", h)
            seen.append(found)
            h = found if in_a_row else h
        run.op("cat", *(seen[tap] for tap in taps))
    return run.recording()


@pytest.mark.parametrize(("in_a_row", "taps", "some"), [
    (True, [0], True), (True, [1, 2], True), (True, [3], False), (True, [0, 1, 2, 3], False),
    (False, [0], True), (False, [3], True), (False, [1, 3], True), (False, [0, 1, 2, 3], False),
])
def test_arrows_out_of_some_repeats_are_marked(
    in_a_row: bool, taps: Sequence[int], some: bool
) -> None:
    """In a row, one out of the last is that of all, as in every fold."""
    view = view_of(tapped(in_a_row, *taps), depth=1, fold="similar")
    assert dict(zip(arrows(view), (arrow.some for arrow in view.arrows)))["0 -> cat"] is some


@pytest.mark.parametrize("fold", [True, "similar"])
def test_parallel_edges_stay_parallel(fold: bool | str) -> None:
    """Two arguments of one op are two arrows in the fold, as in each of its siblings."""
    plain = Counter(arrows(view_of(doubling(1), depth=2)))
    folded = Counter(arrows(view_of(doubling(4), depth=2, fold=fold)))
    assert plain["layers.0.fc -> mul"] == 2
    assert folded == plain


def stages(times: int, size: int) -> Recording:
    """Pooling, layer and activation in turn, and a last pooling; sizes are halved by poolings."""
    run = Builder()
    with run.scope("Net"):
        h = run.input("x", (1, 64))
        for place in range(times):
            with run.scope(f"pool{place}", "Pool"):
                h = run.op("pool", h, shape=(1, size))
            with run.scope(f"fc{place}", "Wide"):
                h = run.op("expand", h, shape=(1, 64))
            with run.scope(f"act{place}", "Act"):
                h = run.op("relu", h, shape=(1, 64))
        with run.scope(f"pool{times}", "Pool"):
            run.op("pool", h, shape=(1, size))
    return run.recording()


def test_a_block_ends_where_the_size_shrinks() -> None:
    """Not where it stays, as behind an activation: that is only one more step."""
    assert boxes(view_of(stages(4, 32), depth=1)) == ["x", "pool0", "fc0", "act0", "pool1", "out:0"]
    assert boxes(view_of(stages(4, 64), depth=1)) == ["x", "pool0", "fc0", "act0", "pool4", "out:0"]


def training(parameters: int) -> Recording:
    """A layer with so many parameters, a step that updates them, and the layer again."""
    run = Builder("run")
    weights = {f"weight{number}": ValueId("") for number in range(parameters)}
    x = run.input("x")
    with run.scope("Net"):
        weights = {name: run.parameter(name) for name in weights}
        loss = run.op("linear", x, *weights.values())
    grad = run.op("backward", loss)
    with run.scope("SGD", "SGD", kind=ScopeKind.OPTIMIZER):
        weights = {name: run.op("add_", old, grad, writes=old) for name, old in weights.items()}
    with run.scope("Net"):
        run.op("linear", x, *weights.values())
    return run.recording()


@pytest.mark.parametrize("parameters", [1, 2, 3, 5])
def test_updated_weights_are_one_line(parameters: int) -> None:
    """From the step to the next call, whatever their number."""
    view = view_of(training(parameters), depth=0)
    found = [bundle for bundle in bundles(view) if bundle.flow is FlowKind.WEIGHT]
    assert [len(bundle.arrows) for bundle in found] == [parameters]


def test_closing_a_part_hides_all_that_lies_in_it_and_nothing_else() -> None:
    """The places in a part follow it, up to its end."""
    unfolded = view_of(doubling(3)).unfolded
    assert unfolded is not None
    tree = Tree(unfolded())
    inside: dict[int, set[int]] = {number: {number} for number in range(len(tree.places))}
    for number in reversed(range(len(tree.places))):
        parent = tree.places[number].parent
        if parent >= 0:
            inside[parent] |= inside[number]
    for number, end in enumerate(tree.ends):
        assert inside[number] == set(range(number, end))


def test_a_former_value_is_what_another_box_made() -> None:
    """Of several results that one box reads, each keeps its own edge."""
    run = Builder("Net")
    with run.scope("Net"):
        first = run.op("split", run.input(), outputs=2)
        run.op("add", first, ValueId(f"v{int(first[1:]) + 1}"))
    assert arrows(view_of(run.recording(), depth=2)) == [
        "x -> split", "split -> add", "split -> add", "add -> out:0",
    ]


def rounds(times: int, steps: int) -> Recording:
    """So many rounds of so many different ops, one after the other."""
    run = Builder()
    with run.scope("Net"):
        h = run.op("start", run.input())
        for _ in range(times):
            for step in range(steps):
                h = run.op("step" + "abcdefgh"[step], h)
    return run.recording()


@pytest.mark.parametrize(
    ("times", "steps", "folds"),
    [(2, 7, False), (3, 2, False), (3, 3, True), (4, 2, True), (7, 1, True), (6, 1, False)],
)
def test_rounds_fold_that_save_six_boxes(times: int, steps: int, folds: bool) -> None:
    """From three rounds on; the boxes that are counted beforehand are those that are drawn."""
    recording = rounds(times, steps)
    drawn = {box for box in view_of(recording).boxes if box in recording.ops}
    assert len(drawn) == 1 + (steps if folds else times * steps)
    assert drawn == set(recording.ops) - repeated(recording)


def test_loops_in_loops_are_counted_once() -> None:
    """Each op of two inner loops in its first round, in the first round of the outer one."""
    run = Builder()
    with run.scope("Net"):
        h = run.op("start", run.input())
        for _ in range(4):
            for _ in range(15):
                h = run.op("tanh", run.op("sin", run.op("mul", h)))
            for _ in range(15):
                h = run.op("abs", run.op("exp", h))
    recording = run.recording()
    left = [op.name for op in recording.ops.values() if op.id not in repeated(recording)]
    assert left == ["start", "mul", "sin", "tanh", "exp", "abs"]
    assert boxes(view_of(recording)) == ["x", *left, "out:0"]


@pytest.mark.parametrize("apart", [False, True])
def test_siblings_on_results_of_one_op_stand_side_by_side(apart: bool) -> None:
    """Each reads a result of its own; not where one of them reads what another box gives."""
    run = Builder()
    with run.scope("Net"):
        x = run.input("x")
        first, made = run.op("unbind", x, outputs=3), []
        for place in range(3):
            part = x if apart and place == 2 else ValueId(f"v{int(first[1:]) + place}")
            with run.scope(f"heads.{place}", "Head"):
                made.append(linear(run, "b", linear(run, "a", part)))
        run.op("cat", *made)
    view = view_of(run.recording(), depth=1)
    counts = [box.count for box in view.boxes.values() if box.id in view.recording.scopes]
    assert counts == ([2, 1] if apart else [3])


@pytest.mark.parametrize(("order", "counts"), [
    ((0, 1, 2, 3), [4]), ((3, 2, 1, 0), [4]), ((0, 2, 3, 1), [2, 2]), ((1, 1, 2, 3), [2, 2]),
])
def test_layers_on_results_of_a_closed_module_fold(order: Sequence[int], counts: object) -> None:
    """If each reads the next one, or each the one before; not in an order with several steps."""
    run = Builder()
    with run.scope("Net"):
        h = x = run.input("x")
        with run.scope("encoder", "Encoder"):
            features = [run.op(name, x) for name in ("sin", "cos", "exp", "abs")]
            run.returns(*features)
        for place, feature in enumerate(order):
            with run.scope(f"decoder.{place}", "Layer"):
                h = linear(run, "b", run.op("add", linear(run, "a", h), features[feature]))
    view = view_of(run.recording(), depth=1)
    layers = [box for box in view.boxes.values() if box.id in view.recording.scopes][1:]
    assert [box.count for box in layers] == counts


@pytest.mark.parametrize("known", [True, False])
def test_rounds_of_other_sizes_are_recognized_by_their_lines(known: bool) -> None:
    """Ops that the same lines called are the same steps of a loop; without lines nothing is."""
    run = Builder()
    with run.scope("Net"):
        h = run.op("start", run.input())
        for size in range(5):
            h = run.op("cat", run.op("tanh", h, shape=(size, 4)), shape=(size + 1, 4))
    recording = run.recording()
    lines = {"start": 1, "tanh": 2, "cat": 3}
    ops = {
        op.id: op.replace(source=SourceLine("net.py", lines[op.name], "f") if known else None)
        for op in recording.ops.values()
    }
    view = view_of(replace(recording, ops=MappingProxyType(ops)), fold="similar")
    counts = [cluster.count for cluster in view.clusters.values() if cluster.count > 1]
    assert counts == ([5] if known else [])


def test_views_and_their_steps_do_not_change() -> None:
    """A view is made from another one, which stays as it was, and so do the parts of both."""
    recording = doubling(3)
    view = view_of(recording, depth=2)
    options = ViewOptions(hide="relu", passes=False, grad_nodes=True, tensors=True)
    assert view.unfolded is not None
    parts = [
        view, view.unfolded(), *view.boxes.values(), *view.clusters.values(), *view.arrows,
        *filter(is_dataclass, plan(recording, options)), options,
    ]
    for part in parts:
        for name in getattr(part, "__struct_fields__", ()) or [item.name for item in fields(part)]:
            with pytest.raises(AttributeError):
                setattr(part, name, None)


def test_what_is_in_repeats_is_not_drawn_if_these_fold() -> None:
    """All scopes and operations in them, at any depth, are in the first."""
    run = Builder()
    with run.scope("Net"):
        h = run.input()
        for place in range(2):
            with run.scope(f"layers.{place}", "Block"), run.scope("inner", "Inner"):
                h = linear(run, "fc", h)
    recording = run.recording()
    later = {scope.id for scope in recording.scopes.values() if "layers.1" in scope.path}
    later |= {op.id for op in recording.ops.values() if op.scope in later}
    assert len(later) == 4 and repeated(recording) == later


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_the_line_out_of_a_fold_carries_the_result_of_its_first_sibling(
    order: tuple[int, ...]
) -> None:
    """In whatever order the op that joins the branches has them."""
    run = Builder()
    with run.scope("Net"):
        x, made = run.input(), list[ValueId]()
        for place in range(3):
            with run.scope(f"branches.{place}", "Branch"):
                made.append(run.op("tanh", run.op("exp", x)))
        run.op("cat", *[made[place] for place in order])
    view = view_of(run.recording(), depth=1)
    (arrow,) = [arrow for arrow in view.arrows if arrow.head in view.recording.ops]
    assert view.boxes[arrow.tail].count == 3 and arrow.value == made[0]


@pytest.mark.parametrize("updated", [False, True])
def test_layers_with_weights_of_their_own_fold(updated: bool) -> None:
    """Also after something has written in them."""
    run = Builder()
    with run.scope("Net"):
        h = run.input()
        weights = [run.parameter(f"weight{place}") for place in range(3)]
        if updated:
            weights = [run.op("mul_", weight, writes=weight) for weight in weights]
        for place, weight in enumerate(weights):
            with run.scope(f"layers.{place}", "Layer"):
                h = run.op("linear", h, weight)
    view = view_of(run.recording(), depth=1, parameters=True)
    counts = [box.count for box in view.boxes.values() if box.id in view.recording.scopes]
    assert counts == [3]


def test_an_arrow_between_similar_siblings_needs_none_beside_a_drawn_one() -> None:
    """Only the first reads the input, once; the others read the previous result twice."""
    run = Builder("Net")
    x = h = run.input()
    with run.scope("Net"):
        for number in range(4):
            with run.scope(f"layers.{number}", "Layer"), run.scope("inner", "Inner"):
                read = ("a", "b") if number else ("a",)
                h = run.op("mix", *[h] * len(read), slots=read)
    view = view_of(run.recording(), depth=9, fold="similar")
    assert [arrow.head for arrow in view.arrows if arrow.tail == x] == ["o0"]
