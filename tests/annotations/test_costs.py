"""Numbers of a hand-written training step: they add up, rank, and come out as tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.graph.test_consistency import changed
from tests.stepped import doubled, events, stepped
from torchrecorder.annotations.amounts import of_flops
from torchrecorder.annotations.nan_origin import FirstBad, describe, first_bad
from torchrecorder.annotations.scope_members import ScopeMembers
from torchrecorder.annotations.statistics import unknown_gradients
from torchrecorder.build import build
from torchrecorder.errors import InvalidArgument, UnknownAnnotation
from torchrecorder.events import FLOPS_BACKWARD, Gradient, ScopeId, ScopeKind, Statistics
from torchrecorder.graph.median_runs import medians, own_seconds
from torchrecorder.graph.nodes import Row
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def test_forward_time_of_a_scope_is_that_of_all_in_it():
    """Ops, and what the scopes themselves take, add up to the time of the whole scope."""
    recording = stepped()
    numbers = recording.annotations["forward_time"]
    inside = ScopeMembers(recording)
    assert numbers.of(inside.of_scope(ScopeId("s0"))) == 10.0
    assert numbers.of(inside.of_scope(ScopeId("s1"))) == 4.0
    assert numbers.by_node == {"o0": 3.0, "o1": 5.0, "s0": 1.0, "s1": 1.0, "s2": 0.0}


def test_backward_time_gives_accumulation_to_the_node_that_fed_it():
    """So that it counts in the module whose weight it is."""
    assert stepped().annotations["backward_time"].by_node == {"g4": 6.0, "g3": 1.5, "g1": 2.25}


def test_both_directions_add_up():
    """Time is forward and backward together."""
    annotations = stepped().annotations
    total = annotations["forward_time"].total() + annotations["backward_time"].total()
    assert annotations["time"].total() == total == 19.75


def test_amounts_of_nodes_that_were_not_recorded_stay_in_the_total():
    """They go to the outermost scope."""
    assert stepped().measured["flops"] == {"o0": 1000, "o1": 3000, "s0": 7}


def test_norms_join_as_norms_do():
    """The gradients of two weights together have the norm of both as one vector."""
    assert stepped().annotations["parameter_gradient_norm"].total() == 5.0


def test_gradient_bytes_belong_to_parameters():
    """One gradient per weight."""
    assert stepped().annotations["gradient_bytes"].by_node == {"v1": 32, "v3": 32}


def test_share_of_zeros():
    """By value; of several together there is none."""
    zeros = stepped().annotations["zeros"]
    assert zeros.by_node == {"v2": 0.5, "v4": 0.0}
    assert zeros.of(["v2", "v4"]) is None


def test_annotations_list_what_the_run_has_numbers_for():
    """What was not measured is no member, and still can be asked for."""
    annotations = stepped().annotations
    assert "flops" in annotations and "backward_flops" not in annotations
    assert annotations["backward_flops"].total() == 0
    with pytest.raises(UnknownAnnotation, match="flops"):
        annotations["flop"]


def test_top_ranks_modules_by_their_own_share():
    """The module around them all is not first only because it is around them."""
    top = stepped().top("backward_time")
    assert [(each.name, each.number, each.text) for each in top] == [
        ("b", 7.5, "7.50 s"), ("a", 2.25, "2.25 s"),
    ]
    assert [each.name for each in stepped().top("saved_bytes", 1)] == ["b"]
    assert [each.name for each in stepped().top("flops", by="op")] == ["b: linear", "a: linear"]


def test_ranking_of_what_does_not_exist_is_refused():
    """The message lists what there is."""
    with pytest.raises(InvalidArgument, match="'module', 'scope', 'op', 'type' or 'grad'"):
        stepped().top("flops", by="layer")


def test_ranking_by_what_has_no_such_numbers_is_refused():
    """The message lists what has; nothing is ranked where there is nothing to rank."""
    with pytest.raises(InvalidArgument, match="'parameters' .* by 'type', only by 'module'"):
        stepped().top("parameters", by="type")
    with pytest.raises(InvalidArgument, match="'flops' has no numbers by 'grad', only by 'module'"):
        stepped().top("flops", by="grad")
    assert stepped().top("parameters", 0) == []
    alone = Builder("run")
    alone.op("sin", alone.input("x"))
    assert alone.recording().top("output_bytes") == []


def test_table_has_inclusive_and_own_numbers():
    """One row per call, ready for a data frame."""
    rows = {row["name"]: row for row in stepped().table(["forward_time", "parameters"])}
    assert list(rows) == ["Net", "a", "b"]
    assert (rows["Net"]["forward_time"], rows["Net"]["self_forward_time"]) == (10.0, 1.0)
    assert (rows["Net"]["parameters"], rows["a"]["parameters"]) == (16, 8)
    assert rows["a"]["type"] == "Linear"


def test_table_of_grad_nodes():
    """One row per node of the autograd graph."""
    rows = stepped().table(["saved_bytes"], by="grad")
    assert {row["id"]: row["saved_bytes"] for row in rows if row["saved_bytes"]} == {
        "g1": 100, "g4": 200,
    }


def test_nothing_bad_is_found_in_finite_numbers():
    """No op and no grad node is named."""
    assert not [*first_bad(stepped())]


def with_bad(**counts):
    """The step, with so many NaNs and infinities in values and gradients."""
    told = [
        each._replace(nans=counts[each.node][0], infs=counts[each.node][1])
        if isinstance(each, Statistics) and each.node in counts else each
        for each in events()
    ]
    return build(told, Recording)


def test_the_first_nan_and_an_infinity_before_it_are_reported():
    """Who made of finite numbers what is not; an infinity after the first NaN is no news."""
    assert [*first_bad(with_bad(v2=(2, 0), v4=(3, 0)))] == [("o0", 2, 0)]
    assert [*first_bad(with_bad(v2=(0, 1)))] == [("o0", 0, 1)]
    assert [*first_bad(with_bad(v4=(1, 2)))] == [("o1", 1, 2)]
    found = FirstBad("o0", 1, 2), FirstBad("o0", 0, 2), FirstBad("o0", 1, 0)
    assert [each.kinds for each in found] == ["NaN and Inf", "Inf", "NaN"]


def test_all_results_of_an_op_count():
    """The numbers of each are added up."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("split", run.input("x"), outputs=3)
    found = run.recording()
    bad = [
        Statistics(value, 0, -1, 8, 0.0, 1.0, -1.0, 1.0, 1.0, 0, nans, infs)
        for value, (nans, infs) in zip(found.ops["o0"].outputs, [(1, 2), (3, 4), (0, 0)])
    ]
    assert [*first_bad(replace(found, statistics=tuple(bad)))] == [("o0", 4, 6)]
    assert list(describe(replace(found, statistics=tuple(bad)))) == [
        "first NaN and Inf: split() in Net at /home/me/net.py:11 (4 NaN, 6 Inf)"
    ]


def test_the_first_bad_gradient_is_that_of_its_maker():
    """The node that gave it, or the one it was handed to from outside."""
    assert [*first_bad(with_bad(g4=(1, 0)))] == [("g4", 1, 0)]
    assert [*first_bad(with_bad(g4=(0, 1), g1=(5, 5)))] == [("g4", 0, 1)]
    assert [*first_bad(with_bad(g1=(2, 1), g0=(8, 8)))] == [("g4", 2, 1)]
    assert [*first_bad(with_bad(g2=(1, 0)))] == [("g3", 1, 0)]


def test_the_first_bad_gradient_in_words():
    """With the op whose forward made its node, if one did."""
    found = with_bad(g4=(1, 2))
    (text,) = describe(found)
    assert text == "first NaN or Inf in backward: MmBackward0 of linear() in b (1 NaN, 2 Inf)"
    loose = found.grad_nodes["g4"].replace(owner=None)
    grads = {**found.grad_nodes, "g4": loose}
    (text,) = describe(replace(found, grad_nodes=grads))
    assert text == "first NaN or Inf in backward: MmBackward0 of no op (1 NaN, 2 Inf)"
    assert not [*describe(stepped())]


def test_annotations_are_asked_for_by_name():
    """Whatever else it is, is refused in a sentence; what was measured is listed."""
    for wrong in (3, None, ["flops"]):
        with pytest.raises(UnknownAnnotation, match="no annotation is called"):
            stepped().annotations[wrong]
    with pytest.raises(UnknownAnnotation) as raised:
        stepped().top("backward_flops")
    listed = str(raised.value).partition("It has ")[2].split(", ")
    assert set(listed) == set(stepped().annotations) and "backward_flops" not in listed


def test_what_cannot_be_added_up_has_no_second_column():
    """Nor has a row of one op."""
    row = stepped().table(["zeros", "flops"])[0]
    assert "zeros" in row and "self_zeros" not in row and "self_flops" in row
    assert "self_flops" not in stepped().table(["zeros", "flops"], by="op")[0]


def test_what_ran_again_for_a_checkpoint_has_no_place_of_its_own():
    """Not in rankings and tables of modules, of calls, nor of ops."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.op("linear", run.input("x"))
        with run.scope("again", "checkpoint", kind=ScopeKind.CHECKPOINT, recompute=True):
            run.op("relu", x)
    found = run.recording()
    assert [row["name"] for row in found.table([], by="module")] == ["Net"]
    assert [row["name"] for row in found.table([], by="scope")] == ["Net"]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 FLOP"), (999, "999 FLOP"), (4.09e9, "4.09 GFLOP"), (1e20, "100 EFLOP")],
)
def test_operations_in_three_digits(number, text):
    """With the prefix that fits."""
    assert of_flops(number) == text


def test_medians_of_repeats_add_up():
    """Each op gets its median; a scope what is in it and the median of its own time."""

    def slower(factor):
        told = [
            (each.replace if isinstance(each, Row) else each._replace)(
                seconds=each.seconds * factor
            )
            if getattr(each, "seconds", None) is not None else each
            for each in events()
        ]
        return build(told, Recording)

    found = medians(stepped(), [slower(1), slower(2), slower(9)])
    assert found.ops["o0"].seconds == 6.0
    assert found.scopes["s0"].seconds == 20.0
    assert [ran.seconds for ran in found.grad_runs] == [12.0, 2.0, 1.0, 4.0, 0.5]


def test_a_repeat_that_ran_differently_does_not_count():
    """A note says so."""
    found = medians(stepped(), [stepped(), stepped(failed=True)])
    assert found.ops["o0"].seconds == 3.0
    assert found.run.notes == ("1 of 2 repeats ran other operations and is left out",)


def test_nodes_of_a_double_backward_show_who_made_them():
    """In the recording, by id."""
    assert doubled().grad_nodes["g5"].made_by == "g4"


@pytest.mark.parametrize("again", [True, False])
def test_flops_of_a_node_in_a_backward_pass_that_a_node_runs(again):
    """They are those of this node, if the pass is one through what it computed again."""
    recording = changed(doubled(), "ops", "o2", recompute=again)
    measured = {"g5": 7, "g4": 2, "g1": 1, "s0": 4}
    numbers = replace(recording, measured={FLOPS_BACKWARD: measured}).annotations["backward_flops"]
    inside = {"g4": 9} if again else {"g4": 2, "g5": 7}
    assert numbers.by_node == {**inside, "g1": 1, "s0": 4}


def test_weights_whose_gradient_was_not_measured():
    """Of those that have one with elements; none where nothing was measured."""
    recording = stepped()
    measured = tuple(one for one in recording.statistics if one.node != "g0")
    partly = replace(recording, statistics=measured)
    assert unknown_gradients(recording) == frozenset()
    assert unknown_gradients(partly) == {"v1"}
    assert unknown_gradients(replace(recording, statistics=())) == frozenset()
    empty = Gradient((0, 4), "float32", "cpu", 0)
    runs = tuple(
        ran.replace(given=(empty,)) if ran.grad == "g0" else ran for ran in recording.grad_runs
    )
    assert unknown_gradients(replace(partly, grad_runs=runs)) == frozenset()


def test_time_of_what_runs_again_is_not_that_of_its_module():
    """It is a part of the backward pass."""
    assert own_seconds(stepped())["s1"] == 1.0
    assert own_seconds(changed(stepped(), "ops", "o0", recompute=True))["s1"] == 4.0
