"""Loops of trainers fold: with closures, helper functions, metrics and settings that change."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

import torchrecorder
from tests.views.loops import closure_of
from torchrecorder.events import OpId, ScopeId, ScopeKind
from torchrecorder.recording import Recording
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind


def counts(recording: Recording, **options: object) -> list[int]:
    """How often the folded boxes and clusters of a view repeat, largest first."""
    view = make_view(recording, ViewOptions(**options))  # type: ignore[arg-type]
    view.check()
    items = (*view.clusters.values(), *view.boxes.values())
    return sorted((item.count for item in items if item.count > 1), reverse=True)


@pytest.mark.parametrize("make", [
    lambda weights: torch.optim.AdamW(weights, foreach=False),
    lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
    lambda weights: torch.optim.SGD(weights, lr=0.1),
])
def test_steps_of_an_optimizer_that_is_given_the_model_in_a_closure(
    make: Callable[[Iterator[nn.Parameter]], torch.optim.Optimizer]
) -> None:
    """The first makes state, and nothing reads what the last has updated."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = make(model.parameters())

    closure = closure_of(model, optimizer)
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(4):
            optimizer.step(closure)  # type: ignore[arg-type]
    recording = recorder.recording
    assert counts(recording) == [4]
    view = make_view(recording, ViewOptions())
    scopes, ops = view.recording.scopes, recording.ops
    shown = [scopes[ScopeId(box)].name if box in scopes else ops[OpId(box)].name
             for box in view.boxes if box in scopes or box in ops]
    assert shown[:-1] == ["ones", "0", "1", "2", "sum", "backward"]
    assert shown[-1] == type(optimizer).__name__


def test_functions_that_are_given_another_number_in_each_round() -> None:
    """Such as a learning rate; a module in which the numbers differ is another one."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def train(x: torch.Tensor, rate: float) -> torch.Tensor:
        return x + model(x) * rate

    def program(x: torch.Tensor) -> torch.Tensor:
        for number in range(4):
            x = train(x, 0.1 / (1 + number)).relu()
        return x

    recording = torchrecorder.record(program, torch.rand(3, 4))
    assert counts(recording, functions=True) == [4]


@pytest.mark.parametrize("rates", [
    (0.5, -0.5, 0.25, -1.5), (0.01, 0.001, 0.0001, 0.00001), (0, 0.5, 0.75, 1), (1e-7, 2, -3e-9, 1),
])
@pytest.mark.parametrize("functions", [True, False])
def test_numbers_of_any_sign_and_size(rates: tuple[float, ...], functions: bool) -> None:
    """Advantages are negative in some rounds; rates get too small to be written without exponent,
    and a weight of a loss that grows to 1 begins and ends with a whole number."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def train(x: torch.Tensor, rate: float) -> torch.Tensor:
        return x + model(x) * rate

    def program(x: torch.Tensor) -> torch.Tensor:
        for rate in rates:
            x = train(x, rate).relu()
        return x

    recording = torchrecorder.record(program, torch.rand(3, 4))
    assert counts(recording, functions=functions) == [4]


def test_models_that_each_round_makes() -> None:
    """As for the folds of a cross validation: only the second has a number in its name."""

    def program() -> None:
        for _ in range(3):
            model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(2):
                optimizer.zero_grad()
                model(torch.rand(3, 4)).sum().backward()
                optimizer.step()

    with torchrecorder.Recorder() as recorder:
        program()
    assert counts(recorder.recording, depth=1) == [3, 2]


def test_models_of_an_ensemble() -> None:
    """All are given the same input."""
    models = [nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)) for _ in range(4)]
    with torchrecorder.Recorder() as recorder:
        x = torch.rand(3, 4)
        torch.stack([model(x) for model in models]).mean(0)
    assert counts(recorder.recording, depth=1) == [4]


class Queue(nn.Module):
    """A module that writes to another part of its queue in each call, and scales its result."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.place, self.scale = 0, scale
        self.queue: torch.Tensor
        self.register_buffer("queue", torch.zeros(12, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        with torch.no_grad():
            self.queue[self.place : self.place + 3] = y
        self.place += 3
        return y * self.scale


def test_calls_of_a_module_may_have_other_numbers() -> None:
    """Such as a place in a queue, or what it is annealed with; those of other modules count."""
    model, others = Queue(0.5), [Queue(0.5), Queue(0.25), Queue(0.75)]

    def program(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = model(x).relu()
        for other in others:
            x = other(x)
        return x

    recording = torchrecorder.record(program, torch.rand(3, 4))
    assert counts(recording) == [4]


def test_a_function_of_which_the_last_round_reads_other_results() -> None:
    """A metric keeps several sums; what it computes at the end needs some of them."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def update(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return a + x.sum(), b + x.square().sum()

    def program(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            a, b = update(model(x), a, b)
        return b.sqrt()

    recording = torchrecorder.record(program, (torch.rand(3, 4), torch.zeros(()), torch.zeros(())))
    assert counts(recording, functions=True) == [4]


class Ahead:
    """Loads a batch ahead, in the call that returns the one before, and counts what it returns."""

    def __init__(self, loader: torch.utils.data.DataLoader[torch.Tensor]) -> None:
        self.loader = loader
        self.rest: Iterator[torch.Tensor] | None = None
        self.next: torch.Tensor | None = None

    def fetch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """A batch, and a number that is made of it."""
        if self.rest is None:
            self.rest = iter(self.loader)
            self.next = next(self.rest)
        batch, self.next = self.next, next(self.rest, None)
        assert batch is not None
        return batch, (batch != 0).sum()


@pytest.mark.parametrize("more", [0, 2])
def test_batches_that_a_function_loads_ahead(more: int) -> None:
    """The first call starts the loader and loads two; what the last loads is not read."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    optimizer = torch.optim.AdamW(model.parameters())
    ahead = Ahead(torch.utils.data.DataLoader(list(torch.rand(8 + more, 4)), batch_size=2))

    def train() -> None:
        for _ in range(4):
            batch, number = ahead.fetch()
            optimizer.zero_grad()
            (model(batch).sum() / number).backward()
            optimizer.step()

    recording = torchrecorder.record(train)
    assert counts(recording, functions=True) == [4]
    view = make_view(recording, ViewOptions(functions=True, depth=1))
    scopes = view.recording.scopes
    shown = [scopes[ScopeId(box)].name for box in view.boxes if box in scopes]
    assert shown == ["DataLoader", "fetch", "model", "AdamW"]


class Meter(nn.Module):
    """A mean, as a module with buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(()))
        self.register_buffer("number", torch.zeros(()))


class Logged:
    """A model with meters that it makes when something is logged for the first time."""

    def __init__(self, keeps: bool = True) -> None:
        self.keeps = keeps
        self.model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.meters: dict[str, Meter] = {}

    def log(self, name: str, value: torch.Tensor) -> None:
        """Add a value."""
        if name not in self.meters or not self.keeps:
            self.meters[name] = Meter()
        meter = self.meters[name]
        meter.total += value
        meter.number += 1

    def step(self, x: torch.Tensor) -> torch.Tensor:
        """One round."""
        y: torch.Tensor = self.model(x)
        self.log("loss", y.detach().mean().to("cpu"))
        return y


@pytest.mark.parametrize("keeps", [True, False])
def test_meters_that_the_first_round_makes(keeps: bool) -> None:
    """They stand before the loop; those that each round makes stay in it."""
    logged = Logged(keeps)

    def program(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = logged.step(x)
        return x

    recording = torchrecorder.record(program, torch.rand(3, 4))
    assert counts(recording, functions=True) == [4]
    view = make_view(recording, ViewOptions(functions=True))
    scopes = view.recording.scopes
    (made,) = (box for box in view.boxes.values() if box.id in scopes
               and scopes[ScopeId(box.id)].kind is ScopeKind.CONSTRUCTION)
    around = {scopes[ScopeId(home)].name for home in view.nesting.around(made.cluster)}
    assert around == ({"program"} if keeps else {"program", "step", "log"})


def test_calls_that_return_what_they_are_given_make_no_difference() -> None:
    """To a device on which a tensor is: the first round has none that an earlier one has left."""
    model, left = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), list[torch.Tensor]()

    def step(x: torch.Tensor) -> torch.Tensor:
        for each in left:
            each.to("cpu")
        y: torch.Tensor = model(x)
        left.append(y.sum())
        return y

    def program(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = step(x)
        return x

    recording = torchrecorder.record(program, torch.rand(3, 4))
    assert counts(recording, functions=True) == [4]
    assert counts(recording, functions=True, depth=1) == [4]


def test_sums_of_a_metric_that_each_round_adds_to() -> None:
    """The first round adds to what was there before the run, the others to what one has left."""
    model, total = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.zeros(())

    def program(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = model(x)
            with torch.no_grad():
                total.add_(x.mean())
        return total.sqrt()

    recording = torchrecorder.record(program, torch.rand(3, 4))
    assert counts(recording) == [4]
    view = make_view(recording, ViewOptions())
    (sums,) = (box for box in view.boxes.values() if box.kind is BoxKind.CONSTANT)
    assert recording.scopes[ScopeId(str(sums.cluster))].name == "program"


class Lazy(nn.Module):
    """A loss that makes what it needs when it is called for the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.made: list[Meter] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.made:
            self.made.append(Meter())
        meter = self.made[0]
        y: torch.Tensor = self.net(x) + meter.total
        return y


def test_what_a_module_makes_in_its_first_call() -> None:
    """It stands before the loop of calls; what a single call makes stays in it."""
    loss = Lazy()

    def program(x: torch.Tensor, times: int) -> torch.Tensor:
        for _ in range(times):
            x = loss(x).relu()
        return x

    for times, parent in ((4, "program"), (1, "loss")):
        loss.made.clear()
        recording = torchrecorder.record(program, (torch.rand(3, 4), times))
        assert counts(recording) == [4] * (times > 1)
        scopes = make_view(recording, ViewOptions()).recording.scopes.values()
        (made,) = (scope for scope in scopes if scope.kind is ScopeKind.CONSTRUCTION)
        assert next(scope.name for scope in scopes if scope.id == made.parent) == parent


def test_a_loop_has_the_classes_of_modules_that_are_only_numbered() -> None:
    """In a list of modules, the name of each is its place."""
    layers = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)])
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
    with torchrecorder.Recorder(layers) as recorder:
        for _ in range(3):
            optimizer.zero_grad()
            layers[1](layers[0](torch.ones(2, 4))).sum().backward()
            optimizer.step()
    view = make_view(recorder.recording, ViewOptions())
    (loop,) = [each for each in view.clusters.values() if each.count == 3]
    assert loop.names == ("Linear", "Linear", "SGD")
