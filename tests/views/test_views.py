"""What views show: depths, closed scopes, hidden ops, opened ops, tensors as boxes."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.figures import arrows, boxes, clusters, linear, network, regions, view_of
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import OpKind, ScopeKind
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.testing import Builder
from torchrecorder.views.auto_depth import max_depth
from torchrecorder.views.full_view import full_view
from torchrecorder.views.pipeline import ViewOptions
from torchrecorder.views.view import BoxKind


def test_depth_0_is_one_box_with_inputs_and_outputs() -> None:
    """The whole model is one box."""
    view = view_of(network(), depth=0)
    assert boxes(view) == ["x", "Net", "out:0"]
    assert arrows(view) == ["x -> Net", "Net -> out:0"]


def test_depth_1_shows_the_children() -> None:
    """Children of the root are boxes, its own ops beside them."""
    view = view_of(network(), depth=1)
    assert boxes(view) == ["x", "body", "skip", "add", "out:0"]
    assert arrows(view) == ["x -> body", "x -> skip", "body -> add", "skip -> add", "add -> out:0"]
    assert clusters(view) == ["Net"]


@pytest.mark.parametrize("closed", ["body", "Sequential", ("bo*", "skip"), "body, skip"])
def test_chosen_modules_stay_closed(closed: str | tuple[str, ...]) -> None:
    """By path, class or pattern, at any depth, with all that goes in and out."""
    recording = network()
    for depth in range(1, max_depth(recording) + 1):
        view = view_of(recording, depth=depth, closed=closed)
        assert boxes(view)[:3] == ["x", "body", "skip"]
        assert {"x -> body", "x -> skip", "skip -> add"} <= set(arrows(view))


def test_modules_of_one_op_stay_closed_before_the_last_level() -> None:
    """Opening them would show nothing new."""
    run = Builder()
    with run.scope("Net"):
        h = linear(run, "fc", run.input())
        with run.scope("deep", "Block"):
            linear(run, "inner", h)
    assert boxes(view_of(run.recording(), depth=2)) == ["x", "fc", "deep.inner", "out:0"]
    assert boxes(view_of(run.recording(), depth=3)) == ["x", "linear", "linear", "out:0"]


def step() -> Recording:
    """A model in a model, and the step of an optimizer."""
    run = Builder("run")
    with run.scope("Net"), run.scope("deep", "Block"):
        loss = linear(run, "inner", run.input())
    gradient = run.op("backward", loss)
    with run.scope("Adam", "Adam", kind=ScopeKind.OPTIMIZER):
        run.op("addcdiv_", run.op("mul_", gradient))
    return run.recording()


def test_optimizers_stay_closed_before_the_last_level() -> None:
    """Their ops say little beside modules that are closed."""
    before, last = (view_of(step(), depth=depth) for depth in (2, 3))
    assert boxes(before)[1:4] == ["deep.inner", "backward", "Adam"]
    assert boxes(last)[1:5] == ["linear", "backward", "mul_", "addcdiv_"]


@pytest.mark.parametrize("closed", ["optimizer", "optimizer Adam", "optim*", "Adam"])
def test_regions_are_known_by_their_kind(closed: str) -> None:
    """As figures call them."""
    assert boxes(view_of(step(), depth=3, closed=closed))[3] == "Adam"
    hidden = boxes(view_of(regions(), depth=1, hide="no_grad"))
    assert len(hidden) == len(boxes(view_of(regions(), depth=1))) - 1


def test_a_mode_in_which_nothing_ran_is_not_shown() -> None:
    """Functions of PyTorch that run under no_grad often only ask; an optimizer says more."""
    run = Builder()
    with run.scope("Net"):
        x = run.input()
        with run.scope("no_grad", "no_grad", kind=ScopeKind.NO_GRAD):
            run.op("item", x, outputs=0)
        with run.scope("no_grad", "no_grad", kind=ScopeKind.NO_GRAD):
            pass
        with run.scope("SGD", "SGD", kind=ScopeKind.OPTIMIZER):
            pass
        with run.scope("autocast", "autocast", kind=ScopeKind.AUTOCAST):
            linear(run, "fc", x)
    recording = run.recording()
    assert boxes(view_of(recording, depth=1)) == ["x", "SGD", "autocast", "out:0"]
    assert "no_grad" in boxes(view_of(recording, depth=1, queries=True))
    listed = [line.split()[1] for line in recording.summary().splitlines() if "─ " in line]
    assert listed == ["no_grad", "optimizer", "autocast", "fc"]


def test_a_mode_that_is_all_of_a_module_is_shown() -> None:
    """An open module would be empty without it."""
    run = Builder()
    with run.scope("Net"):
        with run.scope("idle", "Idle"), run.scope("no_grad", "no_grad", kind=ScopeKind.NO_GRAD):
            pass
        linear(run, "fc", run.input())
    assert "no_grad" in [each.rpartition(".")[2] for each in boxes(view_of(run.recording()))]


def test_last_level_shows_ops_and_keeps_modules_that_only_hand_on() -> None:
    """An identity has no op of its own, so it stays a box."""
    recording = network()
    view = view_of(recording, depth=max_depth(recording))
    assert boxes(view) == ["x", "linear", "relu", "linear", "skip", "add", "out:0"]
    assert "x -> skip" in arrows(view) and "skip -> add" in arrows(view)


def test_small_networks_open_all_the_way_by_default() -> None:
    """Plain modules excepted."""
    assert boxes(view_of(network())) == ["x", "body.0", "body.1", "body.2", "skip", "add", "out:0"]


def test_large_networks_show_their_blocks_by_default() -> None:
    """Fifty blocks of two layers are shown as blocks."""
    run = Builder()
    with run.scope("Net"):
        h = run.input()
        for number in range(50):
            with run.scope(f"block{number}", "Block"):
                h = linear(run, "one", h)
                h = linear(run, "two", h)
    assert boxes(view_of(run.recording(), fold=False))[1:3] == ["block0", "block1"]
    assert boxes(view_of(run.recording())) == ["x", "block0.one", "block0.two", "out:0"]


def test_square_has_two_arrows() -> None:
    """x * x reads x twice."""
    run = Builder()
    with run.scope("Net"):
        x = run.input()
        run.op("mul", x, x)
    view = view_of(run.recording(), depth=1)
    assert arrows(view) == ["x -> mul", "x -> mul", "mul -> out:0"]
    assert [arrow.slot for arrow in view.arrows[:2]] == ["0", "1"]


def test_closed_box_takes_each_value_once() -> None:
    """Two readers inside one box are one arrow, two values are two."""
    run = Builder()
    with run.scope("Net"):
        x, y = run.input("x"), run.input("y")
        with run.scope("block", "Block"):
            run.op("mul", x, x)
            run.op("add", x, y)
    assert arrows(view_of(run.recording(), depth=1))[:2] == ["x -> block", "y -> block"]


def test_value_that_is_input_and_output() -> None:
    """An arrow straight through."""
    run = Builder()
    with run.scope("Net"):
        x = run.input()
        run.op("relu", x)
        run.returns(x, x)
    view = view_of(run.recording(), depth=1)
    assert arrows(view) == ["x -> relu", "x -> out:0", "x -> out:1"]


def test_parameter_that_is_an_output_is_shown() -> None:
    """Even where parameters are hidden."""
    run = Builder()
    with run.scope("Net"):
        run.op("relu", run.input())
        run.returns(run.parameter("weight"))
    view = view_of(run.recording(), parameters=False)
    assert arrows(view) == ["x -> relu", "weight -> out:0"]


def test_parameters_are_shown_where_no_module_shows_them() -> None:
    """A token added in a composed module, but not the weight of a linear layer."""
    view = view_of(regions())
    assert "token" in boxes(view) and "patch.weight" not in boxes(view)


def test_weights_of_ops_go_without_saying() -> None:
    """Also in a module that has other modules inside, and counts its batches."""
    run = Builder()
    with run.scope("Net"):
        with run.scope("norm_act", "BatchNormAct2d"):
            count = run.buffer("count", ())
            run.op("add_", count, writes=count, shape=())
            x, weight = run.input(), run.parameter("weight")
            h = run.op("batch_norm", x, weight, slots=("input", "weight"))
            with run.scope("act", "ReLU"):
                run.op("relu", h)
    assert boxes(view_of(run.recording())) == ["x", "batch_norm", "norm_act.act", "out:0"]


def test_a_running_average_begins_at_its_buffer() -> None:
    """``self.mean.mul_(0.9).add_(x)``, unless parameters and buffers are not wanted."""
    run = Builder()
    with run.scope("Net"):
        x, mean = run.input(shape=(4,)), run.buffer("mean")
        kept = run.op("mul_", mean, writes=mean, shape=(4,))
        run.op("add_", kept, linear(run, "fc", x), writes=kept, shape=(4,))
    told = arrows(view_of(run.recording(), depth=1))
    assert {"mean -> mul_", "mul_ -> add_", "fc -> add_"} <= set(told)
    assert "mean" not in boxes(view_of(run.recording(), depth=1, parameters=False))


@pytest.mark.parametrize("module", ["with another inside", "without"])
@pytest.mark.parametrize("region", [False, True])
def test_a_region_does_not_change_which_module_shows_a_buffer(region: bool, module: str) -> None:
    """What a module reads in ``no_grad`` is still its own."""
    run = Builder()
    with run.scope("Net"):
        with run.scope("rotary", "Rotary"):
            with run.scope("no_grad", kind=ScopeKind.NO_GRAD) if region else nullcontext():
                h = run.op("mul", run.input(), run.buffer("freq"))
                if module != "without":
                    h = linear(run, "fc", h)
            run.op("relu", h)
    view = view_of(run.recording(), depth=9)
    shown = any(box.kind is BoxKind.BUFFER for box in view.boxes.values())
    assert shown is (module == "with another inside")


def test_all_parameters_on_request() -> None:
    """Those inside a closed box stay in it."""
    recording = regions()
    deepest = max_depth(recording)
    assert "patch.weight" in boxes(view_of(recording, parameters=True, depth=deepest))
    assert "patch.weight" not in boxes(view_of(recording, parameters=True, depth=1))
    assert "token" not in boxes(view_of(recording, parameters=False))


def test_tied_weight_is_drawn_once_for_both_modules() -> None:
    """Its box lies outside of the two."""
    run = Builder()
    with run.scope("Net"):
        with run.scope("embed", "Embedding"):
            weight = run.parameter("weight")
            h = run.op("embedding", run.input(), weight)
        with run.scope("head", "Linear"):
            run.op("linear", h, weight)
    view = view_of(run.recording(), parameters=True, depth=1)
    assert arrows(view)[:4] == [
        "x -> embed",
        "embed.weight -> embed",
        "embed -> head",
        "embed.weight -> head",
    ]
    assert view.boxes["v0"].cluster == "s0"


def test_reshapes_can_be_hidden() -> None:
    """What they read flows on to who reads them, with the shape that is read."""
    recording = regions()
    view = view_of(recording, reshapes=False)
    assert "flatten" not in boxes(view) and "patch -> add" in arrows(view)
    passing = next(arrow for arrow in view.arrows if arrow.head == "o2" and arrow.tail == "s1")
    assert recording.values[passing.value].shape == (1, 192)


def test_queries_are_hidden_unless_wanted() -> None:
    """item gives no tensor."""
    assert "item" not in boxes(view_of(regions()))
    assert "item" in boxes(view_of(regions(), queries=True))


def test_identities_can_be_hidden() -> None:
    """The skip connection stays a second arrow."""
    view = view_of(network(), depth=1, passes=False)
    assert boxes(view) == ["x", "body", "add", "out:0"]
    assert arrows(view) == ["x -> body", "body -> add", "x -> add", "add -> out:0"]


def test_constants_and_regions() -> None:
    """A tensor from nowhere is a constant; no_grad is a cluster, or a box when closed."""
    recording = regions()
    kinds = [box.kind for box in view_of(recording, depth=1).boxes.values()]
    assert BoxKind.REGION in kinds and BoxKind.CONSTANT not in kinds
    assert BoxKind.CONSTANT in [box.kind for box in view_of(recording, depth=2).boxes.values()]
    assert clusters(view_of(recording, depth=2)) == ["Vit", "patch", "no_grad"]


def test_hidden_ops_are_boxes_of_their_own_kind() -> None:
    """What only autograd saw is told apart."""
    run = Builder()
    with run.scope("Net"):
        run.op("scripted", run.input(), kind=OpKind.HIDDEN)
    assert view_of(run.recording()).boxes["o0"].kind is BoxKind.HIDDEN


def test_recompute_is_not_drawn() -> None:
    """A checkpoint that ran again in backward is not a second forward."""
    run = Builder()
    with run.scope("Net"):
        linear(run, "fc", run.input())
        with run.scope("checkpoint", kind=ScopeKind.CHECKPOINT, recompute=True):
            run.op("relu", run.input("again"))
    assert "checkpoint" not in boxes(view_of(run.recording(), depth=1))


def test_scope_without_ops_is_a_box() -> None:
    """With arrows from what it was given."""
    run = Builder()
    with run.scope("Net"):
        run.op("relu", run.input())
        with run.scope("silent", "Silent"):
            pass
    assert "silent" in boxes(view_of(run.recording(), depth=2))


def test_counting_batches_is_hidden_with_the_buffers() -> None:
    """An op that reads and writes buffers only; shown with the buffers."""
    run = Builder()
    with run.scope("Net"):
        with run.scope("norm", "BatchNorm1d"):
            count = run.buffer("count", ())
            run.op("add_", count, writes=count, shape=())
            run.op("batch_norm", run.input())
    recording = run.recording()
    assert boxes(view_of(recording, depth=2)) == ["x", "batch_norm", "out:0"]
    shown = view_of(recording, depth=2, parameters=True)
    assert arrows(shown)[:2] == ["norm.count -> add_", "x -> batch_norm"]
    assert "add_ -> norm.count" in arrows(shown)


def test_whole_run_has_every_argument_as_an_arrow() -> None:
    """One arrow per tensor argument and per output."""
    recording = network()
    arguments = sum(len(op.inputs) for op in recording.ops.values())
    assert len(full_view(recording).arrows) == arguments + len(recording.outputs)


def test_members_show_what_a_box_stands_for() -> None:
    """Scopes, ops, values, parameters and grad nodes inside."""
    view = view_of(network(), depth=1)
    assert set(view.boxes["s1"].members) == {
        *("s1", "s2", "s3", "s4", "o0", "o1", "o2", "v2", "v3", "v5"),
        *("v1", "v4", "g0", "g1", "g2", "g3", "g4"),
    }


@pytest.mark.parametrize("depth", [-1, 1.5, "all", True])
def test_impossible_depths(depth: object) -> None:
    """The message says what was given."""
    with pytest.raises(InvalidArgument, match="depth must be"):
        ViewOptions(depth=depth)


def test_nothing_ran() -> None:
    """A model that calls no torch function is one box."""
    run = Builder()
    with run.scope("Net"):
        pass
    assert boxes(view_of(run.recording())) == ["Net"]
    assert boxes(view_of(Builder().recording())) == []


def test_a_tensor_in_a_fold_stands_for_those_of_all_repeats() -> None:
    """With their numbers and shapes; what leaves the fold is that of the last one alone."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input("x")
        for number in range(3):
            with run.scope(str(number), "Block"):
                h = run.op("tanh", linear(run, "fc", h), shape=(2, 4 * 2**number))
                h = run.op("exp", h, shape=(2, 4))
        run.op("sum", h, shape=())
    recording = run.recording()
    view = view_of(recording, depth="ops", tensors=True, fold="similar")
    made = [op.outputs[0] for op in recording.ops.values()]
    inside, last = (
        next(box for box in view.boxes.values() if box.id == value) for value in (made[1], made[8])
    )
    assert inside.members == inside.instances == (made[1], made[4], made[7])
    assert last.members == (made[8],) and not last.instances
    assert {"2×4 … 2×16"} == {
        text.text for shape in draw(view).shapes if shape.id == inside.id for text in shape.label
    }
