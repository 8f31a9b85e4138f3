"""Small parts of the hooks by themselves: what is running, what is over, and what is released."""

from __future__ import annotations

import sys
import threading
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import torchrecorder
from tests.capture.debugger import debugger
from tests.structure import structure
from tests.zoo.case import net
from torchrecorder.capture.autograd.walk import AutogradWalk
from torchrecorder.capture.hooks.backward import home
from torchrecorder.capture.hooks.custom_functions import AppliedFunctions
from torchrecorder.capture.hooks.deferred_recorder import DeferredRecorder
from torchrecorder.capture.hooks.modules import ModuleScopes
from torchrecorder.capture.tape import Tape
from torchrecorder.events import GradEdge
from torchrecorder.graph.nodes import GradNode

pytestmark = pytest.mark.usefixtures("strict")


X = torch.ones(2, 2)


def test_a_model_that_calls_itself_is_called_once() -> None:
    """The call inside belongs to the step, and the recording goes on after it."""

    def forward(self: Any, x: Tensor, deep: bool = True) -> Tensor:
        return model(x.sin(), False).cos() if deep else x.tan()

    model = net(forward)
    with DeferredRecorder(lambda module, frame: module is model, 1) as recorder:
        model(X)
    assert recorder.calls == 1 and recorder.recording is not None
    assert [op.name for op in recorder.recording.ops.values()] == ["sin", "tan", "cos"]


@pytest.mark.parametrize("steps", [0, 3])
def test_what_runs_between_two_steps_is_no_part_of_them(steps: int) -> None:
    """Batches are made before the first step, too, where nothing is recorded yet. An optimizer of
    another model does not end a step. If all calls are recorded, so is everything."""
    model, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in (other, model)]
    with DeferredRecorder(lambda module, frame: module is model, steps) as recorder:
        for _ in range(4):
            loss = (model(torch.rand(2, 2)) + other(X)).exp().sum()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
            loss.detach().cos()
    assert recorder.recording is not None and recorder.recording.run.lost == 0
    names = [op.name for op in recorder.recording.ops.values() if op.kind == "called"]
    step = ["linear", "linear", "add", "exp", "sum", "backward", *4 * ["add_"]]
    after = ["detach", "cos", "rand"]
    assert names == (steps * step if steps else [*3 * [*step, *after], *step, *after[:2]])


def test_arguments_of_modules_are_released_after_the_call() -> None:
    """Although the block goes on, and the last region was one of this module."""

    def forward(self: Any, x: Tensor) -> Tensor:
        return checkpoint(torch.sin, x, use_reentrant=False) * 2  # type: ignore[no-any-return]

    model = net(forward)
    with torchrecorder.Recorder(model):
        x = torch.ones(2, requires_grad=True)
        gone = weakref.ref(x)
        model(x)
        del x
        assert gone() is None


def test_a_recorded_thread_ran_nothing_that_is_not_recorded() -> None:
    """Its modules are in the recording, so that no note says that they are not."""

    def forward(self: Any, x: Tensor) -> Tensor:
        thread = threading.Thread(target=lambda: self.inner(x))
        thread.start()
        thread.join()
        return x * 2

    model = net(forward, inner=nn.Linear(2, 2))
    recording = torchrecorder.record(model, X, threads=True)
    assert "inner" in [scope.path for scope in recording.scopes.values()]
    assert not [note for note in recording.run.notes if "not recorded" in note]


@pytest.mark.parametrize("own", [None, lambda frame, event, argument: None])
def test_a_thread_has_the_profile_function_of_the_program(own: Any) -> None:
    """Or none, if the program set none."""
    found: list[Any] = []
    threading.setprofile(own)
    try:
        with torchrecorder.Recorder():
            thread = threading.Thread(target=lambda: found.append(sys.getprofile()))
            thread.start()
            thread.join()
    finally:
        threading.setprofile(None)
    assert found == [own]


def test_a_custom_function_that_has_returned_is_forgotten() -> None:
    """As soon as the frame that applied it is seen elsewhere: frames come again at its address."""
    functions = AppliedFunctions(Tape())
    functions.applied(torch.autograd.Function, frame := sys._getframe())
    assert functions.running(frame, None) is None
    assert functions.found == {}


def test_an_accumulation_is_at_the_first_operation_that_leads_to_it() -> None:
    """Also where no module was running."""
    events = [
        GradNode(f"g{number}", "MulBackward0", f"o{number}", None,  # type: ignore[arg-type]
                 (None, GradEdge("g1", 0)), None)  # type: ignore[arg-type]
        for number in (2, 3)
    ]
    assert home("g1", events) == ("o2", None)  # type: ignore[arg-type]
    assert home("g3", events) == ("o3", None)  # type: ignore[arg-type]
    assert home("g4", events) == (None, None)  # type: ignore[arg-type]


def test_an_exception_was_raised_where_it_was_raised_first() -> None:
    """Also if a module with hooks of its own ran before it was raised again."""

    def bad(self: Any, x: Tensor) -> Tensor:
        raise ValueError(x.shape)

    def forward(self: Any, x: Tensor) -> Tensor:
        try:
            return self.bad(x)  # type: ignore[no-any-return]
        except ValueError as error:
            self.good(x).sin()
            raise error

    model = net(forward, bad=net(bad), good=nn.Identity())
    model.good.register_forward_hook(lambda module, args, output: output + 1)
    with pytest.raises(ValueError) as caught:
        torchrecorder.record(model, X)
    recording = torchrecorder.recording_of(caught.value)
    assert recording is not None and recording.run.failure is not None
    assert recording.scopes[recording.run.failure.scope].path == "bad"  # type: ignore[index]


def test_around_the_block_nothing_is_called_under_a_debugger() -> None:
    """Not even where the frame around goes back to a line that it was on before."""
    def rounds() -> Any:
        with torchrecorder.Recorder() as recorder:
            for _ in range(3):
                X.sin()
        return recorder.recording

    with debugger():
        recording = rounds()
    assert not recording.function_calls and len(recording.ops) == 3


def test_regions_inside_each_other_end_with_the_block() -> None:
    """The inner one first, if nothing ran after them."""

    def inner(x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return x @ x

    with torchrecorder.Recorder() as recorder:
        checkpoint(inner, X, use_reentrant=False)
    recording = recorder.recording
    outer, deep = recording.scopes.values()
    assert [outer.kind.value, deep.kind.value] == ["checkpoint", "autocast"]
    assert deep.parent == outer.id and structure(recording) == []
    assert outer.seconds >= deep.seconds > 0  # type: ignore[operator]


def test_one_failure_of_the_recorder_is_one_lost_fact(monkeypatch: Any) -> None:
    """A module whose own hooks have run waits to be closed by what comes next."""
    returned = ModuleScopes._returned
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].register_forward_hook(lambda module, args, output: None)

    def failing(self: Any, module: Any, *rest: Any) -> Any:
        if module is not model:
            return returned(self, module, *rest)
        monkeypatch.undo()
        raise ValueError("a fault")

    monkeypatch.setattr(Tape, "strict", False)
    monkeypatch.setattr(ModuleScopes, "_returned", failing)
    recorder = torchrecorder.Recorder(model)
    with pytest.warns(UserWarning, match="could not record 1 fact") as caught, recorder:
        model(torch.ones(1, 2)).exp()
        model(torch.ones(1, 2))
    assert [each.filename for each in caught] == [__file__]
    names = [op.name for op in recorder.recording.ops.values()]
    assert names == ["ones", "linear", "exp", "ones", "linear"]


def test_calls_that_were_interrupted_end_with_the_one_around(monkeypatch: Any) -> None:
    """Also where the recorder fails at the end of that: nothing inside of it stays open."""

    def interrupted(self: Any, x: Tensor) -> Tensor:
        x.sin()
        raise KeyboardInterrupt

    def forward(self: Any, x: Tensor) -> Tensor:
        try:
            self.inner(x)
        except KeyboardInterrupt:
            monkeypatch.setattr(Tape, "strict", False)
            monkeypatch.setattr(ModuleScopes, "_returned", None)
        return x.cos()

    model = net(forward, inner=net(interrupted))
    recorder = torchrecorder.Recorder(model)
    with pytest.warns(UserWarning, match="could not record 1 fact"), recorder:
        out = model(X)
        monkeypatch.undo()
        out.exp()
    recording = recorder.recording
    assert [op.name for op in recording.ops.values()] == ["sin", "cos", "exp"]
    assert next(reversed(recording.ops.values())).scope is None
    assert all(scope.seconds is not None for scope in recording.scopes.values())
    assert recording.run.lost == 1


@pytest.mark.parametrize(("error", "failed"), [(ValueError, True), (SystemExit, False)])
def test_a_script_that_ends_by_an_exception(error: type[BaseException], failed: bool) -> None:
    """Is no failure of the run if that is its way to end."""
    model = net(lambda self, x: x.sin())
    recorder = DeferredRecorder(lambda module, frame: module is model, 0)
    with pytest.raises(error), recorder:
        model(X)
        raise error
    assert recorder.recording is not None
    assert (recorder.recording.run.failure is not None) is failed


def test_an_input_is_passed_on_outside_of_regions() -> None:
    """By the module that returns it, although its last operation was in a region."""

    def passing(self: Any, x: Tensor) -> Tensor:
        checkpoint(torch.sin, x, use_reentrant=False)
        return x

    model = net(lambda self, x: x + self.inner(x), inner=net(passing))
    recording = torchrecorder.record(model, X)
    (passed,) = (op for op in recording.ops.values() if op.kind == "pass")
    assert passed.scope is not None and recording.scopes[passed.scope].kind.value == "module"
    assert recording.scopes[passed.scope].path == "inner"


def test_a_line_is_one_of_the_program() -> None:
    """And not one of the layer, nor one of a function of PyTorch around it."""

    def forward(self: Any, x: Tensor) -> Tensor:
        return self.layers(x)  # type: ignore[no-any-return]

    model = net(forward, layers=nn.Sequential(nn.Linear(2, 2), nn.Softmax(1)))
    recording = torchrecorder.record(model, X)
    lines = {(op.name, op.source and op.source.line) for op in recording.ops.values()}
    first = forward.__code__.co_firstlineno
    assert lines == {("linear", first + 1), ("softmax", first + 1)}


def test_a_pass_that_could_not_be_recorded_is_over(monkeypatch: Any) -> None:
    """It runs as it would, and the next one is recorded."""
    monkeypatch.setattr(Tape, "strict", False)
    x = torch.ones(2, requires_grad=True)
    recorder = torchrecorder.Recorder()
    with pytest.warns(UserWarning, match="could not record 1 fact"), recorder:
        first, second = x.sin().sum(), x.cos().sum()
        with monkeypatch.context() as broken:
            broken.setattr(AutogradWalk, "begin", None)
            first.backward()
        second.backward()
    recording = recorder.recording
    assert torch.allclose(x.grad, x.cos() - x.sin())  # type: ignore[arg-type]
    (run,) = recording.backward_runs
    names = [recording.grad_nodes[item.grad].name for item in recording.grad_runs]
    assert names == ["SumBackward0", "CosBackward0", "AccumulateGrad"] and not run.failed
