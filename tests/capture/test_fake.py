"""Fake tensors: the graph of the real run, no weights touched, the mode left as it was."""

from __future__ import annotations

import contextlib
import functools

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

import torchrecorder
from tests import zoo
from tests.notation import flow
from tests.structure import structure
from torchrecorder.errors import InvalidArgument
from torchrecorder.testing.inert import assert_inert

RACES = {"script_forks"}
"""Two threads at once in one fake mode: now and then PyTorch fails by itself, also unrecorded."""

each_case = pytest.mark.parametrize(
    "case", [each for each in zoo.CASES if each.name not in RACES], ids=lambda case: case.name,
    scope="module",  # both tests of a case come one after the other
)

OTHERWISE = {"made_during_run", "parameter_made_anew"}
"""A parameter made of a fake tensor is made by an op, one made of a real tensor is not."""


pytestmark = pytest.mark.usefixtures("strict_but_quiet")


def _called(run):
    return run.model(*run.args, **(run.kwargs or {}))


def _recorded(case, **options):
    """A recording of the case, made when PyTorch's own caches are filled."""
    with contextlib.suppress(Exception):
        _called(case.make())
    run = case.make()
    return torchrecorder.record(run.model, run.args, run.kwargs, **options)


@functools.lru_cache(maxsize=1)
def _flow(case):
    """The graph of the case with real inputs."""
    return flow(_recorded(case))


def _refused(case):
    """What PyTorch itself raises when the case runs on fake inputs; None if it runs."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        run = case.make()
        args, kwargs = pytree.tree_map_only(
            Tensor, lambda each: mode.from_tensor(each, static_shapes=True), (run.args, run.kwargs)
        )
        with mode:
            run.model(*args, **(kwargs or {}))
    except Exception as error:
        return type(error)
    return None


@each_case
def test_fake_inputs(case):
    """With fake inputs the graph is that of real ones, or PyTorch itself cannot run it."""
    refused = _refused(case)
    if refused is not None:
        with pytest.raises(refused):
            _recorded(case, fake=True)
        return
    recording = _recorded(case, fake=True)
    assert structure(recording) == []
    if case.name not in OTHERWISE:
        assert flow(recording) == _flow(case)


@each_case
def test_in_a_fake_world(case):
    """A model made and run under the user's own mode: the same graph, and an inert run."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        with mode:
            _called(case.make())
    except Exception as error:
        pytest.skip(f"PyTorch itself cannot: {type(error).__name__}")

    def make():
        run = case.make()
        return run.model, run.args, run.kwargs or {}

    with mode:
        recording = _recorded(case)
        assert_inert(make, backward=case.backward, lasting=case.lasting)
    assert structure(recording) == []
    if case.name not in OTHERWISE:
        assert flow(recording) == _flow(case)


def test_real_weights_stay_real():
    """No weight, buffer or gradient turns fake, and none of their bits moves."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    model(torch.randn(2, 3)).sum().backward()
    found = [*model.parameters(), *model.buffers(), *(each.grad for each in model.parameters())]
    before = [(id(each), each.clone()) for each in found]
    x = torch.randn(2, 3)
    torchrecorder.record(model, x, fake=True)
    after = [*model.parameters(), *model.buffers(), *(each.grad for each in model.parameters())]
    assert not any(isinstance(each, FakeTensor) for each in [*after, x])
    assert [id(each) for each in after] == [key for key, _ in before]
    assert all(torch.equal(each, bits) for each, (_, bits) in zip(after, before))


def test_no_memory_is_needed():
    """A model that fits in no memory is recorded: a million times a million numbers."""
    with torch.device("meta"):
        model = torch.nn.Linear(1_000_000, 1_000_000)
    x = torch.empty(1, 1_000_000, device="meta")
    for options in ({}, {"fake": True}):
        recording = torchrecorder.record(model, x, **options)
        (output,) = recording.outputs
        assert recording.values[output.value].shape == (1, 1_000_000)


def test_input_behind_which_is_a_graph():
    """An input that was computed with gradients is recorded like one that was not."""
    model, x = torch.nn.Linear(3, 3), torch.ones(2, 3, requires_grad=True) * 1
    recording = torchrecorder.record(model, x, fake=True)
    assert recording.run.lost == 0
    assert [op.name for op in recording.ops.values()] == ["linear"]
    assert [recording.values[each.value].role.value for each in recording.inputs] == ["input"]


def test_no_times_are_measured():
    """How long PyTorch takes to work out shapes says nothing of the model."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    recording = torchrecorder.record(model, torch.ones(2, 3), fake=True, backward=True)
    assert not {"forward_time", "backward_time"} & set(recording.annotations)
    assert recording.run.seconds is None
    with pytest.raises(InvalidArgument, match="fake=True measures no times"):
        torchrecorder.record(model, torch.ones(2, 3), fake=True, repeat=3)
