"""Annotations: numbers by node, added up over what boxes and scopes stand for."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.export.test_text import odd
from tests.figures import linear, network
from tests.random_recordings import recordings
from torchrecorder.annotations import ANNOTATIONS, by_name
from torchrecorder.annotations.amounts import exact, of_bytes, of_seconds
from torchrecorder.annotations.annotation import Annotation, Ratio
from torchrecorder.annotations.memory import OUTPUT_BYTES
from torchrecorder.annotations.parameter_owners import ParameterOwners
from torchrecorder.annotations.parameters import (
    BUFFER_BYTES, PARAMETER_BYTES, PARAMETERS, TRAINABLE,
)
from torchrecorder.annotations.scope_members import ScopeMembers
from torchrecorder.errors import InvalidArgument, UnknownAnnotation
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view


def annotation(**numbers: float) -> Annotation:
    """Given numbers, added up."""
    return Annotation("given", "Given", "", lambda recording: numbers, sum, str)


def test_by_name() -> None:
    """Each annotation is found by its name, a wrong one is answered with the closest."""
    assert [by_name(each.name) for each in ANNOTATIONS] == list(ANNOTATIONS)
    with pytest.raises(UnknownAnnotation, match="did you mean 'parameters'"):
        by_name("parameter")


def test_merge_over_members() -> None:
    """One number for several nodes; what is named twice counts once."""
    numbers = annotation(o0=1, o1=2.5, v3=4).on(network())
    assert numbers.of(["o0", "o1", "o0", "o2"]) == 3.5
    assert numbers.of(["o2"]) is None
    assert numbers.of([]) is None
    assert numbers.text(["o0", "v3"]) == "5"
    assert numbers.text(["o2"]) == ""
    assert numbers.total() == 7.5


def test_a_ratio_keeps_its_parts() -> None:
    """Also through pickle, as rows of a table do."""
    ratio = pickle.loads(pickle.dumps(Ratio(6, 4)))
    assert (ratio, ratio.above, ratio.below) == (1.5, 6, 4)
    assert Ratio.of_sums([ratio, Ratio(2, 0)]) == 2


def test_a_number_of_a_call_is_that_of_its_module() -> None:
    """Also without a merge, where other numbers inside would not count."""
    numbers = Annotation("r", "R", "", lambda _: {"s0": 7, "s1": 1, "s2": 2}, None, str)
    recording = network()
    assert [row["r"] for row in recording.table([numbers])] == [7, 1, 2, None, None, None]


@pytest.mark.parametrize("key", [network().scopes["s1"].path, "m1"])
def test_numbers_are_by_id(key: str) -> None:
    """A dotted path, or the id of a module, would be a number of nothing."""
    with pytest.raises(InvalidArgument, match=f"not '{key}': a module has the ids"):
        annotation(**{key: 1.0}).on(network())


def test_a_module_may_be_named_like_an_operation() -> None:
    """A number of an operation is no mistake, even if a module has the same text as its path."""
    recording = network()
    scope = recording.scopes["s1"].replace(path="o0")
    recording = replace(recording, scopes={**recording.scopes, scope.id: scope})
    assert annotation(o0=1).on(recording).total() == 1


def test_a_ratio_has_no_sum() -> None:
    """Without a merge, a number is told of single nodes only."""
    numbers = Annotation("r", "R", "", lambda _: {"o0": 1, "o1": 2}, None, str).on(network())
    assert numbers.of(["o0", "o2"]) == 1
    assert numbers.of(["o0", "o1"]) is None
    assert numbers.total() == 0


def test_scopes_bring_their_weights() -> None:
    """A scope counts the weights of its module, those inside included."""
    recording = network()
    scopes = {scope.path: scope.id for scope in recording.scopes.values()}
    numbers = PARAMETERS.on(recording)
    assert numbers.of([scopes["body.0"]]) == 16
    assert numbers.of([scopes["body"]]) == numbers.of([scopes[""]]) == 32
    assert numbers.of([scopes["body"], scopes["body.0"], scopes["body.2"]]) == 32
    assert numbers.of([scopes["skip"]]) is None


def test_modules_bring_their_weights() -> None:
    """A module that was never called can be asked as well."""
    assert PARAMETERS.on(odd()).of(["lost"]) == 20


def test_tied_counts_once() -> None:
    """Two scopes with one weight have it once together."""
    recording = odd()
    scopes = {scope.path: scope.id for scope in recording.scopes.values()}
    numbers = PARAMETERS.on(recording)
    assert numbers.of([scopes["embed"]]) == numbers.of([scopes["head"]]) == 16
    assert numbers.of([scopes["embed"], scopes["head"]]) == 16
    assert len(ParameterOwners(recording).tied) == 1


def test_kinds_of_weights() -> None:
    """Count, bytes, those trained, and buffers are numbers of their own."""
    run = Builder("Net")
    with run.scope("Net"):
        x = linear(run, "fc", run.input("x"))
        with run.scope("bn", "BatchNorm1d"):
            run.op("batch_norm", x, run.buffer("running_mean"), run.parameter("weight", (4,)))
    recording = run.recording()
    assert PARAMETERS.on(recording).total() == 20
    assert TRAINABLE.on(recording).total() == 20
    assert PARAMETER_BYTES.on(recording).total() == 80
    assert BUFFER_BYTES.on(recording).total() == 16
    assert TRAINABLE.on(odd()).total() == 64


def test_output_bytes() -> None:
    """An op has the bytes of its new results: 0 for a pass, nothing for what it read."""
    recording = network()
    numbers = OUTPUT_BYTES.on(recording)
    names = {op.id: op.name for op in recording.ops.values()}
    found = [(names[op], amount) for op, amount in numbers.by_node.items()]
    assert found == [("linear", 32), ("relu", 32), ("linear", 32), ("pass", 0), ("add", 32)]


@settings(max_examples=40, deadline=None)
@given(recordings())
def test_closing_keeps_sums(recording: Recording) -> None:
    """At every depth, boxes have the same numbers together, weights included."""
    whole = ScopeMembers(recording)
    for each in (OUTPUT_BYTES, PARAMETERS):
        numbers = each.on(recording)
        for scope in recording.scopes.values():
            inner = [
                member
                for child in recording.children[scope.id]
                for member in (
                    whole.of_scope(child.id) if child.id in recording.scopes
                    else whole.of_op(child.id)
                )
            ]
            assert numbers.of([scope.id, *inner]) == numbers.of(whole.of_scope(scope.id))


def test_boxes_have_numbers() -> None:
    """A closed box in a view has the sum of what it stands for."""
    recording = network()
    view = make_view(recording, ViewOptions(depth=0))
    box = view.boxes["s0"]
    assert OUTPUT_BYTES.on(recording).of(box.members) == 128
    assert PARAMETERS.on(recording).of(box.members) == 32


@pytest.mark.parametrize(
    ("show", "number", "text"),
    [
        (exact, 0, "0"),
        (exact, 11689512, "11,689,512"),
        (of_bytes, 0, "0 B"),
        (of_bytes, 999, "999 B"),
        (of_bytes, 1000, "1.00 kB"),
        (of_bytes, 9_995, "10.0 kB"),
        (of_bytes, 999_499, "999 kB"),
        (of_bytes, 999_500, "1.00 MB"),
        (of_bytes, 46_758_048, "46.8 MB"),
        (of_bytes, 3e21, "3000000 PB"),
        (of_seconds, 0, "0 ns"),
        (of_seconds, 1.5e-8, "15 ns"),
        (of_seconds, 1e-6, "1.00 µs"),
        (of_seconds, 0.0123, "12.3 ms"),
        (of_seconds, 0.9996, "1.00 s"),
        (of_seconds, 125, "125 s"),
    ],
)
def test_amounts(show: object, number: float, text: str) -> None:
    """Amounts have three digits and a unit."""
    assert show(number) == text
