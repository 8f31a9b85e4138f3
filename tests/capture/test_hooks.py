"""Hooks of the user's: what they do lies inside the call of the module that they belong to."""

from __future__ import annotations

import gc
import time
import warnings
import weakref

import pytest
import torch
from torch import nn

import torchrecorder
from tests.notation import flow
from tests.structure import structure
from torchrecorder.capture.recorder import Recorder
from torchrecorder.testing.inert import assert_inert

pytestmark = pytest.mark.usefixtures("strict")


def _hooked(hook):
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    model[0].register_forward_hook(hook)
    return model


def test_what_a_hook_returns_is_the_result():
    """The scope gives what the hook made of it, also where the model itself has the hook."""
    model = _hooked(lambda module, args, out: out.sin())
    model.register_forward_hook(lambda module, args, out: (out, out + 1))
    assert flow(torchrecorder.record(model, torch.ones(2, 3))).splitlines() == [
        "0:",
        "    linear = linear(input, 0.weight, 0.bias)",
        "    sin = sin(linear)",
        "    return sin",
        "1:",
        "    relu = relu(sin)",
        "    return relu",
        "add = add(relu)",
        "return relu, add",
    ]


def test_a_hook_that_raises():
    """The failure is in the module whose hook it is; that module and those around it failed."""
    model = _hooked(lambda module, args, out: torch.cat([out, torch.ones(7)]))
    with pytest.raises(RuntimeError) as caught:
        torchrecorder.record(model, torch.ones(2, 3))
    recording = torchrecorder.recording_of(caught.value)
    failed = [each.path for each in recording.scopes.values() if each.failed]
    assert failed == ["", "0"]
    assert recording.scopes[recording.run.failure.scope].path == "0"
    assert "while running `0` (Linear), op `cat`" in caught.value.__notes__[0]


def test_a_hook_that_raises_and_is_forgiven():
    """What runs after an exception was caught lies outside of the module again."""

    def hook(module, args, out):
        raise ValueError("no")

    class Forgiving(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = _hooked(hook)

        def forward(self, x):
            try:
                return self.inner(x)
            except ValueError:
                return x * 2

    recording = torchrecorder.record(Forgiving(), torch.ones(2, 3))
    assert structure(recording) == []
    (product,) = [op for op in recording.ops.values() if op.name == "mul"]
    assert recording.scopes[product.scope].path == ""


def test_an_outer_failure_is_not_that_of_a_hook():
    """A module whose hooks went well has not failed where the one around it does."""

    class Failing(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = _hooked(lambda module, args, out: None)

        def forward(self, x):
            self.inner[0](x)
            raise ValueError("no")

    with pytest.raises(ValueError) as caught:
        torchrecorder.record(Failing(), torch.ones(2, 3))
    recording = torchrecorder.recording_of(caught.value)
    assert {each.path: each.failed for each in recording.scopes.values()} == {
        "": True,
        "inner.0": False,
    }


def test_who_is_running():
    """In its hooks a module is running; when they are done it is not."""
    told = []
    model = _hooked(lambda module, args, out: told.append(recorder.scopes))
    model.register_forward_hook(lambda module, args, out: told.append(recorder.scopes))
    with Recorder(model) as recorder:
        model(torch.ones(2, 3))
        told.append(recorder.scopes)
    assert told == [("Sequential", "0"), ("Sequential",), ()]


def test_time_after_a_call_is_not_its_own():
    """What the program does when a hooked module has returned takes none of its time."""
    model = _hooked(lambda module, args, out: None)
    with Recorder(model) as recorder:
        y = model[0](torch.ones(2, 3))
        time.sleep(0.3)
        y.sum()
    (scope,) = recorder.recording.scopes.values()
    assert scope.seconds < 0.3


def test_a_result_goes_when_the_next_thing_runs():
    """The result of a hooked module is let go with the next op; in the end in any case."""
    model = _hooked(lambda module, args, out: out.sin())
    gc.disable()
    try:
        with Recorder(model):
            with torch.no_grad():
                kept = weakref.ref(model[0](torch.ones(2, 3)))
                torch.ones(1) + 1
                assert kept() is None
                kept = weakref.ref(model[0](torch.ones(2, 3)))
        assert kept() is None
    finally:
        gc.enable()


def test_two_recorders():
    """A recorder inside a recorder sees the same."""
    model = _hooked(lambda module, args, out: out.sin())
    with Recorder(model) as outer:
        with Recorder(model) as inner:
            model(torch.ones(2, 3)).sum()
    assert flow(inner.recording) == flow(outer.recording)
    assert "    sin = sin(linear)" in flow(inner.recording).replace("        ", "    ")


def test_a_compiled_model_warns_of_the_users_hooks_only():
    """PyTorch cannot tell whose global hooks they are; filters are put back as they were."""
    model = torch.compile(nn.Linear(3, 3), backend="eager")
    with warnings.catch_warnings(record=True) as quiet:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        torchrecorder.record(model, torch.ones(2, 3))
        assert list(warnings.filters) == before
    own = nn.modules.module.register_module_forward_hook(lambda *call: None)
    warned = []
    x = torch.ones(2, 3)
    for run in (lambda: model(x), lambda: torchrecorder.record(model, x)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run()
        warned.append(sum("global hooks" in str(warning.message) for warning in caught))
    own.remove()
    assert quiet == [] and warned[1] == warned[0]  # older versions of PyTorch do not warn


def test_a_run_with_global_backward_hooks_is_inert(monkeypatch):
    """PyTorch keeps a flag beside them, which `assert_inert` compares, too."""
    flag = "_global_is_full_backward_hook"
    monkeypatch.setattr(nn.modules.module, flag, getattr(nn.modules.module, flag))
    own = nn.modules.module.register_module_full_backward_hook(lambda *call: None)
    try:
        assert_inert(lambda: (nn.Linear(3, 3), (torch.ones(2, 3),), {}))
    finally:
        own.remove()


def test_the_module_whose_gradient_a_shared_weight_is_given():
    """Where a hook runs after accumulation, it is the one that ran last in this pass, not the first
    that used the weight."""
    model = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 3)})
    model["a"].weight = model["b"].weight
    told = []
    model["b"].weight.register_post_accumulate_grad_hook(lambda p: told.append(recorder.scopes))
    with torchrecorder.Recorder(model) as recorder:
        lost, kept = model["a"](torch.ones(2, 3)), model["b"](torch.ones(2, 3))
        kept.sum().backward()
        lost.sum().backward()
    assert told == [("b",), ("a",)]
