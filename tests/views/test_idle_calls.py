"""Functions and regions that have no effect, and whose results nothing reads, stay closed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import torchrecorder
from torchrecorder.events import FUNCTION, ScopeKind, ValueId
from torchrecorder.style.unread import unread
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view

Fill = Callable[[Builder, ValueId], None]


def compares(run: Builder, x: ValueId) -> None:
    """What a check of arguments runs."""
    run.op("gt", run.op("exp", x), x)


def writes(run: Builder, x: ValueId) -> None:
    """The last operation writes in place."""
    y = run.op("exp", x)
    run.op("add_", y, writes=y)


def reads_a_number(run: Builder, x: ValueId) -> None:
    """Python reads the result."""
    run.op("item", run.op("exp", run.op("cos", x)), outputs=0)


def calls_a_module(run: Builder, x: ValueId) -> None:
    """Part of the model is in it."""
    y = run.op("exp", x)
    with run.scope("fc", "Linear"):
        run.op("linear", y)


def is_open(fill: Fill, kind: ScopeKind, length: int = 9, **options: int) -> bool:
    """Whether a call before *length* operations is a frame."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        with run.scope("check", FUNCTION, kind=kind) as call:
            fill(run, x)
        for _ in range(length):
            x = run.op("sin", x)
        run.returns(x)
    return call in make_view(run.recording(), ViewOptions(fold=False, **options)).clusters


@pytest.mark.parametrize("kind", [ScopeKind.FUNCTION, ScopeKind.NO_GRAD])
def test_a_call_that_does_nothing_stays_closed(kind: ScopeKind) -> None:
    """Unless a depth is asked for."""
    assert not is_open(compares, kind)
    assert is_open(compares, kind, depth=2)


@pytest.mark.parametrize("fill", [writes, reads_a_number, calls_a_module])
def test_a_call_with_an_effect_opens(fill: Fill) -> None:
    """Also if nothing reads a tensor from it."""
    assert is_open(fill, ScopeKind.FUNCTION, length=20)


def test_a_large_part_of_the_run_opens() -> None:
    """A third of all operations is what the program does, although nothing reads its result."""
    assert is_open(compares, ScopeKind.FUNCTION, length=4)
    assert not is_open(compares, ScopeKind.FUNCTION, length=5)


def test_a_run_without_results_opens() -> None:
    """There, nothing that is read stands beside what is not."""
    run = Builder("main")
    with run.scope("main", FUNCTION, kind=ScopeKind.FUNCTION):
        x = run.op("randn")
        for _ in range(9):
            run.op("sin", x)
        with run.scope("run_model", FUNCTION, kind=ScopeKind.FUNCTION) as call:
            compares(run, x)
    recording = replace(run.recording(), outputs=())
    assert call in make_view(recording, ViewOptions(fold=False)).clusters


def test_a_call_in_a_module_that_nothing_reads_opens() -> None:
    """The module is open, and nothing in it is read."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        with run.scope("head", "Head"):
            with run.scope("norm", FUNCTION, kind=ScopeKind.FUNCTION) as call:
                compares(run, x)
            run.op("cos", x)
        for _ in range(9):
            x = run.op("sin", x)
        run.returns(x)
    assert call in make_view(run.recording(), ViewOptions(fold=False)).clusters


def test_calls_of_a_function_open_alike() -> None:
    """The loop ends: nothing reads what its last iteration computes for the next one."""
    run = Builder("Net")
    with run.scope("Net"):
        x, calls = run.input("x"), set()
        for _ in range(4):
            y = run.op("add", x, x)
            with run.scope("update", FUNCTION, kind=ScopeKind.FUNCTION) as call:
                x = run.op("cos", run.op("exp", y))
            calls.add(call)
        run.returns(y)
    assert calls <= make_view(run.recording(), ViewOptions(fold=False)).clusters.keys()


class Net(torch.nn.Module):
    """A function checks the argument; there are enough operations to group them by function."""

    def forward(self, x: Tensor) -> Tensor:
        check(x)
        for _ in range(30):
            x = x.sin()
        return x


def check(x: Tensor) -> None:
    (x[1:] > x[:-1]).all()


def test_a_check_of_arguments_is_one_box() -> None:
    """It is the only closed call of the figure, and says that nothing reads it."""
    view = make_view(torchrecorder.record(Net(), (torch.rand(5),)))
    [box] = view.boxes.keys() & view.recording.scopes.keys()
    assert view.recording.scopes[box].name == "check"
    assert unread(view)[box] == "unused"
