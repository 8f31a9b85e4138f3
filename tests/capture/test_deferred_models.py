"""Models that are awaited: compiled, called again after errors, with optimizers or closures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.nn import Module

import torchrecorder
from tests.structure import structure
from torchrecorder.capture.hooks.deferred_recorder import DeferredRecorder
from torchrecorder.events import ScopeKind
from torchrecorder.graph.nodes import Scope
from torchrecorder.select.functions import WithFunctions


def _compiled_module(net: Module) -> Any:
    return torch.compile(net, backend="eager")


def _compiled_in_place(net: Module) -> Any:
    net.compile(backend="eager")
    return net


def _called_by_compiled_function(net: Module) -> Any:
    return torch.compile(lambda x: net(x).tanh(), backend="eager")


def _after_a_compiled_function(net: Module) -> Any:
    other = torch.nn.Linear(4, 4)
    before = torch.compile(lambda x: other(x).tanh(), backend="eager")
    return lambda x: net(before(x))


@pytest.mark.parametrize(
    "compiled",
    [
        _compiled_module, _compiled_in_place, _called_by_compiled_function,
        _after_a_compiled_function,
    ],
)
def test_compiled_models(compiled: Any, recwarn: pytest.WarningsRecorder) -> None:
    """Compiled code runs eagerly while a model is awaited, and is compiled afterwards."""
    net, x = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), torch.ones(2, 4)
    awaited_ones = (net, compiled(net))
    expected = awaited_ones[1](x)
    torch._dynamo.reset()
    with DeferredRecorder(lambda module, frame: module in awaited_ones, 2) as awaited:
        results = [awaited_ones[1](x) for _ in range(3)]
    assert all(torch.equal(each, expected) for each in results)
    assert [str(each.message) for each in recwarn if "hook" in str(each.message)] == []
    assert awaited.recording is not None and awaited.calls == 2
    names = [op.name for op in awaited.recording.ops.values()]
    assert names.count("relu") == 2
    assert awaited_ones[1](x).equal(expected)
    torch._dynamo.reset()


def test_a_model_that_raises_is_called_again() -> None:
    """A call that raises is a step like others; recording ends with the step that is next."""
    net = torch.nn.Linear(4, 4)
    with DeferredRecorder(lambda module, frame: True) as awaited:
        with pytest.raises(RuntimeError):
            net(torch.ones(3))
        torch.ones(4).exp()
        net(torch.ones(4))
    assert awaited.recording is not None and awaited.calls == 1
    assert [op.name for op in awaited.recording.ops.values()] == ["linear", "ones", "exp", "ones"]


def test_two_optimizers_of_one_model() -> None:
    """Both belong to the step; what is between them and the next call does not."""
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in net]
    with DeferredRecorder(lambda module, frame: True) as awaited:
        for _ in range(2):
            net(torch.ones(1, 4)).sum().backward()
            for optimizer in optimizers:
                optimizer.step()
                torch.ones(3)
    assert awaited.recording is not None and awaited.calls == 1
    names = [op.name for op in awaited.recording.ops.values()]
    assert "ones" not in names and names.count("add_") == 4


@pytest.mark.parametrize("steps", [1, 2])
def test_closures(steps: int) -> None:
    """A closure that calls the model again begins the next step, as with trainers."""
    net, loss = torch.nn.Linear(4, 1), torch.nn.MSELoss()
    other = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    second = torch.optim.SGD([other], lr=0.1)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        x = torch.ones(2, 4).mul(3)
        found = loss(net(x), torch.zeros(2, 1)).mul(other)
        found.backward()
        return found

    with DeferredRecorder(lambda module, frame: module is net, steps) as awaited:
        for _ in range(3):
            optimizer.step(closure)
            second.step(lambda: 0.0)
    recording = awaited.recording
    assert recording is not None and awaited.calls == steps
    regions = [scope for scope in recording.scopes.values() if scope.kind is ScopeKind.OPTIMIZER]
    assert [scope.cls for scope in regions] == ["SGD"] * 2 * steps
    names = [op.name for op in recording.ops.values()]
    own = ["add_", "add_"]
    assert names == ["linear", "zeros", "mse_loss", "mul", "backward", *own, "add_"] * steps
    assert structure(recording) == []

    for _, inside in _drawn_optimizers(recording):
        assert inside == {"add_"}


def _drawn_optimizers(recording: torchrecorder.Recording) -> Iterator[tuple[str, set[str]]]:
    """The regions of optimizers in which no module runs, as drawn, and the names of their ops."""
    drawn = WithFunctions()(recording)
    for scope in drawn.scopes.values():
        inside = drawn.children[scope.id]
        if scope.kind is ScopeKind.OPTIMIZER and not any(isinstance(i, Scope) for i in inside):
            yield scope.id, {item.name for item in inside}
