"""Models and hooks that raise: the exception stays the user's, and what ran is recorded."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch
from torch import nn

import torchrecorder
from tests.notation import op_names
from tests.structure import structure
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
    assert recording.run.failure.source.function == "inner"
    failed = [scope.path for scope in recording.scopes.values() if scope.failed]
    assert failed == ["", "second"]


def test_the_line_that_raised_is_in_the_recording(tmp_path):
    """Also outside of operations and modules, in summaries, and in files."""
    layer = nn.Linear(3, 3)
    with pytest.raises(KeyboardInterrupt) as caught, torchrecorder.Recorder() as recorder:
        for step in range(3):
            layer(torch.ones(2, 3)).sum().backward()
            if step == 1:
                raise KeyboardInterrupt
    line = caught.traceback[-1].lineno + 1
    failure = recorder.recording.run.failure
    assert (failure.scope, failure.op) == (None, None)
    name = "test_the_line_that_raised_is_in_the_recording"
    assert failure.source == (failure.source.file, line, name)
    assert failure.source.file.endswith("test_trouble.py")
    last = recorder.recording.summary().splitlines()[-1]
    assert last == f"Failed: KeyboardInterrupt at {failure.source.place}"
    saved = torchrecorder.load(recorder.recording.save(tmp_path / "run.json"))
    assert saved.run.failure == failure


def test_a_line_outside_of_the_pass_did_not_raise_in_it():
    """An error of PyTorch in a backward pass has no line; one of a hook has that of the hook."""
    def hook(gradient):
        raise Stop("in a hook")

    changes = (lambda y: y.mul_(2), None), (lambda y: y.register_hook(hook), "hook")
    for change, function in changes:
        with pytest.raises((RuntimeError, Stop)), torchrecorder.Recorder() as recorder:
            y = torch.ones(3, requires_grad=True).exp()
            change(y)
            y.sum().backward()
        failure = recorder.recording.run.failure
        assert failure.backward and getattr(failure.source, "function", None) == function


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


@pytest.mark.parametrize("error", [Stop("no more"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("after", [lambda x: x.tanh(), nn.Tanh(), lambda x: nn.Tanh().forward(x)])
def test_what_runs_after_an_exception_that_is_caught(error, after):
    """It is not in the modules that failed, also if PyTorch does not run their hooks."""
    model, x = nn.Sequential(raising(error)), torch.ones(2, 3)
    with torchrecorder.Recorder(model) as recorder:
        try:
            model(x)
        except BaseException as caught:
            assert caught is error
        after(x)
        x.exp()
    recording = recorder.recording
    assert structure(recording) == [] and not recording.run.lost
    scopes, found = recording.scopes, {op.name: op.scope for op in recording.ops.values()}
    assert scopes[found["mul"]].path == "0.second"
    assert found["exp"] is None
    assert found["tanh"] is None or scopes[found["tanh"]].parent is None
    assert [scope.path for scope in scopes.values() if scope.failed] == ["", "0", "0.second"]


def test_a_hook_that_ends_a_call_is_no_part_of_what_follows():
    """A pre-hook of a module ends it; the module around it catches this and goes on."""

    def stop(*call):
        raise KeyboardInterrupt

    def forward(self, x):
        try:
            x = self.inner(x)
        except KeyboardInterrupt:
            x = x * 2
        return self.last(x)

    model = net(forward, inner=nn.Linear(3, 3), last=nn.Tanh())
    model.inner.register_forward_pre_hook(stop)
    recording = torchrecorder.record(model, torch.ones(2, 3))
    assert [(scope.path, scope.failed) for scope in recording.scopes.values()] == [
        ("", False), ("inner", True), ("last", False),
    ]
    assert [recording.scopes[op.scope].path for op in recording.ops.values()] == ["", "last"]


@torch.no_grad()
@pytest.mark.parametrize("again", [False, True])
def test_a_fast_path_that_is_interrupted(again):
    """Functions are recorded as such afterwards, and the next fast path runs as it does."""
    layer, x = nn.TransformerEncoderLayer(4, 2, batch_first=True).eval(), torch.rand(1, 2, 4)
    plain = layer(x)

    def stop(*call):
        raise KeyboardInterrupt

    with torchrecorder.Recorder() as recorder:
        handle = layer.register_forward_pre_hook(stop)
        with pytest.raises(KeyboardInterrupt):
            layer(x)
        handle.remove()
        if not again:
            x.neg()
        nn.functional.softmax(x, -1)
        result = layer(x)
    assert torch.equal(result, plain)
    recording = recorder.recording
    assert not recording.run.lost and structure(recording) == []
    names = [op.name for op in recording.ops.values() if op.scope is None]
    assert names == (["_softmax"] if again else ["neg", "softmax"])
    assert not torch._C._len_torch_dispatch_stack() and not torch._C._len_torch_function_stack()


@torch.no_grad()
def test_a_scripted_module_that_is_interrupted():
    """Its operators are recorded where the dispatcher calls them; no others are afterwards."""
    layer, x = torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.Tanh())), torch.rand(1, 2)

    def stop(*call):
        raise KeyboardInterrupt

    with torchrecorder.Recorder() as recorder:
        with nn.modules.module.register_module_forward_pre_hook(stop):
            with pytest.raises(KeyboardInterrupt):
                layer(x)
        x.neg()
        with torch._C.DisableTorchFunction():
            x.cos()
        layer(x)
    recording = recorder.recording
    assert not recording.run.lost and structure(recording) == []
    assert [op.name for op in recording.ops.values()] == ["neg", "t", "addmm", "tanh"]


def test_functions_that_wrap_themselves():
    """The function, a hook, a ``__call__`` and a thread whose ``__wrapped__`` leads in a circle."""

    class Calls(nn.Module):
        def __call__(self, x):
            return super().__call__(x)

        def forward(self, x):
            return x * self.weight

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

    def clear(leaf):
        leaf.grad = None

    def beside(x):
        x.exp()

    def step(x):
        model(x).sum().backward()
        thread = threading.Thread(target=beside, args=(x,))
        thread.start()
        thread.join()

    for function in (step, clear, beside, Calls.__call__):
        function.__wrapped__ = function
    model = Calls()
    model.weight.register_post_accumulate_grad_hook(clear)
    recording = torchrecorder.record(step, torch.ones(2), threads=True)
    assert [op.name for op in recording.ops.values()] == ["mul", "sum", "backward", "exp"]
    assert recording.run.lost == 0
    assert "clear()" in recording.why_no_gradient("model.weight").text
