"""Models and hooks that raise: the exception stays the user's, and what ran is recorded."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

import torchrecorder

from tests.structure import structure
from tests.notation import op_names
from tests.zoo.case import net


class Stop(Exception):
    """Raised by a model."""


def raising(error):
    """Fails in its second child, at the second op in there."""

    def inner(self, x):
        x * 2
        raise error

    def forward(self, x):
        return self.second(self.first(x))

    return net(forward, first=nn.Linear(3, 3), second=net(inner))


@pytest.mark.parametrize("error", [Stop("no more"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_the_users_exception_stays_the_users(error):
    """The very exception comes through, with what was recorded until then."""
    with pytest.raises(type(error)) as caught:
        torchrecorder.record(raising(error), torch.ones(2, 3))
    assert caught.value is error
    recording = torchrecorder.recording_of(error)
    assert op_names(recording) == ["linear", "mul"]
    assert structure(recording) == []
    assert recording.run.failure.error == type(error).__name__
    assert recording.scopes[recording.run.failure.scope].path == "second"
    failed = [scope.path for scope in recording.scopes.values() if scope.failed]
    assert failed == ["", "second"]


def test_an_op_of_which_the_program_catches_the_error_is_marked():
    """It has no results, and those around it have not failed."""
    raised = []

    def forward(self, x):
        for size in (3, 7):
            try:
                torch.ones(2, size) @ x
            except RuntimeError as error:
                raised.append(error)
        return x * 2

    recording = torchrecorder.record(net(forward), torch.ones(3, 3))
    failed = [op for op in recording.ops.values() if op.failed]
    assert [op.name for op in failed] == ["matmul"] and len(raised) == 1
    assert failed[0].outputs == () and recording.values[failed[0].inputs[0].value].shape == (2, 7)
    assert recording.run.failure is None


def test_an_op_that_raises_is_marked():
    """The failing op is recorded with its inputs, and said to have failed."""
    model = net(lambda self, x, y: (x * 2) @ y)
    with pytest.raises(RuntimeError, match="mat1 and mat2") as caught:
        torchrecorder.record(model, (torch.ones(2, 3), torch.ones(2, 3)))
    recording = torchrecorder.recording_of(caught.value)
    failed = recording.ops[recording.run.failure.op]
    assert failed.failed
    assert failed.name == "matmul"
    assert [slot.value for slot in failed.inputs] == ["v2", "v1"] or len(failed.inputs) == 2


def test_an_exception_the_model_catches_is_no_failure():
    """What a model catches itself is part of its run; what follows is recorded right."""

    def forward(self, x):
        try:
            self.bad(x)
        except Stop:
            x = x + 1
        return self.good(x)

    def bad(self, x):
        x * 3
        raise Stop

    model = net(forward, bad=net(bad), good=nn.Linear(3, 3))
    recording = torchrecorder.record(model, torch.ones(2, 3))
    assert recording.run.failure is None
    assert op_names(recording) == ["mul", "add", "linear"]
    paths = {op.name: recording.scopes[op.scope].path for op in recording.ops.values()}
    assert paths == {"mul": "bad", "add": "", "linear": "good"}


def test_a_raising_run_keeps_no_tensor():
    """When the user drops the exception, the tensors of the failed run are gone."""
    model, x = raising(Stop()), torch.ones(2, 3)
    seen = []
    model.first.register_forward_hook(lambda m, a, out: seen.append(weakref.ref(out)))
    try:
        torchrecorder.record(model, x)
    except Stop as error:
        recording = torchrecorder.recording_of(error)
        error.__traceback__ = None
    gc.collect()
    assert op_names(recording) == ["linear", "mul"]
    assert seen[0]() is None


class Stubborn(Exception):
    """Takes no attribute and no note."""

    def __setattr__(self, name, value):
        if not name.startswith("__"):
            raise TypeError("no")
        super().__setattr__(name, value)

    def add_note(self, note):
        raise TypeError("no")


def test_an_exception_that_takes_no_note():
    """An exception that refuses to be written on still comes through as it is."""
    error = Stubborn("x")
    with pytest.raises(Stubborn) as caught:
        torchrecorder.record(raising(error), torch.ones(2, 3))
    assert caught.value is error


def test_hooks_of_the_user_that_raise():
    """A raising hook of the user's is the user's exception too."""
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def hook(module, args):
        raise Stop

    model[1].register_forward_pre_hook(hook)
    with pytest.raises(Stop) as caught:
        torchrecorder.record(model, torch.ones(2, 3))
    assert op_names(torchrecorder.recording_of(caught.value)) == ["linear"]
