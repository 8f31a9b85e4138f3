"""Equal places are described once: the data are those of a page that describes each by itself."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings

import torchrecorder
from tests.figures import network, regions
from tests.random_recordings import recordings
from tests.stepped import stepped
from tests.views.test_fold import stack
from torchrecorder.annotations import ANNOTATIONS
from torchrecorder.events import ModuleId, OpId, Slot, ValueId
from torchrecorder.export.page_data import numbers
from torchrecorder.export.page_data.box_appearance import TreeAppearance
from torchrecorder.export.page_data.data import page_data
from torchrecorder.export.page_data.equal import representatives
from torchrecorder.export.page_data.facts import Facts
from torchrecorder.graph.nodes import Module
from torchrecorder.recording import Recording
from torchrecorder.style.style import Style
from torchrecorder.style.unread import unread
from torchrecorder.testing import Builder
from torchrecorder.views.bundles import FlowClassifier
from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.tree import Tree


def tree_of(recording: Recording, **options: Any) -> Tree:
    """All that can be opened in a recording."""
    unfolded = make_view(recording, ViewOptions(**options)).unfolded
    assert unfolded is not None
    return Tree(unfolded())


def described(recording: Recording, style: Style, **options: Any) -> dict[str, Any]:
    """The items and tensors of a page, with texts and looks in the place of their numbers."""
    data = page_data(make_view(recording, ViewOptions(**options)), style)
    items, tensors, strings = data["items"], data["tensors"], data["strings"]

    def rows(table: str, number: Any) -> Any:
        if isinstance(number, list):
            return [rows(table, each) for each in number]
        if number < 0:
            return None
        parts = data[table][number]
        if table == "looks":
            return parts
        return [[strings[a], b if table == "labels" else strings[b]] for a, b in parts]

    tables = {"label": "labels", "header": "labels", "look": "looks", "open_look": "looks"}
    tables["facts"] = "facts"
    columns = {
        name: [rows(tables[name], each) for each in column] if name in tables else column
        for name, column in items.items()
    }
    for name in ("kind", "path", "cls", "op", "source"):
        columns[name] = [strings[each] for each in items[name]]
    looks = [rows("looks", each) for each in tensors["look"]]
    texts = [strings[each] for each in tensors["text"]]
    return {**columns, "tensor looks": looks, "tensor texts": texts, "plan": data["templates"]}


def one_by_one(style: Style = Style()) -> Style:
    """*style* with a last word, which says nothing: no place is taken for equal to another."""
    return replace(style, finish=lambda figure, view: figure)


def passes() -> Recording:
    """Two models, each with a backward pass; the gradients of each are clipped."""
    models = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])
    with torchrecorder.Recorder(models) as recorder:
        for model in models:
            model(torch.ones(1, 2)).sum().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
    return recorder.recording


def halves() -> Recording:
    """Two equal blocks in classes of their own, each with two layers that are alike, not equal."""

    class Half(torch.nn.Sequential):
        """The other half is of another class, so that they do not fold."""

    class OtherHalf(torch.nn.Sequential):
        """The same."""

    def layers() -> torch.nn.Module:
        sizes = (2, 3), (3, 2)
        linear = (torch.nn.Linear(*size) for size in sizes)
        return torch.nn.Sequential(*(torch.nn.Sequential(one, torch.nn.ReLU()) for one in linear))

    ends = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
    net = torch.nn.Sequential(ends[0], Half(layers()), OtherHalf(layers()), ends[1])
    return torchrecorder.record(net, torch.ones(1, 2))


RECORDINGS = network(), regions(), stack(4), stepped(), passes(), halves()


@pytest.mark.parametrize("recording", RECORDINGS)
@pytest.mark.parametrize("options", [{}, {"fold": "similar"}, {"parameters": True}])
def test_a_page_is_the_same_without_sharing(
    recording: Recording, options: dict[str, Any]
) -> None:
    """Texts, looks, sizes, facts and layout, place by place."""
    assert described(recording, Style(), **options) == described(
        recording, one_by_one(), **options
    )


@pytest.mark.parametrize("skips", [(1, 1, 1), (0, 1, 1), (0, 0, 0, 1)])
@pytest.mark.parametrize("fold", [True, "similar"])
def test_a_last_sum_of_two_is_a_circle(skips: tuple[int, ...], fold: Any) -> None:
    """Though what it reads is equal to what the layers before it read."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for number, skip in enumerate(skips):
            with run.scope(f"layers.{number}", "Layer"):
                with run.scope("linear"):
                    y = run.op("linear", x, run.parameter("weight"))
                x = run.op("add", y, *[x][:skip])
    recording = run.recording()
    shared = described(recording, Style(), fold=fold)
    assert shared == described(recording, one_by_one(), fold=fold)
    assert [["+", 0]] in shared["label"]


def test_equal_layers_inside_and_outside_of_a_fold() -> None:
    """They are as deep as their modules, and have the colors of their depth when they are open."""
    run = Builder("Net")

    def layer(number: int, value: ValueId) -> ValueId:
        with run.scope(f"layers.{number}", "Layer"):
            with run.scope("linear"):
                value = run.op("linear", value, run.parameter("weight"))
            return run.op("add", value)

    with run.scope("Net"):
        with run.scope("a"):
            value = layer(2, layer(1, run.parameter("weight")))
        layer(4, layer(3, value))
    recording = run.recording()
    for fold in (True, "similar"):
        shared = described(recording, Style(), fold=fold)
        assert shared == described(recording, one_by_one(), fold=fold)


@settings(max_examples=60, deadline=None)
@given(recordings())
def test_any_page_is_the_same_without_sharing(recording: Recording) -> None:
    """Whatever was recorded."""
    for fold in (True, "similar"):
        shared = described(recording, Style(), fold=fold)
        assert shared == described(recording, one_by_one(), fold=fold)


def test_many_arrows_between_two_boxes_look_as_one() -> None:
    """Their line is wide in a figure; a page makes it wide itself."""
    recording = torchrecorder.record(lambda x: torch.stack([x, x, x, x]), torch.ones(2))
    assert described(recording, one_by_one())["tensor looks"] == [None, None]


def test_equal_blocks_are_equal_inside() -> None:
    """The ops of all blocks are equal to those of another; blocks have names of their own."""
    tree = tree_of(stack(5))
    first = representatives(tree, Style(), FlowClassifier(tree.view).all(), unread(tree.view))
    distinct = [place.id for number, place in enumerate(tree.places) if first[number] == number]
    assert len(distinct) < len(tree.places) - 4
    assert {place.id for place in tree.places} > {*distinct}
    kinds = FlowClassifier(tree.view).all()
    assert isinstance(representatives(tree, one_by_one(), kinds, {}), range)


def test_iterations_are_equal_in_whatever_loop() -> None:
    """All but the very first, which reads an input."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input("x")
        for place, rounds in enumerate((4, 5)):
            with run.scope(f"part{place}", "Part"):
                for _ in range(rounds):
                    h = run.op("sin", run.op("cos", h))
        run.op("exp", h)
    tree = tree_of(run.recording())
    first = representatives(tree, Style(), FlowClassifier(tree.view).all(), unread(tree.view))
    places = enumerate(tree.places)
    found = [first[number] for number, each in places if is_block(each.id) and not each.fold]
    assert len(found) == 9 and found[1:] == [found[1]] * 8 != found[:1] * 8


def test_equal_tensors_are_described_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many blocks there are, what is known of their tensors is put into words once."""

    def described_with(blocks: int) -> int:
        calls: list[object] = []
        plain = Facts.tensor
        with monkeypatch.context() as patch:
            patch.setattr(Facts, "tensor", lambda self, one: calls.append(one) or plain(self, one))
            described(stack(blocks), Style())
        return len(calls)

    assert described_with(3) == described_with(30) > 0


def different(change: str) -> Recording:
    """Four blocks, of which the second differs in one thing, or in none."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x", (2, 4))
        for number in range(4):
            with run.scope(f"b{number}", "Block"):
                second = number == 1
                size = (2, 8) if change == "shape" and second else (2, 4)
                x = run.op("tanh" if change == "op" and second else "relu", x, shape=size)
                given = (("alpha", "2"),) if change == "argument" and second else ()
                x = run.op("add", x, x, arguments=given)
                if change == "more" and second:
                    x = run.op("relu", x)
    return run.recording()


@pytest.mark.parametrize("change", ["shape", "op", "argument", "more"])
def test_what_differs_in_one_thing_is_not_equal(change: str) -> None:
    """A shape, an op, an argument, one op more: the block stands for itself."""

    def inside(recording: Recording) -> set[int]:
        tree = tree_of(recording, fold=False)
        first = representatives(tree, Style(), FlowClassifier(tree.view).all(), unread(tree.view))
        ops = [number for number, place in enumerate(tree.places) if place.id in recording.ops]
        return {first[number] for number in ops}

    assert len(inside(different(change))) > len(inside(different("")))


@pytest.mark.parametrize("stored", [True, False])
def test_modules_that_were_never_called_count_where_they_are(stored: bool) -> None:
    """A block with a spare layer has more parameters than others, if that layer has any."""
    recording = different("")
    weight = Slot("weight", ValueId("v0"))
    spare = Module(
        ModuleId("m9"), ("b2.spare",), "Spare", "", "", (weight,) * stored, (), True, ()
    )
    modules = MappingProxyType({**recording.modules, spare.id: spare})
    for found, equal in ((recording, True), (replace(recording, modules=modules), not stored)):
        tree = tree_of(found, fold=False)
        keys = representatives(tree, Style(), FlowClassifier(tree.view).all(), unread(tree.view))
        place = {place.id: number for number, place in enumerate(tree.places)}
        assert (keys[place["s2"]] == keys[place["s3"]]) == equal


@settings(max_examples=60, deadline=None)
@given(recordings())
def test_columns_of_numbers_are_those_of_each_place(recording: Recording) -> None:
    """Some places of a column at a time give what each place gives by what it stands for."""
    drawn = TreeAppearance(tree_of(recording), Style())
    boxes = {**drawn.tree.view.boxes, **drawn.closed_boxes}
    members: list[Sequence[str]] = [
        (drawn.fold_boxes if place.fold else boxes)[place.id].members
        for place in drawn.tree.places
    ]
    counts = [max(1, len(place.fold)) for place in drawn.tree.places]
    with mock.patch.object(numbers, "AT_ONCE", 3):
        found = numbers.columns(
            recording, members, counts, Style(), lambda text: 0, outer=(), calls={}, times=True
        )
    values = {entry["key"]: entry["values"] for entry in found}
    means = {entry["key"]: entry["means"] for entry in found}
    for annotation in ANNOTATIONS:
        computed = annotation.on(recording)
        for place, inside in enumerate(members):
            expected = computed.of(inside)
            if expected is None:
                expected = computed.mean(inside, counts[place])
                assert (expected is not None) == (place in means.get(annotation.name, ()))
            number = values.get(annotation.name, [None] * len(members))[place]
            if expected is None or not abs(expected) < float("inf"):
                assert number is None
            else:
                assert number == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("deeper", [1, 2, 3])
def test_equal_modules_at_several_depths_look_as_each_does(deeper: int) -> None:
    """Frames have colors by their depth."""
    run = Builder("Net")

    def block(x: ValueId) -> ValueId:
        with run.scope("block", "Block"), run.scope("inner", "Inner"):
            return run.op("tanh", run.op("relu", x))

    with run.scope("Net"):
        x = run.op("neg", block(run.op("neg", run.input("x"))))
        with contextlib.ExitStack() as stack_:
            for _ in range(deeper):
                stack_.enter_context(run.scope("around", "Around"))
            x = run.op("neg", block(x))
        run.op("neg", x)
    recording = run.recording()
    shared = described(recording, Style(), fold=False)
    assert shared == described(recording, one_by_one(), fold=False)
    looks = {str(look) for look in shared["open_look"] if look is not None}
    assert len(looks) > 2


@pytest.mark.parametrize("what", ["nothing", "reader", "kind of the reader"])
def test_what_leaves_a_box_is_shown_on_it(what: str) -> None:
    """Two ops whose results go to other kinds of boxes are not equal."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        one, other = (run.op("split", x, outputs=2) for _ in range(2))
        read = []
        for made in (one, other):
            read.append(run.op("neg", made))
            second = ValueId(f"v{int(made[1:]) + 1}")
            if made == one or what == "nothing":
                read.append(run.op("neg", second))
            elif what == "reader":
                read += [run.op("neg", second), run.op("neg", second)]
            else:
                run.returns(second)
        run.op("cat", *read)
    recording = run.recording()
    shared = described(recording, Style())
    assert shared == described(recording, one_by_one())
    tree = tree_of(recording)
    first = representatives(tree, Style(), FlowClassifier(tree.view).all(), unread(tree.view))
    ops = [number for number, place in enumerate(tree.places)
           if place.id in recording.ops and recording.ops[OpId(place.id)].name == "split"]
    assert (len({first[number] for number in ops}) == 1) == (what == "nothing")


@pytest.mark.parametrize("twice", [True, False])
def test_what_leaves_a_closed_module_is_shown_on_it(twice: bool) -> None:
    """One tensor that it does not return but two ops read, or two tensors that are alike."""
    run = Builder("Net")
    with run.scope("Net"):
        x, read = run.input("x"), []
        for number in range(2):
            with run.scope(f"b{number}", "Block"):
                made = run.op("split", x, outputs=2)
                second = ValueId(f"v{int(made[1:]) + 1}")
                run.returns(run.op("sum", made, second))
            other = made if number and twice else second
            read += [run.op("neg", made), run.op("neg", other)]
        run.op("cat", *read)
    recording = run.recording()
    shared = described(recording, Style(), closed="Block")
    assert shared == described(recording, one_by_one(), closed="Block")
    texts = [label[1][0] for label in shared["label"] if label and "Block" in label[0][0]]
    both = "→ 2 tensors of 2×4"
    assert texts == [both, "→ 2×4" if twice else both]
