"""Where views change: how many boxes are drawn unasked, what folds, what is similar."""

from __future__ import annotations

from typing import Any

import pytest

from tests.figures import arrows, boxes, linear, view_of
from torchrecorder.events import ScopeKind
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def ops(number: int) -> Recording:
    """A model of one module with so many different operations in a chain."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        with run.scope("body", "Body"):
            for place in range(number):
                h = run.op(f"op_{'abcdefghij'[place % 10]}{'abcdefghij'[place // 10]}", h)
    return run.recording()


@pytest.mark.parametrize("number, opened", [(40, True), (41, False)])
def test_up_to_40_boxes_are_drawn_unasked(number: int, opened: bool) -> None:
    """Inputs and outputs do not count; with one more the module is closed."""
    found = boxes(view_of(ops(number), fold=False))
    assert len(found) == (number + 2 if opened else 3)


def row(number: int, inner: bool) -> Recording:
    """So many equal siblings in a chain; with a module in each of them or not."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        for place in range(number):
            with run.scope(f"layers.{place}", "Layer"):
                if inner:
                    h = linear(run, "fc", h)
                h = run.op("add", h, h)
    return run.recording()


@pytest.mark.parametrize("similar", [True, "similar"])
@pytest.mark.parametrize(
    "number, inner, folds", [(2, False, False), (3, False, True), (2, True, True)]
)
def test_how_many_fold(number: int, inner: bool, folds: bool, similar: Any) -> None:
    """Three plain siblings, or two with modules inside."""
    view = view_of(row(number, inner), depth=1, fold=similar)
    assert len(boxes(view)) == 2 + (1 if folds else number)
    counts = [box.count for box in view.boxes.values() if box.id.startswith("s")]
    assert counts == ([number] if folds else [1] * number)


@pytest.mark.parametrize("first", [True, False])
def test_two_that_differ_fold_if_the_first_has_a_module_inside(first: bool) -> None:
    """The first of them is the one that is drawn."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        for place, inner in enumerate((first, not first)):
            with run.scope(f"layers.{place}", "Layer"):
                h = run.op("tanh", run.op("sin", h))
                h = linear(run, "fc", h) if inner else h
    view = view_of(run.recording(), depth=1, fold="similar")
    assert [box.count for box in view.boxes.values() if box.id.startswith("s")] == (
        [2] if first else [1, 1]
    )


def loop(rounds: int, length: int) -> Recording:
    """A loop of so many operations in each round."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        for _ in range(rounds):
            for place in range(length):
                h = run.op("abcdefgh"[place], h)
    return run.recording()


@pytest.mark.parametrize(
    "rounds, length, folds",
    [(2, 6, False), (3, 3, True), (3, 2, False), (4, 2, True), (7, 1, True), (6, 1, False)],
)
def test_how_long_a_loop_folds(rounds: int, length: int, folds: bool) -> None:
    """Three rounds at least, which save six boxes at least."""
    view = view_of(loop(rounds, length), depth=2)
    assert len(view.boxes) - 2 == (length if folds else rounds * length)


def heads(number: int, targets: str) -> Recording:
    """So many layers of one input, and a loss of each, with a target of its own, or of all."""
    run = Builder("Net")
    with run.scope("Net"):
        x, y = run.input("x"), run.input("y")
        made = [linear(run, f"heads.{place}", x) for place in range(number)]
        given = [run.input(f"y.{place}") if targets == "own" else y for place in range(number)]
        losses = [run.op("loss", *both) for both in zip(made, given)]
        run.op("stack", *losses)
    return run.recording()


@pytest.mark.parametrize(
    "number, targets, folds", [(3, "own", False), (4, "own", True), (4, "one", False)]
)
def test_a_loop_with_inputs_of_its_own_saves_their_boxes_too(
    number: int, targets: str, folds: bool
) -> None:
    """Then the layers that it reads fold with it."""
    recording = heads(number, targets)
    view = view_of(recording, depth=1)
    counts = {box.count for box in view.boxes.values() if box.id.startswith("s")}
    assert counts == ({number} if folds else {1})
    names = [recording.ops[box.id].name for box in view.boxes.values() if box.id in recording.ops]
    assert names.count("loss") == (1 if folds else number)


def pair(shared: int, own: int) -> Recording:
    """Two siblings of one class that have so many modules in common, and others of their own."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        for number in range(2):
            with run.scope(f"layers.{number}", "Layer"):
                for place in range(shared):
                    h = linear(run, "abcdefgh"[place], h, f"Shared{'ABCDEFGH'[place]}")
                for place in range(own):
                    h = linear(run, "xy"[number] + "abcdefgh"[place], h, "XY"[number])
                    h = run.op("one" if number else "other", h)
    return run.recording()


@pytest.mark.parametrize("shared, own, similar", [(3, 1, True), (2, 1, False), (1, 1, False)])
def test_more_than_half_in_common_is_similar(shared: int, own: int, similar: bool) -> None:
    """Of what the smaller of two siblings does; half is not enough."""
    view = view_of(pair(shared, own), depth=1, fold="similar")
    assert len(boxes(view)) == (3 if similar else 4)


def test_a_mode_in_which_something_failed_stays() -> None:
    """Even if no operation in it is drawn."""
    run = Builder("Net")
    with run.scope("Net"):
        h = linear(run, "fc", run.input())
        with run.scope("no_grad", "no_grad", kind=ScopeKind.NO_GRAD):
            run.op("item", h, outputs=0)
            run.fail()
    assert "no_grad" in boxes(view_of(run.recording(), depth=1))


def test_hidden_operations_pass_their_arrows_on_to_all_readers() -> None:
    """From all that they read; each pair of boxes has one arrow for each tensor."""
    run = Builder("Net")
    with run.scope("Net"):
        x, y = run.input("x"), run.input("y")
        joined = run.op("cat", x, y)
        shown = run.op("view", joined)
        run.op("relu", shown)
        run.op("tanh", shown)
    found = arrows(view_of(run.recording(), hide="cat,view", depth=1))
    assert sorted(found) == [
        "tanh -> out:0", "x -> relu", "x -> tanh", "y -> relu", "y -> tanh",
    ]


def test_a_fold_in_a_fold_stands_for_the_product() -> None:
    """A box counts as often as all clusters around it say."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        for stage in range(2):
            with run.scope(f"stages.{stage}", "Stage"):
                for place in range(3):
                    with run.scope(f"layers.{place}", "Layer"):
                        h = linear(run, "fc", h)
    view = view_of(run.recording(), depth=3)
    (box,) = [box for box in view.boxes.values() if box.id.startswith("s")]
    assert view.copies(box) == 6 and box.count == 1
    assert sum(member in view.recording.ops for member in box.members) == 6


def test_only_siblings_that_may_differ_are_listed_one_by_one() -> None:
    """A fold of equal siblings needs no list: the first of them shows what all are."""
    recording = row(4, inner=True)
    (equal,) = [box for box in view_of(recording, depth=1).boxes.values() if box.count > 1]
    similar = view_of(recording, depth=1, fold="similar").boxes[equal.id]
    assert equal.instances == () and len(similar.instances) == similar.count == equal.count == 4


def test_a_loop_that_is_cut_by_its_wiring_folds_only_where_it_is_long_enough() -> None:
    """Rounds that another operation reads stand alone, with those between them."""
    run = Builder("Net")
    with run.scope("Net"):
        h, kept = run.input(), []
        for number in range(9):
            h = run.op("tanh", run.op("sin", h))
            kept += [h] if number in (1, 3) else []
        run.op("cat", h, *kept)
    view = view_of(run.recording(), depth=2)
    assert [cluster.count for cluster in view.clusters.values() if cluster.count > 1] == [5]
    assert len(view.boxes) == 2 + 2 * 4 + 2 + 1


@pytest.mark.parametrize("extra, opened", [("relu", True), ("view", False), ("item", False)])
def test_a_module_of_one_operation_stays_closed(extra: str, opened: bool) -> None:
    """Operations that only reshape, or return no tensor, do not count."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        with run.scope("layer", "Layer"):
            h = run.op("linear", h, run.parameter("weight"))
            run.op(extra, h, outputs=0 if extra == "item" else 1)
    assert ("layer" in boxes(view_of(run.recording()))) is not opened


def uneven(number: int) -> Recording:
    """So many equal siblings with two inner modules. Some read the result of the first of them in
    the one before, the others that of the second."""
    run = Builder("Net")
    with run.scope("Net"):
        made = [run.input()] * 2
        for place in range(number):
            with run.scope(f"layers.{place}", "Layer"):
                given = run.op("exp", made[place % 3 % 2])
                made = [inner(run, name, given) for name in "ab"]
        run.op("add", *made)
    return run.recording()


def inner(run: Builder, name: str, h: Any) -> Any:
    """A module of five operations."""
    with run.scope(name, name.upper()):
        for place in range(5):
            h = run.op(f"{name}_{'abcde'[place]}", h)
    return h


def test_without_a_depth_levels_are_open_as_long_as_few_boxes_are_drawn() -> None:
    """All levels would fold to few boxes, but do not, because of how the siblings are connected;
    and one level draws almost nothing, because they fold there."""
    recording = uneven(24)
    drawn = [len(boxes(view_of(recording, depth=depth))) for depth in range(4)]
    assert drawn == [3, 4, 30, 102]
    assert len(boxes(view_of(recording))) == drawn[2]
    assert len(boxes(view_of(recording, max_boxes=20))) == drawn[1]
