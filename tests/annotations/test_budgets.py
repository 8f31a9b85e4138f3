"""Budgets: which modules need more than they may."""

from __future__ import annotations

import pytest

from tests.figures import linear, network
from torchrecorder.annotations.limits import exceeded
from torchrecorder.errors import InvalidArgument, UnknownAnnotation
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def twice() -> Recording:
    """A cell called twice, and an activation."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for _ in range(2):
            x = linear(run, "cell", x)
        with run.scope("act", "ReLU"):
            run.op("relu", x)
    return run.recording()


def test_as_much_as_is_allowed_is_allowed() -> None:
    """One more is too much; the line says who, what, how much, and the most."""
    assert exceeded(network(), {"body.0": {"parameters": 16}}) == []
    found = exceeded(network(), {"body.0": {"parameters": 15}})
    assert found == ["body.0: parameters: 16 of 15"]


def test_the_empty_path_is_the_whole_run() -> None:
    """A tied or shared weight counts once there."""
    assert exceeded(network(), {"": {"parameters": 31}}) == [
        "the whole run: parameters: 32 of 31"
    ]
    assert exceeded(network(), {"": {"parameters": 32}}) == []


def test_all_calls_of_a_module_together() -> None:
    """Its weights once, what its calls give each time."""
    limits = {"cell": {"parameters": 16, "output_bytes": 63}}
    assert exceeded(twice(), limits) == ["cell: output_bytes: 64 B of 63 B"]
    assert exceeded(twice(), {"cell": {"output_bytes": 64}}) == []


def test_a_pattern_is_checked_for_each_that_fits() -> None:
    """A module inside another counts for both; one without weights needs none."""
    found = exceeded(network(), {"body*": {"parameters": 16}})
    assert found == ["body: parameters: 32 of 16"]
    found = exceeded(network(), {"*": {"parameters": 0}})
    assert [line.split(":")[0] for line in found] == ["body.0", "body.2", "body"]


def test_who_is_not_there_is_an_error() -> None:
    """As is what was not measured, or cannot be added up."""
    with pytest.raises(InvalidArgument, match=r"no module is called 'bodi'.*'body'"):
        exceeded(network(), {"bodi": {"parameters": 1}})
    with pytest.raises(InvalidArgument, match="this run has no numbers of 'flops'"):
        exceeded(network(), {"": {"flops": 1}})
    with pytest.raises(UnknownAnnotation, match="parameters"):
        exceeded(network(), {"": {"parameter": 1}})


def test_a_model_without_weights_keeps_any_budget() -> None:
    """No parameters are none, not unknown."""
    run = Builder("Net")
    with run.scope("Net"), run.scope("act", "ReLU"):
        run.op("relu", run.input("x"))
    assert exceeded(run.recording(), {"": {"parameters": 0}, "act": {"buffer_bytes": 0}}) == []
