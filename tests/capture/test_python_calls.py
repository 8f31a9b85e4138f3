"""Calls of Python functions between modules and operations."""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import torchrecorder
from tests.work import lines_run
from torchrecorder.capture.hooks.frame_marks import FrameMark
from torchrecorder.events import ScopeKind
from torchrecorder.graph.calls_around import CallsAround
from torchrecorder.recording import Recording

X = torch.ones(2, 2)


def doubled(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    x = x * 2
    return x * 2


def twice(x: torch.Tensor) -> torch.Tensor:
    return doubled(x) + doubled(x)


class Helped(nn.Module):
    """Calls functions, methods and a module in them."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def helper(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x.relu()).sigmoid()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.helper(x) - 1
        return torch.stack([twice(part) for part in x])


def shown(recording: Recording) -> list[tuple[str, str | None, list[str]]]:
    """Each call: its function, that of the call around it, and the names of its operations."""
    calls = recording.function_calls
    return [
        (
            call.name.rpartition(".")[2],
            calls[call.parent].name if call.parent is not None else None,
            [recording.ops[op].name for op in call.ops],
        )
        for call in calls.values()
    ]


def test_functions_between_a_module_and_its_operations():
    """Nested calls, and equal ones from one loop, are told apart."""
    recording = torchrecorder.record(Helped(), X)
    loop = [
        ("twice", None, ["add"]),
        ("doubled", "twice", ["mul"] * 3),
        ("doubled", "twice", ["mul"] * 3),
    ]
    found = sorted(shown(recording)[1:], key=lambda call: call[0])
    assert shown(recording)[0] == ("helper", None, ["relu", "sigmoid"])
    assert found == sorted(loop * 2, key=lambda call: call[0])
    helper, *_ = recording.function_calls.values()
    assert [recording.scopes[scope].path for scope in helper.scopes] == ["inner"]


def test_where_a_function_is():
    """File and line of the function, and the line that called it."""
    recording = torchrecorder.record(Helped(), X)
    helper, *_ = recording.function_calls.values()
    assert helper.file.endswith("test_python_calls.py")
    assert helper.line == Helped.helper.__code__.co_firstlineno
    assert helper.source is not None
    assert helper.source.line == Helped.forward.__code__.co_firstlineno + 1


def test_what_calls_the_recorder_is_no_part_of_the_run():
    """Neither the function that is recorded, nor those around the block, are listed."""
    assert [name for name, *_ in shown(torchrecorder.record(twice, (X,)))] == ["doubled"] * 2
    with torchrecorder.Recorder() as recorder:
        (twice(X) + 1).sum()
    assert {name for name, *_ in shown(recorder.recording)} == {"twice", "doubled"}


def test_nothing_is_left_on_frames():
    """Frames that outlive the run are as they were, also with recorders inside each other."""
    frame = sys._getframe()
    before = frame.f_trace
    with torchrecorder.Recorder() as outer:
        with torchrecorder.Recorder() as inner:
            doubled(X)
        twice(X)
    assert frame.f_trace is before
    assert [name for name, *_ in shown(inner.recording)] == ["doubled"]
    assert [name for name, *_ in shown(outer.recording)].count("doubled") == 3


def test_a_recorder_that_ends_in_a_function_leaves_the_mark_of_another():
    """The call of the function goes on."""
    def begun(x):
        x = x.relu()
        with torchrecorder.Recorder():
            x = x.sigmoid()
        return x.tanh()

    with torchrecorder.Recorder() as outer:
        begun(X)
    assert shown(outer.recording) == [("begun", None, ["relu", "sigmoid", "tanh"])]


def test_nothing_is_left_on_a_generator_that_waits():
    """It is resumed in the block, also from a function, and outlives the run."""

    def grows(x):
        while True:
            x = x * 2
            yield doubled(x)

    waiting = grows(X)
    with torchrecorder.Recorder() as recorder:
        next(waiting)
        map(next, [waiting]).__next__()
    assert type(waiting.gi_frame.f_trace) is not FrameMark
    assert [name for name, *_ in shown(recorder.recording)] == ["doubled"] * 2


def test_tensors_of_a_function_go_with_it():
    """A function's frame, and so its local tensors, is released when it returns."""
    gone: list[bool] = []

    class Noted(torch.Tensor):
        def __del__(self) -> None:
            gone.append(True)

    def local() -> None:
        held = torch.ones(2).as_subclass(Noted)
        torch.ones(1).add(held.shape[0])

    with torchrecorder.Recorder():
        local()
        assert gone


def test_functions_in_and_around_regions():
    """A function inside a checkpoint began in that region, one around it in the module."""

    def region(x):
        return doubled(x)

    def around(x):
        return checkpoint(region, x, use_reentrant=False) + 1

    recording = torchrecorder.record(around, (X.clone().requires_grad_(),))
    with torchrecorder.Recorder() as recorder:
        around(X.clone().requires_grad_())
    recording = recorder.recording
    kinds = {
        call.name.rpartition(".")[2]: call.scope and recording.scopes[call.scope].kind.value
        for call in recording.function_calls.values()
    }
    assert kinds == {"around": None, "region": "checkpoint", "doubled": "checkpoint"}
    outer = next(iter(recording.function_calls.values()))
    assert [recording.scopes[scope].kind.value for scope in outer.scopes] == ["checkpoint"]


def test_operations_of_unseen_code_are_in_the_function_that_reads_them():
    """They have no frames: what a traced function ran, and the first use of a weight."""
    traced = torch.jit.trace(torch.sin, X)

    def main(x):
        weight = nn.Parameter(x * 2)
        with torch.no_grad():
            weight.mul_(2)
        return traced(x * 2) * weight

    with torchrecorder.Recorder() as recorder:
        main(X.clone().requires_grad_())
    recording = recorder.recording
    assert shown(recording) == [("main", None, ["mul", "alias", "mul_", "mul", "sin", "mul"])]
    around = CallsAround(recording)
    assert [around.chain(scope) for scope in recording.scopes] == [tuple(recording.function_calls)]


def test_weights_that_a_module_reads_first_in_a_mode_inside_a_function():
    """The first use of copied weights does not take the mode out of the function."""

    def main(x):
        copied = copy.deepcopy(nn.Linear(2, 2))
        with torch.no_grad():
            return copied(x * 2) + 1

    with torchrecorder.Recorder() as recorder:
        main(X)
    recording = recorder.recording
    around = CallsAround(recording)
    (mode,) = (each for each in recording.scopes.values() if each.kind is ScopeKind.NO_GRAD)
    assert "alias" in [op.name for op in recording.children[mode.id] if op.id in recording.ops]
    assert around.chain(mode.id) == tuple(recording.function_calls)


def test_the_wrapper_of_a_deprecated_function_is_not_shown():
    """That of the standard library is not; before Python 3.13 it is in another package."""
    deprecated = pytest.importorskip("typing_extensions").deprecated("call twice()")
    with torchrecorder.Recorder() as recorder, pytest.warns(DeprecationWarning):
        deprecated(doubled)(X)
    assert shown(recorder.recording) == [("doubled", None, ["mul", "mul", "mul"])]


def test_what_unseen_code_ran_before_a_module_is_not_in_it():
    """It is recorded when the module reads its result, but ran before the call."""
    traced, module = torch.jit.trace(torch.sin, X), nn.Linear(2, 2)
    direct = nn.Linear(2, 2)

    def main(x):
        return direct.forward(traced(module(traced(x))))

    with torchrecorder.Recorder() as recorder:
        main(X.clone().requires_grad_())
    recording = recorder.recording
    ops = [
        [op.name for op in recording.children[scope] if op.id in recording.ops]
        for scope in (None, *recording.scopes)
    ]
    assert ops == [["clone", "sin", "sin"], ["linear"], ["linear"]]


def test_each_thread_has_its_own():
    """Calls in several threads have ids of their own."""
    with torchrecorder.Recorder(threads=True) as recorder:
        doubled(X)
        thread = threading.Thread(target=doubled, args=(X,))
        thread.start()
        thread.join()
    calls = recorder.recording.function_calls.values()
    assert [call.name for call in calls] == ["doubled"] * 2


def test_two_runs_give_equal_calls(tmp_path):
    """The same run gives the same calls, and they are saved and loaded."""
    model = Helped()
    one, other = (torchrecorder.record(model, X) for _ in range(2))
    assert one.function_calls == other.function_calls
    assert torchrecorder.load(one.save(tmp_path / "run.json")).function_calls == one.function_calls


def _work(depth: int) -> int:
    """The lines that 20 operations run in a block that is called from so many functions."""
    if depth:
        return _work(depth - 1)
    with torchrecorder.Recorder():
        return lines_run(lambda: [X + 1 for _ in range(20)])


def test_what_is_around_the_block_is_not_looked_at_for_each_operation():
    """An operation costs the same in a script and deep inside a trainer or a notebook."""
    _work(0)
    assert _work(60) < 1.1 * _work(0)


def _steps() -> Iterator[Any]:
    """Two operations in a block, and its recording."""
    with torchrecorder.Recorder() as recorder:
        yield X + 1
        yield X * 2
    yield recorder.recording


def _call_in_step(function: Callable[[], Any]) -> None:
    """Call it inside the step of an optimizer."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.1)
    optimizer.step(lambda: (function(), 0.0)[1])


def test_a_block_in_a_generator_that_others_resume():
    """The frame of the block is resumed in a region that was not around it when it began."""
    steps = _steps()
    next(steps)
    _call_in_step(lambda: next(steps))
    recording = next(steps)
    first, *_, last = recording.ops.values()
    assert first.scope is None and recording.scopes[last.scope].kind.value == "optimizer"


def _ones() -> Iterator[torch.Tensor]:
    """Each tensor is computed when it is asked for."""
    while True:
        yield torch.ones(2) * 3


def _first(tensors: Iterator[torch.Tensor]) -> torch.Tensor:
    return next(tensors) + 1


def _second(tensors: Iterator[torch.Tensor]) -> torch.Tensor:
    return next(tensors) + 2


def test_operations_of_a_generator_are_in_the_call_that_asks_for_them():
    """Not in the one that asked first."""
    tensors = _ones()
    with torchrecorder.Recorder() as recorder:
        _first(tensors), _second(tensors), _first(tensors)
    found = [(name, names) for name, _, names in shown(recorder.recording)]
    made = ["ones", "mul", "add"]
    assert found == [("_first", made), ("_second", made), ("_first", made)]


def test_a_block_inside_a_region():
    """A region that was running when the block began is around what runs in the block."""
    recorder = torchrecorder.Recorder()

    def block() -> None:
        with recorder:
            twice(X)

    _call_in_step(block)
    recording = recorder.recording
    assert [scope.kind.value for scope in recording.scopes.values()] == ["optimizer"]
    names = [call.name for call in recording.function_calls.values()]
    assert names == ["twice", "doubled", "doubled"]


class Named(type):
    """Makes objects in a ``__call__`` of its own."""

    def __call__(cls, x: torch.Tensor) -> Any:
        return super().__call__(x.exp().exp())


class Distribution(metaclass=Named):
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x.log().log()

    def __call__(self) -> torch.Tensor:
        return self.x.sin().sin()


class Normal(Distribution):
    pass


def test_methods_that_run_for_a_class_have_its_name():
    """Not that of the base class or metaclass that defines ``__call__`` or ``__init__``."""
    with torchrecorder.Recorder() as recorder:
        Normal(X)()
    calls = recorder.recording.function_calls.values()
    assert [call.name for call in calls] == [
        "Normal.__call__", "Normal.__init__", "Normal.__call__",
    ]
    assert [call.called for call in calls] == ["Normal"] * 3


class Mixture(Distribution):
    def __init__(self, x: torch.Tensor) -> None:
        super().__init__(x.exp().exp())

    @torch.no_grad()
    def __call__(self) -> torch.Tensor:
        return super().__call__().cos().cos()


class Mixed(Mixture):
    pass


class Loss:
    @staticmethod
    def __call__(x: torch.Tensor) -> torch.Tensor:
        return x.sin().sin()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code does not know its class")
def test_methods_that_others_call_by_super_have_the_class_that_defines_them():
    """So both are distinguished. The first argument of a static method is no such object."""
    with torchrecorder.Recorder() as recorder:
        Mixed(X)()
        Loss()(X)
    assert [call.name for call in recorder.recording.function_calls.values()] == [
        "Mixed.__call__", "Mixed.__init__", "Distribution.__init__",
        "Mixed.__call__", "Distribution.__call__", "Loss.__call__",
    ]
