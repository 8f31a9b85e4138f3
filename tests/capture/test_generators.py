"""Modules whose `forward` is a generator: one call, which has all parts."""

from __future__ import annotations

import gc
import time
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from torchrecorder.graph.median_runs import own_seconds
from torchrecorder.recording import Recording
from torchrecorder.views.pipeline import ViewOptions, make_view

X = torch.ones(2, 4)

pytestmark = pytest.mark.usefixtures("strict")


class Parts(nn.Module):
    """Yields what each of its layers computes; a value that is sent goes into the second."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Any:
        x = self.a(x)
        sent = yield x
        yield self.b(x if sent is None else sent).relu()


class Model(nn.Module):
    """Calls two of them by turns."""

    def __init__(self, run: Any) -> None:
        super().__init__()
        self.run, self.g, self.h = run, Parts(), Parts()
        self.reader = nn.Tanh()

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self, x)


def in_turns(model: Model, x: Tensor) -> Tensor:
    return sum(first * model.reader(second) for first, second in zip(model.g(x), model.h(x)))


def sent(model: Model, x: Tensor) -> Tensor:
    parts = model.g(x)
    return parts.send(next(parts).tanh())


def calls(recording: Recording, path: str) -> list[list[str]]:
    """The operations in each call of a module."""
    return [
        [op.name for op in recording.ops.values() if scope.id in recording.within(op.scope)]
        for scope in recording.scopes.values() if scope.path == path
    ]


@pytest.mark.parametrize("run, used", [(in_turns, "gh"), (sent, "g")])
def test_a_call_has_all_parts(run: Any, used: str) -> None:
    """Nothing else, with the times of the parts; what is sent between them comes back into it."""
    model = Model(run)
    recording = torchrecorder.record(model, X, backward=True)
    for path in used:
        assert calls(recording, path) == [["linear", "linear", "relu"]]
        (scope,) = (one for one in recording.scopes.values() if one.path == path)
        inner = [one for one in recording.scopes.values() if one.parent == scope.id]
        assert [one.path for one in inner] == [f"{path}.a", f"{path}.b"]
        assert scope.seconds > sum(one.seconds for one in inner) and not scope.failed
        assert len(scope.outputs) == 2 and recording.values[scope.inputs[0].value].names == ("x",)
        assert recording.why_no_gradient(f"{path}.b.weight") is None
    for depth in (0, 1, 2):
        view = make_view(recording, ViewOptions(depth=depth))
        view.check()
        ends = {arrow.tail for arrow in view.arrows}
        made = [box.id for box in view.boxes.values() if not box.id.startswith("out:")]
        assert set(made) <= ends | {run.op for run in recording.backward_runs}


@pytest.mark.parametrize("packed", [False, True])
def test_parts_are_in_the_module_whose_forward_runs(packed: bool) -> None:
    """Also where the modules around it only return its generator, alone or in a tuple."""
    def handed_on(model: Model, x: Tensor) -> Any:
        return (model.g(x),) if packed else model.g(x)

    model = Model(handed_on)
    with torchrecorder.Recorder(model) as recorder:
        result = model(X)
        assert len([*(result[0] if packed else result)]) == 2
    (scope,) = (one for one in recorder.recording.scopes.values() if one.path == "g")
    inside = [item.name for item in recorder.recording.children[scope.id]]
    assert inside == ["a", "b", "relu"]


def test_calls_in_a_loop_fold() -> None:
    def often(model: Model, x: Tensor) -> Tensor:
        for _ in range(4):
            x = sum(model.g(x))
        return x

    recording = torchrecorder.record(Model(often), X)
    assert calls(recording, "g") == [["linear", "linear", "relu"]] * 4
    view = make_view(recording, ViewOptions(depth=2))
    assert [cluster.count for cluster in view.clusters.values()].count(4) == 1


def test_a_part_under_another_mode_is_a_call_of_its_own() -> None:
    """So that the mode is that of its operations."""
    def switched(model: Model, x: Tensor) -> Tensor:
        parts = model.g(x)
        first = next(parts)
        with torch.no_grad():
            second = next(parts)
        return first + second

    recording = torchrecorder.record(Model(switched), X, backward=True)
    assert calls(recording, "g") == [["linear"], ["linear", "relu"]]
    assert "no_grad" in str(recording.why_no_gradient("g.b.weight"))


class Waits(nn.Module):
    """Yields three tensors, after a pause for each."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Any:
        for _ in range(3):
            x = x.tanh()
            time.sleep(0.02)
            yield self.a(x)


class Handed(nn.Module):
    """Returns the generator of another module."""

    def __init__(self) -> None:
        super().__init__()
        self.g = Waits()

    def forward(self, x: Tensor) -> Any:
        return self.g(x + 1)


class Sums(nn.Module):
    """Adds what a generator yields."""

    def forward(self, parts: Any) -> Any:
        return sum(parts)


class Each(nn.Module):
    """Yields the sine of each tensor of a generator."""

    def forward(self, parts: Any) -> Any:
        for part in parts:
            yield part.sin().cos()


@pytest.mark.parametrize("made_by", [Waits, Handed])
@pytest.mark.parametrize("through", [[Sums], [Each, Sums]])
def test_time_is_that_of_the_generator_alone(made_by: Any, through: list[Any]) -> None:
    """Not that of the module that reads it; all times together are that of the run."""
    layers = nn.Sequential(made_by(), *(read() for read in through))
    recording = torchrecorder.record(layers, X)
    own, rows = own_seconds(recording), recording.scopes.values()
    (waits,) = (scope for scope in rows if scope.cls == "Waits")
    assert waits.seconds is not None and waits.seconds > 0.06 and own[waits.id] > 0.06
    for scope in rows:
        assert scope is waits or own[scope.id] < 0.06
        inner = [one.seconds or 0.0 for one in rows if one.parent == scope.id]
        assert scope.seconds is not None and scope.seconds > sum(inner) - 1e-6
    everything = sum(recording.annotations["forward_time"].by_node.values())
    assert recording.scopes["s0"].seconds == pytest.approx(everything, abs=1e-3)


@pytest.mark.parametrize("inside", [True, False])
def test_a_generator_that_raises_before_an_operation_has_failed(inside: bool) -> None:
    """Like one that raises after it; the others have not."""
    class Raises(nn.Module):
        def forward(self, x: Tensor) -> Any:
            yield x.tanh()
            raise ValueError("no second part")

    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.g, self.h = Raises(), Parts()

        def forward(self, x: Tensor) -> Any:
            return next(self.h(x)) + sum(self.g(x))

    model = Around()
    with pytest.raises(ValueError, match="no second part"), torchrecorder.Recorder(model) as run:
        model(X) if inside else sum(model.g(X))
    failed = {scope.path for scope in run.recording.scopes.values() if scope.failed}
    assert failed == ({"", "g"} if inside else {"g"})


def test_what_is_not_taken_is_not_kept() -> None:
    """A generator may go on after the recording, and nothing of it stays alive."""
    model = Parts()
    with torchrecorder.Recorder(model) as recorder:
        parts = model(X)
        first = next(parts)
        other = model(X)
        dropped = weakref.ref(other)
        del other
        assert dropped() is None
    assert calls(recorder.recording, "") == [["linear"], []]
    assert next(parts).shape == X.shape
    alive = weakref.ref(first)
    del first, parts
    gc.collect()
    assert alive() is None
