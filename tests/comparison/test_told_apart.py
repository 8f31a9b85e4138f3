"""Lines about other wiring name two different things, or are left out."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

import torchrecorder
from tests.comparison.test_compare import lines, stack
from torchrecorder.events import ScopeKind
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def test_a_module_that_was_replaced_returns_something_else() -> None:
    """This says no more than that it was replaced, also if another module follows it."""
    before, after = stack("Linear", "ReLU"), stack("Linear", "GELU", "Linear")
    assert lines(before, after)[0] == "replaced body.1 ReLU → GELU"
    assert [line for line in lines(before, after) if "body.1 returns" in line] == []


class Takes(nn.Module):
    """Reads one of the results of a module or an op."""

    def __init__(self, makes: Any, number: int) -> None:
        super().__init__()
        self.makes, self.number = makes, number
        self.fc = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Any:
        """Run."""
        made = self.makes(x)
        return self.fc([*made[:1], *made[1]][self.number])


class Gives(nn.Module):
    """Gives one of the results of an op, between two modules."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        return torch.split(x, 1)[self.number]


def _of(model: nn.Module) -> Recording:
    return torchrecorder.record(model, torch.ones(2, 4))


def test_another_result_of_the_same_module() -> None:
    """Both have its name, so that the line says which result it is."""
    before, after = (_of(Takes(nn.LSTM(4, 4), number)) for number in (0, 1))
    text = "rewired fc reads result 2 of makes (LSTM), not result 1 of makes (LSTM)"
    assert lines(before, after)[0] == text


def test_another_result_of_the_only_operation_of_a_module() -> None:
    """The operation has the name of the module elsewhere, but not in its own line."""
    before, after = (_of(nn.Sequential(Gives(number), nn.ReLU())) for number in (0, 1))
    text = "rewired 0 returns result 2 of split, not result 1 of split"
    assert lines(before, after)[0] == text


def test_another_tensor_with_the_same_name() -> None:
    """Nothing tells the two apart."""

    def run(first: bool) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            one, other = builder.constant(), builder.constant()
            builder.op("exp", one)
            builder.op("abs", other)
            builder.op("sin", one if first else other)
        return builder.recording()

    assert lines(run(True), run(False)) == ["rewired sin reads a constant, but another one"]


def test_a_weight_of_a_module_with_the_id_that_a_replaced_one_had() -> None:
    """Each run counts its own ids."""
    def run(width: int, activation: str, *first: str) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.input("x")
            for name in first:
                with builder.scope(name):
                    x = builder.op(name.lower(), x)
            with builder.scope("fc", "Linear"):
                x = builder.op("linear", x, builder.parameter("weight", (width, 4)))
            with builder.scope("act", activation):
                builder.op(activation.lower(), x)
        return builder.recording()

    before, after = run(4, "ReLU"), run(8, "GELU", "Dropout")
    assert [scope.name for scope in before.scopes.values()][2] == "act"
    assert [scope.name for scope in after.scopes.values()][2] == "fc"
    told = lines(before, after)
    assert "replaced act ReLU → GELU" in told and "resized fc.weight 4×4 → 8×4" in told


def test_the_only_operation_of_a_region_has_a_name_of_its_own() -> None:
    """Unlike that of a module, whose name is enough."""
    def run(name: str, *around: str) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"), builder.scope("fc", "Part"):
            with builder.scope("no_grad", kind=ScopeKind.NO_GRAD) if around else ExitStack():
                builder.op(name, builder.input("x"))
        return builder.recording()

    assert lines(run("sin"), run("cos")) == ["replaced fc sin → cos"]
    assert lines(run("sin", "region"), run("cos", "region")) == [
        "replaced fc: no_grad: cos sin → cos"
    ]


class Two(nn.Module):
    """Has two results."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 2), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Run."""
        return self.a(x), self.b(x)


class First(nn.Module):
    """Returns the first of them."""

    def __init__(self) -> None:
        super().__init__()
        self.module = Two()

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        return self.module(x)[0]


def test_a_result_that_a_wrapper_does_not_return() -> None:
    """The operation that computes it is the same."""
    two, one = (torchrecorder.record(model, torch.ones(1, 4)) for model in (Two(), First()))
    assert "rewired the result is nothing, not b" in lines(two, one)
    assert "rewired the result is b, not nothing" in lines(one, two)


class Twice(nn.Module):
    """A layer with two names."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.first = self.second = nn.Linear(4, 4, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        return self.second(self.first(x))  # type: ignore[no-any-return]


def test_a_weight_of_a_module_with_two_names() -> None:
    """It has the first of them."""
    before, after = (torchrecorder.record(Twice(bias), torch.ones(4)) for bias in (False, True))
    assert [line for line in lines(before, after) if "added" in line] == [
        "added first.bias [4] float32"
    ]


def test_inputs_of_one_name_are_told_apart_by_their_readers() -> None:
    """Two calls in one run may each have an argument of this name."""
    def run(*acts: str) -> Recording:
        builder = Builder("run")
        for act in acts:
            with builder.scope(act, act.title()):
                builder.op(act, builder.input("x"))
        return builder.recording()

    for more in (("tanh", "relu"), ("relu", "tanh")):
        assert not [line for line in lines(run("tanh"), run(*more)) if "reads" in line]
