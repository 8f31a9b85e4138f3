"""A recording that begins inside the first of several steps: its functions and optimizer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.callers import called
from torchrecorder.capture.hooks.deferred_recorder import DeferredRecorder
from torchrecorder.events import Role, ScopeKind

X = torch.ones(2, 4)


def _loss(net: nn.Module) -> Tensor:
    loss: Tensor = net(X).sum()
    return loss


def _step(net: nn.Module) -> None:
    _loss(net).backward()


def _calls(deferred: DeferredRecorder) -> list[tuple[str, str, list[str]]]:
    """Names of the recorded calls, of the calls around them, and of the operations in them."""
    recording = deferred.recording
    assert recording is not None
    calls = recording.function_calls
    return [
        (call.name, calls[call.parent].name if call.parent else "",
         [recording.ops[op].name for op in call.ops])
        for call in calls.values()
    ]


def _deferred(net: nn.Module, steps: int) -> DeferredRecorder:
    return DeferredRecorder(lambda module, frame: module is net, steps)


STEP = [("_step", "", ["backward"]), ("_loss", "_step", ["sum"])]


@pytest.mark.parametrize("calls", [2, 3, 4])
def test_functions_of_the_first_step(calls: int) -> None:
    """Those that began before the recording, in the first step, are calls like those of others."""
    net = nn.Linear(4, 1)
    with _deferred(net, 3) as deferred:
        for _ in range(calls):
            _step(net)
    assert _calls(deferred) == STEP * min(calls, 3)


@pytest.mark.parametrize("steps", [0, 1])
def test_functions_around_one_step(steps: int) -> None:
    """With one step, nothing tells a function of the step from one around all steps."""
    net = nn.Linear(4, 1)
    with _deferred(net, steps) as deferred:
        _step(net)
        torch.ones(2)
    assert _calls(deferred) == []


def _epoch(net: nn.Module, batches: int) -> None:
    for _ in range(batches):
        _step(net)
        X.exp()


def test_functions_around_all_steps() -> None:
    """They are outside, with their own operations; but not if they end before the last step."""
    net = nn.Linear(4, 1)
    with _deferred(net, 2) as deferred:
        _epoch(net, 3)
    assert _calls(deferred) == STEP * 2
    with _deferred(net, 0) as deferred:
        _epoch(net, 2)
        _epoch(net, 1)
    inner = [(name, around or "_epoch", ops) for name, around, ops in STEP]
    first = [("_epoch", "", ["exp", "exp"]), *inner, *inner]
    assert _calls(deferred) == [*first, ("_epoch", "", ["exp"]), *inner]


def test_a_model_that_is_called_twice_in_a_step() -> None:
    """The last call decides which functions are around all steps, not the second."""

    def twice(net: nn.Module) -> None:
        (_loss(net) + _loss(net)).backward()

    net = nn.Linear(4, 1)
    with _deferred(net, 4) as deferred:
        twice(net)
        twice(net)
    name = called(twice.__qualname__, twice.__name__)
    losses = [("_loss", name, ["sum"])] * 2
    assert _calls(deferred) == [(name, "", ["add", "backward"]), *losses] * 2


def test_generators_around_the_first_step() -> None:
    """What is around a generator that runs the step is outside."""

    def steps(net: nn.Module) -> Iterator[None]:
        while True:
            _step(net)
            yield

    def ask(asked: Iterator[None]) -> None:
        next(asked)

    net = nn.Linear(4, 1)
    with _deferred(net, 2) as deferred:
        asked = steps(net)
        ask(asked)
        ask(asked)
    assert _calls(deferred) == STEP * 2


def test_functions_of_the_first_step_under_a_debugger() -> None:
    """They are found as without one, though its trace function is on their frames."""

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        return trace

    net, before = nn.Linear(4, 1), sys.gettrace()
    with _deferred(net, 2) as deferred:
        sys.settrace(trace)
        try:
            _step(net)
            _step(net)
        finally:
            sys.settrace(before)
    assert deferred.recording is not None
    names = [op.name for op in deferred.recording.ops.values()]
    assert names == ["linear", "sum", "backward"] * 2
    assert _calls(deferred) == STEP * 2


def test_state_of_an_optimizer_whose_step_began_before() -> None:
    """Its state has the names that it has in later steps, though no hook told of the step."""
    net = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(net.parameters())

    def closure() -> float:
        _step(net)
        return 0.0

    optimizer.step(closure)
    with _deferred(net, 1) as deferred:
        optimizer.step(closure)
    assert deferred.recording is not None
    values = deferred.recording.values.values()
    constants = {name for value in values if value.role is Role.CONSTANT for name in value.names}
    assert {f"{weight}.exp_avg" for weight in ("weight", "bias")} <= constants


class Pull(torch.optim.Optimizer):
    """Pulls weights to an anchor, which it reads only."""

    def __init__(self, weights: list[nn.Parameter]) -> None:
        super().__init__(weights, {})
        for weight in weights:
            self.state[weight]["anchor"] = torch.zeros_like(weight)

    def step(self, closure: Any) -> None:
        closure()
        with torch.no_grad():
            for weight, state in self.state.items():
                weight.lerp_(state["anchor"], 0.1)


def test_state_that_such_a_step_reads() -> None:
    """It has a name too, though the step makes no new state that could be named at its end."""
    net = nn.Linear(4, 1)
    optimizer = Pull([*net.parameters()])
    with _deferred(net, 1) as deferred:
        optimizer.step(lambda: _step(net))
    assert deferred.recording is not None
    ops = [op for op in deferred.recording.ops.values() if op.name == "lerp_"]
    anchors = [deferred.recording.values[op.inputs[1].value] for op in ops]
    assert [each.names for each in anchors] == [("weight.anchor",), ("bias.anchor",)]


@pytest.mark.parametrize(("steps", "optimizers"), [(1, 0), (2, 0), (3, 1)])
def test_a_validation_before_the_first_step(steps: int, optimizers: int) -> None:
    """The optimizer that calls the model begins the next step; none is recorded to its half."""
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with _deferred(net, steps) as deferred:
        for _ in range(2):
            with torch.no_grad():
                _loss(net)
        for _ in range(2):
            optimizer.step(lambda: _step(net))
    recording = deferred.recording
    assert recording is not None and len(recording.backward_runs) == optimizers
    found = [scope for scope in recording.scopes.values() if scope.kind is ScopeKind.OPTIMIZER]
    assert len(found) == optimizers and all(recording.children[scope.id] for scope in found)
