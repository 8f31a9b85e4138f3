"""Folding: what repeats becomes one box with a count, what differs stays."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from tests.figures import arrows, boxes, clusters, linear, view_of
from torchrecorder.events import OpKind
from torchrecorder.graph.structural_hash import structures
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.testing import Builder
from torchrecorder.views.fold.siblings import SiblingRows
from torchrecorder.views.full_view import full_view
from torchrecorder.views.view import BoxKind


def block(run: Builder, name: str, x: str, *others: str) -> Any:
    """A layer with a skip connection around it."""
    with run.scope(name, "Block"):
        h = linear(run, "fc", x)
        return run.op("add", h, x, *others)


def stack(number: int) -> Recording:
    """So many equal blocks, between a stem and a head."""
    run = Builder("Stack")
    with run.scope("Stack"):
        h = linear(run, "stem", run.input(), "Stem")
        for place in range(number):
            h = block(run, f"layers.{place}", h)
        linear(run, "head", h, "Head")
    return run.recording()


def test_chain_of_closed_blocks_is_one_box() -> None:
    """With what came before and after, and the members of all."""
    view = view_of(stack(12), depth=1)
    assert boxes(view) == ["x", "stem", "layers.0", "head", "out:0"]
    assert arrows(view) == ["x -> stem", "stem -> layers.0", "layers.0 -> head", "head -> out:0"]
    folded = view.boxes["s2"]
    assert folded.count == 12 and folded.names[-1] == "layers.11"
    assert {"s2", "s4", "s24"} <= set(folded.members)


def test_chain_of_open_blocks_is_one_cluster() -> None:
    """Its inside is that of the first; arrows to the next one are implied."""
    view = view_of(stack(12), depth=2)
    assert clusters(view) == ["Stack", "layers.0"]
    assert view.clusters["s2"].count == 12
    assert arrows(view) == [
        "x -> stem",
        "stem -> layers.0.fc",
        "layers.0.fc -> add",
        "stem -> add",
        "add -> head",
        "head -> out:0",
    ]


@pytest.mark.parametrize("fold", [True, "similar"])
def test_pages_fold_as_figures_do_where_tensors_are_boxes(fold: bool | str) -> None:
    """What one block passes to the next is in their fold; the rest has a box after it."""
    view = view_of(stack(4), depth=2, tensors=True, fold=fold)
    assert view.clusters["s2"].count == 4 and view.unfolded is not None
    page = view.unfolded()
    page.view.check()
    assert page.repeats == (("s2", "s4", "s6", "s8"),)
    tensors = [box for box in page.view.boxes.values() if box.kind is BoxKind.TENSOR]
    assert [box.cluster for box in tensors] == ["s0", "s2", "s4", "s6", "s8", "s0"]


def test_a_result_that_others_read_too_is_a_box_of_pages() -> None:
    """The next block reads it through the arrow in the fold."""
    run = Builder("Stack")
    with run.scope("Stack"):
        blocks = [run.input()]
        for place in range(4):
            blocks.append(block(run, f"layers.{place}", blocks[-1]))
        run.op("cat", *blocks[1:])
    unfolded = view_of(run.recording(), depth=2, tensors=True).unfolded
    assert unfolded is not None
    page = unfolded().view
    page.check()
    tails = [page.boxes[arrow.tail].id for arrow in page.arrows if arrow.head in blocks[1:]]
    assert [page.boxes[value].cluster for value in blocks[1:]] == ["s0"] * 4
    for tail, value in zip(tails[:-1], blocks[1:]):
        heads = [arrow.head for arrow in page.arrows if arrow.tail == tail]
        assert heads.count(value) == 1 and len(heads) == 3  # two operations of the next block


def test_labels_show_names_and_count() -> None:
    """On boxes and on clusters."""
    shape = next(each for each in draw(view_of(stack(12), depth=1)).shapes if each.count > 1)
    assert [text.text for text in shape.label] == [
        "layers.0 … layers.11: Block  ×12",
        "12 × 16 params",
    ]
    group = draw(view_of(stack(12), depth=2)).groups[1]
    assert group.label[0].text == "layers.0 … layers.11: Block  ×12"


def test_folding_can_be_turned_off() -> None:
    """Then every block is there."""
    assert len(view_of(stack(12), depth=1, fold=False).boxes) == 16


def test_other_shapes_do_not_fold() -> None:
    """A block of another width stands alone."""
    run = Builder()
    with run.scope("Net"):
        h = run.input()
        for place, width in enumerate((4, 4, 4, 8)):
            with run.scope(str(place), "Block"):
                h = run.op("linear", h, run.parameter("weight", (width, 4)), shape=(2, width))
    view = view_of(run.recording(), depth=1)
    assert boxes(view) == ["x", "0", "3", "out:0"]


@pytest.mark.parametrize(
    ("names", "folds"),
    [
        (("fc1", "fc2", "fc3"), True),
        (("fc1", "fc2"), False),
        (("query", "key", "value"), False),
        (("layers.0", "layers.1", "layers.2"), True),
    ],
)
def test_names_may_differ_in_a_number_only(names: tuple[str, ...], folds: bool) -> None:
    """And two plain layers stay two boxes."""
    run = Builder()
    with run.scope("Net"):
        h = run.input()
        for name in names:
            h = linear(run, name, h)
    view = view_of(run.recording(), depth=1)
    assert len(view.boxes) == (3 if folds else len(names) + 2)


def test_other_wiring_does_not_fold() -> None:
    """Each layer of a dense net reads all the layers before it."""
    run = Builder()
    with run.scope("Net"):
        made = [run.input()]
        for place in range(4):
            with run.scope(str(place), "Layer"):
                made.append(run.op("cat", *made))
    assert len(boxes(view_of(run.recording(), depth=1))) == 6


def test_long_skips_cut_a_chain() -> None:
    """A sibling whose result is used later on can only be the last of its fold."""
    run = Builder()
    with run.scope("Net"):
        h = run.input()
        made = []
        for place in range(6):
            h = block(run, str(place), h)
            made.append(h)
        run.op("add", h, made[2])
    view = view_of(run.recording(), depth=1)
    assert [box.count for box in view.boxes.values() if box.count > 1] == [3, 3]
    assert arrows(view)[1:] == ["0 -> 3", "3 -> add", "0 -> add", "add -> out:0"]


def test_shared_inputs_fold() -> None:
    """A mask that all blocks read keeps its one arrow."""
    run = Builder()
    with run.scope("Net"):
        h, mask = run.input("x"), run.input("mask")
        for place in range(4):
            h = block(run, str(place), h, mask)
    assert arrows(view_of(run.recording(), depth=1)) == ["x -> 0", "mask -> 0", "0 -> out:0"]


def test_siblings_side_by_side_fold() -> None:
    """Heads that read one tensor and are joined by one op."""
    run = Builder()
    with run.scope("Net"):
        x = run.input()
        run.op("cat", *[block(run, f"heads.{place}", x) for place in range(8)])
    view = view_of(run.recording(), depth=1)
    assert arrows(view) == ["x -> heads.0", "heads.0 -> cat", "cat -> out:0"]
    assert view.boxes["s1"].count == 8


def test_folds_inside_folds() -> None:
    """Stages of blocks of layers."""
    run = Builder()
    with run.scope("Net"):
        h = run.input()
        for stage in range(3):
            with run.scope(f"stage{stage}", "Stage"):
                for place in range(4):
                    h = block(run, str(place), h)
    view = view_of(run.recording(), depth=2)
    assert boxes(view) == ["x", "stage0.0", "out:0"]
    assert (view.clusters["s1"].count, view.boxes["s2"].count) == (3, 4)
    assert len([member for member in view.boxes["s2"].members if member[0] == "o"]) == 24


def test_calls_of_one_module_in_a_row_fold() -> None:
    """Its name is said once."""
    run = Builder()
    with run.scope("Net"):
        h = run.input()
        for _ in range(5):
            h = linear(run, "cell", h)
    figure = draw(view_of(run.recording(), depth=1))
    assert [text.text for text in figure.shapes[1].label][0] == "cell: Linear  ×5"
    said = [text.text for text in figure.shapes[1].label]
    assert said[-2:] == ["16 params", "carried over: 2×4"]


def test_outputs_of_one_kind_are_joined() -> None:
    """A cache of six tensors of one shape is one box."""
    run = Builder()
    with run.scope("Net"):
        h = run.input()
        made = [h := block(run, str(place), h) for place in range(6)]
        run.returns(*made)
    view = view_of(run.recording(), depth=1)
    assert boxes(view) == ["x", "0", "out:0"]
    assert (view.boxes["out:0"].count, view.boxes["out:0"].names[-1]) == (6, "5")
    assert draw(view).shapes[-1].label[0].text == "output 0 … 5  ×6"


def test_a_tensor_that_is_returned_again_is_one_output() -> None:
    """Each step of a decoder returns the result of the encoder, which is no further tensor."""
    run = Builder()
    states = run.op("encode", run.input())
    for _ in range(5):
        with run.scope("decoder", "Decoder"):
            run.returns(run.op("add", states), states)
    view = view_of(run.recording(), depth=1)
    [(encoded, box)] = [
        (arrow.value, view.boxes[arrow.head]) for arrow in view.arrows
        if arrow.tail == "o0" and arrow.head.startswith("out:")
    ]
    assert encoded == states and (box.count, len(box.names)) == (1, 5)
    assert [view.boxes[name].count for name in view.boxes if name.startswith("out:")] == [5, 1]


def test_one_different_op_in_the_middle_of_a_chain() -> None:
    """Cuts it in two."""
    run = Builder()
    with run.scope("Net"):
        h = run.input()
        for place in range(6):
            h = block(run, str(place), h)
            if place == 2:
                h = run.op("relu", h)
    view = view_of(run.recording(), depth=1)
    assert [box.count for box in view.boxes.values()] == [1, 3, 1, 3, 1]


def test_structure_ignores_names_from_outside_only() -> None:
    """Equal blocks have equal digests whatever they are called."""
    recording = stack(3)
    digests = structures(recording)
    layers = [scope.id for scope in recording.scopes.values() if "layers" in scope.name]
    assert len(layers) == 3 and len({digests[layer] for layer in layers}) == 1
    assert digests["s0"] != digests["s1"]


def test_structure_sees_arguments_and_order() -> None:
    """What an op is told, and which of two inputs comes first."""

    def digest(argument: str, swapped: bool) -> str:
        run = Builder()
        with run.scope("Net"):
            x, y = run.input("x"), run.input("y", (4,))
            x, y = run.op("relu", x), run.op("relu", y, shape=(4,))
            run.op("sub", *((y, x) if swapped else (x, y)), arguments=(("alpha", argument),))
        return structures(run.recording())["s0"]

    assert digest("1", False) == digest("1", False)
    assert len({digest("1", False), digest("2", False), digest("1", True)}) == 3


def test_what_scopes_hand_on_untouched_is_one_value() -> None:
    """A bias that each layer reads and hands on: all read it from what made it, and fold."""
    run = Builder("Biased")
    with run.scope("Biased"):
        h = run.input()
        bias = run.op("arange", shape=(2, 4))
        for place in range(4):
            with run.scope(f"layers.{place}", "Layer"):
                h = run.op("add", linear(run, "fc", h), bias)
                bias = run.op("pass", bias, kind=OpKind.PASS)
                run.returns(h, bias)
    recording = run.recording()
    view = view_of(recording, depth=3, fold=False)
    maker = next(op.id for op in recording.ops.values() if op.name == "arange")
    assert {arrow.value for arrow in view.arrows if arrow.tail == maker} == {
        recording.ops[maker].outputs[0]
    }
    assert [each.count for each in view_of(recording, depth=3).clusters.values()][1] == 4


@pytest.mark.parametrize("similar", [False, True])
def test_what_siblings_are_compared_by_is_freed_at_once(similar: bool) -> None:
    """The garbage collector, which does not run while a figure is made, has nothing to find."""
    rows, recording = None, stack(12)
    gc.disable()
    try:
        rows = SiblingRows(full_view(recording), similar)
        assert any(map(rows.groups, (None, *rows.view.clusters)))
        items = weakref.ref(rows.items)
        rows = None
        assert items() is None
    finally:
        gc.enable()
