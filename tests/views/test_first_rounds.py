"""The first round of a loop folds with the others, although it finds nothing that one has left."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch

import torchrecorder
from torchrecorder.events import OpId, ScopeKind
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind


@pytest.mark.parametrize("norm", [torch.nn.BatchNorm1d, torch.nn.LayerNorm])
def test_the_first_step_folds_with_the_others(norm: type[torch.nn.Module]) -> None:
    """It reads weights, buffers and state that no step has updated, or makes the state itself."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), norm(4), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = model(x).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def train(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([step(x) for _ in range(4)])

    view = make_view(torchrecorder.record(train, torch.ones(3, 4)), ViewOptions())
    view.check()
    assert 4 in {cluster.count for cluster in view.clusters.values()}
    assert len([box for box in view.boxes.values() if box.kind is BoxKind.MODULE]) == 3


def test_counts_that_are_only_counted_on_are_not_drawn() -> None:
    """Those of batches: the last has no reader, and the others none but the next."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))

    def run(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = model(x).relu()
        return x

    recording = torchrecorder.record(run, torch.ones(3, 4))
    view = make_view(recording, ViewOptions(depth=99))
    assert view.unfolded is not None
    unfolded = view.unfolded()
    ops = [recording.ops[OpId(box)] for box in unfolded.view.boxes if box in recording.ops]
    assert len(ops) == 4 * 3 and "add_" not in {op.name for op in ops}
    assert {len(group) for group in unfolded.repeats} == {4}


def test_batches_that_are_arguments_lie_in_the_round_that_reads_them() -> None:
    """Gradients add up over the rounds: the first has none to add to, and folds all the same."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))

    def train(batches: list[tuple[torch.Tensor, torch.Tensor]], scale: torch.Tensor) -> None:
        for x, y in batches:
            (torch.nn.functional.mse_loss(model(x), y) * scale).backward()

    batches = [(torch.ones(3, 4), torch.ones(3, 1)) for _ in range(5)]
    view = make_view(torchrecorder.record(train, (batches, torch.tensor(0.2))), ViewOptions())
    view.check()
    (fold,) = (cluster for cluster in view.clusters.values() if cluster.count == 5)
    inputs = [box for box in view.boxes.values() if box.kind is BoxKind.INPUT]
    assert [(box.cluster, box.names) for box in inputs] == [
        (fold.id, tuple(f"batches.{number}.0" for number in range(5))),
        (fold.id, tuple(f"batches.{number}.1" for number in range(5))),
        (None, ()),
    ]


def test_an_input_that_one_round_reads_stays_outside() -> None:
    """The others read what the round before has made; and so do those of rounds that do not fold.

    They repeat, but what they give is read in three ways.
    """
    def run(x: torch.Tensor, others: list[torch.Tensor]) -> torch.Tensor:
        for _ in range(4):
            x = (x.relu() + 1).tanh() * 2
        a, b, c = [other.exp().neg().abs().sqrt() for other in others]
        return x * a.sum() + b.mean() - c.max()

    given = torch.ones(3), [torch.ones(3), torch.ones(3), torch.ones(3)]
    view = make_view(torchrecorder.record(run, given), ViewOptions())
    view.check()
    assert 4 in {cluster.count for cluster in view.clusters.values()}
    inputs = [box for box in view.boxes.values() if box.kind is BoxKind.INPUT]
    assert len(inputs) == 4 and {box.cluster for box in inputs} == {None}


@pytest.mark.parametrize("first", ["weight", "other"])
def test_a_first_round_that_reads_something_else_stays_beside_the_others(first: str) -> None:
    """A weight that is not drawn, where the others read a result; or another input beside it."""
    class Loop(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.start = torch.nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            state = self.start if first == "weight" else x.exp()
            for step in range(5):
                beside = x if first == "other" and step == 0 else y
                state = torch.maximum(state, beside).relu().neg().sigmoid()
            return state

    recording = torchrecorder.record(Loop(), (torch.ones(3), torch.ones(3)))
    view = make_view(recording, ViewOptions())
    assert [cluster.count for cluster in view.clusters.values() if cluster.count > 1] == [4]


class Decay(torch.optim.Optimizer):
    """Makes weights smaller, or only measures gradients."""

    def __init__(self, layer: torch.nn.Module, weights: bool) -> None:
        super().__init__(layer.parameters(), {"weights": weights})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """All weights."""
        if closure is not None:
            with torch.enable_grad():
                closure()
        for group in self.param_groups:
            for weight in group["params"]:
                weight.mul_(0.9) if group["weights"] else weight.grad.norm()


@pytest.mark.parametrize("weights", [True, False])
def test_steps_on_other_weights_or_gradients_have_another_structure(weights: bool) -> None:
    """Those on the same have the same; a step that runs the model has that of what it runs."""
    layers = [torch.nn.Linear(2, size) for size in (3, 4)]
    optimizers = [Decay(layer, weights) for layer in layers]

    def run(x: torch.Tensor) -> None:
        for layer in layers:
            layer(x).sum().backward()
        for optimizer in (*optimizers, *optimizers):
            optimizer.step()
        for function in (torch.relu, torch.tanh):
            optimizers[0].step(lambda: function(layers[0](x)))

    recording = torchrecorder.record(run, torch.ones(1, 2))
    one, two, again, more, relu, tanh = [
        recording.structures[scope.id]
        for scope in recording.scopes.values()
        if scope.kind is ScopeKind.OPTIMIZER
    ]
    assert (one, two) == (again, more)
    assert len({one, two, relu, tanh}) == 4


@pytest.mark.parametrize("functions", [True, None])
@pytest.mark.parametrize("steps", [1, 3])
def test_the_step_that_makes_the_state_of_a_gradient_scaler_folds(
    steps: int, functions: bool | None
) -> None:
    """Its scale and its growth tracker stand before the loop, and in the scaler if none follows."""
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cpu")

    def step() -> None:
        optimizer.zero_grad()
        scaler.scale(model(torch.rand(3, 4)).pow(2).mean()).backward()
        scaler.step(optimizer)
        scaler.update()

    with torchrecorder.Recorder(model) as recorder:
        for _ in range(steps):
            step()
    recording = recorder.recording
    view = make_view(recording, ViewOptions(functions=functions))
    view.check()
    rounds = [cluster.count for cluster in view.clusters.values() if cluster.count > 1]
    assert rounds == ([] if steps == 1 else [steps])
    state = [box.cluster for box in view.boxes.values()
             if box.id in recording.ops and recording.ops[OpId(box.id)].name == "full"]
    assert state == ([] if steps == 1 else [None, None])
    inside = [op for op in recording.ops.values() if op.name == "full" and op.scope is not None]
    assert len(inside) == 2 + steps  # recorded where they ran


def test_the_state_of_a_gradient_scaler_is_in_the_function_that_uses_it() -> None:
    """It stands before the loop, and not outside of all that ran."""
    model, scaler = torch.nn.Linear(4, 1), torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale(model(torch.rand(3, 4)).pow(2).mean()).backward()
            scaler.step(optimizer)
            scaler.update()

    recording = torchrecorder.record(train)
    view = make_view(recording, ViewOptions(depth=1))
    view.check()
    state = [box.cluster for box in view.boxes.values()
             if box.id in recording.ops and recording.ops[OpId(box.id)].name == "full"]
    assert state == [recording.roots[0]] * 2
    assert sorted(cluster.count for cluster in view.clusters.values()) == [1, 3]


class Normed(torch.optim.Optimizer):
    """Keeps an average of each gradient, which a method of its own computes."""

    def average(self, weight: torch.Tensor) -> torch.Tensor:
        """The average so far; the first step makes it."""
        assert weight.grad is not None
        state = self.state[weight]
        if not state:
            state["average"] = torch.zeros_like(weight)
        found: torch.Tensor = state["average"].lerp_(weight.grad, 0.1)
        return found

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """All weights."""
        for group in self.param_groups:
            for weight in group["params"]:
                weight.add_(self.average(weight), alpha=-0.1)


def test_the_first_step_of_an_optimizer_with_methods_folds() -> None:
    """Calls of Python functions in a step make no difference."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    optimizer = Normed(model.parameters(), {})
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.rand(2, 4)).sum().backward()
            optimizer.step()
    for functions in (True, None, False):
        view = make_view(recorder.recording, ViewOptions(functions=functions))
        assert max(cluster.count for cluster in view.clusters.values()) == 4, functions


def test_the_first_step_of_averaging_by_hand_folds() -> None:
    """It reads weights of a copy that nothing calls: they have no names, and stand before it."""
    model, average = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1).requires_grad_(False)
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(4):
            model(torch.rand(2, 4))
            with torch.no_grad():
                for mean, weight in zip(average.parameters(), model.parameters()):
                    mean.lerp_(weight, 0.1)
    view = make_view(recorder.recording, ViewOptions())
    assert max(cluster.count for cluster in view.clusters.values()) == 4


@pytest.mark.parametrize("region", [True, False])
@pytest.mark.parametrize("depth", [None, 2])
def test_buffers_that_each_call_writes_begin_before_the_first(
    region: bool, depth: int | None
) -> None:
    """They are in no round: the others read what the one before has written."""

    class Centered(torch.nn.Module):
        center: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.register_buffer("center", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.linear(x)
            with torch.no_grad() if region else contextlib.nullcontext():
                self.center.mul_(0.9).add_(y.detach().mean(0))
            return y * 0.5

    model = Centered()

    def program(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = model(x).relu()
        return x

    view = make_view(torchrecorder.record(program, torch.rand(3, 4)), ViewOptions(depth=depth))
    view.check()
    loops = [item for item in (*view.clusters.values(), *view.boxes.values()) if item.count > 1]
    assert [loop.count for loop in loops] == [4]


@pytest.mark.parametrize("starts_with_memory", [True, False])
def test_a_value_in_two_arguments_of_each_round(starts_with_memory: bool) -> None:
    """One arrow is drawn for both; the first round may read it in a third argument as well."""
    layers = torch.nn.ModuleList(torch.nn.MultiheadAttention(4, 2) for _ in range(4))

    def run(x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        if starts_with_memory:
            x = memory
        for layer in layers:
            x = layer(x, memory, memory)[0]
        return x

    recording = torchrecorder.record(run, (torch.rand(3, 4), torch.rand(3, 4)))
    view = make_view(recording, ViewOptions(depth=1))
    assert [box.count for box in view.boxes.values() if box.kind is BoxKind.MODULE] == [4]


def test_layers_of_a_decoder_of_pytorch_fold() -> None:
    layer = torch.nn.TransformerDecoderLayer(4, 2, 4)
    decoder = torch.nn.TransformerDecoder(layer, 3)
    recording = torchrecorder.record(decoder, (torch.rand(2, 1, 4), torch.rand(3, 1, 4)))
    view = make_view(recording, ViewOptions(depth=2))
    assert [cluster.count for cluster in view.clusters.values()] == [1, 3]
