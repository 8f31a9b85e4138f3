"""Modules whose ``forward`` is called directly, past PyTorch's call and its hooks."""

from __future__ import annotations

import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import torchrecorder
from tests.callers import called
from tests.zoo.case import leaf
from torchrecorder import Recorder
from torchrecorder.events import Role
from torchrecorder.recording import Recording
from torchrecorder.testing.inert import assert_inert


class Own(nn.Module):
    """Is called without hooks, as the modules of some libraries are."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.scale = torch.full((), 2.0)  # neither a parameter nor a buffer

    def __call__(self, x):
        return self.forward(x + 1)

    def forward(self, x):
        return self.fc(x) * self.scale


class Derived(Own):
    """Calls the ``forward`` of its base class."""

    def forward(self, x):
        return super().forward(x).relu()


class Net(nn.Module):
    """Calls *inner* by *call*."""

    def __init__(self, inner: nn.Module, call) -> None:
        super().__init__()
        self.inner = inner
        self.call = call

    def forward(self, x):
        return self.call(self.inner, x)


def direct(module, x):
    """Past the hooks."""
    return module.forward(x)


def tree(recording: Recording) -> list[str]:
    """Scopes and ops in run order, each with its depth."""
    lines: list[str] = []
    waiting = [(item, 0) for item in reversed(recording.children[None])]
    while waiting:
        item, depth = waiting.pop()
        lines.append("  " * depth + (getattr(item, "path", "") or item.name))
        below = recording.children.get(item.id, ())
        waiting.extend((each, depth + 1) for each in reversed(below))
    return lines


def test_a_call_of_forward_is_a_call_of_the_module() -> None:
    """With its place in the model, its arguments, its results, its number and its line."""

    def twice(module, x):
        return module.forward(module.forward(x))

    recording = torchrecorder.record(Net(nn.Linear(3, 3), twice), leaf(2, 3))
    assert tree(recording) == ["Net", "  inner", "    linear", "  inner", "    linear"]
    first, second = (scope for scope in recording.scopes.values() if scope.path == "inner")
    assert (first.call, second.call, first.cls, first.kind.value) == (0, 1, "Linear", "module")
    assert [slot.name for slot in first.inputs] == ["input"]
    assert [slot.value for slot in first.outputs] == [slot.value for slot in second.inputs]
    assert [slot.value for slot in second.outputs] == [slot.value for slot in recording.outputs]
    assert first.source is not None and first.source.function == "twice"
    assert recording.modules[first.module].calls == (first.id, second.id)


@pytest.mark.parametrize("call", [direct, lambda module, x: module(x)])
def test_a_module_with_a_call_of_its_own_is_one_scope(call) -> None:
    """Functions of one module inside each other are one call."""
    recording = torchrecorder.record(Net(Derived(), call), leaf(2, 3))
    inside = ["    add"] if call is not direct else []
    assert tree(recording) == [
        "Net", "  inner", *inside, "    inner.fc", "      linear", "    mul", "    relu",
    ]
    named = [value.names for value in recording.values.values() if value.role is Role.CONSTANT]
    assert named == [("inner.scale",)]


def test_a_parent_method_is_no_call() -> None:
    """``super().forward(x)`` stays in the call that hooks have recorded."""

    class Above(nn.Sequential):
        def forward(self, x):
            return super().forward(x).sin()

    recording = torchrecorder.record(Above(nn.Tanh()), leaf(2, 3))
    assert tree(recording) == ["Above", "  0", "    tanh", "  sin"]


def test_a_wrapped_forward_is_no_call() -> None:
    """A ``forward`` that was replaced by a function around it."""
    model = nn.Linear(3, 3)
    plain = model.forward
    model.forward = lambda x: plain(x.sin())  # type: ignore[method-assign]
    recording = torchrecorder.record(model, leaf(2, 3))
    assert tree(recording) == ["Linear", "  sin", "  linear"]


def test_buffers_that_a_direct_call_updates_are_no_results() -> None:
    """Though the next call reads them: every call has the same form."""
    model = Net(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), direct)
    with Recorder(model) as recorder:
        for _ in range(3):
            model(torch.rand(4, 3))
    recording = recorder.recording
    calls = [scope for scope in recording.scopes.values() if scope.path == "inner"]
    assert [len(scope.outputs) for scope in calls] == [1, 1, 1]
    assert len({recording.structures[scope.id] for scope in calls}) == 1


def test_the_model_itself() -> None:
    """Called directly in a block, or recorded although it runs no hooks."""
    model, x = Own(), leaf(2, 3)
    with Recorder(model) as recorder:
        model.forward(x)
    assert tree(recorder.recording) == ["Own", "  fc", "    linear", "  mul"]
    assert [slot.name for slot in recorder.recording.inputs] == ["x"]
    assert len(recorder.recording.outputs) == 1
    recording = torchrecorder.record(model, leaf(2, 3))
    assert tree(recording) == ["Own", "  add", "  fc", "    linear", "  mul"]
    assert recording.scopes["s0"].module is not None
    assert [slot.name for slot in recording.inputs] == ["x"]


def test_a_mode_around_a_direct_call_and_in_it() -> None:
    """A region is inside or around the call as in the program, also with nested equal modes."""

    class Quiet(nn.Module):
        def forward(self, x):
            with torch.no_grad():
                with torch.no_grad():
                    y = x.sin()
                y = y.cos()
            return x * y

    quiet, x = Quiet(), leaf(3)
    with Recorder() as recorder:
        quiet.forward(x)
        with torch.no_grad():
            quiet.forward(x).exp()
    inside, name = ["sin", "cos"], called("quiet", "Quiet")
    assert tree(recorder.recording) == [
        name, "  no_grad", *(f"    {each}" for each in inside), "  mul",
        "no_grad", f"  {name}", *(f"    {each}" for each in (*inside, "mul")), "  exp",
    ]


class Double(torch.autograd.Function):
    """A custom function."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_a_custom_function_does_not_end_a_mode() -> None:
    """Operations before and after it are in one ``no_grad``, and the next block is another."""
    x = leaf(3)
    with Recorder() as recorder:
        with torch.no_grad():
            Double.apply(x.sin()).cos()
        Double.apply(x).tan()
    assert tree(recorder.recording) == [
        "no_grad", "  sin", "  Double", "    mul", "  cos", "Double", "  mul", "tan",
    ]


def test_nothing_is_kept_alive() -> None:
    """What the frame of a direct call holds is freed when the program frees it."""
    gone = []

    class Holds(nn.Module):
        def forward(self, x):
            held = x.sin()
            gone.append(weakref.ref(held))
            held = held.cos()
            assert gone[0]() is None
            gone.append(weakref.ref(held))
            return held.sum()

    holds = Holds()
    with Recorder():
        holds.forward(torch.ones(3))
        assert gone[1]() is None


@pytest.mark.parametrize("make", [Own, Derived, lambda: Net(nn.Linear(3, 3), direct)])
def test_the_run_is_the_same(make) -> None:
    """Direct calls are only watched."""
    assert_inert(lambda: (make(), (leaf(2, 3),), {}))


def test_the_table_lists_uncalled_modules_once() -> None:
    """They belong to the module around them, not to each function or region inside it."""

    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.held = nn.Linear(3, 3)

        def forward(self, x):
            with torch.no_grad():
                x = x.sin()
            return x + self.held.bias

    with Recorder(reads := Reads()) as recorder:
        with torch.no_grad():
            torch.ones(3) + reads.held.bias
        reads(leaf(3))
        reads(leaf(3))
    table = str(recorder.recording.summary(fold=False))
    assert table.count("held (Linear)") == 1
    with Recorder(reads) as recorder:
        with torch.no_grad():
            torch.ones(3) + reads.held.bias
    assert str(recorder.recording.summary()).count("(Reads)") == 1


def test_a_block_inside_another_does_not_end_it() -> None:
    """Its own operations are in a region of that; PyTorch's lazy properties have such blocks."""
    x = leaf(3)
    with Recorder() as recorder:
        with torch.no_grad():
            y = x.sin()
            with torch.enable_grad():
                pass
            y = y.cos()
            with torch.enable_grad():
                x.exp()
            y.tan()
        with torch.no_grad():
            x.sin()
    assert tree(recorder.recording) == [
        "no_grad", "  sin", "  cos", "  enable_grad", "    exp", "  tan", "no_grad", "  sin",
    ]


class Headed(nn.Module):
    """Its last step is the call of a layer, which may be direct, too."""

    def __init__(self, head: str) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 2)
        self.called = head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(self.head, self.called)(self.body(x).tanh())


@pytest.mark.parametrize("head", ["__call__", "forward"])
def test_a_result_that_nothing_reads_is_that_of_the_last_step(head: str) -> None:
    """Also if that is the call of a layer."""
    model = Headed(head)
    with Recorder(model) as recorder:
        model.forward(torch.ones(5, 3))
    recording = recorder.recording
    shapes = {scope.name: [recording.values[slot.value].shape for slot in scope.outputs]
              for scope in recording.scopes.values()}
    assert shapes == {"Headed": [(5, 2)], "body": [(5, 4)], "head": [(5, 2)]}


class Cell(nn.Module):
    """Makes its new state before its output, and returns it after it."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        state = (state + self.fc(x)).tanh()
        return state.sin(), state


class Steps(nn.Module):
    """A loop over a cell; a caller may want the last state."""

    def __init__(self, returns_state: bool) -> None:
        super().__init__()
        self.cell = Cell()
        self.returns_state = returns_state

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        state, outputs = torch.zeros(2, 3), []
        for step in x:
            output, state = self.cell.forward(step, state)
            outputs.append(output)
        result = torch.stack(outputs)
        return (result, state) if self.returns_state else (result,)


@pytest.mark.parametrize("returns_state", [True, False])
def test_all_calls_in_a_loop_have_the_same_results(returns_state: bool) -> None:
    """The last one too, whose state is read after its output, or not at all: so they fold."""
    recording = torchrecorder.record(Steps(returns_state), torch.ones(5, 2, 3))
    calls = [scope for scope in recording.scopes.values() if scope.path == "cell"]
    makers = [
        [recording.ops[recording.values[slot.value].producer].name for slot in scope.outputs]
        for scope in calls
    ]
    assert makers == [["tanh", "sin"]] * 5
    clusters = torchrecorder.view(recording, depth=3).clusters.values()
    assert [cluster.count for cluster in clusters if cluster.count > 1] == [5]


def test_calls_that_ran_other_ops_have_results_of_their_own() -> None:
    """Only what is read of a call, or of another one that ran the same ops on the same shapes."""

    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            made = [x.sin(), x.cos() if len(x) > 1 else x.tan()]
            return made if len(x) > 2 else made[1:]

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Branches()

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            made = [self.inner.forward(x[:size]) for size in (3, 2, 1)]
            return [part.exp() for parts in made for part in parts]

    recording = torchrecorder.record(Net(), torch.ones(3))
    calls = [scope for scope in recording.scopes.values() if scope.path == "inner"]
    assert [len(scope.outputs) for scope in calls] == [2, 1, 1]


def test_a_result_that_nothing_reads_is_one_if_the_script_has_it() -> None:
    """Of two results, and not what the model keeps for itself."""

    class Predicts(nn.Module):
        def forward(self, x: torch.Tensor) -> SimpleNamespace:
            self.cache = x.tan()
            return SimpleNamespace(mean=x.sin(), spread=x.cos())

    script = {"Recorder": Recorder, "model": Predicts(), "x": torch.ones(3)}
    exec(
        "with Recorder(model) as recorder:\n"
        "    found = model.forward(x)\n    wide = found.spread.exp()", script,
    )
    recording = script["recorder"].recording
    makers = [recording.values[slot.value].producer for slot in recording.outputs]
    assert [recording.ops[op].name for op in makers] == ["sin", "cos", "exp"]
