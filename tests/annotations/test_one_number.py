"""Numbers of a run by hand, one fact each: where they count, how they join, what they say."""

from __future__ import annotations

import math
from dataclasses import replace
from types import MappingProxyType

import pytest

from tests.figures import linear, network
from tests.graph.test_consistency import blank, changed
from tests.stepped import stepped
from torchrecorder.annotations import flags_for, numbers_of
from torchrecorder.annotations.annotation import Annotation
from torchrecorder.annotations.limits import BUDGETS, exceeded
from torchrecorder.annotations.memory import OUTPUT_BYTES
from torchrecorder.annotations.parameter_owners import ParameterOwners
from torchrecorder.annotations.places import op_in_words, op_name, scope_name
from torchrecorder.annotations.scope_members import ScopeMembers
from torchrecorder.annotations.statistics import number, root_of_squares, share
from torchrecorder.errors import InvalidArgument, UnknownAnnotation
from torchrecorder.events import (
    BYTES_OF_GRADIENT, SECONDS_ON_DEVICE, GradEdge, Gradient, OpKind, Role, ScopeKind, Shard,
    Statistics,
)
from torchrecorder.graph.relations import scopes_inside
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder

ON_DEVICE = Gradient((2, 4), "float32", "cuda:0", 32)


def measured(recording: Recording, quantity: str, **amounts: float) -> Recording:
    """*recording* with other numbers of a quantity."""
    found = {**recording.measured, quantity: MappingProxyType(amounts)}
    return replace(recording, measured=MappingProxyType(found))


def on_device(recording: Recording, *grads: str) -> Recording:
    """*recording*, in which these grad nodes received gradients on a device."""
    runs = (
        run.replace(given=(None, ON_DEVICE)) if run.grad in grads else run
        for run in recording.grad_runs
    )
    return replace(recording, grad_runs=tuple(runs))


def test_backward_on_a_device_has_the_times_of_the_device() -> None:
    """What ran on the CPU beside it keeps its own; a node is no op."""
    run = measured(on_device(stepped(), "g4", "g3"), SECONDS_ON_DEVICE, g4=7.0, o0=1.0)
    assert run.annotations["backward_time"].by_node == {"g3": 0.5, "g1": 2.25, "g4": 7.0}
    run = on_device(stepped(), "g4", "g3").annotations["backward_time"]
    assert run.by_node == stepped().annotations["backward_time"].by_node


def test_forward_on_a_device_has_the_times_of_the_device() -> None:
    """Of ops whose results are there, where they were measured; scopes have none then."""
    run = changed(stepped(), "values", "v2", device="cuda:1")
    timed = measured(run, SECONDS_ON_DEVICE, o0=0.5, o1=0.25)
    assert timed.annotations["forward_time"].by_node == {"o0": 0.5, "o1": 5.0}
    assert run.annotations["forward_time"].by_node == stepped().annotations["forward_time"].by_node
    untimed = measured(run, SECONDS_ON_DEVICE, o1=0.25)
    assert untimed.annotations["forward_time"].by_node == {"o0": 3.0, "o1": 5.0}


def test_what_runs_again_is_no_forward() -> None:
    """Neither ops nor scopes of a checkpoint, nor the call of backward."""
    run = changed(changed(stepped(), "ops", "o1", recompute=True), "scopes", "s2", recompute=True)
    assert set(run.annotations["forward_time"].by_node) == {"o0", "s0", "s1"}


# Gradients ------------------------------------------------------------------------------


def test_gradient_norms_belong_to_what_ops_made() -> None:
    """By the output of the grad node; those of leaves are numbers of their own."""
    assert stepped().annotations["gradient_norm"].by_node == {"v2": 1e-6, "v4": 1.0}
    leaf = changed(stepped(), "values", "v1", grad=GradEdge("g3", 0))
    taken = Statistics("g3", 0, 0, 8, 0.0, 1.0, -1.0, 1.0, 5.0, 0, 0, 0)
    run = replace(leaf, statistics=(*leaf.statistics, taken, taken._replace(node="g4", index=1)))
    assert run.annotations["gradient_norm"].by_node == {"v2": 1e-6, "v4": 1.0}
    assert run.annotations["parameter_gradient_norm"].by_node == {"v3": 3.0, "v1": 4.0}
    passed = run.values["v4"].replace(id="v9", producer="o9")
    run = replace(run, values={**run.values, "v9": passed})
    assert run.annotations["gradient_norm"].by_node == {"v2": 1e-6, "v4": 1.0, "v9": 1.0}


def test_weights_that_no_gradient_reached() -> None:
    """Trainable ones, if others were reached; not what a checkpoint runs again."""
    run = stepped()
    assert not ParameterOwners(run).unreached
    some = replace(run, grad_runs=run.grad_runs[:-1])
    assert ParameterOwners(some).unreached == {"v1"}
    assert not ParameterOwners(changed(some, "values", "v1", trainable=False)).unreached
    assert not ParameterOwners(replace(run, grad_runs=())).unreached
    assert not ParameterOwners(measured(some, BYTES_OF_GRADIENT, v1=8.0)).unreached
    missed = run.grad_runs[-1].replace(given=(None,))
    without = replace(run, grad_runs=(*run.grad_runs[:-1], missed))
    assert ParameterOwners(without).unreached == {"v1"}
    assert not ParameterOwners(changed(some, "scopes", "s1", recompute=True)).unreached
    quiet = changed(some, "values", "v2", requires_grad=False)
    assert ParameterOwners(changed(quiet, "scopes", "s1", recompute=True)).unreached == {"v1"}


# Communication --------------------------------------------------------------------------


# Numbers in general ---------------------------------------------------------------------


def by_pass(**numbers: float) -> Annotation:
    """Numbers of both passes."""
    return Annotation("n", "N", "", lambda _: numbers, sum, lambda it: f"{it:g}", passes=True)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({}, ""), ({"o0": 2}, "2 forward"), ({"g4": 3}, "3 backward"), ({"o0": 0}, "0"),
        ({"o0": 2, "o1": 1, "g4": 3}, "3 forward, 3 backward"), ({"o0": 0, "g4": 0}, "0"),
    ],
)
def test_numbers_of_both_passes_show_which(numbers: dict[str, float], said: str) -> None:
    """Zero is told only where there is nothing else; nothing where nothing was measured."""
    assert by_pass(**numbers).on(stepped()).text(["o0", "o1", "g4"]) == said


def test_numbers_show_what_they_are() -> None:
    """How many, of which run, and their sum if it is one."""
    assert repr(by_pass(o0=2, o1=3).on(stepped())) == "<n of Net: 2 numbers, total 5>"
    assert repr(replace(by_pass(o0=2), merge=max).on(stepped())) == "<n of Net: 1 number>"
    assert repr(by_pass().on(stepped())) == "<n of Net: 0 numbers>"


def test_results_of_one_op_add_up() -> None:
    """In new memory only: not what it writes, passes on or gives as a view."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        pair = run.op("split", x, outputs=3)
        run.op("add_", pair, writes=pair)
        run.op("view", pair)
        run.op("identity", pair, kind=OpKind.PASS)
    recording = run.recording()
    (view,) = recording.ops["o2"].outputs
    for value in (recording.ops["o0"].outputs[0], view):
        recording = changed(recording, "values", value, storage=0)
    assert OUTPUT_BYTES.on(recording).by_node == {"o0": 96, "o1": 0, "o2": 0, "o3": 0}


def test_a_shard_counts_with_what_is_here() -> None:
    """The whole weight is a number of its own, where one is sharded."""
    recording = network()
    assert not recording.annotations["global_parameter_bytes"].by_node
    here = replace(recording, shards=(blank(Shard, value="v1", bytes=16),))
    assert here.annotations["parameter_bytes"].by_node == {"v1": 16, "v4": 64}
    assert here.annotations["global_parameter_bytes"].by_node == {"v1": 64, "v4": 64}
    other = replace(recording, shards=(blank(Shard, value="v0", bytes=16),))
    assert not other.annotations["global_parameter_bytes"].by_node


def test_weights_that_are_not_trained_count_nothing() -> None:
    """As trainable; what an op writes into a weight is no second weight, one that it makes is."""
    recording = changed(network(), "values", "v1", trainable=False)
    assert recording.annotations["trainable"].by_node == {"v1": 0, "v4": 16}
    made = changed(network(), "values", "v1", producer="o0")
    assert made.annotations["parameters"].by_node == {"v1": 16, "v4": 16}
    again = changed(network(), "values", "v1", producer="o0", role=Role.INNER)
    assert again.annotations["parameters"].by_node == {"v4": 16}


def test_weights_without_a_name_count() -> None:
    """Those of no module that no line of code names."""
    recording = changed(network(), "values", "v1", names=())
    for name in ("parameters", "trainable"):
        assert recording.annotations[name].by_node == {"v1": 16, "v4": 16}


def test_a_weight_in_two_modules_is_tied() -> None:
    """In one module twice, it is not."""
    recording = network()
    first, second = (module for module in recording.modules.values() if module.parameters)
    assert not ParameterOwners(recording).tied
    twice = changed(recording, "modules", first.id, parameters=first.parameters * 2)
    assert not ParameterOwners(twice).tied
    tied = changed(recording, "modules", second.id, parameters=first.parameters)
    assert ParameterOwners(tied).tied == {first.parameters[0].value}


def test_scopes_in_a_scope() -> None:
    """At any depth, itself too, and no ops."""
    recording = network()
    body = next(scope.id for scope in recording.scopes.values() if scope.path == "body")
    inside = [recording.scopes[scope].path for scope in scopes_inside(recording, [body])]
    assert inside[0] == "body" and sorted(inside[1:]) == ["body.0", "body.1", "body.2"]
    members = ScopeMembers(recording).of_scope(body)
    assert len(members) == len(set(members))


@pytest.mark.parametrize(
    ("found", "said"),
    [(0.0, "0"), (999.4, "999"), (999.5, "1,000"), (12345.6, "12,346"), (1e6, "1e+06"),
     (-2500.0, "-2,500"), (1.2345e-9, "1.23e-09")],
)
def test_statistics_in_three_digits(found: float, said: str) -> None:
    """Thousands in full."""
    assert number(found) == said


def test_shares_and_norms() -> None:
    """In percent; and of several together as of one vector."""
    assert share(0.125) == "12.5 %" and share(1) == "100 %"
    assert root_of_squares([3, 4, 12]) == 13


def test_statistics_of_what_has_no_finite_numbers() -> None:
    """Are left out, but for the norm and the count of what is not finite."""
    none = Statistics("v2", 0, -1, 8, 1.0, 1.0, -1.0, 1.0, math.inf, 0, 3, 5)
    some = none._replace(node="v4", infs=4, zeros=2)
    empty = none._replace(node="v0", count=0, nans=0, infs=0)
    run = replace(stepped(), statistics=(none, some, empty))
    assert run.annotations["activation_mean"].by_node == {"v4": 1.0}
    assert run.annotations["zeros"].by_node == {"v4": 0.25}
    assert run.annotations["not_finite"].by_node == {"v2": 8, "v4": 7, "v0": 0}
    assert set(run.annotations["activation_norm"].by_node) == {"v2", "v4"}  # v0 is no result
    pair = run.annotations["activation_min"], run.annotations["activation_max"]
    assert [numbers.of(["v4", "v2"]) for numbers in pair] == [-1.0, 1.0]


def test_what_is_made_of_numbers_that_are_not_finite_is_no_origin() -> None:
    """One of several inputs is enough; a run without statistics says how to get them."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        run.op("add", x, run.op("log", x))
    recording = run.recording()
    bad = [Statistics(value, 0, -1, 8, 0.0, 1.0, -1.0, 1.0, 1.0, 0, 1, 0) for value in ("v1", "v2")]
    with pytest.raises(UnknownAnnotation, match="has no 'not_finite'"):
        recording.first_not_finite()
    found = replace(recording, statistics=tuple(bad)).first_not_finite()
    assert (found.node, found.nans, found.infs) == ("o0", 1, 0)
    assert replace(recording, statistics=tuple(bad[1:])).first_not_finite().node == "o1"
    fine = replace(recording, statistics=(bad[0]._replace(nans=0),))
    assert fine.first_not_finite() is None
    assert replace(recording, values={}, ops={}, scopes={}).first_not_finite() is None


# Places and messages --------------------------------------------------------------------


def test_places_in_words() -> None:
    """A region by its module and its own name; an op by its place and its line."""
    run = Builder("Net")
    with run.scope("Net"), run.scope("fc", "Linear"):
        with run.scope("no_grad", "no_grad", kind=ScopeKind.NO_GRAD):
            run.op("linear", run.input())
    run.op("sum", run.constant())
    recording = run.recording()
    inner, last = recording.ops.values()
    assert scope_name(recording, inner.scope) == "fc.no_grad"
    region = changed(recording, "scopes", "s2", path="")
    assert scope_name(region, inner.scope) == "fc > no_grad"
    assert op_name(region, inner) == "fc > no_grad: linear" and op_name(region, last) == "sum"
    assert op_in_words(region, inner.id) == "linear() in fc > no_grad at /home/me/net.py:13"
    bare = changed(region, "ops", last.id, source=None)
    assert op_in_words(bare, last.id) == "sum()"


def test_a_number_that_cannot_be_added_up_has_no_limit() -> None:
    """Even if it was measured."""
    with pytest.raises(InvalidArgument, match="'zeros' cannot be added up and has no budget"):
        exceeded(stepped(), {"": {"zeros": 1}})
    mixed = {"": {"parameters": 1}, "a": 3}
    for wrong in ({"": 3}, mixed, {"": {"parameters": -1}}, {"": {"parameters": "many"}}, 3):
        assert not BUDGETS.holds(wrong)
    assert BUDGETS.holds({"": {"parameters": 0, "flops": 1e9}})


def test_what_was_not_measured_is_reported_with_the_flags_that_measure_it() -> None:
    """And what else there is; annotations by the name of their flag, too."""
    with pytest.warns(UserWarning, match=r"no 'flops': record\(\.\.\., flops=True\) meas"):
        numbers_of(network(), "flops")
    with pytest.warns(UserWarning, match=r"backward=True\) of tensors that require grad measures"):
        numbers_of(network(), "backward_time")
    with pytest.warns(UserWarning, match="only a run of several processes has it.*output"):
        numbers_of(network(), "communication_time")
    with pytest.raises(UnknownAnnotation, match=r"saved=True\) measures saved_bytes"):
        network().annotations["saved"]
    annotations = (network().annotations[name].annotation for name in ("flops", "time", "kernel"))
    assert flags_for(annotations) == {"flops"}


def test_a_ranking_begins_with_what_is_no_number() -> None:
    """Then the largest; what has no number is left out; as many as asked for."""
    numbers = {"o0": 1.0, "o1": math.nan, "o2": 5.0}
    own = Annotation("n", "N", "", lambda _: numbers, sum, str)
    assert [found.ids for found in stepped().top(own, by="op")] == [("o1",), ("o2",), ("o0",)]
    assert [found.text for found in stepped().top(own, 2, by="op")] == ["nan", "5.0"]
    assert not stepped().top(own, 0, by="op")
    assert [found.name for found in stepped().top("saved_bytes", by="grad")] == [
        "b: MmBackward0", "a: MmBackward0",
    ]


def test_modules_of_a_ranking_count_all_calls_and_their_own_weights() -> None:
    """Not those of the modules in them."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.op("mul", run.input("x"), run.parameter("scale", (2,)))
        for _ in range(2):
            h = linear(run, "cell", h)
    recording = run.recording()
    assert [(found.name, found.number) for found in recording.top("parameters")] == [
        ("cell", 16), ("Net", 2),
    ]
    ranked = recording.top("output_bytes")
    assert [(found.name, found.number, len(found.ids)) for found in ranked] == [
        ("cell", 64, 2), ("Net", 32, 1),
    ]
    rows = recording.table(["parameters", "output_bytes"], by="module")
    assert [(row["parameters"], row["self_parameters"]) for row in rows] == [(18, 2), (16, 16)]
    assert [(row["output_bytes"], row["self_output_bytes"]) for row in rows] == [(96, 32), (64, 64)]


def test_what_ran_again_has_no_row() -> None:
    """Neither among ops nor among their types."""
    recording = changed(network(), "ops", "o1", recompute=True)
    for by in ("op", "type"):
        assert not any("relu" in row["name"] for row in recording.table([], by=by))


def test_rows_show_what_they_are() -> None:
    """Types with their number, ops with their line, scopes with their kind, grad nodes alone."""
    recording = network()
    types = recording.table(["output_bytes"], by="type")
    assert [(row["name"], row["count"], row["output_bytes"]) for row in types] == [
        ("linear", 2, 64), ("relu", 1, 32), ("pass", 1, 0), ("add", 1, 32),
    ]
    first = recording.table([], by="op")[0]
    assert first == {
        "id": "o0", "name": "body.0: linear", "type": "linear", "kind": "called",
        "source": "/home/me/net.py:13",
    }
    assert changed(recording, "ops", "o0", source=None).table([], by="op")[0]["source"] is None
    assert recording.table([])[0] == {"id": "s0", "name": "Net", "type": "Net", "kind": "module"}
    assert stepped().table([], by="grad")[0] == {"id": "g0", "name": "AccumulateGrad"}
