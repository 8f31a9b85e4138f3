"""Regions such as ``no_grad`` say which function is the whole of them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from tests.callers import called
from torchrecorder.events import MODES
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.style.region_captions import RegionCaptions

QUALIFIED = sys.version_info >= (3, 11)
"""Whether code knows in which function it was defined, as that of a decorator is."""

linear = nn.Linear(4, 4)


@torch.no_grad()
def target(x: Tensor) -> Tensor:
    result: Tensor = linear(x).sigmoid()
    return result


@torch.inference_mode()
def look(x: Tensor) -> Tensor:
    return x.sin()


def twice(x: Tensor) -> Tensor:
    return x.mul(2).sin()


@torch.no_grad()
def refined(x: Tensor) -> Tensor:
    return twice(twice(x))


@torch.no_grad()
def passed_on(x: Tensor) -> Tensor:
    return twice(x)


def wrapped(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(function)
    def wrapper(x: Tensor) -> Tensor:
        return function(x)

    return wrapper


@wrapped
@torch.no_grad()
def inner(x: Tensor) -> Tensor:
    return x.cos()


def captions(recording: RecordedRun) -> list[tuple[str, ...]]:
    about = RegionCaptions(recording)
    return [about.details(scope) for scope in recording.scopes.values() if scope.kind in MODES]


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (target, "target"), (look, "look"), (refined, "refined"), (passed_on, "passed_on"),
        (inner, "inner" if QUALIFIED else "wrapper"),
    ],
)
def test_a_region_that_is_a_call_names_the_function(
    function: Callable[..., Tensor], name: str
) -> None:
    """The outermost, if that only calls another; not the wrapper of a decorator."""
    recording = torchrecorder.record(lambda x: function(x + 1), torch.rand(2, 4))
    assert captions(recording) == [(f"in {name}()",)]


def part(x: Tensor) -> Tensor:
    y = x.exp()
    with torch.no_grad():
        y = twice(y) + 2
    return y + 1


def test_a_part_of_a_call_names_no_function() -> None:
    """Nor does it name the function that is a part of it."""
    assert captions(torchrecorder.record(lambda x: part(x + 1), torch.rand(2, 4))) == [()]
    assert captions(torchrecorder.record(part, torch.rand(2, 4))) == [()]


def test_two_calls_after_each_other_are_two_regions() -> None:
    recording = torchrecorder.record(lambda x: refined(target(x)), torch.rand(2, 4))
    assert captions(recording) == [("in target()",), ("in refined()",)]


def test_figures_and_tables_show_the_function(tmp_path: Path) -> None:
    def run(x: Tensor) -> Tensor:
        result: Tensor = linear(target(x)) + look(x)
        return result

    recording = torchrecorder.record(run, torch.rand(2, 4))
    recording.render(tmp_path / "f.svg")
    table = str(recording.summary())
    figure = (tmp_path / "f.svg").read_text()
    for text in (table, figure):
        assert "in target()" in text and "in look()" in text


def boxes(program: Callable[[], object]) -> list[list[str]]:
    """The lines on the closed boxes of modes in the figure of *program*."""
    with torchrecorder.Recorder() as recorder:
        program()
    figure = torchrecorder.figure(recorder.recording, depth=0, counts=False, shapes=False)
    found = [[line.text for line in shape.label] for shape in figure.shapes]
    return [lines for lines in found if lines[0].startswith("no_grad")]


def test_a_closed_mode_names_the_modules_that_it_calls() -> None:
    """Those of a teacher, say; not if they are many, or differ between its repeats."""
    teacher, critic, nets, x = linear, nn.Tanh(), [nn.Linear(4, 4), nn.Linear(4, 4)], torch.ones(4)

    def program() -> None:
        with torch.no_grad():
            y = critic(teacher(x))
        for net in nets:
            with torch.no_grad():
                y = net(y)
        target(y)

    assert boxes(program) == [
        ["no_grad", called("calls teacher, critic", "calls Linear, Tanh")],
        ["no_grad  ×2", called("Linear", "calls Linear")],
        ["no_grad", "in target()", "calls teacher: Linear"]
        if QUALIFIED
        else ["no_grad", "in target(), calls Linear"],
    ]


class Doubled(torch.autograd.Function):
    """Has a forward that is the whole of its region."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # type: ignore[override]
        return x * 2


def test_only_modes_are_asked_for_a_function() -> None:
    """The methods of an optimizer or a custom function say nothing new."""
    optimizer = torch.optim.SGD(linear.parameters(), 0.1)

    def run(x: Tensor) -> None:
        Doubled.apply(x)
        linear(x).sum().backward()
        optimizer.step()

    recording = torchrecorder.record(run, torch.rand(2, 4))
    about = RegionCaptions(recording)
    assert all(about.details(scope) == () for scope in recording.scopes.values())
