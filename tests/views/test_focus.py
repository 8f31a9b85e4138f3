"""Parts of a recording: one scope, what depends on what; and what is left out by name."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import torchrecorder
from tests.figures import arrows, boxes, clusters, linear, network, view_of
from torchrecorder.errors import InvalidArgument, NothingFound
from torchrecorder.events import GradId, Role, ScopeId, ScopeKind, Slot
from torchrecorder.graph.nodes import GradNode
from torchrecorder.recording import Recording
from torchrecorder.select.focus import Focus
from torchrecorder.style.draw import draw
from torchrecorder.testing import Builder
from torchrecorder.views.view import BoxKind


def branches() -> Recording:
    """A stem, two branches, a loss of one of them."""
    run = Builder("Net")
    with run.scope("Net"):
        stem = linear(run, "stem", run.input("x"))
        left = linear(run, "left", stem)
        right = linear(run, "right", stem)
        loss = run.op("mse_loss", left, run.input("y"), shape=())
        run.returns(loss, right)
    return run.recording()


def test_focus_on_a_scope() -> None:
    """Its arguments are inputs, its results outputs, and depth counts from it."""
    recording = network()
    assert boxes(view_of(recording, focus="body", depth=0)) == ["0", "body", "out:0"]
    view = view_of(recording, focus="body", depth=1)
    assert arrows(view) == [
        "0 -> body.0",
        "body.0 -> body.1",
        "body.1 -> body.2",
        "body.2 -> out:0",
    ]
    assert clusters(view) == ["body"]
    assert [shape.label[0].text for shape in draw(view).shapes][0] == "input 0"


def test_a_result_of_which_only_a_number_is_read_elsewhere_is_no_output() -> None:
    """``item`` returns no tensor."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("item", run.op("exp", run.input("x")), outputs=0)
        run.returns(run.op("relu", run.input("y")))
    assert boxes(view_of(run.recording(), until="o0")) == ["x", "exp"]


def test_focus_on_a_pattern_of_paths_or_a_class() -> None:
    """All that fit, outermost first; what lies between them is left out."""
    recording = network()
    assert arrows(view_of(recording, focus="body.[02]", depth=0)) == [
        "0 -> body.0",
        "0 -> body.2",
        "body.0 -> out:0",
        "body.2 -> out:1",
    ]
    assert boxes(view_of(recording, focus="ReLU", depth=0))[-2:] == ["body.1", "out:0"]


def test_what_enters_is_named_by_where_it_comes_from() -> None:
    """An op's path, where the scope has no argument for it."""
    run = Builder()
    with run.scope("Net"):
        h = linear(run, "stem", run.input())
        with run.scope("part"):
            run.op("add", h, h)
    recording = run.recording()
    view = view_of(recording, since="part", depth=1)
    assert arrows(view) == ["stem.linear -> part", "part -> out:0"]


def test_ancestors() -> None:
    """The path to the loss only, without what branches off on the way."""
    view = view_of(branches(), until="o3", depth=1)
    assert boxes(view) == ["x", "y", "stem", "left", "mse_loss", "out:0"]


def test_descendants() -> None:
    """What the right branch leads to."""
    assert boxes(view_of(branches(), since="right", depth=1))[-2:] == ["right", "out:0"]


def test_between_two() -> None:
    """What depends on one and leads to the other."""
    view = view_of(branches(), since="stem", until="left", depth=1)
    assert boxes(view) == ["x", "stem", "left", "out:0"]


def scaled() -> Recording:
    """Two blocks that scale what they make by a weight, which they reshape and square before."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.op("mul", run.op("exp", run.parameter("start")), run.input("x"))
        for name in "12":
            with run.scope(f"block{name}"):
                with run.scope(f"block{name}.scale"):
                    scale = run.op("reshape", run.parameter(f"block{name}.weight"))
                scale = run.op("square", scale)
                x = run.op("mul", linear(run, f"block{name}.fc", x), scale)
        run.returns(x)
    return run.recording()


def test_weights_are_computed_where_they_are_read() -> None:
    """What a block does to its own weights is part of it, and no input."""
    for options in ({"since": "block1"}, {"since": "block1", "until": "block2"}):
        recording = view_of(scaled(), **options).recording
        assert [slot.name for slot in recording.inputs] == ["mul"]
        made = [op.name for op in recording.ops.values()]
        assert made == 2 * ["reshape", "square", "linear", "mul"]


def test_a_network_that_begins_with_a_weight() -> None:
    """It is not drawn from its beginning if a part of it is asked for."""
    run = Builder("Net")
    with run.scope("Net"):
        stem = linear(run, "stem", run.parameter("start"))
        linear(run, "head", stem)
    recording = view_of(run.recording(), since="head").recording
    assert [slot.name for slot in recording.inputs] == ["stem.linear"]


def test_since_an_input_and_a_parameter() -> None:
    """By the names people know."""
    assert boxes(view_of(branches(), since="y", depth=1))[-2:] == ["mse_loss", "out:0"]
    shown = boxes(view_of(branches(), since="right.weight", depth=1))
    assert shown == ["stem.linear", "right", "out:0"]


def test_names_that_nothing_has() -> None:
    """The message says what there is."""
    with pytest.raises(InvalidArgument, match="no module is called 'bodi'.*'body'"):
        view_of(network(), focus="bodi")
    with pytest.raises(InvalidArgument, match="no tensor or module is called 'lefd'.*'left'"):
        view_of(branches(), until="lefd")


def test_focus_keeps_grad_nodes_of_its_ops() -> None:
    """And opens them."""
    view = view_of(network(), focus="body.1", grad_nodes=True)
    assert "ReluBackward0" in boxes(view)


def test_focus_of_everything_is_the_recording() -> None:
    """Nothing asked, nothing changed."""
    recording = network()
    assert view_of(recording).recording is recording


def test_hide_a_module_by_path() -> None:
    """Arrows go through it."""
    view = view_of(network(), depth=1, hide="skip")
    assert arrows(view) == ["x -> body", "body -> add", "x -> add", "add -> out:0"]


@pytest.mark.parametrize("hide", ["ReLU", ("ReLU",), "body.1", "*.1", "add, ReLU"])
def test_hide_by_class_or_pattern(hide: Any) -> None:
    """At any depth of what is hidden."""
    view = view_of(network(), hide=hide)
    assert "body.1" not in boxes(view) and "body.0 -> body.2" in arrows(view)


@pytest.mark.parametrize(
    ("hide", "gone"),
    [
        ("unread", {"input"}),
        ("x", {"x"}),
        ("table", {"table"}),
        ("*", {"x", "input", "table", "add", "out:0", "out:1"}),
        ("extra", {"out:1"}),
    ],
)
def test_hide_what_goes_in_and_comes_out_by_name(hide: str, gone: set[str]) -> None:
    """Inputs, also those that nothing reads, outputs and weights."""
    run = Builder("Net")
    with run.scope("Net"):
        x, unread = run.input("x"), run.input("unread")
        y = run.op("add", x, run.parameter("table"))
    recording = run.recording()
    values = {**recording.values, unread: recording.values[unread].replace(role=Role.INPUT)}
    recording = replace(
        recording,
        values=values,
        inputs=(*recording.inputs, Slot("unread", unread)),
        outputs=(Slot("y", y), Slot("extra", y)),
    )
    every = set(boxes(view_of(recording, parameters=True)))
    assert every == {"x", "input", "table", "add", "out:0", "out:1"}
    assert every - set(boxes(view_of(recording, parameters=True, hide=hide))) == gone


def test_hide_and_close_by_name_wherever_it_is() -> None:
    """A name stands for all modules and weights of this name; a number only for a path."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for path in ("dropout", "encoder.dropout", "encoder.1"):
            with run.scope(path, "Layer"):
                x = run.op("mul", run.op("neg", x), run.parameter("scale"))
    recording = run.recording()

    def shown(**options: Any) -> set[str]:
        view = view_of(recording, depth=1, fold=False, **options)
        return {recording.scopes[ScopeId(box)].path for box in view.boxes if box[0] == "s"}

    assert shown() == {"dropout", "encoder.dropout", "encoder.1"}
    assert shown(hide="dropout") == {"encoder.1"}
    with pytest.warns(NothingFound, match="did you mean 'encoder.1'"):
        assert shown(hide="1") == shown()
    assert len(view_of(recording, fold=False, closed="dropout").clusters) == 2
    view = view_of(recording, fold=False, parameters=True, hide="scale")
    assert BoxKind.PARAMETER not in {box.kind for box in view.boxes.values()}


def test_hide_an_argument_of_the_module_in_focus() -> None:
    """Its name is known, although no input of the run has it; a misspelled one is not."""

    class Layer(nn.Module):
        def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return hidden.relu()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = Layer()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x.exp(), x.neg())  # type: ignore[no-any-return]

    recording = torchrecorder.record(Net(), torch.ones(2))
    views = (view_of(recording, focus="layer", hide=hide) for hide in ("", "mask"))
    kinds = [[box.kind for box in view.boxes.values()] for view in views]
    assert [each.count(BoxKind.INPUT) for each in kinds] == [2, 1]
    with pytest.warns(NothingFound, match="did you mean 'mask'"):
        view_of(recording, focus="layer", hide="masc")


def test_hide_ops_by_name() -> None:
    """Where they have boxes of their own."""
    assert "add" not in boxes(view_of(network(), hide="add"))


def test_a_frame_without_its_contents_goes_too() -> None:
    """Of a region in which a hidden module was alone; what is around it folds."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        for number in range(3):
            with contextlib.ExitStack() as around:
                if number == 1:
                    around.enter_context(run.scope("checkpoint", kind=ScopeKind.CHECKPOINT))
                around.enter_context(run.scope(f"layers.{number}", "Layer"))
                around.enter_context(run.scope("inner", "Inner"))
                h = run.op("add", h, run.op("relu", h))
    recording = run.recording()
    name = next(scope.path for scope in recording.scopes.values() if "layers.1" in scope.path)
    for fold in (False, True):
        view = view_of(recording, hide=name, depth=9, fold=fold)
        assert not any(recording.scopes[each].kind is ScopeKind.CHECKPOINT
                       for each in view.clusters)  # type: ignore[index]
        assert {each.count for each in view.clusters.values()} == ({1, 2} if fold else {1})


def test_focus_keeps_modules_in_which_nothing_ran() -> None:
    """As in the view of all: one may only return a number, or a weight of its own."""
    run = Builder("Net")
    with run.scope("Net"):
        with run.scope("body"):
            with run.scope("size"):
                pass
            run.returns(linear(run, "fc", run.input()))
    recording = run.recording()
    inside = ["body.size", "body.fc", "out:0"]
    assert boxes(view_of(recording, depth=2)) == ["x", *inside]
    assert boxes(view_of(recording, depth=1, focus="body")) == ["0", *inside]


def test_weights_that_were_updated_outside_are_no_inputs() -> None:
    """They are weights of their module, as before the first step of a loop."""
    run = Builder("loop")
    with run.scope("loop", kind=ScopeKind.FUNCTION):
        weight = None
        for _ in range(3):
            with run.scope("fc", "Linear"):
                weight = weight or run.parameter("weight")
                run.op("linear", run.input(), weight)
            with run.scope("SGD", kind=ScopeKind.OPTIMIZER):
                weight = run.op("add_", weight, writes=weight)
    recording = run.recording()
    drawn = view_of(recording, focus="fc", fold=False, parameters=True, depth="ops")
    kinds = [box.kind for box in drawn.boxes.values()]
    assert kinds.count(BoxKind.INPUT) == kinds.count(BoxKind.PARAMETER) == 3


def test_leaves_that_are_read_have_their_grad_nodes() -> None:
    """Even if no node that is kept leads to them."""
    recording = branches()
    (weight,) = (item for item, value in recording.values.items()
                 if value.names == ("left.weight",))
    leaf = GradNode(GradId("g99"), "AccumulateGrad", None, None, (), weight)
    recording = replace(recording, grad_nodes={**recording.grad_nodes, leaf.id: leaf})
    for part, kept in (("left", True), ("right", False)):
        assert (leaf.id in Focus(part)(recording).grad_nodes) == kept
